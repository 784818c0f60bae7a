"""The campaign's side of a held place: starts the warden, hears it, gives the place back.

The warden's standard input is a pipe of ours that nobody else has: the kernel closes it however this process
ends.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, cast

from pqevidence.errors import EXIT_USAGE, LabError, UsageError
from pqevidence.paths import project_root
from pqlab.campaign.place import PlaceFacts

PYTHON: Final = Path(".venv-labgrid") / "bin" / "python"
WARDEN: Final = Path(__file__).with_name("warden.py")
INSTALL: Final = "make labgrid-venv"
#: longer than the warden's own limits, which say more
_ANSWER_LIMIT_S: Final = 40.0
_LAST_LINES: Final = 5
POLL_S: Final = 10.0
POWER_LIMIT_S: Final = 90.0

Told = Mapping[str, object]


@dataclass(frozen=True)
class Wanted:
    """What to hold: a place by its name, or any one with these tags. wait_s: how long to wait for a turn;
    power: labgrid's configuration file with power drivers, None for those that the place exports; poll_s: how
    often the coordinator is asked after our reservation, which it forgets after a minute; power_limit_s: how
    long a power cycle may take, and switching on again after one that took longer."""

    coordinator: str
    place: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    power: str | None = None
    poll_s: float = POLL_S
    power_limit_s: float = POWER_LIMIT_S

    @property
    def power_wait_s(self) -> float:
        """Longer than the warden's own limits."""
        return 2 * self.power_limit_s + 20.0


class HeldPlace:
    """A place that is ours. Made by `held`."""

    def __init__(
        self, wanted: Wanted, warden: subprocess.Popen[str], told: Told, rest: queue.SimpleQueue[Told]
    ) -> None:
        self._wanted = wanted
        self._warden = warden
        self._rest = rest
        self._lapsed: str | None = None
        self._ended = False
        self._asking = threading.Lock()
        self.name = str(told["place"])
        self.powered = frozenset(str(role) for role in cast("list[str]", told["power"]))
        self.facts: PlaceFacts = {
            "name": self.name,
            "tags": dict(cast("dict[str, str]", told["tags"])),
            "coordinator_version": str(told["coordinator_version"]),
        }

    def require_held(self) -> None:
        """Raises LabError when the reservation has lapsed, or nobody keeps it any more."""
        with self._asking, contextlib.suppress(queue.Empty):
            while True:
                self._heed(self._rest.get_nowait())
        if self._lapsed is not None:
            raise LabError(
                "place-lapsed",
                f"{self.name} is no longer held",
                self._lapsed,
                "every finished cell is kept; see that nobody else uses it (labgrid-client reservations)",
            )

    def power_cycle(self, role: str) -> None:
        """Off and on again, waited for. Raises LabError when it did not take place."""
        with self._asking:
            self._send({"do": "power_cycle", "role": role})
            told = self._answer("power", self._wanted.power_wait_s)
        if told is None or not told["ok"]:
            raise LabError(
                "power-cycle",
                f"the power of the {role} was not cycled",
                self._lapsed or "the warden does not answer" if told is None else str(told["why"]),
                f"try it by hand: labgrid-client -p {self.name} power cycle",
            )

    def release(self) -> str | None:
        """Give it back. Returns why that did not go; the reservation then lapses by itself."""
        with self._asking:
            self._send({"do": "release"})
            told = self._answer("released", _ANSWER_LIMIT_S)
        if told is None:
            return self._lapsed or "the warden does not answer"
        return str(told["why"]) or None

    def _send(self, order: Mapping[str, str]) -> None:
        if (pipe := self._warden.stdin) is None:
            raise AssertionError("the warden was started without a pipe")
        try:
            pipe.write(json.dumps(order) + "\n")
            pipe.flush()
        except BrokenPipeError:
            self._lapsed = self._lapsed or "its warden has ended"

    def _answer(self, kind: str, limit_s: float) -> Told | None:
        while not self._ended:
            try:
                told = self._rest.get(timeout=limit_s)
            except queue.Empty:
                return None
            if told["kind"] == kind:
                return told
            self._heed(told)
        return None

    def _heed(self, told: Told) -> None:
        self._ended = self._ended or told["kind"] == "end"
        if told["kind"] in ("lapsed", "end"):
            self._lapsed = self._lapsed or str(told["why"])


@contextlib.contextmanager
def held(wanted: Wanted, note: Callable[[str], None]) -> Iterator[HeldPlace]:
    """A place, waited for, and given back at the end. note: told what is waited for.

    Raises LabError (UsageError for a name or tag that there is not) when there is none to be had.
    """
    python = project_root() / PYTHON
    if not python.is_file():
        raise LabError(
            "no-labgrid",
            "labgrid is not installed",
            f"{PYTHON.parent.parent} holds it, which nothing else of the lab needs",
            INSTALL,
        )
    warden = subprocess.Popen(
        # its own session: Ctrl-C is for us, and we let go of the place when we have wound up
        [str(python), "-P", str(WARDEN), "hold", json.dumps(asdict(wanted))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines: queue.SimpleQueue[Told] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(warden, lines), name="warden", daemon=True).start()
    try:
        place = HeldPlace(wanted, warden, _first(lines, note), lines)
        note(f"{place.name} is held until this run ends (labgrid {place.facts['coordinator_version']})")
        try:
            yield place
        finally:
            if (why := place.release()) is not None:
                note(f"{place.name} was not given back: {why}; the coordinator forgets us within 90 s")
    finally:
        _end(warden, wanted.power_wait_s)


def _first(lines: queue.SimpleQueue[Told], note: Callable[[str], None]) -> Told:
    """What the warden says when the place is ours; waiting for a turn has the warden's own limit."""
    while True:
        told = lines.get()
        if told["kind"] == "held":
            return told
        if told["kind"] == "waiting":
            note(str(told["text"]))
            continue
        if told["kind"] == "refused":
            what, why, hint = (str(told[key]) for key in ("what", "why", "hint"))
            if told["exit_code"] == EXIT_USAGE:
                raise UsageError(str(told["code"]), what, why, hint)
            raise LabError(str(told["code"]), what, why, hint)
        raise LabError("no-warden", "nobody keeps the place", str(told["why"]), f"{INSTALL}, then again")


def _hear(warden: subprocess.Popen[str], lines: queue.SimpleQueue[Told]) -> None:
    """Every line of the warden, then that it ended, with the last of what it complained of."""
    complaints: list[str] = []

    def complain() -> None:
        for line in warden.stderr or ():
            complaints.append(line.strip())
            del complaints[:-_LAST_LINES]

    aside = threading.Thread(target=complain, name="warden-complaints", daemon=True)
    aside.start()
    for line in warden.stdout or ():
        lines.put(json.loads(line))
    aside.join(timeout=1.0)
    lines.put({"kind": "end", "why": "; ".join(["its warden has ended", *filter(None, complaints)])})


def _end(warden: subprocess.Popen[str], limit_s: float) -> None:
    """The end of its input ends it; one that hangs is ended, and the reservation lapses by itself."""
    if warden.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            warden.stdin.close()
    try:
        warden.wait(limit_s)
    except subprocess.TimeoutExpired:
        warden.kill()
        warden.wait()
