"""`python -m pqlab` is the `pqlab` command."""

import sys

from pqlab.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
