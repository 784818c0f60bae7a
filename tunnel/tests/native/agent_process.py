"""Child process: one agent of the tests' lab, whose memory the test may read.

    python agent_process.py ROLE KEYS STATE SETTINGS       SETTINGS: JSON of PQ_ variables

Prints the ports it has, as JSON, and serves until its standard input ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from endpoint_kit import Side


def main(role: str, keys: str, state: str, settings: str) -> None:
    assert role in ("drone", "gcs")
    side = Side(role, Path(keys), Path(state), plane="native", **json.loads(settings))
    try:
        handshake = side.agent.endpoint.handshake_address
        ports = {
            "control": side.agent.server.address[1],
            "handshake": None if handshake is None else handshake[1],
            "sealed": side.agent.endpoint.dataplane.sealed_address[1],
        }
        print(json.dumps(ports), flush=True)
        sys.stdin.read()
    finally:
        side.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
