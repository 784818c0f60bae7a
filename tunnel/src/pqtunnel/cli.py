"""`pqtunnel keys | drone | gcs | suites | selftest | bench`.

Exit codes: 0 done · 2 usage or validation · 4 environment (missing library, key, port, folder).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from pqbase.documents import rows_of
from pqbase.ending import STDIN_HELP, STDIN_OPTION
from pqbase.text import speak_utf8
from pqtunnel import __version__, suites
from pqtunnel.config import VARIABLES, ConfigError, EndpointConfig, Role
from pqtunnel.errors import SuiteUnknown, TunnelError

if TYPE_CHECKING:
    from pqtunnel.bench.operations import Benchmark

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 4
EXIT_INTERRUPTED: Final = 130


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line as every other error: what, why, next; exit 2."""

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split())
        text = f"pqtunnel: {message} [usage]\n  why:  {usage}\n  next: ./{self.prog} --help"
        print(text, file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pqtunnel",
        description="Post-quantum MAVLink tunnel: endpoints, keys, suites.",
        epilog="Exit codes: 0 done, 2 usage or validation, 4 environment.",
    )
    parser.add_argument("--version", action="version", version=f"pqtunnel {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    keys = verbs.add_parser(
        "keys",
        help="make the lab's keys; what is valid is kept",
        description="Make the lab's keys, or complete what is there.",
    )
    keys.add_argument("--out", type=Path, default=Path("keys"), help="folder of the keys (default: keys)")
    keys.add_argument("--force", action="store_true", help="replace all keys; restart the lab afterwards")
    keys.add_argument(
        "--second-pin",
        action="store_true",
        help="begin a rotation: make the GCS's next identity, pin it at the drone too",
    )
    keys.add_argument(
        "--rotate",
        action="store_true",
        help="finish it: the next identity replaces the present one, whose pin goes",
    )
    keys.add_argument("--revoke", metavar="ID", help="take this drone's keys from the GCS, and make none")
    keys.add_argument("--owner", metavar="UID:GID", help="give all files to this user (needs root)")
    keys.add_argument("--json", action="store_true", help="print what was made and kept as JSON")

    for role, does in (("drone", "dials the handshake"), ("gcs", "accepts the handshake")):
        options = "\n".join(
            f"  --{_option(name):18} {name}: {text} (default: {default or 'none'})"
            for name, default, text in VARIABLES
        )
        endpoint = verbs.add_parser(
            role,
            help=f"run the {role} agent: {does}, serves RPC until SIGTERM",
            description=f"Run the {role} agent until SIGTERM. Every option has an environment variable of\n"
            f"the same meaning; the option wins.\n\n{options}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, _default, _text in VARIABLES:
            endpoint.add_argument(f"--{_option(name)}", dest=name, help=argparse.SUPPRESS)
        endpoint.add_argument(STDIN_OPTION, action="store_true", help=STDIN_HELP)

    listing = verbs.add_parser("suites", help="list the suites and what this host can do")
    listing.add_argument("glob", nargs="*", help="only these (default: the 72; xs-* lists those beside them)")
    listing.add_argument("--probe", action="store_true", help="try each suite's primitives on this host")
    listing.add_argument("--json", action="store_true", help="print JSON")

    bench = verbs.add_parser("bench", help="time every primitive, full handshakes, the embedded ladder")
    bench.add_argument(
        "--out", type=Path, required=True, help="result folder; what is finished there is kept"
    )
    bench.add_argument("--count", type=int, default=200, help="iterations a benchmark (default: 200)")
    bench.add_argument(
        "--set",
        choices=("published", "all", "ladder"),
        default="all",
        dest="which",
        help="98 files as in primitives-2026-01, everything, or the ladder",
    )
    bench.add_argument("--only", metavar="GLOB", help="only raw files whose category/name matches")
    bench.add_argument("--cpu", type=int, help="core to stay on (default: the last one)")
    bench.add_argument(
        "--mode",
        choices=("performance", "energy"),
        default="performance",
        help="single iterations, or batches between idle spans with a power sensor",
    )
    bench.add_argument("--power", choices=("ina219", "ina219-stub", "model"), help="energy mode: the sensor")
    bench.add_argument(
        "--power-settings",
        type=Path,
        metavar="FILE",
        help="energy mode: JSON of docs/POWER.md (shunt, bus, calibration, …)",
    )
    bench.add_argument("--blocks", type=int, default=5, help="energy mode: blocks a batch size (5 or more)")
    bench.add_argument("--block-s", type=float, default=1.5, help="energy mode: length of a block (≥ 1)")
    bench.add_argument("--seed", type=int, default=1, help="energy mode: seed of the order of blocks")
    bench.add_argument("--json", action="store_true", help="print the summary as JSON")

    selftest = verbs.add_parser("selftest", help="known-answer test of every primitive on this host")
    selftest.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _option(variable: str) -> str:
    return variable.removeprefix("PQ_").lower().replace("_", "-")


def _keys(args: argparse.Namespace) -> int:
    from pqtunnel.keys import provision, revoke
    from pqtunnel.primitives import load

    if args.revoke:
        revoke(args.out, args.revoke)
        print(
            json.dumps({"revoked": args.revoke, "out": str(args.out)})
            if args.json
            else f"drone {args.revoke} is revoked in {args.out}; restart the GCS's agent"
        )
        return EXIT_OK
    owner: tuple[int, int] | None = None
    if args.owner:
        uid, colon, gid = args.owner.partition(":")
        if not (colon and uid.isdigit() and gid.isdigit()):
            raise ConfigError(f"--owner is {args.owner!r}", hint="UID:GID in numbers, for instance 1000:1000")
        owner = int(uid), int(gid)
    tell = sys.stderr.isatty() and not args.json
    report = provision(
        args.out,
        load(),
        force=args.force,
        owner=owner,
        second_pin=args.second_pin,
        rotate=args.rotate,
        progress=lambda text: print(f"\r  {text:40}", end="", file=sys.stderr, flush=True) if tell else None,
    )
    if tell:
        print("\r" + " " * 44 + "\r", end="", file=sys.stderr)
    if args.json:
        document = {
            "made": report.made,
            "kept": report.kept,
            "others": report.others,
            "gcs_key_id": report.gcs_key_id,
            "next_key_id": report.next_key_id or None,
            "out": str(args.out),
        }
        print(json.dumps(document))
    else:
        print(f"keys in {args.out}: {len(report.made)} made, {len(report.kept)} kept, every pair proved")
        print(f"gcs key id {report.gcs_key_id[:16]}…, pinned at the drone")
        if report.next_key_id:
            print(f"next key id {report.next_key_id[:16]}…, pinned beside it; finish with --rotate")
        for other in report.others:
            print(f"the GCS also knows drone {other}; ./pqtunnel keys --revoke {other} takes its keys away")
        if report.made and report.kept:
            print("made: " + ", ".join(report.made))
    return EXIT_OK


def _endpoint(role: Role, args: argparse.Namespace) -> int:
    from pqtunnel.agent.main import run
    from pqtunnel.primitives import load

    environment = dict(os.environ)
    environment.update(
        {name: value for name, _, _ in VARIABLES if (value := getattr(args, name)) is not None}
    )
    config = EndpointConfig.from_environment(role, environment)
    return run(config, load(), stop_with_stdin=args.stop_with_stdin)


def _suites(args: argparse.Namespace) -> int:
    chosen = suites.match(args.glob or ["cs-*"])
    probed: dict[str, dict[str, str | None]] = {}
    if args.probe:
        from pqtunnel.probe import probe

        probed = probe()
    rows = [
        {
            "id": suite.id,
            "level": suite.level,
            "level_label": suite.level_label,
            "kem": suite.kem.name,
            "sig": suite.sig.name,
            "aead": suite.aead.name,
            "kem_lifecycle": suite.kem.lifecycle,
            "sig_lifecycle": suite.sig.lifecycle,
            **probed.get(suite.id, {}),
        }
        for suite in chosen
    ]
    if args.json:
        print(json.dumps(rows, indent=1))
        return EXIT_OK
    for row in rows:
        status = (
            f"  {row['status']}" + (f": {row['reason']}" if row.get("reason") else "") if args.probe else ""
        )
        print(f"{row['id']:50} {row['level_label']:>9}  {row['kem']} + {row['sig']} + {row['aead']}{status}")
    return EXIT_OK


def _selftest(args: argparse.Namespace) -> int:
    from pqtunnel.kat import selftest

    result = selftest()
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for item in rows_of(result, "items"):
            print(f"[{'x' if item['ok'] else ' '}] {item['name']}: {item['detail']}")
    return EXIT_OK if result["ok"] else EXIT_ENVIRONMENT


def _bench(args: argparse.Namespace) -> int:
    from pqtunnel.bench import runner
    from pqtunnel.bench.ladder import ladder_benchmarks
    from pqtunnel.bench.operations import all_benchmarks
    from pqtunnel.bench.progress import Progress
    from pqtunnel.primitives import load

    if not 1 <= args.count <= 100_000:
        raise ConfigError(f"--count {args.count} is outside 1 to 100000", hint="200 is the published number")
    chosen = [] if args.which == "ladder" else all_benchmarks(load())
    if args.which == "published":
        chosen = [benchmark for benchmark in chosen if benchmark.published]
    else:
        chosen += ladder_benchmarks()
    if args.only:
        chosen = [b for b in chosen if fnmatch.fnmatchcase(b.path.removesuffix(".json"), args.only)]
    if not chosen:
        raise ConfigError(f"--only {args.only!r} matches nothing", hint="for instance: --only 'kem/ML_KEM*'")
    if args.mode == "energy":
        return _bench_energy(args, chosen)
    if args.power is not None or args.power_settings is not None:
        raise ConfigError("a power sensor belongs to --mode energy", hint="the two modes are never mixed")
    result = runner.run(args.out, chosen, args.count, args.cpu, Progress(sys.stderr))
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for row in rows_of(result, "rows"):
            median = "no success" if row["median_ms"] is None else f"{row['median_ms']:12.4f} ms"
            print(f"{row['name']:64} {median}  n = {row['n']}")
        for check in rows_of(result, "checks"):
            print(f"[{'x' if check['passed'] else ' '}] {check['name']}: {check['observed']}")
    return EXIT_OK if result["ok"] else EXIT_ENVIRONMENT


def _bench_energy(args: argparse.Namespace, chosen: list[Benchmark]) -> int:
    from pqtunnel.bench import energy, energyrun
    from pqtunnel.bench.progress import Progress

    if args.blocks < energy.MIN_BLOCKS or not energy.MIN_BLOCK_S <= args.block_s <= 60:
        raise ConfigError(
            f"{args.blocks} blocks of {args.block_s:g} s", hint="at least 5 blocks of 1 to 60 s"
        )
    plan = energy.Plan(args.block_s, args.block_s, args.blocks, args.seed)
    result = energyrun.run(
        args.out, chosen, plan, args.cpu, args.power, args.power_settings, Progress(sys.stderr)
    )
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print(f"{result['blocks']} blocks of {result['operations']} operations; next: ./pqlab bench-report")
        lost_at = result["sampler_lost_at_block"]
        if lost_at is not None:
            print(f"the power sampler ended at block {lost_at}: no energy from there on")
        if result["samples_dropped"]:
            print(
                f"the sampler's files were full: {result['samples_dropped']} samples were dropped, the oldest"
            )
            print("blocks have no energy\n  next: run it in parts: --only, another --out each")
    return EXIT_OK if result["ok"] else EXIT_ENVIRONMENT


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    speak_utf8()
    args = _parser().parse_args(argv)
    try:
        if args.verb == "keys":
            return _keys(args)
        if args.verb == "suites":
            return _suites(args)
        if args.verb == "bench":
            return _bench(args)
        if args.verb == "selftest":
            return _selftest(args)
        return _endpoint(args.verb, args)
    except TunnelError as error:
        print(error.text("pqtunnel", coded=True), file=sys.stderr)
        return EXIT_USAGE if isinstance(error, ConfigError | SuiteUnknown) else EXIT_ENVIRONMENT
    except KeyboardInterrupt:
        text = "\npqtunnel: stopped; what is finished is kept\n  next: the same command again"
        print(text, file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: not an error, but nothing may be flushed any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
