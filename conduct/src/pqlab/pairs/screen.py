"""All pairs on one screen: what each controller says, a whole line at a time under the name of its pair; on a
terminal a board below, with a row for each pair."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pqbase.documents import Json, counts_of, number_of, part_of, whole_of
from pqlab.progress import clock_text

_BAR: Final = 20


class Screen(Protocol):
    """Where progress is told."""

    def tell(self, pair: str | None, line: str) -> None:
        """One line, of that pair or (None) of all."""

    def board(self, rows: Sequence[Json]) -> None:
        """How far each pair is (`status.pair_status`)."""

    def close(self) -> None: ...


def prefixed(pair: str | None, line: str, width: int) -> str:
    """`pair_1 │ [12/72] …`; pairs' names are padded to `width`."""
    return line if pair is None else f"{pair:<{width}} │ {line}"


class PlainScreen:
    """Lines alone: a log, a pipe. They carry cells done, verdicts and the time left, by pair."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width

    def tell(self, pair: str | None, line: str) -> None:
        print(prefixed(pair, line, self._width), file=self._stream, flush=True)

    def board(self, rows: Sequence[Json]) -> None:
        return

    def close(self) -> None:
        return


class RichScreen:
    """The same lines above a board."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._width = width
        self._console = Console(file=stream, highlight=False)
        self._live = Live(Text(""), console=self._console, transient=True, auto_refresh=False)
        self._live.start()

    def tell(self, pair: str | None, line: str) -> None:
        self._console.print(prefixed(pair, line, self._width), markup=False)

    def board(self, rows: Sequence[Json]) -> None:
        self._live.update(drawn(rows), refresh=True)

    def close(self) -> None:
        self._live.stop()


def drawn(rows: Sequence[Json]) -> RenderableType:
    """A row a pair: cells, bar, time left, verdicts; below each what it does now."""
    parts: list[RenderableType] = []
    for row in rows:
        head = Table.grid(padding=(0, 1))
        total = whole_of(row, "total", 0)
        cells = f"{row['done']}/{total}" if total else "-"
        left = "" if row["eta_s"] is None else f"left {clock_text(number_of(row, 'eta_s'))}"
        counts = " ".join(
            f"{count} {verdict}" for verdict, count in sorted(counts_of(row, "verdict_counts").items())
        )
        bar = ProgressBar(total=max(total, 1), completed=whole_of(row, "done"), width=_BAR)
        head.add_row(Text(str(row["pair"]), style="bold"), cells, bar, left, Text(counts))
        cell = part_of(row, "current", {})
        now = f"{cell['suite_id']} {cell['condition']} rep {cell['repetition']}" if cell else row["state"]
        parts += [head, Text(f"  {now}", overflow="ellipsis", no_wrap=True)]
    return Group(*parts)


def screen(pairs: Sequence[str], *, json_output: bool) -> Screen:
    """For this process: to standard error when standard output carries a JSON document."""
    stream = sys.stderr if json_output else sys.stdout
    width = max(map(len, pairs))
    return RichScreen(stream, width) if stream.isatty() else PlainScreen(stream, width)
