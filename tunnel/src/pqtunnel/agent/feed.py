"""The feed: what this endpoint sees of the sealed link, for a detector on the same host.

While a cell that asked for it is held, a thread of its own reads the data plane's bins ten times a second, on
the tenths of realtime, so that the host's counters are read where a window of 0.6 s ends. It replaces
`$PQ_FEED/feed.json` each time, and keeps every line for the stream `bins`. Without such a cell there is no
thread and nothing is read. Schema `pqtunnel/feed/v1`: docs/AGENT.md.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypedDict

from pqbase.patience import patiently
from pqtunnel.agent import hostnet
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.work import CellWork
from pqtunnel.errors import TunnelError

SCHEMA: Final = "pqtunnel/feed/v1"
BIN_NS: Final = 20_000_000
WINDOW_BINS: Final = 30
TICK_NS: Final = 100_000_000
LAG_BINS: Final = 4
"""A bin is told once it ended this long ago: by then the data thread has booked what came in it."""
SHOWN_BINS: Final = 100
SHOWN_WINDOWS: Final = 4
MAX_LINES: Final = 400_000
"""Two hours of full bins."""
TOTALS: Final = (
    "rx_ok", "rx_late", "rx_keepalive", "bad_header", "unknown_index", "auth_failed", "replay", "old_epoch",
    "tx_data", "queue_full", "path_new_source", "path_changed",
)  # fmt: skip

Bins = Sequence[tuple[int, Sequence[int]]]
Counters = dict[str, int]


class WindowLine(TypedDict):
    """What the host's counters moved by in window `k`; None where they could not be read."""

    k: int
    interface: Counters | None
    udp: Counters | None
    late_ns: int


class Windows:
    """Counters of the host by window: what they moved by between two window ends. Clock and reader given."""

    def __init__(self, read: Callable[[], tuple[Counters | None, Counters | None]]) -> None:
        self._read = read
        self._window: int | None = None
        self._before: tuple[Counters | None, Counters | None] = (None, None)
        self._whole = False
        self.now: tuple[Counters | None, Counters | None] = (None, None)

    def tick(self, now_ns: int) -> list[WindowLine]:
        """Read; returns the line of the window that has just ended, if one has and it was seen whole."""
        window = now_ns // (BIN_NS * WINDOW_BINS)
        self.now = self._read()
        ended: list[WindowLine] = []
        if self._window is not None and window != self._window:
            # Two ends at once, or a clock set back: nobody read the counters between.
            if self._whole and window == self._window + 1:
                interface, udp = (_moved(*pair) for pair in zip(self._before, self.now, strict=True))
                late_ns = now_ns - window * BIN_NS * WINDOW_BINS
                ended.append({"k": self._window, "interface": interface, "udp": udp, "late_ns": late_ns})
            self._whole = True
        if window != self._window:
            self._window, self._before = window, self.now
        return ended


def _moved(before: Counters | None, after: Counters | None) -> Counters | None:
    if before is None or after is None:
        return None
    moved = {name: after[name] - before[name] for name in after}
    return None if min(moved.values()) < 0 else moved


class FeedCell:
    """What one cell's feed has told: lines for the stream, the newest of them for the file."""

    def __init__(self, header: dict[str, object], first_bin: int) -> None:
        self.header = header
        self.first_bin = first_bin
        self.complete_before = first_bin
        self.lines = [_json(header)]
        self.cut = 0
        self.late_count = 0
        """Counts that came into a bin after it was told."""
        self._last: tuple[int, list[int]] | None = None
        self._shown: deque[tuple[int, str]] = deque()
        self._windows: deque[str] = deque(maxlen=SHOWN_WINDOWS)
        self._waiting: deque[WindowLine] = deque()

    @property
    def read_from(self) -> int:
        """First bin to ask the data plane for: the last one told, to see whether it has changed since."""
        return self.first_bin if self._last is None else self._last[0]

    def take(self, bins: Bins, now_bin: int, ended: list[WindowLine]) -> None:
        """Take in bins from `read_from` on and the windows that ended; tell what is complete by now."""
        before = self.complete_before
        self.complete_before = max(before, now_bin - LAG_BINS)
        for number, counts in bins:
            if self._last is not None and number == self._last[0]:
                self.late_count += sum(counts) - sum(self._last[1])
                self._last = (number, list(counts))
            elif self.first_bin <= number < self.complete_before:
                self.late_count += sum(counts) if number < before else 0
                self._tell_bin(number, list(counts))
        self._waiting.extend(ended)
        while self._waiting and (self._waiting[0]["k"] + 1) * WINDOW_BINS <= self.complete_before:
            line = self._waiting.popleft()
            if line["k"] * WINDOW_BINS >= self.first_bin:
                text = _json(line)
                self._windows.append(text)
                self._keep(text)
        while self._shown and self._shown[0][0] < self.complete_before - SHOWN_BINS:
            self._shown.popleft()

    def _tell_bin(self, number: int, counts: list[int]) -> None:
        text = _json([number, counts])
        self._last = (number, counts)
        self._shown.append((number, text))
        self._keep(text)

    def _keep(self, text: str) -> None:
        if len(self.lines) < MAX_LINES:
            self.lines.append(text)
        else:
            self.cut += 1

    def shown(self) -> tuple[str, str]:
        """(bins of the last 2 s, last windows) as the inside of JSON lists."""
        return ",".join(text for _, text in self._shown), ",".join(self._windows)


