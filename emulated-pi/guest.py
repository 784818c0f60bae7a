"""Runs inside the emulated Pi: the sampler on a real I²C bus whose registers a writer plays. See README.md.

Prints one line a check and writes result.json; the exit code is the number of failed checks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import player
from joules import check_energy

from pqtelemetry.errors import TelemetryError
from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.bus import STUB_ADAPTER, LinuxBus, adapter_name, sensor_class
from pqtelemetry.power.rawfile import GAP, read_notes, read_raw
from pqtelemetry.readers.base import Instant
from pqtelemetry.readers.thermal import find_temperatures
from pqtelemetry.segments import older

OUT = Path("/tmp/out")
RAW = OUT / "power.bin"
TRUTH = OUT / "truth.csv"
CHIP, LM75 = 0x40, 0x48
RATE_HZ = 100.0
RESULTS: list[dict[str, Any]] = []


class CheckFailedError(Exception):
    """What was seen in place of what had to be."""


def expect(condition: bool, seen: object) -> None:
    """Raise CheckFailedError with what was seen."""
    if not condition:
        raise CheckFailedError(str(seen)[:400])


def check(name: str, test: Callable[[], object]) -> None:
    """Run one check and note its outcome."""
    begin_s = time.monotonic()
    try:
        told, passed = test(), True
    except (CheckFailedError, TelemetryError, OSError, subprocess.SubprocessError, ValueError) as error:
        told, passed = f"{type(error).__name__}: {error}", False
    seconds = round(time.monotonic() - begin_s, 1)
    RESULTS.append({"check": name, "passed": passed, "seconds": seconds, "told": told})
    print(f"[{'x' if passed else ' '}] {name} ({seconds} s): {told}", flush=True)


def bus_number() -> int:
    """The stub's, whatever the kernel calls it."""
    for path in sorted(Path("/sys/class/i2c-dev").glob("i2c-*")):
        number = int(path.name.removeprefix("i2c-"))
        if STUB_ADAPTER in (adapter_name(number) or ""):
            return number
    raise CheckFailedError("no i2c-stub adapter")


def settings(**more: Any) -> Path:
    """A settings file."""
    path = Path("/tmp/power.json")
    given = {"sensor": "ina219-stub", "bus": bus_number(), "rate_hz": RATE_HZ, "adc": "9bit", **more}
    path.write_text(json.dumps(given))
    return path


