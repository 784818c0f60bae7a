"""`pqtelemetry power`: preflight, then the fast loop; JSON lines for the resident sampler on standard output.

{"ready": {…header…}}                                     once, after the preflight
{"t_mono_ns", "n", "voltage_v", "current_a", "power_w"}   ten times a second; n = 0 carries a reason
{"accounting": {…}}                                       once, at the end

The preflight's verdict is also left beside the raw file (`<out>.verdict.json`), for `facts`.
"""

from __future__ import annotations

import gc
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqtelemetry.clock import SystemClock
from pqtelemetry.errors import StoreError, TelemetryError
from pqtelemetry.ina219 import native
from pqtelemetry.ina219.bus import LinuxBus, RegisterBus, adapter_name, sensor_class
from pqtelemetry.ina219.calibration import Calibration
from pqtelemetry.ina219.device import Ina219, Rail, Reading, SensorRefused, check_plausible
from pqtelemetry.ina219.model import Ina219Model, normal_noise
from pqtelemetry.power.loop import PowerLoop
from pqtelemetry.power.rawfile import RawWriter
from pqtelemetry.power.realtime import be_punctual
from pqtelemetry.power.settings import SENSORS, PowerSettings
from pqtelemetry.schedule import Schedule

PREFLIGHT_READINGS: Final = 50
MODEL_SEED: Final = 2
CLOCK_NOTE_EVERY: Final = 100
"""Lines between two notes of the realtime clock's offset: ten seconds."""
_PREFLIGHT_LIMIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sensor:
    """A chip that passed its preflight, and what it is."""

    chip: Ina219
    sensor_class: str
    adapter: str | None


def model_load(t_s: float) -> tuple[float, float]:
    """The model's rail: 5.1 V; 0.6 A, then 1.0 A for half of each second. Known, and no measurement."""
    return 5.1, 1.0 if t_s % 1.0 >= 0.5 else 0.6


def software_chip(shunt_ohm: float) -> RegisterBus:
    """The model in real time: the native loop's own, else the Python one. Both give the same words."""
    if native.AVAILABLE:
        return native.NativeModel(shunt_ohm, normal_noise(MODEL_SEED))
    return Ina219Model(model_load, time.monotonic, shunt_ohm, seed=MODEL_SEED, steps=1)


def open_sensor(settings: PowerSettings, calibration: Calibration, root: Path = Path("/")) -> Sensor:
    """Open, identify, set up, look at the first readings. Raises SensorRefused, BusSetupError, BusError."""
    bus: RegisterBus
    adapter: str | None = None
    if settings.sensor not in SENSORS:
        raise SensorRefused(
            f"{settings.sensor} is read at each tick, not sampled fast", hint=f"one of {', '.join(SENSORS)}"
        )
    if settings.sensor == "model":
        bus, kind = software_chip(settings.shunt_ohm), "model"
    else:
        bus, kind = LinuxBus(settings.bus, settings.address), sensor_class(settings.bus, root)
        adapter = adapter_name(settings.bus, root)
    chip = Ina219(bus, calibration, settings.mode)
    if kind == "stub-bus":
        if settings.sensor != "ina219-stub":
            raise SensorRefused(
                f"bus {settings.bus} is {adapter or 'an adapter without a name'}, not a board's",
                code="stub_bus",
                hint="a stub is used only when asked for by name: ina219-stub",
            )
        chip.identify_memory()
    else:
        chip.identify()
    chip.set_up()
    readings = first_readings(chip, PREFLIGHT_READINGS)
    check_plausible(readings, Rail(settings.rail_least_v, settings.rail_greatest_v, chip.greatest_current_a))
    return Sensor(chip, kind, adapter)


def first_readings(chip: Ina219, count: int) -> list[Reading]:
    """Up to `count` fresh readings, fewer when the chip does not convert within five seconds each fifty."""
    readings: list[Reading] = []
    give_up_s = time.monotonic() + _PREFLIGHT_LIMIT_S * max(1.0, count / PREFLIGHT_READINGS)
    while len(readings) < count and time.monotonic() < give_up_s:
        reading = chip.take()
        if reading is not None:
            readings.append(reading)
        time.sleep(max(chip.mode.greatest_conversion_us / 1e6, 1e-3))
    return readings


