"""link.ledger.csv: what the router did in a cell with a trace, one row a packet, and what was due.

A trace, a seed and the packets decide everything: the same model is asked again, and must answer the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pqbase.documents import Json, part_of
from pqevidence.record.raw import RawDataError
from pqlink.channel import Channel
from pqlink.router import DIRECTIONS, LogRow, generator
from pqlink.settings import Side
from pqlink.trace import Trace

LINK_LEDGER = "link.ledger.csv"
#: of a run's traces, under its data
TRACES = "traces"
_HEADER = "direction,t_ns,size_bytes,wait_ns"
#: a year; the largest IPv4 packet
_MOST_NS, _MOST_BYTES = 1 << 55, 65_535
#: what the clock of the machine decides, not the trace
_OF_THE_CLOCK = ("late_count", "late_sum_ns", "late_max_ns")


def trace_path(data_dir: Path, sha256: str) -> Path:
    """Where the trace of that digest lies in the data of a run."""
    return data_dir / TRACES / f"{sha256}.csv"


def ledger_text(rows: Sequence[Sequence[object]]) -> str:
    """Rows as the router tells them; an empty wait is a lost packet."""
    lines = [f"{way},{t_ns},{size},{'' if wait is None else wait}" for way, t_ns, size, wait in rows]
    return "\n".join([_HEADER, *lines, ""])


def read_link_ledger(path: Path) -> Iterator[LogRow]:
    """Rows in the order in which the packets came. Raises RawDataError naming the line."""
    with path.open(encoding="ascii", errors="replace") as lines:
        if next(lines, "").rstrip("\n") != _HEADER:
            raise RawDataError(path, f"line 1: {_HEADER} is due")
        for number, line in enumerate(lines, 2):
            cells = line.rstrip("\n").split(",")
            try:
                way, *texts = cells
                t_ns, size, wait = (None if text == "" else int(text) for text in texts)
                if way not in DIRECTIONS or t_ns is None or size is None:
                    raise ValueError(f"{line.rstrip()!r:.60} is no packet")
                if not 0 <= t_ns < _MOST_NS or not 0 < size <= _MOST_BYTES:
                    raise ValueError(f"{size} bytes at {t_ns} ns")
                yield way, t_ns, size, wait
            except ValueError as error:
                raise RawDataError(path, f"line {number}: {error}") from error


def replay_problems(
    rows: Iterator[LogRow],
    sides: dict[str, Side],
    traces: dict[str, Trace],
    seed: int,
    router: Json,
) -> Iterator[str]:
    """Where the account is not what the traces (by direction), the seed and the settings give."""
    channels = {}
    for way, side in sides.items():
        channels[way] = Channel(generator(seed, way))
        channels[way].set(side, traces.get(way))
    count, before_ns = 0, 0
    for count, (way, t_ns, size, wait_ns) in enumerate(rows, 1):
        if t_ns < before_ns:
            yield f"packet {count} came before the one above it"
            return
        before_ns = t_ns
        times = channels[way].offer(size, t_ns)
        due_ns = times[0] - t_ns if times else None
        if due_ns != wait_ns:
            told, due = ("lost" if ns is None else f"{ns / 1e6:.6f} ms" for ns in (wait_ns, due_ns))
            yield f"packet {count} ({way} at {t_ns / 1e9:.6f} s): the router says {told}, the trace {due}"
            return
    if count != router["logged"]:
        yield f"{count} packets are written down, link.json says {router['logged']}"
    if router["unlogged"]:
        return  # the counts hold packets that nobody wrote down
    for way, channel in channels.items():
        told_of = part_of(router, way)
        for key, value in channel.counts.as_dict().items():
            if key not in _OF_THE_CLOCK and told_of[key] != value:
                yield f"{way}: the router counts {key} {told_of[key]}, its packets give {value}"