class Feed:
    """Writes the feed of the cell that is held, if it asked for one."""

    def __init__(self, config: EndpointConfig, note: Callable[[str], None]) -> None:
        self._config = config
        self._note = note
        self._boot = secrets.token_hex(8)
        self._work: CellWork | None = None
        self._cell: FeedCell | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: Callable[[], str] = lambda: "idle"
        self._windows = Windows(self._host_counters)
        self._interface: str | None = None
        self._reason: str | None = None
        self._complained: set[str] = set()

    def begin(self, work: CellWork, state: Callable[[], str]) -> None:
        """A cell is prepared. Without a feed asked for this does nothing but forget the last one. Its first
        document is there when this returns: who then tells a detector something means this cell."""
        self._work, self._cell = work, None
        if not work.plan.feed:
            return
        self._state = state
        self._complained.clear()
        try:
            self._interface, self._reason = hostnet.interface_towards(self._config.peer), None
        except hostnet.HostNetError as error:
            self._interface, self._reason = None, str(error)
        self._windows = Windows(self._host_counters)
        now_ns = time.time_ns()
        # The first window that is seen whole.
        first = (now_ns // (BIN_NS * WINDOW_BINS) + 1) * WINDOW_BINS
        self._cell = cell = FeedCell(self._header(work), first)
        self._tell(work, cell, over=False)
        self._ended = threading.Event()
        given = (work, cell, self._ended)
        self._thread = threading.Thread(target=self._run, args=given, name="feed", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The cell is over: tell the rest, leave the file as it is."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join(timeout=2.0)
        work, cell = self._work, self._cell
        if work is not None and cell is not None and cell.cut:
            work.journal.event(
                "note", reason=f"bins are cut: {cell.cut} lines over the limit were counted, not kept"
            )

    def page(self, work: CellWork, since: int, limit: int) -> tuple[list[str], int]:
        """Lines [since, since + limit) of the stream `bins`, and how many there are."""
        cell = self._cell if self._work is work else None
        return ([], 0) if cell is None else (cell.lines[since : since + limit], len(cell.lines))

    def _header(self, work: CellWork) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "role": self._config.role,
            "cell_id": work.plan.cell_id,
            "boot": self._boot,
            "bin_ns": BIN_NS,
            "window_bins": WINDOW_BINS,
            "fields": list(work.bin_fields),
            "interface_name": self._interface,
            "reason": self._reason,
        }

    def _host_counters(self) -> tuple[Counters | None, Counters | None]:
        if self._interface is None:
            return None, self._quietly(hostnet.udp_counters)
        name = self._interface
        return self._quietly(lambda: hostnet.interface_counters(name)), self._quietly(hostnet.udp_counters)

    def _quietly(self, read: Callable[[], Counters]) -> Counters | None:
        try:
            return read()
        except hostnet.HostNetError as error:
            self._complain(str(error))
            return None

    def _complain(self, text: str) -> None:
        if text not in self._complained:
            self._complained.add(text)
            self._note(f"feed: {text}")

    # ------------------------------------------------------------------ the thread

    def _run(self, work: CellWork, cell: FeedCell, ended: threading.Event) -> None:
        while True:
            now_ns = time.time_ns()
            over = ended.wait((TICK_NS - now_ns % TICK_NS) / 1e9)
            self._tell(work, cell, over)
            if over:
                return

    def _tell(self, work: CellWork, cell: FeedCell, over: bool) -> None:
        try:
            self._tick(work, cell, over)
        except TunnelError as error:
            self._complain(str(error))

    def _tick(self, work: CellWork, cell: FeedCell, over: bool) -> None:
        now_ns = time.time_ns()
        ended = self._windows.tick(now_ns)
        # The plane has let go of the cell by its end: nothing more comes, so all that there is is complete.
        now_bin = now_ns // BIN_NS + (LAG_BINS + 1 if over else 0)
        cell.take(work.bins(cell.read_from), now_bin, ended)
        if self._config.feed_dir is not None:
            self._write(self._config.feed_dir, self._text(work, cell, now_ns))

    def _text(self, work: CellWork, cell: FeedCell, now_ns: int) -> str:
        counted = work.counters.now()
        interface, udp = self._windows.now
        head: dict[str, object] = {
            "schema": SCHEMA,
            "role": self._config.role,
            "cell_id": work.plan.cell_id,
            "state": self._state(),
            "t_ns": now_ns,
            "mono_ns": time.monotonic_ns(),
            "boot": self._boot,
            "bin_ns": BIN_NS,
            "totals": {name: counted.get(name, 0) for name in TOTALS},
            "interface_name": self._interface,
            "interface": interface,
            "udp": udp,
        }
        head |= {
            "fields": cell.header["fields"],
            "first_bin": cell.first_bin,
            "complete_before": cell.complete_before,
            "late_count": cell.late_count,
            "reason": self._reason,
        }
        bins, windows = cell.shown()
        # Each bin was turned into text once, when it was told.
        return f'{_json(head)[:-1]},"bins":[{bins}],"windows":[{windows}]}}'

    def _write(self, folder: Path, text: str) -> None:
        path = folder / "feed.json"
        temporary = folder / "feed.json.new"
        try:
            temporary.write_bytes(text.encode())
            patiently(lambda: temporary.replace(path))
        except OSError as error:
            self._complain(f"{path} cannot be written: {error.strerror or error}")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
