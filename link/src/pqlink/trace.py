"""A radio trace: what one direction of a link did over time, as a step function read from a CSV file.

docs/LINK.md, "Traces", has the format. Times and rates are whole numbers inside (ns, bit/s), so that a replay
is the same on every machine. A quantity that has no column is unknown: the trace says nothing about it.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Final

from pqlink.errors import TraceError

MAGIC: Final = "# pqlink trace 1"
#: what a trace may say of itself; an invented one must not pass for a measured one
ORIGINS: Final = ("measured", "synthetic")
COLUMNS: Final = ("rate_bit_s", "delay_ms", "loss_pct")
#: columns with this prefix are kept for people and ignored by the router
NOTE_PREFIX: Final = "x_"
MOST_BYTES: Final = 8 << 20
MOST_ROWS: Final = 200_000
MOST_MS: Final = 86_400_000
MOST_DELAY_MS: Final = 60_000
MOST_RATE_BIT_S: Final = 10_000_000_000
_MS_NS: Final = 1_000_000
_S_NS: Final = 1_000_000_000
#: at most six digits behind the point: whole nanoseconds
_MS_TEXT: Final = re.compile(r"\d{1,10}(\.\d{1,6})?")
_WHOLE_TEXT: Final = re.compile(r"\d{1,12}")
_META_TEXT: Final = re.compile(r"# ([a-z][a-z0-9_]*): (.*)")
_COLUMN_TEXT: Final = re.compile(r"x_[a-z0-9_]{1,40}")


@dataclass(frozen=True)
class Trace:
    """Values from `starts_ns[i]` until the next start; the last ones until `end_ns`. Zero is the first start.

    rates_bit_s: 0 sends nothing; delays_ns; losses_pct: 0 loses nothing, 100 everything, between them each
    packet draws. None where the trace does not know. meta: what the file's head says; sha256: of its bytes.
    """

    starts_ns: tuple[int, ...]
    end_ns: int
    rates_bit_s: tuple[int, ...] | None
    delays_ns: tuple[int, ...] | None
    losses_pct: tuple[float, ...] | None
    meta: Mapping[str, str]
    sha256: str = field(compare=False)

    @property
    def known(self) -> tuple[str, ...]:
        """Columns that the trace has."""
        held = (self.rates_bit_s, self.delays_ns, self.losses_pct)
        return tuple(name for name, values in zip(COLUMNS, held, strict=True) if values is not None)

    @cached_property
    def bit_ns_per_s(self) -> int:
        """What the whole trace carries, in bits × ns/s (whole numbers: a rate times a time)."""
        rates = self.rates_bit_s or ()
        return sum(rate * (stop - start) for rate, (start, stop) in zip(rates, self.spans_ns, strict=True))

    @property
    def spans_ns(self) -> list[tuple[int, int]]:
        """(begin, end) of each step."""
        return list(zip(self.starts_ns, [*self.starts_ns[1:], self.end_ns], strict=True))

    @property
    def mean_rate_bit_s(self) -> float | None:
        """Over time; None where the trace knows no rate."""
        return None if self.rates_bit_s is None else self.bit_ns_per_s / self.end_ns

    @property
    def mean_loss_pct(self) -> float | None:
        """Over time; None where the trace knows no loss."""
        if self.losses_pct is None:
            return None
        spans = zip(self.losses_pct, self.spans_ns, strict=True)
        return math.fsum(loss * (stop - start) for loss, (start, stop) in spans) / self.end_ns

    def index_at(self, position_ns: int) -> int:
        """The step in force at a position between 0 and `end_ns`."""
        return bisect_right(self.starts_ns, position_ns) - 1


def parse_trace(content: bytes) -> Trace:
    """The bytes of a trace file. Raises TraceError naming the line."""
    if len(content) > MOST_BYTES:
        raise TraceError(f"the trace has {len(content)} bytes, {MOST_BYTES} are the most")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TraceError(f"the trace is not UTF-8 at byte {error.start}") from error
    if lines[0] != MAGIC:
        raise TraceError(f"line 1 is {lines[0]!r:.60}, {MAGIC!r} is due", hint="docs/LINK.md has the format")
    if lines.pop() != "":
        raise TraceError("the last line does not end: the file was cut off", hint="copy it again")
    meta, head = _meta(lines)
    names = lines[head].split(",")
    _check_names(names, head + 1)
    rows = [_cells(line, len(names), number) for number, line in enumerate(lines[head + 1 :], head + 2)]
    if len(rows) < 2:
        raise TraceError("a trace has a row at 0 and a row with its end", hint="docs/LINK.md has the format")
    if len(rows) > MOST_ROWS:
        raise TraceError(f"the trace has {len(rows)} rows, {MOST_ROWS} are the most")
    times_ns = _times(rows, head + 2)
    if any(rows[-1][1:]):
        raise TraceError(
            f"line {len(lines)}: the last row has a time alone: there the trace ends",
            hint=f"append a row with the end: TIME{',' * (len(names) - 1)}",
        )
    columns = {name: [row[place] for row in rows[:-1]] for place, name in enumerate(names)}
    trace = Trace(
        starts_ns=tuple(times_ns[:-1]),
        end_ns=times_ns[-1],
        rates_bit_s=_rates(columns.get("rate_bit_s"), head + 2),
        losses_pct=_losses(columns.get("loss_pct"), head + 2),
        delays_ns=_delays(columns.get("delay_ms"), columns.get("loss_pct"), head + 2),
        meta=meta,
        sha256=hashlib.sha256(content).hexdigest(),
    )
    if trace.rates_bit_s is not None and not trace.bit_ns_per_s:
        raise TraceError("the rate is 0 from beginning to end: nothing would ever be sent")
    return trace


def trace_text(
    meta: Mapping[str, str], names: Sequence[str], rows: Sequence[Sequence[str]], end_ms: str
) -> str:
    """A trace file: head, column names behind `t_ms`, rows, the row with the end. It is not checked here."""
    head = [MAGIC, *(f"# {key}: {' '.join(text.split())}" for key, text in meta.items())]
    table = [",".join(["t_ms", *names]), *(",".join(row) for row in rows), end_ms + "," * len(names)]
    return "\n".join([*head, *table, ""])


def ms_text(time_ns: int) -> str:
    """Nanoseconds as the format writes milliseconds: exact, without zeros that say nothing."""
    whole, rest = divmod(time_ns, _MS_NS)
    return f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)


def _meta(lines: list[str]) -> tuple[dict[str, str], int]:
    """What the head says, and the position of the line with the column names."""
    meta: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.startswith("#"):
            break
        match = _META_TEXT.fullmatch(line)
        if match is None or match.group(1) in meta:
            raise TraceError(f"line {number}: the head has lines `# key: text`, each key once")
        meta[match.group(1)] = match.group(2)
    else:
        raise TraceError("the trace has a head and no rows")
    if meta.get("origin") not in ORIGINS:
        raise TraceError(
            f"the head must say `# origin: {'` or `# origin: '.join(ORIGINS)}`",
            hint="measured: it follows from a recording of a radio; synthetic: anything else",
        )
    return meta, len(meta) + 1


def _check_names(names: list[str], number: int) -> None:
    wrong = [name for name in names[1:] if name not in COLUMNS and not _COLUMN_TEXT.fullmatch(name)]
    if names[0] != "t_ms" or wrong or len(set(names)) != len(names):
        raise TraceError(
            f"line {number}: columns are t_ms, then some of {', '.join(COLUMNS)}, each once",
            hint=f"a column for people alone begins with {NOTE_PREFIX}",
        )
    if not set(names) & set(COLUMNS):
        raise TraceError(
            f"line {number}: the trace says nothing", hint=f"it needs one of {', '.join(COLUMNS)}"
        )


def _cells(line: str, count: int, number: int) -> list[str]:
    cells = line.split(",")
    if len(cells) != count:
        raise TraceError(f"line {number}: {len(cells)} cells, {count} are due")
    return cells


def _times(rows: list[list[str]], first: int) -> list[int]:
    times = [_ms_ns(row[0], "t_ms", MOST_MS, number) for number, row in enumerate(rows, first)]
    if times[0] != 0:
        raise TraceError(f"line {first}: the first row is at 0", hint="take the first time off all of them")
    for number, (before, after) in enumerate(pairwise(times), first + 1):
        if after <= before:
            raise TraceError(f"line {number}: each time is later than the one before")
    return times


def _ms_ns(text: str, name: str, most_ms: int, number: int) -> int:
    if not _MS_TEXT.fullmatch(text) or Decimal(text) > most_ms:
        raise TraceError(
            f"line {number}: {name} is {text!r:.40}",
            hint=f"0 … {most_ms}, at most six digits behind the point",
        )
    return int(Decimal(text) * _MS_NS)


def _rates(texts: list[str] | None, first: int) -> tuple[int, ...] | None:
    if texts is None:
        return None
    for number, text in enumerate(texts, first):
        if not _WHOLE_TEXT.fullmatch(text) or int(text) > MOST_RATE_BIT_S:
            raise TraceError(
                f"line {number}: rate_bit_s is {text!r:.40}", hint=f"a whole number, 0 … {MOST_RATE_BIT_S}"
            )
    return tuple(map(int, texts))


def _losses(texts: list[str] | None, first: int) -> tuple[float, ...] | None:
    if texts is None:
        return None
    for number, text in enumerate(texts, first):
        if not _MS_TEXT.fullmatch(text) or Decimal(text) > 100:
            raise TraceError(f"line {number}: loss_pct is {text!r:.40}", hint="0 … 100")
    return tuple(map(float, texts))


def _delays(texts: list[str] | None, losses: list[str] | None, first: int) -> tuple[int, ...] | None:
    """An empty delay stands where everything is lost: nobody knows how long a lost packet took."""
    if texts is None:
        return None
    found = []
    for place, text in enumerate(texts):
        if text == "" and losses is not None and _is_all(losses[place]):
            found.append(0)
        else:
            found.append(_ms_ns(text, "delay_ms", MOST_DELAY_MS, first + place))
    return tuple(found)


def _is_all(loss: str) -> bool:
    return bool(_MS_TEXT.fullmatch(loss)) and Decimal(loss) == 100


class Playback:
    """A trace from `start_ns` on, begun again at its end (`loop`) or silent from there on.

    Pure: time is given, as nanoseconds since the playback began.
    """

    def __init__(self, trace: Trace, start_ns: int, loop: bool) -> None:
        self.trace = trace
        self._start_ns = start_ns
        self._loop = loop

    def step(self, elapsed_ns: int) -> int | None:
        """The step in force; None behind the end."""
        position_ns = self._position(elapsed_ns)
        return None if position_ns is None else self.trace.index_at(position_ns)

    def delay_ns(self, step: int) -> int | None:
        """Delay within a step; None where the trace knows none."""
        return None if self.trace.delays_ns is None else self.trace.delays_ns[step]

    def sent_ns(self, begin_ns: int, size_bytes: int) -> int:
        """When the last bit of a packet has left, if its first leaves at `begin_ns`, at the trace's rates."""
        trace, at_ns = self.trace, begin_ns
        rates = trace.rates_bit_s
        assert rates is not None
        need = size_bytes * 8 * _S_NS
        if self._loop:
            # whole turns at once; the last bit is left to the walk below: no pause is counted behind it
            turns = (need - 1) // trace.bit_ns_per_s
            need -= turns * trace.bit_ns_per_s
            at_ns += turns * trace.end_ns
        while True:
            position_ns = self._position(at_ns)
            if position_ns is None:
                return at_ns
            index = trace.index_at(position_ns)
            stop_ns = trace.starts_ns[index + 1] if index + 1 < len(trace.starts_ns) else trace.end_ns
            left_ns = stop_ns - position_ns
            if rates[index] * left_ns >= need:
                return at_ns + -(-need // rates[index])
            need -= rates[index] * left_ns
            at_ns += left_ns

    def _position(self, elapsed_ns: int) -> int | None:
        position_ns = self._start_ns + elapsed_ns
        if position_ns < self.trace.end_ns:
            return position_ns
        return position_ns % self.trace.end_ns if self._loop else None
