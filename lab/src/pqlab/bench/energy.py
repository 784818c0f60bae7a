"""An energy folder of `pqtunnel bench`: spans and power samples joined into joules an operation, with U.

What cannot be said is None with its reason: no zero, no number inside its own uncertainty.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pqlab.analysis.energy import Energy, Resolution, Span, Trace, additive, between_blocks, block_energy
from pqlab.bench.tree import BenchTreeError, object_of
from pqtelemetry.errors import TelemetryError
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.power.rawfile import PowerSample, RawPower, read_raw

BLOCKS_SCHEMA = "pqtunnel/bench-blocks/v1"
_SHUNT_STEP_V = 10e-6
"""One count of the INA219's shunt register (SBOS448G §8.6.3.1)."""
ALONE_PERIODS = 2


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

    environment: dict[str, Any]
    header: dict[str, Any]
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


def read_blocks(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(header, rows). A cut-off last line is left out; any other damage raises BenchTreeError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchTreeError(f"{path.name} cannot be read", str(error)) from error
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end was cut off
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise BenchTreeError(f"{path.name}, line {number} is damaged", str(error)) from error
    if not rows or rows[0].get("schema") != BLOCKS_SCHEMA:
        raise BenchTreeError(f"{path.name} is no {BLOCKS_SCHEMA} file", "its first line says otherwise")
    return rows[0], rows[1:]


def limits_of(header: dict[str, Any], samples: Sequence[PowerSample]) -> Resolution:
    """What the sensor's header says about its limits, at the middle of what it read.

    Raises BenchTreeError for a header without calibration, or where no sample has a value.
    """
    good = [
        (s.voltage_v, s.current_a) for s in samples if s.voltage_v is not None and s.current_a is not None
    ]
    if not good:
        raise BenchTreeError("the power file holds no sample", "the sensor gave none")
    volts = sorted(good)[len(good) // 2][0]
    amps = sorted(a for _, a in good)[len(good) // 2]
    try:
        told = dict(header["calibration"])
        told.pop("schema", None)
        current, voltage = Line(**told.pop("current")), Line(**told.pop("voltage"))
        calibration = Calibration(**told, current=current, voltage=voltage)
        conversion_us = header.get("conversion_us")
        period_s = 1.0 / float(header["rate_hz"])
        delay_s = float(conversion_us["typical"]) / 1e6 if conversion_us else period_s
        quantum_w = _SHUNT_STEP_V / calibration.shunt_ohm * volts
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
    try:
        raw = read_raw(root / "power.bin")
    except (OSError, TelemetryError) as error:
        raise BenchTreeError("power.bin cannot be read", str(error)) from error
    return Run(
        environment, raw.header, tuple(results_of(rows, raw)), len(raw.samples), lost_reason(root, raw)
    )


def lost_reason(root: Path, raw: RawPower) -> str | None:
    """Why the samples end with a gap, from the gaps file; None where they do not."""
    if not raw.samples or raw.samples[-1].voltage_v is not None:
        return None
    path = root / "power.bin.gaps.ndjson"
    reasons = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                break  # the line that the end of the sampler cut off
            reasons.append(row.get("reason"))
    known = [str(reason) for reason in reasons if reason]
    return known[-1] if known else "the sampler gave no reason"


def results_of(rows: Sequence[dict[str, Any]], raw: RawPower) -> list[Result]:
    """Joules for every operation in the rows, in order of category, algorithm, operation."""
    limits = limits_of(raw.header, raw.samples)
    trace = Trace(raw.samples, limits.period_s)
    times = [sample.t_mono_ns for sample in raw.samples]
    idles = {row["index"]: _span(row) for row in rows if row["kind"] == "idle"}
    works: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "work":
            works.setdefault((row["category"], row["name"]), []).append(row)
    return [_result(own, idles, trace, raw.samples, times, limits) for _, own in sorted(works.items())]


def _span(row: dict[str, Any]) -> Span:
    return Span(row["start_ns"], row["end_ns"])


def _result(
    rows: list[dict[str, Any]], idles: dict[int, Span], trace: Trace, samples: Sequence[PowerSample],
    times: Sequence[int], limits: Resolution,
) -> Result:  # fmt: skip
    blocks: dict[int, list[Energy]] = {1: [], 2: []}
    watts: list[float] = []
    volts: list[float] = []
    amps: list[float] = []
    for row in rows:
        before, after = idles.get(row["index"]), idles.get(row["index"] + 1)
        operations, work = int(row["operations"]), _span(row)
        if before is None or after is None:
            energy = _without(operations, "the run ended before the idle span after this block")
        elif not row["success"]:
            energy = _without(operations, "an operation of this block failed")
        else:
            energy = block_energy(trace, before, work, after, operations, limits)
        blocks[int(row["multiple"])].append(energy)
        if energy.gross_j is not None:
            inside = samples[bisect_left(times, work.start_ns) : bisect_right(times, work.end_ns)]
            watts.append(energy.gross_j / work.seconds)
            volts += [s.voltage_v for s in inside if s.voltage_v is not None]
            amps += [s.current_a for s in inside if s.current_a is not None]
    once, twice = (_mean(blocks[multiple], rows) for multiple in (1, 2))
    done = math.fsum(_span(row).seconds for row in rows)
    time_ms = done / sum(int(row["operations"]) for row in rows) * 1e3
    head = rows[0]
    short = time_ms / 1e3 < ALONE_PERIODS * limits.period_s
    return Result(
        head["category"], head["algorithm"], head["operation"], head["sizes_bytes"].get("payload"),
        once, twice, _additive(once, twice), len(rows), time_ms, _middle(watts), _middle(volts),
        _middle(amps), "not resolvable: shorter than two samples" if short else "resolvable by length",
        once.reason,
    )  # fmt: skip


def _mean(blocks: list[Energy], rows: list[dict[str, Any]]) -> Energy:
    if not blocks:
        return _without(int(rows[0]["operations"]), "no block of this size was made")
    return between_blocks(blocks)


def _additive(once: Energy, twice: Energy) -> tuple[bool, float, float] | None:
    if twice.operations != 2 * once.operations:
        return None
    return additive(once, twice)


def _without(operations: int, reason: str) -> Energy:
    return Energy(None, None, None, None, None, None, operations, None, reason, {})


def _middle(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
