"""`python -m pqtunnel`."""

import sys

from pqtunnel.cli import main

sys.exit(main())
