"""How far a campaign is: a live line on a terminal, one line a cell in a log. Both say the same."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pqbase.documents import Json, part_of
from pqevidence.plan import Cell
from pqevidence.terminal import COLUMNS

#: as SGR, for what is printed without rich
_CODES = {"green": 32, "red": 31, "yellow": 33}
_COLOURS = {"pass": "green", "fail": "red", "invalid": "red", "unsupported": "yellow", "not-run": "yellow"}


class Reporter(Protocol):
    """What the engine tells about its work."""

    def begin(self, total: int, done: int, eta_s: float | None) -> None: ...

    def cell_begins(self, cell: Cell, attempt: int, why: str | None = None) -> None:
        """why: of a cell that is measured again, what was wrong with the attempt before."""

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None: ...

    def note(self, text: str) -> None: ...

    def end(self) -> None: ...


def cell_line(position: int, total: int, record: Json, eta_s: float | None) -> str:
    """`[ 12/72] cs-… rep 1  pass  hs 1.21 ms  0 lost  eta 04:12`; a condition other than `baseline`, a
    temperature and lost samples stand in it where there are any. What has no room in 80 columns stands on
    further lines, indented."""
    width = len(str(total))
    condition = record.get("condition", "baseline")
    named = "" if condition == "baseline" else f"{condition} "
    where, which = (
        f"[{position + 1:>{width}}/{total}] {record['suite_id']}",
        f"{named}rep {record['repetition']}",
    )
    fits = len(where) + 1 + len(which) <= COLUMNS
    parts = [*([f"{where} {which}"] if fits else [where, which]), str(record["verdict"])]
    handshake = value_of(record, "D", "handshake_total_duration_ms")
    if handshake is not None:
        synthetic = " synthetic" if record.get("ring") == "sim" else ""
        parts.append(f"hs {handshake:.2f} ms{synthetic}")
    sent, received = (value_of(record, "G", f"packets_{end}_count") for end in ("sent", "received"))
    if sent is not None and received is not None:
        parts.append(f"{int(sent - received)} lost")
    if (degrees := hottest_c(record)) is not None:
        parts.append(f"{degrees:.1f} °C")
    if lost := value_of(record, "R", "lost_samples_count"):
        parts.append(f"{int(lost)} samples lost")
    if record.get("reason"):
        parts.append(f"({record['reason']})")
    if eta_s is not None:
        parts.append(f"eta {clock_text(eta_s)}")
    return _folded(parts, indent=2 * width + 4)


def _folded(parts: list[str], indent: int) -> str:
    """The parts in as few lines as hold them; a part wider than a line is broken at blanks."""
    lines = parts[:1]
    for part in parts[1:]:
        longer = f"{lines[-1]}  {part}"
        if len(longer) <= COLUMNS:
            lines[-1] = longer
        else:
            lines += [" " * indent + line for line in textwrap.wrap(part, COLUMNS - indent)]
    return "\n".join(lines)


def again_line(cell: Cell, total: int, attempt: int, why: str | None) -> str:
    """`[ 3/15] cs-… rekey rep 1: attempt 2, because rate 12 % off`; without the reason where
    the attempt before is that of a controller that died."""
    named = "" if cell.condition == "baseline" else f" {cell.condition}"
    where = f"[{cell.position + 1:>{len(str(total))}}/{total}] {cell.suite_id}{named} rep {cell.repetition}"
    told = f"{where}: attempt {attempt}"
    if not why:
        return told
    line, indent = f"{told}, because {why}", 2 * len(str(total)) + 4
    return "\n".join(textwrap.wrap(line, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False))


def coloured(text: str, verdict: str, stream: TextIO) -> str:
    """The text in its verdict's colour, on a terminal whose user did not ask for none (NO_COLOR)."""
    code = _CODES.get(_COLOURS.get(verdict, ""))
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or code is None else f"\x1b[{code}m{text}\x1b[0m"


def begin_line(total: int, done: int, eta_s: float | None) -> str:
    """`72 cells, about 12:10`; when resumed `5 of 72 cells are done already, about 11:20 left`."""
    told = f"{done} of {total} cells are done already" if done else f"{total} cell{'' if total == 1 else 's'}"
    if eta_s is None or done == total:
        return told
    return f"{told}, about {clock_text(eta_s)}{' left' if done else ''}"


