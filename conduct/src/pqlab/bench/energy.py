"""An energy folder of `pqtunnel bench`: spans and power samples joined into joules an operation, with U.

What cannot be said is None with its reason: no zero, no number inside its own uncertainty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pqbase.documents import Json, number_of, part_of
from pqevidence.analysis.energy import Energy, Resolution, Span, Trace, additive, between_blocks, block_energy
from pqlab.bench.samples import Samples, read_samples
from pqlab.bench.tree import BenchTreeError, object_of
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.registers import BUS_LSB_V, SHUNT_LSB_V
from pqtunnel.bench.energy import Block

BLOCKS_SCHEMA = "pqtunnel/bench-blocks/v1"
ALONE_PERIODS = 2
_DROPPED = "the sampler's files were full and its oldest samples were dropped"


@dataclass(frozen=True)
class Result:
    """One operation: N-blocks, 2 N-blocks, additivity, and what its blocks looked like electrically."""

    category: str
    algorithm: str
    operation: str
    payload_bytes: int | None
    once: Energy
    twice: Energy
    additivity: tuple[bool, float, float] | None
    blocks: int
    time_ms: float
    busy_w: float | None
    voltage_v: float | None
    current_a: float | None
    alone: str
    reason: str | None

    @property
    def name(self) -> str:
        """ML-KEM-512 keygen; AES-256-GCM encrypt 64 B."""
        size = f" {self.payload_bytes} B" if self.payload_bytes else ""
        return f"{self.algorithm} {self.operation}{size}"


@dataclass(frozen=True)
class Run:
    """All operations of a folder, and what the sensor was. `synthetic`: no watt here is a measurement."""

    environment: Json
    header: Json
    results: tuple[Result, ...]
    samples: int
    lost_reason: str | None

    @property
    def synthetic(self) -> bool:
        """Everything but a chip on a board's bus."""
        return self.header.get("sensor_class") != "chip"

    @property
    def ring(self) -> str:
        """`synthetic` for whatever no chip read, else that of the machine."""
        if self.synthetic:
            return "synthetic"
        return "hardware" if self.environment.get("board") else "lab"