def header_of(settings: PowerSettings, sensor: Sensor, calibration: Calibration) -> dict[str, object]:
    """The raw file's header: everything a reader needs to turn samples into joules with an uncertainty."""
    mode = settings.mode
    return {
        "sensor": "ina219",
        "sensor_class": sensor.sensor_class,
        "adapter": sensor.adapter,
        "mode": mode.adc,
        "bus_range_v": mode.bus_range_v,
        "shunt_range_mv": mode.shunt_range_mv,
        "conversion_us": {"typical": mode.typical_conversion_us, "greatest": mode.greatest_conversion_us},
        "rate_hz": settings.rate_hz,
        "shunt_ohm": calibration.shunt_ohm,
        "grade": calibration.grade,
        "calibration": calibration.to_json(),
        "loop": "python" if sensor.chip.fast is None else "native",
        "realtime_offset_ns": offset_ns(),
    }


def offset_ns() -> int:
    """Realtime minus monotonic time, now."""
    return time.time_ns() - time.monotonic_ns()


def _clock_row() -> dict[str, object]:
    return {"t_mono_ns": time.monotonic_ns(), "realtime_offset_ns": offset_ns()}


def verdict_of(out: Path) -> Path:
    """Where the preflight of the sampler that writes `out` leaves its verdict."""
    return out.with_name(out.name + ".verdict.json")


def judged(settings: PowerSettings, calibration: Calibration) -> tuple[Sensor | None, Json]:
    """The preflight and its verdict as `facts` prints it; no sensor when it was refused."""
    row: Json = {"name": "power", "sensor": settings.sensor, "sensor_class": None, "raw": True}
    try:
        sensor = open_sensor(settings, calibration)
    except TelemetryError as error:
        return None, {**row, "available": False, "reason": str(error), "code": error.code, "hint": error.hint}
    told = {"rate_hz": settings.rate_hz, "adc": sensor.chip.mode.adc}
    return sensor, {**row, **told, "sensor_class": sensor.sensor_class, "available": True, "reason": None}


def run(
    settings: PowerSettings,
    folder: Path,
    out: Path,
    clock: SystemClock,
    say: Callable[[str], None],
    max_bytes: int | None = None,
    cpu: int | None = None,
) -> None:
    """Sample until the clock says stop; `cpu`: the core to stay on.

    Raises SensorRefused with the preflight's verdict, and StoreError.
    """
    calibration = settings.load_calibration(folder)
    sensor, verdict = judged(settings, calibration)
    unwritten: OSError | None = None
    try:
        verdict_of(out).write_text(json.dumps(verdict), encoding="utf-8")
    except OSError as error:
        unwritten = error
    # a refused sensor is the greater news than a folder that cannot be written
    if sensor is None:
        raise SensorRefused(str(verdict["reason"]), code=str(verdict["code"]), hint=str(verdict["hint"]))
    if unwritten is not None:
        raise StoreError(f"{verdict_of(out).name} cannot be written: {unwritten.strerror}") from unwritten
    header = {**header_of(settings, sensor, calibration), "scheduling": be_punctual(cpu)}
    writer = RawWriter(out, header, max_bytes, offset_ns)
    lines = 0

    def told(line: str) -> None:
        nonlocal lines
        lines += 1
        if lines % CLOCK_NOTE_EVERY == 1:
            writer.note(_clock_row())
        say(line)

    say(json.dumps({"ready": header}))
    schedule = Schedule(clock.monotonic_ns() + 1_000_000, round(1e9 / settings.rate_hz))
    loop = PowerLoop(sensor.chip, schedule, clock, writer, told, writer.gap)
    gc.collect()
    gc.freeze()
    gc.disable()  # the loop makes no cycles, and a collection is longer than half a period
    cpu_s, begin_s = time.process_time(), time.monotonic()
    try:
        loop.run()
    finally:
        gc.enable()
        wall_s = max(time.monotonic() - begin_s, 1e-9)
        cpu_pct = 100 * (time.process_time() - cpu_s) / wall_s
        within_pct = _within_half_ms_pct(loop)
        counts = {
            **loop.accounting,
            "dropped_count": writer.dropped,
            "cpu_pct": round(cpu_pct, 2),
            "within_half_ms_pct": within_pct,
        }
        writer.note({**_clock_row(), "accounting": counts})
        writer.close()
        say(json.dumps({"accounting": counts}))


def _within_half_ms_pct(loop: PowerLoop) -> float | None:
    """Share of expected samples that began within half a millisecond of their deadline."""
    expected = loop.schedule.expected_count
    share = 100.0 * loop.within_half_ms_count / expected if expected else math.nan
    return None if math.isnan(share) else round(share, 3)