def clock_text(seconds: float) -> str:
    """mm:ss, or h:mm:ss from an hour on."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def hottest_c(record: Json) -> float | None:
    """Mean temperature of the hotter host in the cell, °C; None where no host measures one."""
    known = [value for letter in "NO" if (value := value_of(record, letter, "temperature_c")) is not None]
    return max(known, default=None)


def value_of(record: Json, letter: str, name: str) -> float | None:
    """A number of the record; None where it is not there or does not count, as on a busy machine."""
    field = part_of(part_of(part_of(record, "categories", {}), letter, {}), name, {})
    value = None if field.get("validity") == "invalid" else field.get("value")
    return float(value) if isinstance(value, int | float) else None


class PlainReporter:
    """One line a cell."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0

    def begin(self, total: int, done: int, eta_s: float | None) -> None:
        self._total = total
        self.note(begin_line(total, done, eta_s))

    def cell_begins(self, cell: Cell, attempt: int, why: str | None = None) -> None:
        if attempt > 1:
            self.note(again_line(cell, self._total, attempt, why))

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        self.note(cell_line(position, self._total, record, eta_s))

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        return


class Board:
    """Three lines under the log: how far, what now, how it went so far. Drawn anew each second."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self.total = 0
        self.done = 0
        self.now = "starting"
        self._counts: Counter[str] = Counter()
        self._last = ""
        self._lost_samples = 0
        self._degrees: float | None = None
        self._eta: tuple[float, float] | None = None

    def begin(self, total: int, done: int, eta_s: float | None) -> None:
        """Before the first cell, which may take an hour: how much there is, and how long it may take."""
        self.total, self.done = total, done
        self._foresee(eta_s)

    def finished(self, record: Json, eta_s: float | None) -> None:
        """One more cell."""
        self.done += 1
        self._last = str(record["verdict"])
        self._counts[self._last] += 1
        self._lost_samples += int(value_of(record, "R", "lost_samples_count") or 0)
        self._degrees = hottest_c(record)
        self._foresee(eta_s)

    def _foresee(self, eta_s: float | None) -> None:
        self._eta = None if eta_s is None else (self._clock_s(), eta_s)

    def __rich__(self) -> RenderableType:
        share = self.done / self.total if self.total else 0.0
        head = Table.grid(padding=(0, 1))
        left = "left unknown"
        if self._eta is not None:
            since_s, eta_s = self._eta
            left = f"left {clock_text(max(0.0, eta_s - (self._clock_s() - since_s)))}"
        bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=30)
        head.add_row(Text(f"{self.done}/{self.total}", style="bold"), bar, f"{share:4.0%}", left)
        counts = " ".join(f"{count} {verdict}" for verdict, count in sorted(self._counts.items()))
        parts = [f"last {self._last}" if self._last else "no cell yet", counts]
        parts.append("no temperature" if self._degrees is None else f"{self._degrees:.1f} °C")
        parts.append(f"{self._lost_samples} samples lost")
        state = Text(" · ".join(part for part in parts if part), style=_COLOURS.get(self._last, ""))
        return Group(head, Text(f"now {self.now}", overflow="ellipsis", no_wrap=True), state)


class RichReporter:
    """The same lines as in a log, above a board that tells how far the campaign is."""

    def __init__(self, stream: TextIO, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(file=stream, highlight=False)
        self._board = Board(clock_s)
        self._live = Live(
            self._board,
            console=self._console,
            transient=True,
            refresh_per_second=1,  # the machine under test may be this one
        )

    def begin(self, total: int, done: int, eta_s: float | None) -> None:
        self._board.begin(total, done, eta_s)
        self._live.start()
        self._console.print(begin_line(total, done, eta_s), markup=False)

    def cell_begins(self, cell: Cell, attempt: int, why: str | None = None) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        if again:
            line = again_line(cell, self._board.total, attempt, why)
            self._console.print(line, style="yellow", markup=False)
        self._board.now = f"{cell.suite_id} {cell.condition} rep {cell.repetition}{again}"

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        # the board below tells how much is left
        line = cell_line(position, self._board.total, record, None)
        self._board.finished(record, eta_s)
        self._console.print(line, style=_COLOURS.get(str(record["verdict"]), ""), markup=False)

    def note(self, text: str) -> None:
        self._board.now = text
        self._console.print(text, markup=False)

    def end(self) -> None:
        self._live.stop()


def reporter(*, json_output: bool) -> Reporter:
    """For this process: to standard error when standard output carries a JSON document."""
    stream = sys.stderr if json_output else sys.stdout
    return RichReporter(stream) if stream.isatty() else PlainReporter(stream)
