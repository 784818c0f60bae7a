"""Child process of `pqtunnel.kat.selftest`: runs every test and prints the report as one JSON object."""

from __future__ import annotations

import json
import sys

from pqtunnel.kat.report import run_all


def main() -> int:
    """Exit status 0 when no known answer differed, 1 otherwise."""
    report = run_all()
    json.dump(report, sys.stdout)
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
