"""`python -m pqdetect`."""

import sys

from pqdetect.cli import main

sys.exit(main())
