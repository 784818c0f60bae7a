"""How far a campaign is: a live line on a terminal, one line a cell in a log. Both say the same."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

Json = dict[str, Any]
_COLOURS = {"pass": "green", "fail": "red", "invalid": "red", "unsupported": "yellow", "not-run": "yellow"}


class Reporter(Protocol):
    """What the engine tells about its work."""

    def begin(self, total: int, done: int) -> None: ...

    def cell_begins(self, position: int, suite_id: str, repetition: int, attempt: int) -> None: ...

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None: ...

    def note(self, text: str) -> None: ...

    def end(self) -> None: ...


def cell_line(position: int, total: int, record: Json, eta_s: float | None) -> str:
    """`[ 12/72] cs-… rep 1  pass  hs 1.21 ms  0 lost  eta 04:12`."""
    width = len(str(total))
    parts = [
        f"[{position + 1:>{width}}/{total}] {record['suite_id']} rep {record['repetition']}",
        str(record["verdict"]),
    ]
    handshake = _value(record, "D", "handshake_total_duration_ms")
    if handshake is not None:
        parts.append(f"hs {handshake:.2f} ms")
    sent, received = (_value(record, "G", f"packets_{end}_count") for end in ("sent", "received"))
    if sent is not None and received is not None:
        parts.append(f"{int(sent - received)} lost")
    if record.get("reason"):
        parts.append(f"({record['reason']})")
    if eta_s is not None:
        parts.append(f"eta {clock_text(eta_s)}")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """mm:ss, or h:mm:ss from an hour on."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _value(record: Json, letter: str, name: str) -> float | None:
    value = record.get("categories", {}).get(letter, {}).get(name, {}).get("value")
    return float(value) if isinstance(value, int | float) else None


class PlainReporter:
    """One line a cell."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0

    def begin(self, total: int, done: int) -> None:
        self._total = total
        if done:
            self.note(f"{done} of {total} cells are done already")

    def cell_begins(self, position: int, suite_id: str, repetition: int, attempt: int) -> None:
        if attempt > 1:
            self.note(f"[{position + 1}/{self._total}] {suite_id} rep {repetition}: attempt {attempt}")

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        self.note(cell_line(position, self._total, record, eta_s))

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        return


class RichReporter:
    """The same lines, above a bar that shows the cell in progress."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._progress = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            refresh_per_second=1,  # the machine under test may be this one
        )
        self._task: TaskID | None = None
        self._total = 0

    def begin(self, total: int, done: int) -> None:
        self._total = total
        self._task = self._progress.add_task("starting", total=total, completed=done)
        self._progress.start()

    def cell_begins(self, position: int, suite_id: str, repetition: int, attempt: int) -> None:
        if self._task is not None:
            again = f", attempt {attempt}" if attempt > 1 else ""
            self._progress.update(self._task, description=f"{suite_id} rep {repetition}{again}")

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        line = cell_line(position, self._total, record, eta_s)
        self._console.print(line, style=_COLOURS.get(str(record["verdict"]), ""), markup=False)
        if self._task is not None:
            self._progress.advance(self._task)

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def end(self) -> None:
        self._progress.stop()


def reporter(*, json_output: bool) -> Reporter:
    """For this process: to standard error when standard output carries a JSON document."""
    stream = sys.stderr if json_output else sys.stdout
    return RichReporter(stream) if stream.isatty() else PlainReporter(stream)
