"""Every decision of the service, without a clock, a file or a model of its own.

Windows are numbered on the feed's clock. What cannot be judged (no feed, a feed that stands still, counters
that do not move, a plane without bins) still gives one line a window, with its state and no verdict: nobody
may take silence for peace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from pqdetect.errors import DetectError
from pqdetect.service.feed import Feed
from pqdetect.service.verdict import BINS, DEADLINE_NS, WINDOW_NS, Verdict, window_end_ns

Counts = list[tuple[int, ...]]
#: a feed is written ten times a second; older than this it stands still
STALE_NS: Final = 700_000_000
#: the service steps several times a window; after a pause this long it was frozen or starved
PAUSED_NS: Final = 1_500_000_000
#: windows without a single datagram in or out after which the counters count as frozen
SILENT_WINDOWS: Final = 3
_IDLE_WAIT_NS: Final = 200_000_000
_POLL_NS: Final = 40_000_000
#: the feed tells a window complete with its first document of this long after its end
_LAG_NS: Final = 105_000_000


@dataclass(frozen=True)
class Judgement:
    """What the model and its rule say of the newest window; scores are None while it warms up."""

    attack_score: float | None
    degraded_score: float | None
    attack: bool | None
    degraded: bool | None
    history_windows: int


class Watcher(Protocol):
    """Features, model and rule, with their memory."""

    model: str
    sha256: str

    def judge(
        self, k: int, fields: tuple[str, ...], counts: Counts, kernel: dict[str, int] | None, gap: int
    ) -> Judgement:
        """Take in window `k` (30 rows of counts; what the kernel's counters moved by in it, None where
        that is unknown; `gap` windows between it and the one judged before were not) and judge it."""
        ...

    def forget(self) -> None:
        """Begin with an empty history; a mark is gone with it."""
        ...

    def mark(self) -> None:
        """Remember the history as it is now."""
        ...

    def recall(self) -> None:
        """Go back to the marked history; no alarm stands."""
        ...


@dataclass(frozen=True)
class Cost:
    """What this process has used so far."""

    cpu_ns: int
    rss_bytes: int


class Core:
    """One detector's state. `step` several times a window; `wait_ns` says when next."""

    def __init__(
        self,
        name: str,
        watcher: Watcher,
        mono_ns: Callable[[], int],
        real_ns: Callable[[], int],
        cost: Callable[[], Cost],
    ) -> None:
        self._name = name
        self._watcher = watcher
        self._mono_ns = mono_ns
        self._real_ns = real_ns
        self._cost = cost
        self._boot: str | None = None
        self._next: int | None = None
        self._judged: int | None = None
        self._offset_ns = 0
        self._stepped_ns: int | None = None
        self._told_ns: int | None = None
        self._silent = 0
        self._reset: str | None = "started"
        #: cell and beginning of its hold: the one in progress, and the one that was marked, with what is said
        #: when its windows are dropped
        self._hold: tuple[str | None, int] | None = None
        self._marked: tuple[str | None, int] | None = None
        self._dropped = ""
        self.complaint: str | None = None
        """Why the newest window could not be judged although its bins are there."""

    def forget(self, why: str) -> None:
        """Empty history from the next window on; the line says so. What this cell still brings is judged, and
        not carried into the next: its last windows are complete only after the controller has gone on."""
        self._watcher.forget()
        self._reset = why
        self._keep(why)

    def mark(self, feed: Feed | None) -> None:
        """What comes from here to the end of the cell of `feed` is judged, and not carried into the next."""
        if feed is not None:
            # after a pause it may not be the cell of the last step
            self._enter(feed)
        self._keep("marked windows dropped")

    def _keep(self, dropped: str) -> None:
        self._watcher.mark()
        self._marked, self._dropped = self._hold, dropped

    def wait_ns(self) -> int:
        """How long nothing can be new, at most."""
        if self._next is None:
            return _IDLE_WAIT_NS
        due_ns = window_end_ns(self._next) - self._offset_ns + _LAG_NS
        left_ns = due_ns - self._mono_ns()
        return max(_POLL_NS, min(left_ns, _IDLE_WAIT_NS))

    def step(self, feed: Feed | None) -> list[Verdict]:
        """Lines that are due now; `feed` is the newest document, None where there is none."""
        now_ns = self._mono_ns()
        paused = self._stepped_ns is not None and now_ns - self._stepped_ns > PAUSED_NS
        self._stepped_ns = now_ns
        if feed is None:
            return self._unjudged("no_feed", None)
        if feed.bins is None:
            return self._unjudged("bins_missing", feed)
        if not 0 <= now_ns - feed.mono_ns <= STALE_NS:
            return self._unjudged("stale", feed)
        self._follow(feed, paused)
        lines = []
        newest = feed.complete_before // BINS
        while self._next is not None and self._next < newest:
            k = self._next
            self._next = k + 1
            if k * BINS < feed.first_bin:
                continue
            lines.append(self._window(feed, k))
        overdue_ns = now_ns + feed.offset_ns - window_end_ns(newest)
        if not lines and overdue_ns > STALE_NS:
            # the document is fresh, but its bins are not
            return self._unjudged("stale", feed)
        return lines

    # ------------------------------------------------------------------ where we are

    def _follow(self, feed: Feed, paused: bool) -> None:
        """Where numbering goes on after a restart, a pause or a stepped clock."""
        begun = feed.complete_before // BINS
        self._enter(feed)
        why = None
        if self._boot is not None and feed.boot != self._boot:
            self._empty()
            why = "endpoint restarted"
        elif paused:
            why = "paused"
        elif self._judged is not None and begun <= self._judged:
            # windows go by number: history of later ones cannot stay
            self._empty()
            why = "clock set back"
        elif self._next is not None and self._next * BINS < feed.first_bin:
            why = "clock set forward, or windows missed"
        if self._next is None or why is not None:
            self._next = begun
            if why == "clock set back":
                self._judged = None
            self._silent = 0
            if why is not None:
                self._tell(why)
        self._boot, self._offset_ns = feed.boot, feed.offset_ns

    def _enter(self, feed: Feed) -> None:
        """At another cell, or another attempt at it, what was marked in the one before is dropped."""
        hold = (feed.cell_id, feed.began_bin)
        if self._marked is not None and hold != self._marked:
            self._watcher.recall()
            self._marked = None
            self._tell(self._dropped)
        self._hold = hold

    def _empty(self) -> None:
        """No history; a mark stays, of nothing."""
        self._watcher.forget()
        if self._marked is not None:
            self._watcher.mark()

    def _tell(self, why: str) -> None:
        """With the next judged line; each reason once."""
        told = self._reset.split(", ") if self._reset else []
        self._reset = ", ".join([*told, *([] if why in told else [why])])

    # ------------------------------------------------------------------ lines

    def _window(self, feed: Feed, k: int) -> Verdict:
        empty = (0,) * len(feed.fields)
        bins = feed.bins or {}
        counts = [bins.get(number, empty) for number in range(k * BINS, (k + 1) * BINS)]
        packets = _packets(feed.fields, counts)
        self._silent = self._silent + 1 if packets == 0 else 0
        if self._silent >= SILENT_WINDOWS:
            # nothing moves, not even a keepalive: there is nothing to judge
            return self._line("stale", k, feed, packets, None)
        gap = 0 if self._judged is None else max(0, k - self._judged - 1)
        self._judged = k
        try:
            judged = self._watcher.judge(k, feed.fields, counts, feed.moved.get(k), gap)
        except DetectError as error:
            # a feed of another version: it says so, once a window, and judges nothing
            self.complaint = str(error)
            return self._line("bins_missing", k, feed, packets, None)
        state = "ready" if judged.attack is not None and judged.degraded is not None else "warming"
        return self._line(state, k, feed, packets, judged, gap)

    def _unjudged(self, state: str, feed: Feed | None) -> list[Verdict]:
        """One line a window of this host's own clock, while the feed gives none."""
        now_ns = self._mono_ns()
        self._next = None
        if self._told_ns is not None and now_ns - self._told_ns < WINDOW_NS:
            return []
        self._offset_ns = self._real_ns() - now_ns
        k = self._real_ns() // WINDOW_NS - 1
        return [self._line(state, k, feed, 0, None)]

    def _line(
        self, state: str, k: int, feed: Feed | None, packets: int, judged: Judgement | None, gap: int = 0
    ) -> Verdict:
        now_ns = self._mono_ns()
        self._told_ns = now_ns
        t_ns = now_ns + self._offset_ns
        late_ns = t_ns - window_end_ns(k)
        cost = self._cost()
        ready = judged is not None and state == "ready"
        line = Verdict(
            k=k,
            t_ns=t_ns,
            latency_ms=round(late_ns / 1e6, 3),
            deadline_met=ready and late_ns <= DEADLINE_NS,
            state=state,
            attack_score=judged.attack_score if judged is not None else None,
            degraded_score=judged.degraded_score if judged is not None else None,
            attack=judged.attack if judged is not None and ready else None,
            degraded=judged.degraded if judged is not None and ready else None,
            history_windows=judged.history_windows if judged is not None else 0,
            packets_seen=packets,
            cpu_ns=cost.cpu_ns,
            rss_bytes=cost.rss_bytes,
            detector=self._name,
            model=self._watcher.model,
            sha256=self._watcher.sha256,
            cell_id=None if feed is None else feed.cell_id,
            boot=None if feed is None else feed.boot,
            gap_windows=gap,
            reset=self._reset if judged is not None else None,
        )
        if judged is not None:
            self._reset = None
        return line


def _packets(fields: tuple[str, ...], counts: Counts) -> int:
    """Datagrams in and out of the sealed side."""
    places = [fields.index(name) for name in ("rx_datagrams", "tx_data") if name in fields]
    return sum(row[place] for row in counts for place in places)
