"""`python -m pqattack attacker | tap`: settings come from the environment, as compose/lab.yml gives them."""

from __future__ import annotations

import os
import sys

from pqattack.bounds import from_environment, inside
from pqattack.errors import AttackError, BoundsError
from pqattack.serve import Attacker, Server
from pqattack.tap import TapConfig, run_tap
from pqbase.net import host_and_port


def _place(name: str) -> tuple[str, int]:
    try:
        return host_and_port(os.environ.get(name, ""))
    except ValueError as error:
        raise BoundsError(f"{name} is not ADDRESS:PORT", hint="compose/lab.yml sets it") from error


def main(argv: list[str]) -> int:
    """Exit codes: 2 usage, 4 the kernel or the environment, 70 the tap's namespace is gone."""
    try:
        if argv == ["attacker"]:
            attacker = Attacker(from_environment(os.environ), _place("PQATTACK_TAP"))
            Server(attacker, _place("PQATTACK_CONTROL")).run()
            return 0
        if argv == ["tap"]:
            ends = [inside(name, os.environ.get(name, "")) for name in ("PQATTACK_DRONE", "PQATTACK_GCS")]
            return run_tap(TapConfig(ends[0], ends[1], _place("PQATTACK_CONTROL")))
    except AttackError as error:
        print(error.text(coded=True), file=sys.stderr)
        return 4
    print("usage: python -m pqattack attacker | tap", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
