"""`python -m pqtelemetry`."""

import sys

import pqtelemetry.parent  # noqa: F401 - first: see there
from pqtelemetry.cli import main

sys.exit(main())
