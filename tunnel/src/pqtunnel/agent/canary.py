"""The canary: datagrams with a header that does not exist, from this host to its own sealed port.

It proves that a detector beside this agent sees, where no attacker is on the air. It is sent to no other
address, bounded in rate and time, and ends with the cell.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from pqtunnel.agent.params import Params
from pqtunnel.endpoint.endpoint import Endpoint

MAX_RATE_PPS: Final = 2000.0
MAX_FOR_S: Final = 10.0
SIZE_BYTES: Final = 120
BIN_NS: Final = 20_000_000
_POOL: Final = 256
#: type nibbles that PROTOCOL.md does not define
_NO_TYPES: Final = (0, *range(7, 16))
_NAP_S: Final = 0.001
#: what is due after a pause of this host is left out beyond this share of a second
_BEHIND_S: Final = 0.05


class Canary:
    """The handler of its event, ended by `end`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._over = threading.Event()

    def table(self) -> dict[str, Callable[[Params], dict[str, object]]]:
        """Kind → handler."""
        return {"canary": self._canary}

    def forget(self) -> None:
        """A new cell begins."""
        self._over.clear()

    def end(self) -> None:
        """The cell ends, and the canary with it."""
        self._over.set()

    def _canary(self, given: Params) -> dict[str, object]:
        rate_pps = given.number("rate_pps", least=1.0, most=MAX_RATE_PPS)
        for_s = given.number("for_s", least=0.1, most=MAX_FOR_S)
        given.done()
        work = self._endpoint.work
        rng = random.Random(work.plan.seed)
        frames = [
            bytes((rng.choice(_NO_TYPES) << 4 | rng.randrange(16),)) + rng.randbytes(SIZE_BYTES - 1)
            for _ in range(_POOL)
        ]
        host, port = self._endpoint.dataplane.sealed_address
        work.journal.event("canary", rate_pps=rate_pps, for_s=for_s)
        bins: Counter[int] = Counter()
        first_ns: int | None = None
        last_ns: int | None = None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            # a socket bound to every address is reached at the loopback
            sender.connect(("127.0.0.1" if host == "0.0.0.0" else host, port))
            begin_s, offered = time.monotonic(), 0
            while (since_s := time.monotonic() - begin_s) < for_s and not self._over.is_set():
                due = int(rate_pps * since_s)
                if offered >= due:
                    self._over.wait(_NAP_S)
                    continue
                offered = max(offered, due - round(rate_pps * _BEHIND_S))
                now_ns = time.time_ns()
                sender.send(frames[offered % _POOL])
                first_ns, last_ns = (now_ns if first_ns is None else first_ns), now_ns
                bins[now_ns // BIN_NS] += 1
                offered += 1
        return {
            "t_on_ns": first_ns,
            "t_off_ns": last_ns,
            "sent_count": bins.total(),
            "ended": "cell" if self._over.is_set() else "deadline",
            "size_bytes": SIZE_BYTES,
            "bin_ns": BIN_NS,
            "bins": [list(row) for row in sorted(bins.items())],
        }
