"""Holds one place of a labgrid coordinator while its standard input is open; labgrid's Python runs it.

    warden.py hold JSON     reserve a place, say so, keep the reservation, give it back when the input ends
    warden.py power JSON    power-cycle one end of a place that the same user has reserved

A place is held by a *reservation* that is never acquired: an acquired place stays so for ever when its holder
dies, while the coordinator forgets a reservation that nobody has asked after for a minute. So there are two
ways back. Standard input ends with the controller, however that dies, and the reservation is cancelled at
once; where the whole machine is gone, it lapses. A place is acquired for the seconds of a power cycle alone.

One line of JSON each way. In: {"do": "power_cycle", "role": …}, {"do": "release"}. Out, by "kind": waiting,
held, refused, lapsed, power, released. Only the standard library and labgrid: nothing else is here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Final, NoReturn, NotRequired, TypedDict, TypeVar

import grpc
from labgrid import Environment
from labgrid.exceptions import NoDriverFoundError
from labgrid.factory import target_factory
from labgrid.protocol import PowerProtocol
from labgrid.remote.client import ClientSession, Error, UserError
from labgrid.remote.common import TAG_KEY, Place, Reservation, ReservationState
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.util.proxy import proxymanager

T = TypeVar("T")

DEFAULT_PORT: Final = 20408
ROLES: Final = ("drone", "gcs")
#: how long the coordinator may take to answer
ANSWER_S: Final = 10.0
#: the coordinator forgets a reservation that nobody asked after for 60 s: one that we could not ask after for
#: this long must count as lost
LOST_S: Final = 50.0
WAIT_STEP_S: Final = 1.0
#: classes of exported resources that labgrid's client knows a power driver for
POWER_RESOURCES: Final = (
    "NetworkPowerPort",
    "PDUDaemonPort",
    "TasmotaPowerPort",
    "NetworkUSBPowerPort",
    "NetworkSiSPMPowerPort",
    "NetworkYKUSHPowerPort",
)


class Asked(TypedDict):
    """What we were started with; `place` or `tags`; `role` and `action` (of labgrid's client) for its power.
    power_limit_s: how long one action may take."""

    coordinator: str
    place: str | None
    tags: dict[str, str]
    wait_s: float
    power: str | None
    poll_s: float
    power_limit_s: float
    role: NotRequired[str]
    action: NotRequired[str]


class Refused(Exception):
    """Why no place is held: code, what, why, next command; exit_code of whoever asked."""

    def __init__(self, code: str, what: str, why: str, hint: str, exit_code: int = 4) -> None:
        super().__init__(what)
        self.what = what
        self.told = {"code": code, "what": what, "why": why, "hint": hint, "exit_code": exit_code}


class Gone(Exception):
    """Whoever asked for the place has gone, or wants it no longer."""


class Input:
    """Lines of standard input, waited for with a limit."""

    def __init__(self) -> None:
        self._rest = b""

    def line(self, limit_s: float) -> str | None:
        """The next line; None when there is none within the limit. Raises Gone at the end of the input."""
        until_s = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([0], [], [], left_s)[0]:
                return None
            more = os.read(0, 4096)
            if not more:
                raise Gone
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


class Output:
    """Our lines, on a descriptor of their own: labgrid prints on standard output."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        os.dup2(2, 1)

    def tell(self, kind: str, **more: object) -> None:
        """Nobody may be there to hear it: that the place goes back is what matters then."""
        line = json.dumps({"kind": kind, **more}) + "\n"
        try:
            os.write(self._descriptor, line.encode())
        except BrokenPipeError:
            print(f"nobody hears: {line}", file=sys.stderr)


class Coordinator:
    """One connection to the coordinator, by labgrid's own client."""

    def __init__(self, address: str, environment: Environment | None = None, role: str | None = None) -> None:
        self.address = address
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        try:
            target = proxymanager.get_grpc_address(address, default_port=DEFAULT_PORT)
            self.session = ClientSession(target, self._loop, env=environment, role=role)
            self.wait(self.session.start())
        except (Error, TimeoutError, OSError, grpc.RpcError, subprocess.SubprocessError) as error:
            raise Refused(
                "no-coordinator",
                f"no labgrid coordinator answers at {address}",
                " ".join(str(error).split()) or f"nothing came within {ANSWER_S:g} s",
                "start it, or name another: --coordinator HOST:PORT, or LG_COORDINATOR (docs/PLACES.md)",
            ) from error

    def wait(self, what: Awaitable[T], limit_s: float = ANSWER_S) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(what, limit_s))

    def look(self) -> None:
        """Take in what the coordinator has told of places since."""
        self.wait(asyncio.sleep(0.05))

    @property
    def user(self) -> str:
        """As the coordinator knows us."""
        return f"{self.session.gethostname()}/{self.session.getuser()}"

    def version(self) -> str:
        """The coordinator's: it tells exporters, and no client, so we begin as one and go."""

        async def nothing() -> AsyncIterator[messages.ExporterInMessage]:
            await asyncio.Event().wait()
            yield messages.ExporterInMessage()

        async def ask() -> str:
            call = self.session.stub.ExporterStream(nothing())
            try:
                async for message in call:
                    return str(message.hello.version)
            finally:
                call.cancel()
            return ""

        return self.wait(ask())

    def places(self) -> dict[str, Place]:
        self.look()
        return dict(self.session.places)

    def reserve(self, tags: dict[str, str]) -> Reservation:
        wanted = {"main": messages.Reservation.Filter(filter=tags)}
        request = messages.CreateReservationRequest(filters=wanted, prio=0.0)
        return Reservation.from_pb2(self.wait(self.session.stub.CreateReservation(request)).reservation)

    def poll(self, token: str) -> Reservation:
        """Its state now; asking is also what keeps it. Raises grpc.RpcError."""
        request = messages.PollReservationRequest(token=token)
        return Reservation.from_pb2(self.wait(self.session.stub.PollReservation(request)).reservation)

    def reservations(self) -> list[Reservation]:
        answer = self.wait(self.session.stub.GetReservations(messages.GetReservationsRequest()))
        return [Reservation.from_pb2(one) for one in answer.reservations]

    def cancel(self, token: str) -> None:
        self.wait(self.session.stub.CancelReservation(messages.CancelReservationRequest(token=token)))

    def acquire(self, place: str) -> None:
        self.wait(self.session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=place)))
        self.wait(self.session.sync_with_coordinator())

    def release(self, place: str) -> None:
        """Where we have acquired it; nobody else is put out."""
        request = messages.ReleasePlaceRequest(placename=place, fromuser=self.user)
        self.wait(self.session.stub.ReleasePlace(request))


