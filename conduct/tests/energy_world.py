"""A board in virtual time: operations that take time and power, the software INA219 beside them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.device import Ina219
from pqtelemetry.ina219.model import Ina219Model
from pqtelemetry.ina219.registers import Mode
from pqtelemetry.power.loop import PowerLoop
from pqtelemetry.power.rawfile import RawWriter
from pqtelemetry.schedule import Schedule
from pqtunnel.bench import energy
from pqtunnel.bench.operations import Benchmark

RAIL_V, IDLE_A = 5.1, 0.6
MS = 1_000_000
CALIBRATION = Calibration(
    "model", "B", 0.1, "2026-01-01", "model", Line(1, 0, 0.002, 9), Line(1, 0, 0.004, 9)
)


class World:
    """Virtual clock for the energy mode; remembers when the rail carried how much."""

    def __init__(self) -> None:
        self.now_ns = 10 * MS
        self._starts: list[int] = [0]
        self._amps: list[float] = [IDLE_A]

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self._draw(IDLE_A)
        self.now_ns += round(seconds * 1e9)

    def operation(
        self, name: str, cost_ns: int, extra_a: float, category: str = "kem", payload: int | None = None
    ) -> Benchmark:
        """An operation of `cost_ns` during which the rail carries `extra_a` more."""

        def step() -> None:
            self._draw(IDLE_A + extra_a)
            self.now_ns += cost_ns

        algorithm, _, operation = name.rpartition(" ")
        stem = name.replace(" ", "_") + ("" if payload is None else f"_{payload}B")
        sizes = {} if payload is None else {"payload": payload}
        return Benchmark(category, stem, algorithm, operation, lambda: step, False, sizes)

    def _draw(self, amps: float) -> None:
        if amps != self._amps[-1]:
            self._starts.append(self.now_ns)
            self._amps.append(amps)

    def load(self, t_s: float) -> tuple[float, float]:
        """The rail at a time, for the sensor's model."""
        return RAIL_V, self._amps[bisect_right(self._starts, round(t_s * 1e9)) - 1]


class _Until:
    """The sampler's clock: jumps from deadline to deadline, and runs a thing at its time."""

    def __init__(self, end_ns: int, at_ns: int | None, thing: Callable[[], None]) -> None:
        self.now_ns, self._end_ns, self._at_ns, self._thing = 0, end_ns, at_ns, thing

    def monotonic_ns(self) -> int:
        return self.now_ns

    def realtime_ns(self) -> int:
        return self.now_ns

    def wait_until(self, deadline_ns: int) -> bool:
        self.now_ns = max(self.now_ns, deadline_ns)
        if self._at_ns is not None and self.now_ns >= self._at_ns:
            self._at_ns = None
            self._thing()
        return self.now_ns < self._end_ns


def energy_folder(
    root: Path,
    world: World,
    benchmarks: list[Benchmark],
    *,
    dies_at: float | None = None,
    max_bytes: int | None = None,
) -> None:
    """A finished energy folder: blocks of `benchmarks`, and what the model saw of them at 1 kHz.

    dies_at: share of the run after which the sensor is unplugged for good. max_bytes: of all segments.
    """
    root.mkdir()
    plan = energy.Plan(1.0, 1.0, 5, 7)
    facts: dict[str, Any] = {
        "mode": "energy",
        "host": "virtual",
        "build": "b",
        "machine": "none",
        "board": None,
        "cpu": "none",
        "kernel": "none",
        "governor": None,
        "pinned_cpu": None,
        "load_average": [0, 0, 0],
        "timer_overhead_ns": 0,
    }
    sensor: dict[str, Any] = {
        "sensor": "ina219",
        "sensor_class": "model",
        "mode": "9bit",
        "rate_hz": 1000,
        "realtime_offset_ns": 0,
        "calibration": CALIBRATION.to_json(),
        "shunt_ohm": 0.1,
        "conversion_us": {"typical": 168, "greatest": 186},
    }
    lines = [energy.header(plan, facts, sensor)]
    lines += [json.dumps(row) for row in energy.rows(energy.order(benchmarks, plan), plan, world)]
    (root / "blocks.ndjson").write_text("\n".join(lines) + "\n")
    (root / "environment.json").write_text(json.dumps({**facts, "power": sensor}))
    end_ns = world.now_ns + 50 * MS
    holder: list[Ina219Model] = []

    def unplug() -> None:
        holder[0].unplugged = True

    clock = _Until(end_ns, None if dies_at is None else int(end_ns * dies_at), unplug)
    holder.append(Ina219Model(world.load, lambda: clock.now_ns / 1e9, steps=1))
    chip = Ina219(holder[0], CALIBRATION, Mode(adc="9bit"))
    chip.set_up()
    writer = RawWriter(root / "power.bin", sensor, max_bytes, lambda: clock.now_ns % 1000)
    PowerLoop(chip, Schedule(MS, MS), clock, writer, lambda _line: None, writer.gap).run()
    writer.close()
