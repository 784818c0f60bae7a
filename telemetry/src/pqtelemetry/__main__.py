"""`python -m pqtelemetry`."""

import sys

from pqtelemetry.cli import main

sys.exit(main())