# --- which place ---------------------------------------------------------------------------------


def asked_tags(asked: Asked) -> dict[str, str]:
    """What a reservation filters by; a place's own name is a tag to the coordinator."""
    return {"name": asked["place"]} if asked["place"] else dict(asked["tags"])


def told_tags(tags: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(tags.items()))


def candidates(places: dict[str, Place], asked: Asked) -> list[Place]:
    """The places that would do. Raises Refused where there is none, held or not."""
    if name := asked["place"]:
        if name in places:
            return [places[name]]
        raise Refused(
            "unknown-place",
            f"the coordinator knows no place {name}",
            f"its places: {', '.join(sorted(places)) or 'none'}",
            f"name one of them, or make it: labgrid-client -p {name} create",
            2,
        )
    tags = asked_tags(asked)
    for key in tags:
        if TAG_KEY.fullmatch(key) is None:
            raise Refused(
                "bad-tag", f"--reserve {key}=… names no tag", "a tag is of a-z, 0-9 and _", "TAG=VALUE", 2
            )
    found = [place for place in places.values() if tags.items() <= place.tags.items()]
    if found:
        return found
    values = {f"{key}={value}" for place in places.values() for key, value in place.tags.items()}
    raise Refused(
        "unknown-tag",
        f"no place has the tag{'s' if len(tags) > 1 else ''} {told_tags(tags)}",
        f"tags there are: {', '.join(sorted(values)) or 'none'}",
        f"name one of them, or set it: labgrid-client -p PLACE set-tags {told_tags(tags)}",
        2,
    )


def utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def holders(coordinator: Coordinator, asked: Asked, ours: str) -> str:
    """Who has the places that would do, and since when: `rack-1 is held by host/user since …`."""
    reserved = {one.token: one for one in coordinator.reservations()}
    told, free = [], []
    for place in candidates(coordinator.places(), asked):
        other = reserved.get(place.reservation or "")
        if place.acquired:
            told.append(f"{place.name} is held by {place.acquired} since {utc(place.changed)}")
        elif other is not None and other.token != ours:
            told.append(f"{place.name} is held by {other.owner} since {utc(other.created)}")
        else:
            free.append(place.name)
    return "; ".join([*told, *(f"{name} is about to be handed on" for name in free)])


def because(error: BaseException) -> str:
    """What gRPC says of its errors, in one line."""
    told = error.details() if isinstance(error, grpc.RpcError) else str(error)
    return " ".join(str(told).split()) or f"nothing came within {ANSWER_S:g} s"


def let_go(coordinator: Coordinator, token: str) -> str:
    """Cancel our reservation; returns why that did not go: the coordinator then forgets it by itself."""
    try:
        coordinator.cancel(token)
    except (grpc.RpcError, TimeoutError) as error:
        print(f"the reservation was not cancelled: {because(error)}", file=sys.stderr)
        return because(error)
    return ""


def take(coordinator: Coordinator, asked: Asked, told: Output, heard: Input) -> tuple[Place, Reservation]:
    """A place that is ours. Raises Refused, and Gone where nobody wants it any more."""
    candidates(coordinator.places(), asked)
    wait_s = asked["wait_s"]
    until_s = time.monotonic() + wait_s
    ours = coordinator.reserve(asked_tags(asked))
    try:
        said = ""
        while ours.state is ReservationState.waiting:
            who = holders(coordinator, asked, ours.token)
            if time.monotonic() >= until_s:
                raise Refused(
                    "place-held",
                    who,
                    f"waited {wait_s:g} s for it" if wait_s else "one campaign at a time has a place",
                    "wait for it: --wait-s 3600; or ask who holds it: labgrid-client reservations",
                )
            if who != said:
                told.tell("waiting", text=f"waiting for a place: {who}")
                said = who
            heard.line(WAIT_STEP_S)
            ours = coordinator.poll(ours.token)
        if ours.state is not ReservationState.allocated:
            raise Refused(
                "no-place",
                f"the coordinator made our reservation {ours.state.name}",
                "it has changed its mind while we waited",
                "./pqlab run again",
            )
        place = coordinator.places()[ours.allocations["main"][0]]
        coordinator.session.check_matches(place)
    except UserError as error:
        let_go(coordinator, ours.token)
        raise Refused(
            "place-not-whole",
            f"{place.name} lacks a resource that it names",
            " ".join(error.args),
            "start the exporter of that board: labgrid-exporter -c COORDINATOR FILE",
        ) from error
    except (grpc.RpcError, TimeoutError) as error:
        let_go(coordinator, ours.token)
        raise Refused(
            "no-coordinator",
            f"the labgrid coordinator at {coordinator.address} went away while we waited for a place",
            because(error),
            "./pqlab run again when it is there",
        ) from error
    except (Refused, Gone):
        let_go(coordinator, ours.token)
        raise
    return place, ours


# --- its power -----------------------------------------------------------------------------------


def environment_of(file: str | None) -> Environment | None:
    """labgrid's own configuration file. Raises Refused for one that it cannot read."""
    if file is None:
        return None
    try:
        return Environment(file)
    except Exception as error:  # a user's file: whatever labgrid says is the answer
        raise Refused(
            "bad-power-file",
            f"labgrid cannot read {os.path.basename(file)}",  # noqa: PTH119 - told, not used
            f"{type(error).__name__}: {error}",
            "docs/PLACES.md shows one that has a power driver",
            2,
        ) from error


