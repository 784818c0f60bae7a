"""A host for the service's core: clocks that stand still until told, feeds, and a watcher that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from pqdetect.service.core import Core, Cost, Counts, Judgement
from pqdetect.service.feed import Feed
from pqdetect.service.verdict import BIN_NS, BINS, WINDOW_NS, Verdict

FIELDS = ("rx_datagrams", "tx_data", "bad_header")
#: realtime at which the host's monotonic clock was zero; a whole number of windows
EPOCH_NS = 1_700_000_000_400_000_000 // WINDOW_NS * WINDOW_NS


@dataclass
class Recorder:
    """Sees an attack where a bad header is."""

    model: str = "recorder"
    sha256: str = "0" * 64
    taken: list[int] = field(default_factory=list)
    kernels: list[dict[str, int] | None] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    history: int = 0
    forgotten: int = 0
    marks: list[int] = field(default_factory=list)
    recalled: int = 0
    warm_up: int = 0

    def judge(
        self, k: int, fields: tuple[str, ...], counts: Counts, kernel: dict[str, int] | None, gap: int
    ) -> Judgement:
        self.taken.append(k)
        self.kernels.append(kernel)
        self.gaps.append(gap)
        self.history += 1
        score = float(sum(row[fields.index("bad_header")] for row in counts))
        if self.history <= self.warm_up:
            return Judgement(None, None, None, None, self.history)
        return Judgement(score, 0.0, score > 0, False, self.history)

    def forget(self) -> None:
        self.history = 0
        self.forgotten += 1

    def mark(self) -> None:
        self.marks.append(self.history)

    def recall(self) -> None:
        self.history = self.marks[-1]
        self.recalled += 1


class Host:
    """One machine: its clocks, its endpoint's feed, the service's core beside it."""

    def __init__(self, watcher: Recorder | None = None) -> None:
        self.mono = 0
        self.epoch = EPOCH_NS
        self.boot = "boot-1"
        self.cell, self.began_bin = "cell-1", 1
        self.watcher = watcher or Recorder()
        self.core = Core(
            "test",
            self.watcher,
            lambda: self.mono,
            lambda: self.epoch + self.mono,
            lambda: Cost(self.mono // 1000, 50_000_000),
        )

    @property
    def real(self) -> int:
        return self.epoch + self.mono

    def feed(
        self, *, age_ms: int = 0, counts: tuple[int, ...] = (2, 7, 0), kernel: int | None = None
    ) -> Feed:
        """What an endpoint would have written `age_ms` ago, busy in every bin."""
        then = self.real - age_ms * 1_000_000
        complete = then // BIN_NS
        return Feed(
            cell_id=self.cell,
            began_bin=self.began_bin,
            boot=self.boot,
            t_ns=then,
            fields=FIELDS,
            mono_ns=self.mono - age_ms * 1_000_000,
            bins=dict.fromkeys(range(complete - 90, complete), counts) if any(counts) else {},
            complete_before=complete,
            first_bin=complete - 90,
            moved={complete // BINS - 1: {"if_rx_packets": 60}},
        )

    def run(self, seconds: float, **options: int) -> list[Verdict]:
        """Step every 100 ms with a fresh feed."""
        lines = []
        for _ in range(round(seconds * 10)):
            self.mono += 100_000_000
            lines += self.core.step(self.feed(**options))
        return lines


def windows_of(lines: list[Verdict]) -> list[int]:
    return [line.k for line in lines]


__all__ = ["BINS", "BIN_NS", "EPOCH_NS", "FIELDS", "WINDOW_NS", "Host", "Recorder", "windows_of"]
