"""`pqdetect serve`: the process around the core.

SIGTERM ends it, SIGUSR1 makes it forget its history. SIGUSR2 marks it: what comes after, to the end of the
cell, is judged and not carried into the next one. With `--asleep` it says where it is and stands still: the
agent of its host wakes it (SIGCONT) for the cells that are its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from pqbase.net import host_and_port
from pqdetect.errors import DetectError, FeedError, UsageError
from pqdetect.service.core import Core, Cost, Watcher
from pqdetect.service.feed import Feed, FeedFile
from pqdetect.service.outputs import Telegraf, VerdictFile
from pqdetect.service.resident import FILE as RESIDENT
from pqdetect.service.resident import Resident

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SLICE_S = 0.1


class FeedSource:
    """The feed, and a word about it when it goes or comes."""

    def __init__(self, path: Path) -> None:
        self._file = FeedFile(path)
        self._told: str | None = None

    def read(self) -> Feed | None:
        """The newest document, None where there is none."""
        try:
            feed = self._file.read()
        except FeedError as error:
            self.say(f"no feed: {error}")
            return None
        self.say("feed is there")
        return feed

    def say(self, text: str) -> None:
        """To the log, when it is not what was said last."""
        if text != self._told:
            print(text, file=sys.stderr, flush=True)
            self._told = text


class Flag:
    """Set by a signal handler. No event: its lock may be held by the thread that the handler interrupts."""

    def __init__(self) -> None:
        self._up = False

    def set(self) -> None:
        """Takes no lock."""
        self._up = True

    def clear(self) -> None:
        """As before it was set."""
        self._up = False

    def is_set(self) -> bool:
        """Was it set since it was last cleared?"""
        return self._up

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the timeout or until it is set, which is seen within a tenth of a second."""
        deadline_s = time.monotonic() + timeout_s
        while not self._up and (left_s := deadline_s - time.monotonic()) > 0.0:
            time.sleep(min(left_s, _SLICE_S))
        return self._up


@dataclass(frozen=True)
class Told:
    """What signals ask for: to end, to forget the history, to mark it."""

    end: Flag = field(default_factory=Flag)
    forget: Flag = field(default_factory=Flag)
    mark: Flag = field(default_factory=Flag)


def cost() -> Cost:
    """CPU time and resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (read at every verdict)
        pages = int(file.read().split()[1])
    return Cost(time.process_time_ns(), pages * _PAGE_BYTES)


def serve(
    name: str, watcher: Watcher, feed: FeedSource, file: VerdictFile, telegraf: Telegraf, told: Told
) -> None:
    """Until it is told to end. Raises OSError when verdicts cannot be written."""
    core = Core(name, watcher, time.monotonic_ns, time.time_ns, cost)
    while not told.end.wait(core.wait_ns() / 1e9):
        if told.forget.is_set():
            told.forget.clear()
            core.forget("cold start")
        marked = told.mark.is_set()
        if marked:
            told.mark.clear()
        # read after the signal was seen: the endpoint had written this cell's first document by then
        newest = feed.read()
        if marked:
            core.mark(newest)
        verdicts = core.step(newest)
        if core.complaint is not None:
            feed.say(core.complaint)
            core.complaint = None
        file.write(verdicts)
        telegraf.write(verdicts)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--model", required=True, help="name of a model in PQ_MODELS, or its folder")
    parser.add_argument("--name", help="what verdicts are signed with (default: the model's name)")
    parser.add_argument("--feed", default=os.environ.get("PQ_FEED", "/feed"), help="folder of feed.json")
    parser.add_argument(
        "--verdicts", default=os.environ.get("PQ_VERDICTS", "/verdicts"), help="folder for verdicts.ndjson"
    )
    parser.add_argument(
        "--telegraf", default=os.environ.get("PQ_TELEGRAF", ""), help="host:port of a line-protocol listener"
    )
    parser.add_argument(
        "--asleep",
        action="store_true",
        help=f"write {RESIDENT} beside the verdicts, then stand still until SIGCONT",
    )
    parser.add_argument("--host", default=os.environ.get("PQ_ROLE", "drone"), help="end whose feed it is")


def run(args: argparse.Namespace) -> int:
    """0 when told to end. Raises DetectError: arguments, model, or a verdict folder that is read-only."""
    # the model's libraries only where a model is used
    from pqdetect.service.watcher import ModelWatcher

    try:
        address = host_and_port(args.telegraf) if args.telegraf else None
    except ValueError as error:
        raise UsageError(f"--telegraf {args.telegraf!r} is not host:port") from error
    watcher = ModelWatcher(args.model)
    try:
        file = VerdictFile(Path(args.verdicts))
    except OSError as error:
        raise DetectError(
            f"verdicts cannot be written to {args.verdicts}: {error}",
            code="no_verdicts",
            hint="name a folder this user may write: --verdicts or PQ_VERDICTS",
        ) from error
    told = Told()
    asked = {
        signal.SIGTERM: told.end,
        signal.SIGINT: told.end,
        signal.SIGUSR1: told.forget,
        signal.SIGUSR2: told.mark,
    }

    def hear(number: int, _frame: FrameType | None) -> None:
        asked[signal.Signals(number)].set()

    for number in asked:
        signal.signal(number, hear)
    telegraf = Telegraf(address, args.host, os.environ.get("PQ_RING", "lab"))
    print(f"detector ready: model {watcher.model}, {watcher.sha256[:12]}", file=sys.stderr, flush=True)
    resident = Resident(Path(args.verdicts)) if args.asleep else None
    try:
        source = FeedSource(Path(args.feed) / "feed.json")
        if resident is not None:
            resident.lie_down(watcher.card, args.name or watcher.model)
        serve(args.name or watcher.model, watcher, source, file, telegraf, told)
    finally:
        if resident is not None:
            resident.leave()
        file.close()
        telegraf.close()
        print(f"detector ends; {telegraf.dropped_count} lines did not reach Telegraf", file=sys.stderr)
    return 0
