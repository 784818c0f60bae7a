"""`python -m pqtunnel`."""

import sys

from pqtunnel.interpreter import check

check()

from pqtunnel.cli import main  # noqa: E402  an interpreter that cannot read it has been refused by now

sys.exit(main())
