"""The command line's power verbs: `power`, `power-slice`, `power-cost`, `power-schedule`, `calibrate`."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pqbase.documents import rows_of
from pqtelemetry.clock import SystemClock
from pqtelemetry.errors import UsageError
from pqtelemetry.ina219 import native
from pqtelemetry.parent import is_gone
from pqtelemetry.power import command
from pqtelemetry.power.settings import SENSORS, PowerSettings
from pqtelemetry.segments import MOST_BYTES

Verb = Callable[[argparse.Namespace], int]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verbs."""
    power = verbs.add_parser("power", help="sample power fast, into a raw file")
    power.add_argument("--settings", type=Path, help="JSON file, see docs/POWER.md")
    power.add_argument("--sensor", choices=SENSORS, help="sensor by name; the file must mean the same")
    power.add_argument("--out", type=Path, required=True, help="raw file; those before it: <out>.1 …")
    add_bound(power)
    power.add_argument("--duration-s", type=float, help="end after this time (default: at SIGTERM)")
    power.add_argument(
        "--cpu", type=int, help="core to stay on with real-time priority (default: the last one)"
    )
    power.add_argument("--exit-with-parent", action="store_true", help="end with the process that started it")
    piece = verbs.add_parser("power-slice", help="print a span of a raw power file: JSON header, then CSV")
    piece.add_argument("--raw", type=Path, required=True, help="the raw file; <raw>.1 is read as well")
    piece.add_argument("--from-ns", type=int, required=True, help="realtime")
    piece.add_argument("--to-ns", type=int, required=True, help="realtime")
    dear = verbs.add_parser("power-cost", help="measure what the fast sampler itself costs, on and off")
    dear.add_argument("--settings", type=Path, help="JSON file (default: the software model at 1 kHz)")
    dear.add_argument("--rounds", type=int, default=5, help="pairs of off and on (default 5)")
    dear.add_argument("--round-s", type=float, default=4.0, help="length of each (default 4)")
    row = verbs.add_parser(
        "power-schedule", help="measure how well the fast sampler keeps its schedule, beside a bare loop"
    )
    row.add_argument("--settings", type=Path, help="JSON file (default: the software model at 1 kHz)")
    row.add_argument("--rounds", type=int, default=5, help="pairs of sampler and bare loop (default 5)")
    row.add_argument("--round-s", type=float, default=10.0, help="length of each (default 10)")
    row.add_argument("--json", action="store_true", help="print all of it as JSON")
    bare = verbs.add_parser("power-bare", help="the bare loop of power-schedule: wake up, take no sample")
    bare.add_argument("--duration-s", type=float, required=True, help="length")
    bare.add_argument("--rate-hz", type=float, default=1000.0, help="wake-ups a second (default 1000)")
    line = verbs.add_parser("calibrate", help="make a calibration file from known loads")
    line.add_argument("--settings", type=Path, required=True, help="JSON file of the sensor")
    line.add_argument("--sensor-id", required=True, help="what is written on the board")
    line.add_argument("--method", required=True, help="how the loads are known, e.g. meter and its accuracy")
    line.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="VOLTS,AMPS",
        help="a known load, read from the sensor after you set it; three different ones or more",
    )
    line.add_argument("--given", type=Path, help="CSV true_v,true_a,read_v,read_a in place of the sensor")
    line.add_argument("--out", type=Path, required=True, help="calibration file")


def bounded_clock(duration_s: float | None, *, with_parent: bool, rate_hz: float) -> SystemClock:
    """A clock that stops at a signal, after a time, or with the parent: seen ten times a second."""
    end_ns = None if duration_s is None else time.monotonic_ns() + int(duration_s * 1e9)

    def still_wanted() -> bool:
        if with_parent and is_gone():
            return False
        return end_ns is None or time.monotonic_ns() < end_ns

    # the native loop comes back for its next wait ten times a second, the Python one for every sample
    clock = SystemClock(still_wanted, 1 if native.AVAILABLE else max(1, int(rate_hz / 10)))
    clock.install_signals()
    return clock


