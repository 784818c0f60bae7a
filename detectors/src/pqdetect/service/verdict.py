"""One verdict line: what a detector said of one window, when, and whether it was in a state to say anything.

Only the standard library is imported here: those who check a bundle need no numpy.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

SCHEMA: Final = "pqdetect/verdict/v1"
BIN_NS: Final = 20_000_000
BINS: Final = 30
WINDOW_NS: Final = BIN_NS * BINS
#: a verdict is due this long after its window's end
DEADLINE_NS: Final = WINDOW_NS
#: ready: the verdict counts; in every other state there is none, and `attack` is null, never false
STATES: Final = ("warming", "ready", "stale", "no_feed", "bins_missing")


@dataclass(frozen=True)
class Verdict:
    """One line of verdicts.ndjson.

    k: window number, bins [30 k, 30 k + 30); t_ns: when the verdict was made, on the feed's realtime clock;
    latency_ms: after the window's end; history_windows: how many windows, this one included, the model has
    seen since it last forgot; packets_seen: datagrams in and out of the sealed side in this window; cpu_ns:
    of this process since it began; gap_windows: windows before this one that were never seen; reset: why
    history or numbering began anew here, else None.
    """

    k: int
    t_ns: int
    latency_ms: float
    deadline_met: bool
    state: str
    attack_score: float | None
    degraded_score: float | None
    attack: bool | None
    degraded: bool | None
    history_windows: int
    packets_seen: int
    cpu_ns: int
    rss_bytes: int
    detector: str
    model: str
    sha256: str
    cell_id: str | None
    boot: str | None
    gap_windows: int = 0
    reset: str | None = None
    schema: str = SCHEMA

    def line(self) -> str:
        """One NDJSON line without its end."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def points(self, host: str, ring: str) -> str:
        """The same for the time-series view: one line of the line protocol, ended by a newline."""
        fields: dict[str, str | int | float] = {
            "state": self.state,
            "ready": int(self.state == "ready"),
            "latency_ms": self.latency_ms,
            "deadline_met": int(self.deadline_met),
            "history_windows": self.history_windows,
            "packets_seen": self.packets_seen,
            "cpu_ns": self.cpu_ns,
            "rss_bytes": self.rss_bytes,
        }
        for name in ("attack_score", "degraded_score"):
            if (score := getattr(self, name)) is not None:
                fields[name] = float(score)
        for name in ("attack", "degraded"):
            if (flag := getattr(self, name)) is not None:
                fields[name] = int(flag)
        told = ",".join(f"{name}={_value(value)}" for name, value in fields.items())
        tags = f"detector={self.detector},host={host},model={self.model},ring={ring}"
        return f"pq_detector,{tags} {told} {self.t_ns}\n"


def window_end_ns(k: int) -> int:
    """Realtime at which window `k` ends."""
    return (k + 1) * WINDOW_NS


def _value(value: str | int | float) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value}i" if isinstance(value, int) else f"{value:.9g}"