def read_blocks(path: Path) -> tuple[Json, list[Block]]:
    """(header, rows). A cut-off last line is left out; any other damage raises BenchTreeError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchTreeError(f"{path.name} cannot be read", str(error)) from error
    head: Json = {}
    rows: list[Block] = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end was cut off
        try:
            if number == 1:
                head = json.loads(line)
            else:
                rows.append(json.loads(line))
        except ValueError as error:
            raise BenchTreeError(f"{path.name}, line {number} is damaged", str(error)) from error
    if head.get("schema") != BLOCKS_SCHEMA:
        raise BenchTreeError(f"{path.name} is no {BLOCKS_SCHEMA} file", "its first line says otherwise")
    return head, rows


def limits_of(samples: Samples) -> Resolution:
    """What the sensor's header says about its limits, at the middle of what it read.

    Raises BenchTreeError for a header without calibration, or where no sample has a value.
    """
    middle, header = samples.middle(), samples.header
    if middle is None:
        raise BenchTreeError("the power file holds no sample", "the sensor gave none")
    volts, amps = middle
    try:
        told = header["calibration"]
        if not isinstance(told, dict):
            raise TypeError("`calibration` is no object")
        told = {name: value for name, value in told.items() if name != "schema"}
        current, voltage = Line(**told.pop("current")), Line(**told.pop("voltage"))
        calibration = Calibration(**told, current=current, voltage=voltage)
        conversion_us = part_of(header, "conversion_us", {})
        period_s = 1.0 / number_of(header, "rate_hz")
        delay_s = number_of(conversion_us, "typical") / 1e6 if conversion_us else period_s
        # one step of current at the rail's voltage, and one of the rail's voltage at that current
        quantum_w = math.hypot(SHUNT_LSB_V / calibration.shunt_ohm * volts, BUS_LSB_V * amps)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise BenchTreeError("the power file's header lacks its calibration", str(error)) from error
    # a reading is the mean of the conversion before it, which began up to one conversion earlier
    return Resolution(calibration.power_relative_u(volts, amps), quantum_w, delay_s / math.sqrt(3), period_s)


def load(root: Path) -> Run:
    """Read an energy folder. Raises BenchTreeError."""
    environment = object_of(root / "environment.json")
    if environment.get("mode") != "energy":
        raise BenchTreeError(f"{root.name} holds no energy run", f"its mode is {environment.get('mode')}")
    _, rows = read_blocks(root / "blocks.ndjson")
    samples = read_samples(root / "power.bin")
    results = tuple(results_of(rows, samples))
    return Run(environment, samples.header, results, len(samples), lost_reason(rows, samples))


def lost_reason(rows: Sequence[Block], samples: Samples) -> str | None:
    """Which samples of the run are not there and why: of its beginning, of its end; None where all are."""
    reasons = []
    if rows and len(samples) and rows[0]["start_ns"] < samples.times_ns[0]:
        gone_s = (samples.times_ns[0] - rows[0]["start_ns"]) / 1e9
        reasons.append(f"{_DROPPED}: those of the first {gone_s:.0f} s")
    if samples.ends_in_gap:
        reasons.append(samples.gap_reason() or "the sampler gave no reason")
    return "; ".join(reasons) or None


def results_of(rows: Sequence[Block], samples: Samples) -> list[Result]:
    """Joules for every operation in the rows, in order of category, algorithm, operation."""
    limits = limits_of(samples)
    idles = {row["index"]: _span(row) for row in rows if row["kind"] == "idle"}
    works: dict[tuple[str, str], list[Block]] = {}
    for row in rows:
        if row["kind"] == "work":
            works.setdefault((row["category"], row["name"]), []).append(row)
    return [_result(own, idles, samples, limits) for _, own in sorted(works.items())]


def _span(row: Block) -> Span:
    return Span(row["start_ns"], row["end_ns"])


def _result(rows: list[Block], idles: dict[int, Span], samples: Samples, limits: Resolution) -> Result:
    blocks: dict[int, list[Energy]] = {1: [], 2: []}
    watts: list[float] = []
    volts: list[float] = []
    amps: list[float] = []
    for row in rows:
        before, after = idles.get(row["index"]), idles.get(row["index"] + 1)
        operations, work = row["operations"], _span(row)
        if before is None or after is None:
            energy = _without(operations, "the run ended before the idle span after this block")
        elif not row["success"]:
            energy = _without(operations, "an operation of this block failed")
        elif before.start_ns < samples.times_ns[0]:
            energy = _without(operations, _DROPPED)
        else:
            near = samples.between(before.start_ns, after.end_ns)
            trace = Trace(near, limits.period_s)
            energy = block_energy(trace, before, work, after, operations, limits)
        blocks[row["multiple"]].append(energy)
        if energy.gross_j is not None:
            inside = [s for s in near if work.start_ns <= s.t_mono_ns <= work.end_ns]
            watts.append(energy.gross_j / work.seconds)
            volts += [s.voltage_v for s in inside if s.voltage_v is not None]
            amps += [s.current_a for s in inside if s.current_a is not None]
    once, twice = (_mean(blocks[multiple], rows) for multiple in (1, 2))
    done = math.fsum(_span(row).seconds for row in rows)
    time_ms = done / sum(row["operations"] for row in rows) * 1e3
    head = rows[0]
    short = time_ms / 1e3 < ALONE_PERIODS * limits.period_s
    return Result(
        head["category"],
        head["algorithm"],
        head["operation"],
        head["sizes_bytes"].get("payload"),
        once,
        twice,
        _additive(once, twice),
        len(rows),
        time_ms,
        _middle(watts),
        _middle(volts),
        _middle(amps),
        "not resolvable: shorter than two samples" if short else "resolvable by length",
        once.reason,
    )


def _mean(blocks: list[Energy], rows: list[Block]) -> Energy:
    if not blocks:
        return _without(rows[0]["operations"], "no block of this size was made")
    return between_blocks(blocks)


def _additive(once: Energy, twice: Energy) -> tuple[bool, float, float] | None:
    if twice.operations != 2 * once.operations:
        return None
    return additive(once, twice)


def _without(operations: int, reason: str) -> Energy:
    return Energy(None, None, None, None, None, None, operations, None, reason, {})


def _middle(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
