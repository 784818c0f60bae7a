"""`python -m pqsitl`: the health check runs every few seconds, so it alone skips all other imports."""

from __future__ import annotations

import sys


def main() -> int:
    """Dispatch; `health` without the argument parser."""
    if sys.argv[1:] == ["health"]:
        from pqsitl.health import check

        return check()
    from pqsitl.cli import main as cli_main

    return cli_main()


if __name__ == "__main__":
    sys.exit(main())
