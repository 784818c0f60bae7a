"""One session: a cell without an end, whose suite, link and attack change while it runs.

The tunnel needs no restart for any of them: a suite is a rekey, a link is a route through the router, an
attack is an episode beside the traffic. What happened goes into the flight book; what a pilot reads is
told.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Final, Protocol

from pqattack.settings import BENIGN, Episode
from pqbase.documents import Json, part_of, rows_of, whole_of
from pqevidence.errors import LabError, UsageError
from pqlab.campaign.agents import Agent, AgentFailure, Pair, fetch_stream
from pqlab.campaign.clock import Clock
from pqlab.fly.book import FlightBook
from pqlab.fly.commands import Command, LinkProfile, attack_of, help_lines, link_of, suite_of
from pqlab.fly.pulse import Pulse
from pqlab.lab_number import lab_number
from pqlink.settings import Side
from pqtunnel import suites as registry

WINDOW: Final = "flown"
#: what a ground station asks an ArduPilot for by itself: all streams, 4 Hz (docs/TRAFFIC.md)
PROFILE: Final = "default_4hz"
RATE_HZ: Final = 109.2
ATTACK_S: Final = 10.0
_BENIGN_PPS: Final = 20.0
_HANDSHAKES_PPS: Final = 200.0
#: what several kinds are made of has to be heard first
_LISTEN_S: Final = 1.0
#: a session over a slow radio may take long to begin
_HANDSHAKE_S: Final = 300.0
_POLL_S: Final = 0.25
#: how long a rekey is waited for before the pilot may type on, and at most
_REKEY_S: Final = 2.0
_LONGEST_REKEY_S: Final = 600.0
_READY_LIMIT_S: Final = 300.0


class Link(Protocol):
    """The router (`pqlab.campaign.link.LinkControl` is one)."""

    lapsed: str | None

    def take(self, owner: str, up: Side, down: Side, seed: int) -> Json: ...

    def release(self) -> bool: ...


class Attacker(Protocol):
    """The attacker (`pqlab.campaign.attack.AttackControl` is one)."""

    lapsed: str | None

    def take(self, owner: str) -> Json: ...

    def start(self, episode: Episode) -> Json: ...

    def stop(self) -> None: ...

    def truth(self, number: int) -> Json: ...

    def release(self) -> bool: ...


class Session:
    """`begin`, `do` one command after another, `tick` in between, `end` always.

    services: brings up the services of a profile (`link`, `attacker`) where they are not there yet. say: a
    line for the pilot.
    """

    def __init__(
        self,
        pair: Pair,
        clock: Clock,
        book: FlightBook,
        say: Callable[[str], None],
        link: Link,
        attacker: Attacker,
        services: Callable[[str], None],
        cell_id: str,
        rate_hz: float = RATE_HZ,
    ) -> None:
        self._pair = pair
        self._clock = clock
        self._book = book
        self._say = say
        self._link = link
        self._attacker = attacker
        self._services = services
        self._cell_id = cell_id
        self._rate_hz = rate_hz
        self._pulse: Pulse | None = None
        self._pilot: Agent | None = None
        self._suites: tuple[str, ...] = ()
        self._rekeying: Future[Json] | None = None
        self._asked_suite = ""
        self._held = False
        self._open: list[str] = []
        self.suite_id = ""
        self.link_name: str | None = None
        self._episode: int | None = None
        self._attack_kind: str | None = None
        self._seed = 1

    # ------------------------------------------------------------------ the life of a session

    def begin(self, suite_id: str, link: LinkProfile | None) -> int:
        """Keys agreed, vehicle speaking, gates open; returns the station source's port. Raises LabError."""
        try:
            return self._begin(suite_id, link)
        except AgentFailure as error:
            raise error.as_lab_error() from error

    def _begin(self, suite_id: str, link: LinkProfile | None) -> int:
        facts = self._pair.both("hello")
        for role, told in facts.items():
            if told["state"] != "idle":
                raise LabError(
                    "agent-held",
                    f"the {role}'s agent still holds cell {told['cell_id']}",
                    "a controller that was killed left it",
                    "./pqlab heal, then the same command again",
                )
        self._suites = _available(facts)
        self._require(suite_id)
        self._wait_for_vehicle()
        orders = {
            "cell_id": self._cell_id,
            "suite_id": suite_id,
            "min_level": 1,
            "ledger": False,
            "seed": self._seed,
            "accepted_suites": list(self._suites),
        }
        self._pair.both("prepare", orders, timeout_s=60.0)
        self._held = True
        self._pair.both("start", {"cell_id": self._cell_id})
        self._pulse = Pulse(self._pair)
        self._pilot = self._pair.drone.another()
        self._book.event("begin", suite_id=suite_id)
        if link is not None:
            self._set_link(link)
        self._handshake(suite_id)
        return self._take_off()

    def _handshake(self, suite_id: str) -> None:
        answer = self._event("handshake_block", count=1, min_count=1, max_s=_HANDSHAKE_S)
        if not answer["completed"]:
            why = (
                "; ".join(str(row.get("reason")) for row in rows_of(answer, "failures", []))
                or "no reason given"
            )
            raise LabError(
                "no-session",
                f"no keys were agreed by {suite_id}",
                why,
                f"docker logs {lab_number().project}-drone-1, {lab_number().project}-gcs-1",
            )
        self.suite_id = suite_id
        took = self._handshake_ms()
        self._book.event("suite", suite_id=suite_id, handshake_ms=took, told_by="drone agent")
        self._say(f"keys agreed by {suite_id}{_took(took)}")

    def _handshake_ms(self) -> float | None:
        """Wall of the newest handshake as the drone's agent has it."""
        assert self._pilot is not None
        rows = map(json.loads, fetch_stream(self._pilot, self._cell_id, "spans").result())
        walls = [row for row in rows if row.get("step") == "handshake" and row.get("host") == "drone"]
        return None if not walls else round((walls[-1]["end_ns"] - walls[-1]["start_ns"]) / 1e6, 3)

    def _take_off(self) -> int:
        opening = {"cell_id": self._cell_id, "kind": "traffic_open", "window": WINDOW, "route": "mavproxy"}
        station = {"source": "station", "seed": self._seed, "duration_s": None}
        told = self._pair.gcs.call("event", {**opening, "spec": station})
        self._open.append("gcs")
        spec = {
            "source": "auto",
            "profile": PROFILE,
            "rate_hz": self._rate_hz,
            "seed": self._seed,
            "duration_s": None,
            "piloted": True,
        }
        flown = self._pair.drone.call("event", {**opening, "spec": spec})
        self._open.append("drone")
        self._book.event("vehicle", source=flown["source"])
        self._say(f"the vehicle speaks (source {flown['source']})")
        return whole_of(part_of(told, "detail"), "port")

    def end(self, why: str, port: Json) -> None:
        """Attack off, link off, gates shut, agents idle, book closed; each whatever the one before did."""
        undone: list[str] = []
        counters: Json = {"ground_port": port}
        steps = [self._end_attack, self._end_link]
        # the drone first: the ground hears what is still on its way
        steps += [partial(self._land, role, counters) for role in ("drone", "gcs")]
        for step in steps:
            try:
                step()
            except (AgentFailure, LabError) as error:
                undone.append(str(error))
        if self._pulse is not None:
            self._pulse.close()
        if self._pilot is not None:
            self._pilot.close()
        for text in undone:
            self._book.event("not_undone", reason=text)
            self._say(f"not undone: {text}; ./pqlab heal brings both agents back to idle")
        self._book.close(why, counters)

    def _land(self, role: str, counters: Json) -> None:
        if not self._held:
            return
        agent = self._pair.agents[role]
        if role in self._open:
            told = agent.call("event", {"cell_id": self._cell_id, "kind": "traffic_close", "window": WINDOW})
            report = part_of(told, "source_report", {})
            counters[f"{role}_source"] = {key: value for key, value in report.items() if key != "sent"}
        counters[role] = agent.call("stop", {"cell_id": self._cell_id})["counters"]

    # ------------------------------------------------------------------ in flight

    def tick(self) -> None:
        """What happened by itself: an agent gone, a link lapsed, an episode over. Raises LabError where
        nothing can go on, AgentFailure where a rekey failed."""
        if self._pulse is not None and self._pulse.lost is not None:
            raise self._pulse.lost
        self._rekeyed()
        if self.link_name is not None and self._link.lapsed is not None:
            self._book.event("link_lapsed", reason=self._link.lapsed)
            self._say(f"the link router was lost, traffic takes the direct path: {self._link.lapsed}")
            self._give_up(self._end_link)
        if self._episode is not None and self._attack_is_over(self._episode):
            self._give_up(self._end_attack)

    def _give_up(self, step: Callable[[], None]) -> None:
        """What is gone cannot be asked to let go: that is told, and the session goes on."""
        try:
            step()
        except LabError as error:
            self._book.event("not_undone", reason=str(error))
            self._say(error.text())

    def _attack_is_over(self, number: int) -> bool:
        """An attacker that is gone ends its attack, and nothing else."""
        if self._attacker.lapsed is not None:
            self._episode = None
            self._book.event("attack_lapsed", reason=self._attacker.lapsed)
            return True
        try:
            return self._attacker.truth(number)["ended"] is not None
        except LabError as error:
            self._episode = None
            self._book.event("attack_lapsed", reason=str(error))
            return True

    def do(self, command: Command) -> None:
        """One command. Raises UsageError for a name that is none, LabError or AgentFailure where it failed;
        the session goes on all the same."""
        if command.name == "suite":
            self._rekey(self._require(suite_of(command.argument)))
        elif command.name == "rekey":
            self._rekey(None)
        elif command.name == "link":
            profile = link_of(command.argument)
            self._set_link(profile) if profile is not None else self._end_link()
        elif command.name == "attack":
            kind = attack_of(command.argument)
            self._attack(kind) if kind is not None else self._end_attack()
        elif command.name == "status":
            self._status()
        elif command.name == "help":
            self._say("\n".join(help_lines()))

    def _rekey(self, suite_id: str | None) -> None:
        """Waits a moment for it; of one that takes longer, as over a slow radio, a later `tick` tells."""
        assert self._pilot is not None
        if self._rekeying is not None:
            raise UsageError(
                "rekey-in-flight", "keys are being agreed", "one rekey is made at a time", "wait for its line"
            )
        asked = {} if suite_id is None else {"suite_id": suite_id}
        self._asked_suite = suite_id or self.suite_id
        self._book.event("rekey_asked", suite_id=self._asked_suite)
        request: Json = {"cell_id": self._cell_id, "kind": "rekey", **asked}
        self._rekeying = self._pilot.start("event", request, timeout_s=_LONGEST_REKEY_S)
        try:
            self._rekeying.exception(timeout=_REKEY_S)
        except FutureTimeout:
            self._say(f"agreeing keys by {self._asked_suite} …")
        else:
            self._rekeyed()

    def _rekeyed(self) -> None:
        """What became of the rekey in flight, if it is over. Raises AgentFailure where it failed."""
        if self._rekeying is None or not self._rekeying.done():
            return
        done, self._rekeying = self._rekeying, None
        try:
            told = done.result()
        except AgentFailure as error:
            self._book.event("rekey_failed", suite_id=self._asked_suite, reason=str(error))
            raise
        self.suite_id = str(told["suite_id"])
        took = round(whole_of(told, "duration_ns") / 1e6, 3)
        self._book.event(
            "suite", suite_id=self.suite_id, epoch=told["epoch"], rekey_ms=took, told_by="drone agent"
        )
        self._say(f"epoch {told['epoch']} by {self.suite_id}{_took(took)}")

    def _set_link(self, profile: LinkProfile) -> None:
        self._services("link")
        self._link.take(self._cell_id, profile.up, profile.down, self._seed)
        self.link_name = profile.name
        self._book.event("link", profile=profile.name, up=profile.up.as_dict(), down=profile.down.as_dict())
        self._say(f"link {profile.name}")

    def _end_link(self) -> None:
        if self.link_name is None:
            return
        self.link_name = None
        self._link.release()
        self._book.event("link", profile=None)
        self._say("link off: the direct path")

    def _attack(self, kind: str) -> None:
        self._end_attack()
        self._services("attacker")
        flood = kind == "handshake-flood"
        episode = Episode.parse(
            {
                "kind": kind,
                "for_s": ATTACK_S,
                "seed": self._seed,
                "rate_pps": _BENIGN_PPS if kind in BENIGN else _HANDSHAKES_PPS if flood else None,
                "target": "gcs" if flood else None,
                "path": "link" if self.link_name is not None and not flood else None,
                **({"pulse_on_ms": 200, "pulse_off_ms": 800} if kind == "pulsing" else {}),
            }
        )
        self._attacker.take(self._cell_id)
        try:
            self._clock.sleep(_LISTEN_S)
            self._episode = whole_of(self._attacker.start(episode), "episode")
        except LabError:
            self._attacker.release()
            raise
        self._attack_kind = kind
        self._book.event("attack", **episode.as_dict())
        self._say(f"attack {kind} for {ATTACK_S:g} s")

    def _end_attack(self) -> None:
        kind, self._attack_kind = self._attack_kind, None
        number, self._episode = self._episode, None
        if kind is None:
            return
        self._say(f"attack {kind} is over")
        try:
            if number is not None:
                self._attacker.stop()
                truth = self._attacker.truth(number)
                self._book.event(
                    "attack_over", kind=kind, ended=truth["ended"], sent_count=truth["sent_count"]
                )
        finally:
            self._attacker.release()

    def _status(self) -> None:
        assert self._pulse is not None
        counters = self._pulse.counters()
        drone, gcs = (_moved(counters[role]) for role in ("drone", "gcs"))
        self._say(f"suite  {self.suite_id}")
        self._say(f"link   {self.link_name or 'off: the direct path'}")
        self._say(f"attack {self._attack_kind or 'off'}")
        self._say(f"down   {drone[0]} datagrams sent by the drone, {gcs[1]} came to the ground")
        self._say(f"up     {gcs[0]} sent by the ground, {drone[1]} came to the drone")
        self._book.event("status", sent_down=drone[0], came_down=gcs[1], sent_up=gcs[0], came_up=drone[1])

    # ------------------------------------------------------------------ parts

    def _event(self, kind: str, **details: object) -> Json:
        """A call that may take long, on the pilot's own connection; Ctrl-C is heard meanwhile."""
        assert self._pilot is not None
        request = {"cell_id": self._cell_id, "kind": kind, **details}
        running: Future[Json] = self._pilot.start("event", request, timeout_s=_HANDSHAKE_S + 30.0)
        while True:
            try:
                return running.result(timeout=_POLL_S)
            except FutureTimeout:
                continue

    def _require(self, suite_id: str) -> str:
        if suite_id not in self._suites:
            raise UsageError(
                "no-suite-here",
                f"{suite_id} is not available here",
                "a provider of one end lacks it, or its self-test failed",
                "./pqtunnel suites says why",
            )
        return suite_id

    def _wait_for_vehicle(self) -> None:
        """ArduPilot boots and climbs for 80 s; the embedded vehicle is there at once."""
        deadline_s = self._clock.monotonic_s() + _READY_LIMIT_S
        told = None
        while True:
            facts = part_of(self._pair.drone.call("hello"), "traffic", {})
            if facts.get("available") is False or self._clock.monotonic_s() > deadline_s:
                raise LabError(
                    "vehicle-not-ready",
                    "the vehicle does not fly",
                    str(facts.get("reason") or "it was waited for"),
                    "docker logs pqlab-sitl-1; make lab-status",
                )
            if facts.get("ready", True):
                return
            phase = part_of(facts, "arducopter", {}).get("phase")
            if phase != told:
                told = phase
                self._say(f"ArduPilot is in phase {phase}; waiting until it hovers")
            self._clock.sleep(1.0)


def _available(facts: dict[str, Json]) -> tuple[str, ...]:
    """Those of the 72 that both ends can speak, in registry order."""
    there = [
        {name for name in suites if part_of(suites, name).get("status") == "available"}
        for suites in (part_of(one, "suites", {}) for one in facts.values())
    ]
    return tuple(name for name in registry.SUITES if all(name in names for names in there))


def _moved(counters: Json) -> tuple[object, object]:
    """Datagrams sealed and sent, datagrams that came and opened."""
    return counters.get("tx_data", "?"), counters.get("rx_ok", "?")


def _took(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f" (its agent says {milliseconds:g} ms)"