def powered_roles(coordinator: Coordinator, place: Place, environment: Environment | None) -> list[str]:
    """Ends of the place whose power labgrid can switch: by a driver of the configuration file, or by an
    exported resource that the place calls `drone` or `gcs`."""
    if environment is not None:
        targets = environment.config.get_targets()
        return [role for role in ROLES if any(_drives(name) for name in _drivers(targets.get(role) or {}))]
    names = []
    for exporter, groups in coordinator.session.resources.items():
        for group, resources in groups.items():
            for name, resource in resources.items():
                match = place.getmatch((exporter, group, resource.data.get("cls"), name))
                if match is not None and resource.cls in POWER_RESOURCES:
                    names.append(match.rename or name)
    return [role for role in ROLES if role in names]


def _drivers(config: dict[str, object]) -> Iterator[str]:
    _, drivers = target_factory.normalize_config(config)
    yield from drivers


def _drives(name: str) -> bool:
    return issubclass(target_factory.class_from_string(name), PowerProtocol)


def power(asked: Asked, told: Output) -> None:
    """In a process of its own, because drivers block and keep what they hold: acquire, cycle, release."""
    role, place, name = asked["role"], str(asked["place"]), None
    try:
        environment = environment_of(asked["power"])
        coordinator = Coordinator(asked["coordinator"], environment, role)
        if environment is None:
            name = role
        options = {"place": place, "name": name, "delay": None, "state": None, "initial_state": None}
        session = coordinator.session
        coordinator.acquire(place)
        try:
            session.args = argparse.Namespace(action=asked["action"], **options)
            try:
                session.power()
            except BaseException:
                # nobody knows what it did: on is what the next cell needs
                session.args = argparse.Namespace(action="on", **options)
                session.power()
                raise
        finally:
            coordinator.release(place)
    except Refused as error:
        told.tell("power", ok=False, why=error.what)
    except NoDriverFoundError as error:
        told.tell("power", ok=False, why=f"no power driver of the {role}: {error}")
    except Exception as error:  # noqa: BLE001 - told to whoever asked: drivers raise what they like
        told.tell("power", ok=False, why=f"{type(error).__name__}: {' '.join(str(error).split())}")
    else:
        told.tell("power", ok=True, why="")


# --- holding it ----------------------------------------------------------------------------------


