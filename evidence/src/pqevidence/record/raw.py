"""Raw files of a run and of a cell, as typed values.

A file that is absent stays None and is listed in `missing`; a file that is there and damaged is an error with
its name and line. Not in scope: what the values mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import contains
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import yaml

from pqbase.documents import part_of, rows_of
from pqevidence.errors import EXIT_CHECK, LabError
from pqevidence.record.ledger import Ledger, LedgerError, read_ledger, without_window
from pqevidence.record.plain_spans import Odd, read_plain
from pqevidence.record.untimed import EMULATED_CPU
from pqtelemetry.slice import Point, parse_lines

ROLES = ("drone", "gcs")
#: the window that no statistic sees
CANARY = "canary"
#: mode of a handshake that is no part of any block
REDIAL = "redial"
#: of hosts/<end>.json: the place of a shared rack that the end stands at
PLACE = "place"
#: a scenario of thousands of conditions has less
MOST_YAML_BYTES = 1 << 20
PRIMITIVES = ("keygen", "sign", "verify", "encaps", "decaps")
Json = dict[str, Any]
T = TypeVar("T")
#: a value from the first letter on, and where it ended: what json.loads does between two looks for blanks
_AT_ONCE = json.JSONDecoder().raw_decode


class RawDataError(LabError):
    """A raw file that is there but cannot be read as what it should be."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            "raw-data",
            f"{path.parent.name}/{path.name} cannot be read",
            why,
            "run `pqlab verify` on the bundle; a damaged file shows there as a fixity failure",
            EXIT_CHECK,
        )


class Span(NamedTuple):
    """One step of one handshake on one host; times on that host's monotonic clock. A tuple, because a
    campaign makes a million of them."""

    host: str
    handshake_id: str
    mode: str
    suite_id: str
    step: str
    kind: str
    start_ns: int
    end_ns: int
    size_bytes: int | None
    keygen: str | None = None
    cpu_ns: int | None = None
    """Processor time of the thread that did it: of primitives and of whole walls."""
    runqueue_ns: int | None = None
    """Of a whole wall: time in which that thread was runnable and had no processor."""
    involuntary: int | None = None
    scheduling_reason: str | None = None
    """Why a wall has none of these."""
    number: int | None = None
    """Its handshake's number at that host, counted from the first one of the block; `index` in the file."""

    @property
    def duration_ns(self) -> int:
        """End minus start."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class RawRun:
    """What is true of the whole run; each member is the parsed file of that name."""

    run: dict[str, object]
    scenario: dict[str, object]
    plan: dict[str, object]
    providers: dict[str, object]
    hosts: dict[str, dict[str, object]]

    def condition(self, name: str) -> dict[str, object]:
        """The condition block of that name; {} when the scenario does not know it."""
        for condition in rows_of(self.scenario, "conditions", []):
            if condition.get("name") == name:
                return dict(condition)
        return {}

    @property
    def sessions(self) -> list[dict[str, object]]:
        """The controller's own, oldest first; one for each time that the run was gone on with."""
        return rows_of(self.run, "sessions", [])

    def host(self, role: str) -> dict[str, object]:
        """What an end says of the machine under it; {} where it says nothing."""
        return part_of(self.hosts.get(role) or {}, "host", {})

    @property
    def one_clock(self) -> bool:
        """True when both agents read the same boot id, so that their realtime clocks are one clock."""
        boots = {str(self.host(role).get("boot_id") or role) for role in ROLES}
        return len(boots) == 1


def played_by(host: Json) -> str | None:
    """`wine 10.0` or `emulated qemu-user` where another machine plays this one, else None."""
    told = [f"{name} {host[name]}" for name in ("wine", "emulated") if host.get(name)]
    return ", ".join(told) or None


def kernels(hosts: dict[str, Json]) -> set[str]:
    """Boot ids of the given hosts' facts, leaving out each whose processor another of them emulates: ring lab
    is one machine's, so it has one."""
    facts = (each["host"] for each in hosts.values())
    return {
        str(host.get("boot_id")) for host in facts if not str(host.get("cpu_model")).startswith(EMULATED_CPU)
    }


