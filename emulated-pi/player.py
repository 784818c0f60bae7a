"""Plays a load into the stub's registers, as a converter would fill them, and writes down what it played."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.bus import LinuxBus

ADDRESS = 0x40
SHUNT_OHM = 0.1
STEP_S = 0.02

Load = Callable[[float], tuple[float, float]]


def square(t_s: float) -> tuple[float, float]:
    """5.1 V; 0.6 A and 1.0 A, half a second each."""
    return 5.1, 0.6 + 0.4 * (int(t_s * 2) % 2)


class Player:
    """A process of its own that plays `load` until it is stopped; as a context it plays within."""

    def __init__(
        self, bus: int, load: Load, *, jitter: bool, log: Path | None = None, append: bool = False
    ) -> None:
        volts, amps = load(0.0)
        name = "square" if load is square else f"{volts},{amps}"
        self._command = [sys.executable, __file__, str(bus), name, str(int(jitter)), str(log or "-")]
        self._command += ["a" if append else "w"]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Player:
        """Play; returns once the first values are in the registers."""
        self._child = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._child.stdout is not None
        self._child.stdout.readline()
        return self

    def stop(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.terminate()
            child.wait()

    def __enter__(self) -> Player:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def play(bus: LinuxBus, load: Load, jitter: bool, log: Path | None, mode: str) -> None:
    """A value pair every STEP_S; the log's row is its time and the load before any rounding."""
    file = log.open(mode, buffering=1) if log is not None else None
    bus.write(reg.CONFIG, reg.CONFIG_AT_RESET)
    start_s = time.monotonic()
    step = 0
    while True:
        volts, amps = load(step * STEP_S)
        wobble = (step % 2 * 2 - 1) if jitter else 0  # one count up and down: its mean is the load
        shunt_v = amps * SHUNT_OHM + wobble * reg.SHUNT_LSB_V
        bus_v = volts + wobble * reg.BUS_LSB_V
        before_ns = time.monotonic_ns()
        bus.write(reg.SHUNT, reg.shunt_word(shunt_v, 320))
        bus.write(reg.BUS, reg.bus_word(bus_v, 16, ready=True, overflow=False))
        after_ns = time.monotonic_ns()
        if file is not None:
            file.write(f"{(before_ns + after_ns) // 2},{volts},{amps}\n")
        if step == 0:
            print("playing", flush=True)
        step += 1
        time.sleep(max(0.0, start_s + step * STEP_S - time.monotonic()))


def main(arguments: list[str]) -> None:
    """BUS NAME JITTER LOG MODE."""
    number, name, jitter, log, mode = arguments
    load = square
    if name != "square":
        volts, amps = (float(part) for part in name.split(","))

        def load(_t_s: float) -> tuple[float, float]:
            return volts, amps

    with LinuxBus(int(number), ADDRESS) as bus:
        play(bus, load, jitter == "1", None if log == "-" else Path(log), mode)


if __name__ == "__main__":
    main(sys.argv[1:])
