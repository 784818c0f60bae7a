"""Command line: `sample` runs the resident sampler, `facts` prints host and sensors.

`power`, `power-slice`, `power-cost` and `calibrate` are in pqtelemetry.power.verbs.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pqbase.ending import STDIN_HELP, STDIN_OPTION, watch_stdin
from pqbase.net import host_and_port
from pqbase.text import speak_utf8
from pqtelemetry import __version__
from pqtelemetry.clock import SystemClock
from pqtelemetry.collector import Collector
from pqtelemetry.errors import TelemetryError, UsageError
from pqtelemetry.filestore import FileStore
from pqtelemetry.host import find_readers, host_facts
from pqtelemetry.power import verbs as power_verbs
from pqtelemetry.power.resident import FastPower
from pqtelemetry.power.settings import SENSORS as FAST_SENSORS
from pqtelemetry.power.settings import PowerSettings
from pqtelemetry.power.verdict import power_row
from pqtelemetry.readers.base import Instant
from pqtelemetry.readers.power import POWER_SENSORS
from pqtelemetry.sampler import Sampler
from pqtelemetry.schedule import Schedule
from pqtelemetry.telegraf import TelegrafWriter

EXIT_OK, EXIT_USAGE, EXIT_ENVIRONMENT = 0, 2, 4


def parse_address(text: str) -> tuple[str, int] | None:
    """`host:port`, or None for `none`; raises UsageError."""
    if text == "none":
        return None
    try:
        return host_and_port(text)
    except ValueError as error:
        raise UsageError(f"--telegraf {text!r} is neither host:port nor none") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pqtelemetry", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    sample = verbs.add_parser("sample", help="run the sampler until SIGTERM")
    sample.add_argument("--role", required=True, help="value of the tag host, e.g. drone or gcs")
    sample.add_argument("--ring", required=True, choices=("sim", "lab", "hardware"), help="tag ring")
    sample.add_argument("--rate-hz", type=float, default=10.0, help="samples a second (default 10)")
    sample.add_argument("--pid", type=int, help="process whose CPU and memory are sampled")
    sample.add_argument("--counters", type=Path, help="counters.json of the tunnel agent")
    sample.add_argument("--out", type=Path, required=True, help="telemetry file; older lines in <out>.1 …")
    power_verbs.add_bound(sample)
    sample.add_argument("--telegraf", default="none", help="host:port of Telegraf's TCP listener, or none")
    sample.add_argument("--power", default="none", choices=POWER_SENSORS, help="power sensor by name")
    sample.add_argument("--power-raw", type=Path, help="a fast sensor's raw file (power.bin beside --out)")
    sample.add_argument("--seed", type=int, default=1, help="seed of the synthetic power sensor")
    sample.add_argument("--duration-s", type=float, help="end after this time (default: at SIGTERM)")
    sample.add_argument(
        "--exit-with-parent", action="store_true", help="end when the process that started the sampler ends"
    )
    sample.add_argument(STDIN_OPTION, action="store_true", help=STDIN_HELP)
    power_verbs.add(verbs)
    facts = verbs.add_parser("facts", help="print host facts and sensors as JSON")
    facts.add_argument("--power", default="none", choices=POWER_SENSORS, help="power sensor by name")
    facts.add_argument("--power-raw", type=Path, help="raw file of the running sampler: tells its verdict")
    for verb in (sample, facts):
        verb.add_argument("--power-settings", type=Path, help="settings of a power sensor (JSON)")
        verb.add_argument("--root", type=Path, default=Path("/"), help="where proc and sys are (default /)")
    return parser


def _sample(args: argparse.Namespace) -> int:
    if not 0.1 <= args.rate_hz <= 1000:
        raise UsageError(f"--rate-hz {args.rate_hz} is outside 0.1 to 1000")
    power_verbs.check_bound(args)
    address = parse_address(args.telegraf)
    if args.power in FAST_SENSORS:
        PowerSettings.named(args.power, args.power_settings)  # a wrong file is said here, not in a loop
    clock = power_verbs.bounded_clock(
        args.duration_s, with_parent=args.exit_with_parent, rate_hz=args.rate_hz
    )
    if args.stop_with_stdin:
        watch_stdin(clock.stop)
    tags = (("host", args.role), ("ring", args.ring))
    raw = args.power_raw or args.out.with_name("power.bin")
    readers = find_readers(
        args.root, args.pid, args.counters, args.power, args.seed, args.power_settings, raw
    )
    store = FileStore(args.out, args.max_bytes)
    forwarder = TelegrafWriter(*address) if address else None
    sampler = Sampler(
        schedule=Schedule(clock.monotonic_ns(), round(1e9 / args.rate_hz)),
        collector=Collector(readers, tags, args.rate_hz),
        clock=clock,
        store=store,
        common_tags=tags,
        forwarder=forwarder,
    )
    if forwarder:
        forwarder.start()
    gc.freeze()  # nothing made so far is garbage: keep the collector's passes short
    try:
        sampler.run()
    finally:
        for reader in readers:
            if isinstance(reader, FastPower):
                reader.close()
        store.close()
        if forwarder:
            forwarder.close()
    schedule = sampler.schedule
    summary: dict[str, object] = {
        "expected_count": schedule.expected_count,
        "got_count": schedule.got_count,
        "late_count": schedule.late_count,
        "lost_count": schedule.lost_count,
        "stored_count": sampler.stored_count,
        "telegraf_sent_lines": forwarder.sent_count if forwarder else None,
        "telegraf_dropped_lines": forwarder.dropped_count if forwarder else None,
        "cpu_pct": round(100 * time.process_time() / max(1e-9, _wall_s(clock, schedule)), 3),
    }
    print(json.dumps(summary), flush=True)
    return EXIT_OK


def _wall_s(clock: SystemClock, schedule: Schedule) -> float:
    return (clock.monotonic_ns() - schedule.start_ns) / 1e9


def _facts(args: argparse.Namespace) -> int:
    readers = find_readers(args.root, None, None, args.power, 1, args.power_settings)
    now = Instant(0, time.monotonic_ns(), time.time_ns())
    sensors = Collector(readers, (), 10.0).sensors(now)
    cpu = next(row for row in sensors if row["name"] == "cpu")
    if all(row["name"] != "steal" for row in sensors):
        # Steal is the eighth column of the cpu line: there whenever that line can be read.
        sensors.insert(1, {"name": "steal", "available": cpu["available"], "reason": cpu["reason"]})
    if args.power in FAST_SENSORS:
        settings = PowerSettings.named(args.power, args.power_settings)
        folder = args.power_settings.parent if args.power_settings else Path()
        row = power_row(settings, folder, args.power_raw)
        sensors = [row if sensor["name"] == "power" else sensor for sensor in sensors]
    print(json.dumps({"host": host_facts(args.root), "sensors": sensors}, indent=2, ensure_ascii=False))
    return EXIT_OK


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (0 done, 2 usage, 4 environment)."""
    speak_utf8()
    args = _parser().parse_args(argv)
    try:
        return {"sample": _sample, "facts": _facts, **power_verbs.TABLE}[args.verb](args)
    except TelemetryError as error:
        print(error.text("pqtelemetry"), file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ENVIRONMENT