#: the event after which one end's stamps are shifted on purpose
SHIFTED = "clock_offset"


def stamps_of_one_clock(run: RawRun, cell: RawCell) -> bool:
    """True when the stamps that both ends gave in this cell are of one clock: equal boot ids, and neither end
    was told to shift its own."""
    return run.one_clock and not any(event.get("event") == SHIFTED for event in cell.events)


#: how lines begin that the sampler writes of a host; the tunnel's counters have a file of their own, and
#: lines of 50 fields are dear to parse
SAMPLED = tuple(
    f"pq_{name}," for name in ("cpu", "pressure", "mem", "load", "freq", "temp", "power", "net", "sampler")
)


def points_of(lines: Iterable[str]) -> list[Point]:
    """Those of `SAMPLED`, in file order; ParseError of pqtelemetry for a damaged line."""
    return parse_lines([line for line in lines if line.startswith(SAMPLED)])


@dataclass
class Canary:
    """What the canary window left, taken out of everything else: counters of each end, traffic report,
    and the ground truth of its attack. None where that file or window is not there."""

    counters: dict[str, Json] = field(default_factory=dict)
    traffic: Json | None = None
    truth: list[Json] | None = None


@dataclass
class RawCell:
    """The raw files of one cell; None where a file is absent."""

    folder: Path
    events: list[Json] = field(default_factory=list)
    spans: list[Span] | None = None
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    counters: dict[str, Json] | None = None
    traffic: dict[str, Json] | None = None
    telemetry: dict[str, list[str]] = field(default_factory=dict)
    link: Json | None = None
    attack: list[Json] | None = None
    detector: list[Json] | None = None
    usage: Json | None = None
    observers: Json | None = None
    canary: Canary | None = None
    attempts: int = 1
    missing: list[str] = field(default_factory=list)
    _points: dict[str, list[Point]] = field(default_factory=dict)

    def points(self, role: str) -> list[Point]:
        """What the sampler of one end told, parsed once. Raises ParseError of pqtelemetry."""
        if role not in self._points:
            self._points[role] = points_of(self.telemetry.get(role, []))
        return self._points[role]