def sampler(given: Path, *more: str) -> subprocess.Popen[str]:
    """The fast sampler, as the resident one starts it."""
    command = [sys.executable, "-m", "pqtelemetry", "power", "--settings", str(given), "--out", str(RAW)]
    return subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refused(told: str, as_user: int | None = None, **more: Any) -> str:
    """The sampler must end with code 4 and that reason."""
    given = settings(**more)
    command = [sys.executable, "-m", "pqtelemetry", "power", "--settings", str(given), "--out", "/tmp/no.bin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, user=as_user)
    said = done.stderr.strip().splitlines()
    expect(done.returncode == 4 and bool(said) and told in said[0], done.stderr or done.stdout)
    return said[0].removeprefix("pqtelemetry: ")


# ---------------------------------------------------------------------- the bus itself


def real_bus() -> str:
    """A character device of the kernel's I²C layer, known to be a stub."""
    number = bus_number()
    expect(Path(f"/dev/i2c-{number}").is_char_device(), "no /dev node")
    expect(sensor_class(number) == "stub-bus", sensor_class(number))
    return f"/dev/i2c-{number}, {adapter_name(number)}"


def byte_order_and_scale() -> str:
    """Bytes as the data sheet has them on the wire, written without the driver, read through it."""
    import smbus2

    with smbus2.SMBus(bus_number()) as raw:
        # 60 mV = 6000 counts = 0x1770, high byte first; SMBus sends the low byte of its word first
        raw.write_word_data(CHIP, reg.SHUNT, 0x7017)
        raw.write_word_data(CHIP, reg.BUS, 0xDA27)  # 5.1 V = 1275 counts, shifted by 3, CNVR set: 0x27DA
    with LinuxBus(bus_number(), CHIP) as bus:
        volts, shunt_v = reg.bus_volts(bus.read(reg.BUS)), reg.shunt_volts(bus.read(reg.SHUNT))
        bus.write(reg.CONFIG, reg.CONFIG_AT_RESET)
    with smbus2.SMBus(bus_number()) as raw:
        swapped = raw.read_word_data(CHIP, reg.CONFIG)
    expect((round(volts, 6), round(shunt_v, 6), swapped) == (5.1, 0.06, 0x9F39), (volts, shunt_v, swapped))
    return "5.1 V and 60 mV from the bytes of the data sheet; 0x399F leaves as 39 9F"


def swapped_is_refused() -> str:
    """Registers that somebody filled in SMBus order."""
    with LinuxBus(bus_number(), CHIP) as bus:
        bus.write(reg.CONFIG, 0x9F39)
    try:
        return refused("swapped")
    finally:
        with LinuxBus(bus_number(), CHIP) as bus:
            bus.write(reg.CONFIG, reg.CONFIG_AT_RESET)


def still(volts: float, amps: float, jitter: bool) -> player.Player:
    """A rail that stays where it is."""
    return player.Player(bus_number(), lambda _t: (volts, amps), jitter=jitter)


def implausible_rail() -> str:
    """3.6 V where 5 V is said to be."""
    with still(3.6, 0.6, jitter=True):
        return refused("the rail reads 3.60 V")


def constant_sensor() -> str:
    """Registers that never move are no live sensor."""
    with still(5.1, 0.6, jitter=False):
        return refused("are all exactly")


def busy_address() -> str:
    """A kernel driver holds 0x48; its temperature comes out of hwmon, and its address is busy for us."""
    import smbus2

    number = bus_number()
    with smbus2.SMBus(number) as raw:
        raw.write_word_data(LM75, 0, 0x8019)  # 25.5 °C: 0x1980, high byte first
    Path(f"/sys/bus/i2c/devices/i2c-{number}/new_device").write_text("lm75 0x48")
    temperatures = [sample for r in find_temperatures(Path("/")) for sample in r.read(Instant(0, 0, 0))]
    values = [sample.fields["temperature_c"] for sample in temperatures]
    expect(25.5 in values, values)
    return f"hwmon 25.5 °C; {refused('busy', address=LM75)}"


# ---------------------------------------------------------------------- joules


def run_for(given: Path, seconds: float) -> dict[str, Any]:
    """One run of the sampler; its accounting."""
    child = sampler(given, "--duration-s", str(seconds))
    out, complaint = child.communicate(timeout=120)
    expect(child.returncode == 0, complaint)
    counts: dict[str, Any] = json.loads(out.splitlines()[-1])["accounting"]
    return counts


def energy_across_a_range_change() -> object:
    """Ten seconds at ± 320 mV, ten at ± 160 mV: the joules of both against what was played."""
    with player.Player(bus_number(), player.square, jitter=True, log=TRUTH):
        counts = [run_for(settings(shunt_range_mv=range_mv), 10.0) for range_mv in (320, 160)]
    parts = [check_energy(path, TRUTH, expect) for path in (older(RAW), RAW)]
    ranges = [read_raw(path).header["shunt_range_mv"] for path in (older(RAW), RAW)]
    expect(ranges == [320, 160], ranges)
    for row in counts:
        total = row["got_count"] + row["late_count"] + row["lost_count"]
        expect(row["expected_count"] == total, row)
    return {"parts": parts, "accounting": counts}


def energy_across_a_gap() -> object:
    """The adapter's module goes while the sampler runs, and comes back: a gap with its reason, no zero."""
    RAW.unlink(missing_ok=True)
    playing = player.Player(bus_number(), player.square, jitter=True, log=TRUTH).start()
    child = sampler(settings(shunt_range_mv=320))
    try:
        time.sleep(12.0)
        playing.stop()
        # the sampler holds the adapter open, so it has to be forced, and waits until the sampler lets go
        unload = subprocess.run(
            ["rmmod", "-f", "i2c-stub"], capture_output=True, text=True, timeout=60, check=False
        )
        expect(unload.returncode == 0, unload.stderr)
        time.sleep(3.0)
        subprocess.run(["modprobe", "i2c-stub", f"chip_addr={CHIP},{LM75}"], check=True, timeout=30)
        playing = player.Player(bus_number(), player.square, jitter=True, log=TRUTH, append=True).start()
        time.sleep(10.0)
    finally:
        playing.stop()
        child.send_signal(signal.SIGTERM)
        out, complaint = child.communicate(timeout=60)
    expect(child.returncode == 0, complaint)
    reasons = [row["reason"] for row in read_notes(RAW) if "reason" in row and not row["end"]]
    expect(any("is gone" in reason for reason in reasons), reasons)
    lines = [json.loads(line) for line in out.splitlines()]
    dead = [line for line in lines if line.get("n") == 0]
    expect(bool(dead) and all(line["reason"] and "power_w" not in line for line in dead), dead[:3])
    samples = read_raw(RAW).samples
    gap = [sample for sample in samples if sample.flags & GAP]
    expect(bool(gap) and not any(sample.power_w == 0.0 for sample in samples), "a zero for want of a value")
    parts = [check_energy(RAW, TRUTH, expect, part) for part in ("before", "after")]
    refusal = check_energy(RAW, TRUTH, expect, "across")
    return {"reasons": sorted(set(reasons)), "parts": parts, "across": refusal}


def main() -> int:
    """All checks, in order; returns how many failed."""
    check("a real bus", real_bus)
    check("byte order and scale", byte_order_and_scale)
    check("swapped registers are refused", swapped_is_refused)
    check("a stub is used only by name", lambda: refused("not a board's", sensor="ina219"))
    check("nobody at 0x41", lambda: refused("failed: ", address=0x41))
    check("no such bus", lambda: refused("cannot be opened: No such file", bus=77))
    check("no permission", lambda: refused("cannot be opened: Permission denied", as_user=65534))
    check("an implausible rail is refused", implausible_rail)
    check("a constant sensor is refused", constant_sensor)
    check("an address that a driver holds", busy_address)
    check("joules across a range change", energy_across_a_range_change)
    check("joules before and after a gap", energy_across_a_gap)
    failed = sum(not row["passed"] for row in RESULTS)
    document = {"kernel": os.uname().release, "rate_hz": RATE_HZ, "failed": failed, "checks": RESULTS}
    (OUT / "result.json").write_text(json.dumps(document, indent=2) + "\n")
    print(f"{len(RESULTS) - failed} of {len(RESULTS)} checks passed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