def teller() -> Callable[[str], None]:
    """Prints lines; into a pipe without ever waiting, since a reader that was stopped must not stop us."""
    if not stat.S_ISFIFO(os.fstat(1).st_mode):
        return lambda line: print(line, flush=True)
    if sys.platform == "win32":
        raise OSError("Linux alone: verbs.linux_only refuses it")
    os.set_blocking(1, False)

    def tell(line: str) -> None:
        try:
            os.write(1, line.encode() + b"\n")
        except BlockingIOError:
            return  # the pipe is full: the raw file still has every sample of this line
        except BrokenPipeError:
            return  # nobody reads any more; --exit-with-parent ends us

    return tell


def add_bound(verb: argparse.ArgumentParser) -> None:
    """Declare the bound of a file in segments."""
    most = f"{MOST_BYTES >> 20} MiB, or a quarter of a smaller disk"
    verb.add_argument("--max-bytes", type=int, help=f"bound of all segments together (default {most})")


def check_bound(args: argparse.Namespace) -> None:
    """Raises UsageError for a bound that holds next to nothing."""
    if args.max_bytes is not None and args.max_bytes < 65_536:
        raise UsageError(f"--max-bytes {args.max_bytes} is less than 65536: a few seconds of samples")


def _power(args: argparse.Namespace) -> int:
    if args.settings is None and args.sensor is None:
        raise UsageError("neither --settings nor --sensor says which sensor is meant")
    check_bound(args)
    sensor = args.sensor or PowerSettings.load(args.settings).sensor
    settings = PowerSettings.named(sensor, args.settings)
    folder = args.settings.parent if args.settings else Path()
    clock = bounded_clock(args.duration_s, with_parent=args.exit_with_parent, rate_hz=settings.rate_hz)
    command.run(settings, folder, args.out, clock, teller(), args.max_bytes, args.cpu)
    return 0


def _slice(args: argparse.Namespace) -> int:
    from pqtelemetry.power import cut

    if args.to_ns < args.from_ns:
        raise UsageError("--to-ns lies before --from-ns")
    for text in cut.slice_text(args.raw, args.from_ns, args.to_ns):
        sys.stdout.write(text)
    return 0


def _cost(args: argparse.Namespace) -> int:
    from pqtelemetry.power import cost

    result = cost.measure(args.settings, args.rounds, args.round_s)
    print(json.dumps(result, indent=2))
    return 0


def _schedule(args: argparse.Namespace) -> int:
    from pqtelemetry.power import punctual

    result = punctual.measure(args.settings, args.rounds, args.round_s)
    print(json.dumps(result, indent=2) if args.json else punctual.table(result))
    return 0 if all(row["met"] for row in rows_of(result, "targets")) else 1


def _bare(args: argparse.Namespace) -> int:
    from pqtelemetry.power import punctual

    print(json.dumps(punctual.bare(args.duration_s, args.rate_hz, SystemClock())))
    return 0


def _calibrate(args: argparse.Namespace) -> int:
    from pqtelemetry.power import calibrate

    settings = PowerSettings.load(args.settings)
    if args.given is not None:
        loads = calibrate.given(args.given)
    else:
        loads = calibrate.read_sensor(settings, calibrate.parse_loads(args.load), input)
    made = calibrate.make(settings, args.sensor_id, args.method, loads)
    calibrate.store(made, args.out)
    print(json.dumps(made.to_json(), indent=2))
    return 0


def linux_only(verb: Verb, *, platform: str = sys.platform) -> Verb:
    """`verb`, or its refusal where the kernel has no real-time class to ask for and no I²C bus."""

    def refuse(args: argparse.Namespace) -> int:
        raise UsageError(
            f"{args.verb} runs on Linux alone", hint="run it on the board that the power sensor is wired to"
        )

    return verb if platform == "linux" else refuse


TABLE: Final[dict[str, Verb]] = {
    "power": linux_only(_power), "power-slice": _slice, "power-cost": linux_only(_cost),
    "power-schedule": linux_only(_schedule), "power-bare": linux_only(_bare), "calibrate": _calibrate,
}  # fmt: skip
