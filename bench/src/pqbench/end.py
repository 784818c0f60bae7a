"""Child process: one end of the tunnel, as an agent runs it, without agent, telemetry or RPC.

Reads one JSON request a line, answers one JSON line each. The agent's upkeep, ten times a second, does not
run: what is compared is the data plane, and its peers have no such thing either.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from pqbase.documents import Json
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint import acceptor, dialer
from pqtunnel.endpoint.endpoint import Endpoint
from pqtunnel.endpoint.identity_files import load_drone, load_gcs
from pqtunnel.endpoint.tunnel import native_tunnel
from pqtunnel.endpoint.work import CellPlan
from pqtunnel.errors import TunnelError
from pqtunnel.primitives import load
from pqtunnel.scheduling import NoMeter
from pqtunnel.suites import SUITES
from pqtunnel.trace import Tracer

LEVEL = 1
WINDOW = "bench"
NOT_METERED = "the bench asked not to"


Way = Literal["always", "never"]
"""Which handshakes have their waiting accounted for."""


CHANGED: Final[dict[Way, Json]] = {
    "always": {},
    "never": {"meter": NoMeter(NOT_METERED), "before": None},
}


def tracers(way: Way) -> Callable[..., Tracer]:
    """What makes the tracers: both ways take the same steps, so that these cost alike."""
    return lambda **given: Tracer(**{**given, **CHANGED[way]})


class End:
    """The requests, one method each."""

    def __init__(self, role: Literal["drone", "gcs"], keys: Path) -> None:
        config = EndpointConfig.from_environment(role)
        identity = load_drone(keys) if role == "drone" else load_gcs(keys)
        self._endpoint = Endpoint(config, identity, load(), native_tunnel())
        self._endpoint.open()
        self._cells = 0

    def hello(self) -> dict[str, object]:
        """Which data plane runs here."""
        return {"dataplane": self._endpoint.dataplane.kind, "suite_ids": list(SUITES)}

    def prepare(self, suite_id: str, drone_auth: str) -> dict[str, object]:
        """A fresh cell of that suite, ledger off; the drone proves itself by "psk" or by "signature"."""
        if self._cells:
            self._endpoint.stop()
        self._cells += 1
        self._endpoint.prepare(
            CellPlan(
                cell_id=f"bench-{self._cells}",
                suite_id=suite_id,
                min_level=LEVEL,
                ledger=False,
                seed=1,
                drone_auth=drone_auth,
            )
        )
        self._endpoint.start()
        return {}

    def handshakes(self, count: int, least: int, limit_s: float) -> dict[str, object]:
        """Cold handshakes, at the drone."""
        return self._endpoint.handshake_block(count, least, limit_s)

    def meter(self, way: Way) -> dict[str, object]:
        """In which handshakes to read the threads' clocks and queues: the bench measures what that costs."""
        for module in (dialer, acceptor):
            setattr(module, "Tracer", tracers(way))  # noqa: B010 (a name that they import)
        return {}

    def cpu(self) -> dict[str, object]:
        """Processor time of this process so far."""
        return {"cpu_ns": time.process_time_ns()}

    def spans(self) -> dict[str, object]:
        """All span rows of the cell."""
        journal = self._endpoint.work.journal
        return {"rows": [json.loads(line) for line in journal.span_lines(0, journal.span_count())]}

    def open_window(self) -> dict[str, object]:
        """Let plaintext through."""
        self._endpoint.begin_window(WINDOW, "mavproxy")
        self._endpoint.open_gate()
        return {}

    def counters(self) -> dict[str, object]:
        """Totals of the cell, and the time they were read."""
        return {"counters": self._endpoint.work.counters.now(), "time_ns": time.monotonic_ns()}

    def header_word(self) -> dict[str, object]:
        """The first 32 bits of a data packet from here: what the other end takes for its own."""
        sealed: list[bytes] = []

        def seal(session: Any) -> None:
            sealed.append(session.seal_data(b"")[0])

        self._endpoint.dataplane.with_session(seal)
        return {"word": int.from_bytes(sealed[0][:4], "big")}


def main() -> int:
    """`end.py drone|gcs KEYS`, until standard input ends."""
    role, keys = sys.argv[1], Path(sys.argv[2])
    if role not in ("drone", "gcs"):
        raise SystemExit(f"role {role!r} is not drone or gcs")
    end = End("drone" if role == "drone" else "gcs", keys)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(end, request.pop("do"))(**request)
        except TunnelError as error:
            answer = {"error": f"{error} [{error.code}] {error.hint}"}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
