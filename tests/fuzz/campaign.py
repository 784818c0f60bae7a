"""Long searches, one target after another, behind everything else that runs; hours.json keeps the account.

    python tests/fuzz/campaign.py --minutes 60 [--pause-file FILE] [--state FOLDER] [TARGET...]
    python tests/fuzz/campaign.py --keep [TARGET...]

One process, scheduled only when a processor would be idle. First every target gets a minute that its code has
not had, then each in its order the rest of its hour. It ends after --minutes or when told to, and pauses
while FILE exists; nothing is lost by either. A second campaign beside it takes other targets. What reached
further is kept in FOLDER (default .state/fuzz) until --keep adds its smallest covering set to the corpora.
Exit code 1 when something was found.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import hours  # noqa: E402
import libfuzzer  # noqa: E402
import native  # noqa: E402
import run  # noqa: E402

FIRST_S = 60.0
SLICE_S = 600.0
LEAST_S = 20.0
STATE = native.ROOT / ".state" / "fuzz"


def owed_s(name: str, code: str) -> tuple[int, float]:
    """(round, processor seconds still owed in it): round 0 is the first minute, 1 the hour, 2 beyond it."""
    spent = hours.spent_s(name, code)
    if spent < FIRST_S:
        return 0, FIRST_S - spent
    return (1, hours.GOAL_S - spent) if spent < hours.GOAL_S else (2, SLICE_S)


@contextmanager
def claimed(wanted: list[str], state: Path) -> Iterator[tuple[str, float] | None]:
    """The most wanted target that no other campaign has, and what it is owed; None when all are taken."""
    table = hours.subjects()
    due = {name: owed_s(name, hours.fingerprint(table[name].code)) for name in wanted}
    for name in sorted(wanted, key=lambda one: due[one][0]):
        (state / name).mkdir(parents=True, exist_ok=True)
        handle = (state / name / "lock").open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            continue
        try:
            yield name, due[name][1]
        finally:
            handle.close()
        return
    yield None


def campaign(wanted: list[str], end_s: float, pause: Path | None, state: Path, ended: Event) -> int:
    """Search until `end_s` on the monotonic clock or until `ended`; returns how many findings there were."""

    def paused() -> bool:
        return pause is not None and pause.exists()

    def over() -> bool:
        return ended.is_set() or time.monotonic() >= end_s

    found = 0
    seed = int(time.time()) % 1_000_000
    while not over():
        if paused():
            time.sleep(1.0)
            continue
        with claimed(wanted, state) as choice:
            if choice is None:
                time.sleep(5.0)
                continue
            name, owed = choice
            files = hours.subjects()[name].code
            code, commit = hours.fingerprint(files), hours.commit_of(files)
            seconds = min(max(owed, LEAST_S), SLICE_S, end_s - time.monotonic())
            seed += 1
            result = libfuzzer.search(name, state / name, seconds, seed, lambda: paused() or over())
            hours.add(name, code, result, commit)
            found += len(result.findings)
            for finding in result.findings:
                run.keep_finding(name, finding)
        print(
            f"{time.strftime('%H:%M:%S')} {name}: {result.executions} executions, {result.cpu_s:.0f} s of "
            f"{result.wall_s:.0f} s, {result.edges} edges, {len(result.findings)} findings",
            *(f"\n  {f['kind']} {f['where']}: {f['text']}" for f in result.findings),
            flush=True,
        )
    return found


def yield_to_everything() -> None:
    """Run only on what nobody else wants; every search inherits it."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Where the kernel groups processes by session, a group competes as one: then the group must yield, too.
    group = Path("/proc/self/autogroup")
    while group.is_file():
        try:
            group.write_text("19", encoding="ascii")
            return
        except BlockingIOError:  # the kernel takes one such change in 0.1 s, of all processes together
            time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pause-file", type=Path)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument(
        "--keep", action="store_true", help="add to the committed corpora, and search nothing"
    )
    args = parser.parse_args()
    table = hours.subjects()
    if unknown := set(args.targets) - set(table):
        parser.error(f"no target named {', '.join(sorted(unknown))}; one of: {', '.join(table)}")
    wanted = args.targets or list(table)
    if args.keep:
        for name in wanted:
            if (args.state / name / "corpus").is_dir():
                print(f"{name}: {run.keep(name, args.state / name / 'corpus')} inputs")
        return 0
    wanted = [name for name in wanted if name not in native.TARGETS or native.TARGETS[name].program]
    if left_out := [name for name in args.targets or table if name not in wanted]:
        builds = ", ".join(sorted({native.TARGETS[name].build for name in left_out}))
        print(f"not built, so left out: {', '.join(left_out)} (build: {builds})", flush=True)
    yield_to_everything()
    ended = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    end_s = time.monotonic() + args.minutes * 60
    return 1 if campaign(wanted, end_s, args.pause_file, args.state, ended) else 0


if __name__ == "__main__":
    sys.exit(main())