class Warden:
    """From the moment that the place is ours until standard input ends."""

    def __init__(self, coordinator: Coordinator, asked: Asked, place: str, token: str, told: Output) -> None:
        self._coordinator = coordinator
        self._asked = asked
        self._place = place
        self._token = token
        self._told = told
        self._kept_s = time.monotonic()
        self._lapsed = False
        self._power: subprocess.Popen[str] | None = None
        self._power_until_s = 0.0
        self._role = ""
        #: why the cycle did not take place, while the end is switched on again
        self._amiss = ""

    def guard(self, heard: Input) -> bool:
        """Until the end of the input, or until told to release: then True, since somebody waits for it."""
        next_s = time.monotonic() + self._asked["poll_s"]
        try:
            while True:
                step_s = 0.1 if self._power is not None else max(0.0, next_s - time.monotonic())
                if (line := heard.line(step_s)) is not None:
                    order = json.loads(line)
                    if order["do"] == "release":
                        return True
                    self._role = str(order["role"])
                    self._begin_power("cycle")
                self._look_at_power()
                if time.monotonic() >= next_s:
                    next_s = time.monotonic() + self._asked["poll_s"]
                    self._keep()
        except Gone:
            return False

    def _keep(self) -> None:
        """Ask after our reservation, which is what keeps it, and say once when it is ours no longer."""
        if self._lapsed:
            return
        why = ""
        try:
            ours = self._coordinator.poll(self._token)
            held = ours.state in (ReservationState.allocated, ReservationState.acquired)
            if held and ours.allocations.get("main") == [self._place]:
                self._kept_s = time.monotonic()
                return
            why = f"the coordinator says that our reservation is {ours.state.name}"
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                why = (
                    "the coordinator has no such reservation: it was cancelled, or the coordinator began anew"
                )
            elif time.monotonic() - self._kept_s > LOST_S:
                why = f"the coordinator did not answer for {LOST_S:g} s: {error.details()}"
        except TimeoutError:
            if time.monotonic() - self._kept_s > LOST_S:
                why = f"the coordinator did not answer for {LOST_S:g} s"
        if why:
            self._lapsed = True
            self._told.tell("lapsed", why=why)

    def _begin_power(self, action: str) -> None:
        words = {**self._asked, "place": self._place, "role": self._role, "action": action}
        self._power = subprocess.Popen(
            [sys.executable, "-P", os.path.abspath(__file__), "power", json.dumps(words)],  # noqa: PTH100
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._power_until_s = time.monotonic() + self._asked["power_limit_s"]

    def _look_at_power(self) -> None:
        child = self._power
        if child is None or (child.poll() is None and time.monotonic() < self._power_until_s):
            return
        self._end_power(child)

    def _end_power(self, child: subprocess.Popen[str]) -> None:
        late = child.poll() is None
        if late:
            child.kill()
        out, _ = child.communicate()
        self._power = None
        amiss, self._amiss = self._amiss, ""
        if late or child.returncode or not out.strip():
            limit_s = self._asked["power_limit_s"]
            why = f"it took over {limit_s:g} s" if late else f"its process ended with {child.returncode}"
            self._coordinator.release(self._place)
            if not amiss:
                # nobody knows how far it came: on is what the next cell needs
                self._amiss = why
                self._begin_power("on")
                return
            self._told.tell("power", ok=False, why=f"{amiss}; {why}: it was not switched on again")
            return
        answer = json.loads(out.splitlines()[-1])
        if not amiss:
            self._told.tell("power", ok=answer["ok"], why=answer["why"])
            return
        again = "it was" if answer["ok"] else f"{answer['why']}: it was not"
        self._told.tell("power", ok=False, why=f"{amiss}; {again} switched on again")

    def give_back(self) -> str:
        """Whatever was lost on the way is left to the reservation's own end. Returns why it did not go."""
        while (child := self._power) is not None:
            try:
                child.wait(max(0.0, self._power_until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                print("the power cycle does not end: it is ended", file=sys.stderr)
            self._end_power(child)
        if self._lapsed:
            return ""
        return let_go(self._coordinator, self._token)


def hold(asked: Asked, told: Output) -> None:
    heard = Input()
    environment = environment_of(asked["power"])
    coordinator = Coordinator(asked["coordinator"])
    try:
        place, ours = take(coordinator, asked, told, heard)
    except Gone:
        return
    warden = Warden(coordinator, asked, place.name, ours.token, told)
    try:
        told.tell(
            "held",
            place=place.name,
            tags=dict(sorted(place.tags.items())),
            coordinator_version=coordinator.version(),
            power=powered_roles(coordinator, place, environment),
            user=coordinator.user,
        )
        asked_for = warden.guard(heard)
    except BaseException:
        warden.give_back()
        raise
    why = warden.give_back()
    if asked_for:
        told.tell("released", why=why)


def main(words: list[str]) -> int:
    # Ctrl-C and a polite end are for the controller, which closes our input when it has wound up. A handler
    # and not SIG_IGN: that would be handed down to what we start.
    def not_ours(_signal: int, _frame: FrameType | None) -> None:
        return

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, not_ours)
    verbs: dict[str, Callable[[Asked, Output], None]] = {"hold": hold, "power": power}
    told, asked = Output(), json.loads(words[1])
    try:
        verbs[words[0]](asked, told)
    except Refused as error:
        told.tell("refused", **error.told)
        return 1
    return 0


def end(code: int) -> NoReturn:
    """Without gRPC's own winding up, which may wait for a connection that is gone."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
