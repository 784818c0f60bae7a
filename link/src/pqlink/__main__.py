"""`python -m pqlink router | side`: settings come from the environment, as compose/link.yml gives them."""

from __future__ import annotations

import os
import sys

from pqbase.net import host_and_port
from pqlink.errors import LinkError
from pqlink.serve import Addresses, Server
from pqlink.side import SideConfig, run_side


def _address(name: str) -> tuple[str, int]:
    try:
        return host_and_port(_setting(name))
    except ValueError as error:
        raise LinkError(f"{name} is not ADDRESS:PORT", code="bad_environment") from error


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise LinkError(f"{name} is not set", code="bad_environment", hint="compose/link.yml sets it")
    return value


def main(argv: list[str]) -> int:
    """Exit codes: 0 told to end, 2 usage, 4 the kernel or the environment, 70 the namespace is gone."""
    try:
        if argv == ["router"]:
            Server(
                Addresses(
                    air=_setting("PQLINK_AIR"),
                    drone=_setting("PQLINK_DRONE"),
                    gcs=_setting("PQLINK_GCS"),
                    control=_address("PQLINK_CONTROL"),
                    sides={"drone": _address("PQLINK_SIDE_DRONE"), "gcs": _address("PQLINK_SIDE_GCS")},
                    guest=os.environ.get("PQLINK_GUEST") or None,
                )
            ).run()
            return 0
        if argv == ["side"]:
            return run_side(
                SideConfig(_setting("PQLINK_HERE"), _setting("PQLINK_PEER"), _address("PQLINK_CONTROL"))
            )
    except LinkError as error:
        print(error.text(coded=True), file=sys.stderr)
        return 4
    print("usage: python -m pqlink router | side", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