def read_json(path: Path, constant: Callable[[str], float] | None = None) -> object:
    """Parsed JSON; RawDataError names line and column. constant: makes what is not finite of its name."""
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"), parse_constant=constant)
    except UnicodeDecodeError as error:
        raise RawDataError(path, f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise RawDataError(path, f"line {error.lineno} column {error.colno}: {error.msg}") from error
    except ValueError as error:  # a number of more digits than Python converts
        raise RawDataError(path, str(error)) from error
    except RecursionError as error:
        raise RawDataError(path, "nested too deep") from error
    return value


def read_object(path: Path, constant: Callable[[str], float] | None = None) -> Json:
    """A JSON file whose top is an object."""
    value = read_json(path, constant)
    if not isinstance(value, dict):
        raise RawDataError(path, f"the top is {type(value).__name__}, an object is due")
    return value


def read_record(path: Path) -> Json:
    """A record. A NaN in it is equal to none of any other file: containers that hold one and the same NaN are
    equal, and all those that Python's reader makes are one."""
    return read_object(path, float)


class AliasRefused(yaml.YAMLError):
    """What `PlainLoader` says of an alias."""


class PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them stand for more than any memory holds, and nobody here writes
    them."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As the loader does it; an alias is refused."""
        if self.check_event(yaml.AliasEvent):
            raise AliasRefused(f"an alias near line {self.line + 1}: none are read")
        return super().compose_node(parent, index)


def read_yaml_object(path: Path) -> Json:
    """A YAML file whose top is a mapping. Not by libyaml's loader: deep nesting ends the process there."""
    try:
        if path.stat().st_size > MOST_YAML_BYTES:
            raise RawDataError(path, f"longer than {MOST_YAML_BYTES} bytes")
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=PlainLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RawDataError(path, str(error).replace("\n", " ")) from error
    except RecursionError as error:
        raise RawDataError(path, "nested too deep") from error
    if not isinstance(value, dict):
        raise RawDataError(path, f"the top is {type(value).__name__}, a mapping is due")
    return value


#: a file of more bytes is read line by line
_MOST_AT_ONCE_BYTES: Final = 16 << 20


def read_ndjson(path: Path) -> list[Json]:
    """One object a line; empty lines are refused because a writer never makes them."""
    with path.open("rb") as handle:
        content = handle.read(_MOST_AT_ONCE_BYTES + 1)
    if len(content) <= _MOST_AT_ONCE_BYTES and (whole := _rows_at_once(content)) is not None:
        return whole
    rows: list[Json] = []
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            try:
                text = line.decode("utf-8").rstrip("\n")
                try:
                    row, end = _AT_ONCE(text)
                except ValueError:
                    end = -1
                if end != len(text):  # blanks, damage: the slow way knows
                    row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise RawDataError(path, f"line {number}: not UTF-8") from error
            except json.JSONDecodeError as error:
                raise RawDataError(path, f"line {number}: {error.msg}") from error
            except ValueError as error:  # a number of more digits than Python converts
                raise RawDataError(path, f"line {number}: {error}") from error
            except RecursionError as error:
                raise RawDataError(path, f"line {number}: nested too deep") from error
            if not isinstance(row, dict):
                raise RawDataError(path, f"line {number}: {type(row).__name__} instead of an object")
            rows.append(row)
    return rows


def _rows_at_once(content: bytes) -> list[Json] | None:
    """All lines in one go, as one list, where they cannot be told apart in two ways: without a list inside a
    line, the `,` and newline put between two lines can stand between two objects alone. None: line by line,
    which also knows what is wrong, and where."""
    body = content.removesuffix(b"\n")
    lines = body.count(b"\n") + 1
    if b"[" in body or not (body.startswith(b"{") and body.endswith(b"}")):
        return None
    if body.count(b"}\n{") != lines - 1:
        return None
    try:
        rows: list[Json] = json.loads("[" + body.decode().replace("\n", ",\n") + "]")
    except (ValueError, RecursionError):
        return None
    return rows if len(rows) == lines else None


#: what the fields are called in the file
_NAMES: Final = (*Span._fields[:-1], "index")
_TEXT: Final[frozenset[type]] = frozenset((str,))
_NUMBER: Final[frozenset[type]] = frozenset((int,))
_NULL: Final[frozenset[type]] = frozenset((type(None),))
#: types of what a row says, in the order of the fields, for which nothing needs to be converted
_AS_WRITTEN: Final = (
    *[_TEXT] * 6,
    *[_NUMBER] * 2,
    *((_TEXT if name in ("keygen", "scheduling_reason") else _NUMBER) | _NULL for name in Span._fields[8:]),
)


_TYPES: Final = dict(zip(_NAMES, _AS_WRITTEN, strict=True))
#: what a writer tells before the step, and after the end
_BEFORE: Final = {
    name: _TYPES[name] for name in ("host", "handshake_id", "mode", "suite_id", "keygen", "index")
}
_AFTER: Final = {
    name: _TYPES[name]
    for name in ("kind", "size_bytes", "cpu_ns", "runqueue_ns", "involuntary", "scheduling_reason")
}

#: as Span._make, which is no built-in
_span: Final = cast("Callable[[type[Span], tuple[Any, ...]], Span]", tuple.__new__)


def _as_written(told: list[tuple[Any, ...]]) -> bool:
    """Has each column the types of `_AS_WRITTEN`?"""
    columns = zip(*told, strict=True)
    return all(
        types.issuperset(map(type, column)) for types, column in zip(_AS_WRITTEN, columns, strict=False)
    )


def read_spans(path: Path) -> list[Span]:
    """Spans of both hosts in file order."""
    if (plain := _plain_spans(path)) is not None:
        return _redials_at_both_ends(plain)
    rows = read_ndjson(path)
    told = [tuple(map(row.get, _NAMES)) for row in rows]
    if _as_written(told):
        return _redials_at_both_ends(list(map(partial(_span, Span), told)))
    spans = []
    for number, row in enumerate(rows, 1):
        try:
            spans.append(_converted(row))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RawDataError(path, f"line {number}: {error!r}") from error
    return _redials_at_both_ends(spans)


def _plain_spans(path: Path) -> list[Span] | None:
    """The same of a file that is as a writer leaves it; None of any other."""
    with path.open("rb") as handle:
        content = handle.read(_MOST_AT_ONCE_BYTES + 1)
    if len(content) > _MOST_AT_ONCE_BYTES:
        return None
    try:
        told = [
            (*place, step, kind, start_ns, end_ns, size_bytes, keygen, *scheduled, number)
            for (place, keygen, number), step, start_ns, end_ns, (kind, size_bytes, scheduled) in read_plain(
                content, _before, _after
            )
        ]
    except (Odd, ValueError, RecursionError):
        return None
    return list(map(partial(_span, Span), told))


def _before(row: Json) -> tuple[tuple[Any, ...], Any, Any]:
    """What a writer tells before the step. Raises Odd, as `_after`, for a value that is not as it is written,
    or stands in the other part."""
    *place, keygen, number = _part(row, _BEFORE, _AFTER)
    return tuple(place), keygen, number


def _after(row: Json) -> tuple[Any, Any, tuple[Any, ...]]:
    """What it tells after the end."""
    kind, size_bytes, *scheduled = _part(row, _AFTER, _BEFORE)
    return kind, size_bytes, tuple(scheduled)


def _part(row: Json, ours: dict[str, frozenset[type]], others: dict[str, frozenset[type]]) -> tuple[Any, ...]:
    told = tuple(map(row.get, ours))
    if not others.keys().isdisjoint(row) or not all(map(contains, ours.values(), map(type, told))):
        raise Odd
    return told


def _converted(row: Json) -> Span:
    size, keygen, silent = row.get("size_bytes"), row.get("keygen"), row.get("scheduling_reason")
    cpu, queue = row.get("cpu_ns"), row.get("runqueue_ns")
    switches, index = row.get("involuntary"), row.get("index")
    return Span(
        host=str(row["host"]),
        handshake_id=str(row["handshake_id"]),
        mode=str(row["mode"]),
        suite_id=str(row["suite_id"]),
        step=str(row["step"]),
        kind=str(row["kind"]),
        start_ns=int(row["start_ns"]),
        end_ns=int(row["end_ns"]),
        size_bytes=None if size is None else int(size),
        keygen=None if keygen is None else str(keygen),
        cpu_ns=None if cpu is None else int(cpu),
        runqueue_ns=None if queue is None else int(queue),
        involuntary=None if switches is None else int(switches),
        scheduling_reason=None if silent is None else str(silent),
        number=None if index is None else int(index),
    )


def _redials_at_both_ends(spans: list[Span]) -> list[Span]:
    """A redial (the drone dials after silence, within the session) is a new session like any other to the
    ground: the drone's word labels the spans of both."""
    ids = {span.handshake_id for span in spans if span.mode == REDIAL}
    return [s._replace(mode=REDIAL) if s.handshake_id in ids else s for s in spans] if ids else spans


def load_run(data_dir: Path) -> RawRun:
    """The run-level files under `data/`; run.json may be absent while the run still goes on."""
    run_path = data_dir / "run.json"
    return RawRun(
        run=read_object(run_path) if run_path.exists() else {},
        scenario=read_yaml_object(data_dir / "scenario.effective.yml"),
        plan=read_object(data_dir / "plan.json"),
        providers=read_object(data_dir / "providers.json"),
        hosts={path.stem: read_object(path) for path in sorted((data_dir / "hosts").glob("*.json"))},
    )


def load_cell(cell_dir: Path) -> RawCell:
    """Every raw file of one cell that is there."""
    cell = RawCell(cell_dir)

    files, attempts = _listed(cell_dir)

    def optional(name: str, reader: Callable[[Path], T]) -> T | None:
        return reader(cell_dir / name) if name in files else None

    def take(name: str, reader: Callable[[Path], T]) -> T | None:
        if name not in files:
            cell.missing.append(name)
        return optional(name, reader)

    cell.events = take("events.ndjson", read_ndjson) or []
    cell.spans = take("spans.ndjson", read_spans)
    for role in ROLES:
        try:
            ledger = take(f"ledger.{role}.csv", read_ledger)
        except LedgerError as error:
            raise RawDataError(cell_dir / f"ledger.{role}.csv", str(error)) from error
        if ledger is not None:
            cell.ledgers[role] = ledger
        lines = take(f"telemetry.{role}.lp", _lines)
        if lines is not None:
            cell.telemetry[role] = lines
    cell.counters = take("counters.json", read_object)
    traffic = take("traffic.json", read_object)
    # only cells that go through the link router have it
    cell.link = optional("link.json", read_object)
    # only cells with foreign traffic have it
    cell.attack = optional("attack.ndjson", read_ndjson)
    cell.traffic = None if traffic is None else dict(traffic.get("windows", {}))
    # only cells with a detector, and campaigns with one, have these
    cell.detector = optional("detector.ndjson", read_ndjson)
    cell.usage = optional("detectors.json", read_object)
    # only campaigns in which a condition leaves an observer out
    cell.observers = optional("observers.json", read_object)
    take_canary(cell)
    cell.attempts = 1 + attempts
    return cell


def _listed(cell_dir: Path) -> tuple[set[str], int]:
    """Names of the files in a cell's folder, and how many attempts it keeps; none where it is not there."""
    if not cell_dir.is_dir():
        return set(), 0
    with os.scandir(cell_dir) as entries:
        rows = list(entries)
    kept = sum(1 for entry in rows if entry.name.startswith("attempt-") and entry.is_dir())
    return {entry.name for entry in rows if entry.is_file()}, kept


def attempts_in(cell_dir: Path) -> list[Path]:
    """Folders of the attempts before the last one, by their names; a tenth of what `Path.glob` takes."""
    try:
        with os.scandir(cell_dir) as entries:
            names = [entry.name for entry in entries if entry.name.startswith("attempt-") and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [cell_dir / name for name in sorted(names)]


def take_canary(cell: RawCell) -> None:
    """Move what belongs to the canary window out of counters, ledgers and traffic: nothing that is computed
    of the cell may contain it. Totals lose its share."""
    told = cell.folder / CANARY / "attack.ndjson"
    truth = read_ndjson(told) if told.is_file() else None
    counted_apart = any(CANARY in c.get("windows", {}) for c in (cell.counters or {}).values())
    if truth is None and not counted_apart:
        return
    canary = cell.canary = Canary(truth=truth)
    if cell.traffic is not None:
        canary.traffic = cell.traffic.pop(CANARY, None)
    for ledger in cell.ledgers.values():
        ledger.tx, ledger.rx = without_window(ledger.tx, CANARY), without_window(ledger.rx, CANARY)
    if cell.counters is None:
        return
    counters = {}
    for role, counted in cell.counters.items():
        windows = dict(counted.get("windows", {}))
        mine = canary.counters[role] = windows.pop(CANARY, {})
        counters[role] = {**{k: _less(v, mine.get(k)) for k, v in counted.items()}, "windows": windows}
    cell.counters = counters


def _less(total: object, part: object) -> object:
    """A total without a window's share; digests are sums modulo 2^64 in hex. Others stay as they are."""
    if isinstance(total, int) and isinstance(part, int) and not isinstance(total, bool):
        return total - part
    if isinstance(total, str) and isinstance(part, str) and len(total) == len(part) == 16:
        return f"{(int(total, 16) - int(part, 16)) % (1 << 64):016x}"
    return total


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise RawDataError(path, f"not UTF-8 at byte {error.start}") from error
