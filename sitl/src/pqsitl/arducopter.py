"""ArduPilot SITL: launch, supervise, bring it to a hover, and let its traffic through while a window runs.

The binary talks to a socket of ours and we pass its datagrams on unchanged, one by one: so everything that
enters the tunnel is counted where it leaves, and the vehicle is silent while nobody asked for traffic.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.director import DIRECTOR_COMPONENT_ID, DIRECTOR_SYSTEM_ID, FlightDirector, interval
from pqsitl.errors import NotReadyError, ProcessError, SourceUnavailableError
from pqsitl.flight import HOME_ALT_M, HOME_LAT_DEG, HOME_LON_DEG
from pqsitl.net import RECEIVE_BYTES, UdpLink
from pqsitl.profile import FIXED_NAMES, Profile, load_profile
from pqsitl.sources import MAX_WAIT_S, Source
from pqsitl.spec import TrafficSpec
from pqsitl.supervise import Supervised
from pqsitl.visitors import UplinkAccount

IMAGE_BINARIES = (Path("/opt/ardupilot/arducopter"), Path("/opt/arducopter/arducopter"))
MAX_RESTARTS = 3
RESTART_PAUSE_S = 5.0
POLL_S = 0.1
_DIRECTED_IDS = frozenset(
    {
        mav.MAVLINK_MSG_ID_HEARTBEAT,
        mav.MAVLINK_MSG_ID_GLOBAL_POSITION_INT,
        mav.MAVLINK_MSG_ID_STATUSTEXT,
        mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION,
        mav.MAVLINK_MSG_ID_COMMAND_ACK,
    }
)


#: what matters while it hovers: that it does, and what it says when it no longer will
_HEARD_IN_FLIGHT = (mav.MAVLINK_MSG_ID_HEARTBEAT, mav.MAVLINK_MSG_ID_STATUSTEXT)


def _answers_director(datagram: bytes) -> bool:
    """A COMMAND_ACK to our own command: between us and the autopilot, no part of the traffic."""
    if len(datagram) < 21 or datagram[7:10] != b"\x4d\0\0":
        return False
    return datagram[18] == DIRECTOR_SYSTEM_ID  # payload byte 8: target_system


def find_binary(explicit: Path | None) -> Path:
    """The SITL binary: the one named, else the image's; SourceUnavailableError says what is missing."""
    candidates = IMAGE_BINARIES if explicit is None else (explicit,)
    for path in candidates:
        if path.is_file():
            if os.access(path, os.X_OK):
                return path
            raise SourceUnavailableError(f"{path} is not executable", f"chmod +x {path}", "not_executable")
    if explicit is not None:
        raise SourceUnavailableError(
            f"SITL_BINARY {explicit} does not exist here",
            "name a path that the sitl container sees, or leave it out",
        )
    raise SourceUnavailableError(
        "the image holds no ArduPilot binary", "set SITL_BINARY=path, or use source embedded"
    )


def command_line(binary: Path, defaults: Sequence[Path], port: int, speedup: int = 1) -> list[str]:
    """The binary's arguments: `udpclient` boots at once and sends one frame a datagram.

    Of several default files the later ones win.
    """
    home = f"{HOME_LAT_DEG},{HOME_LON_DEG},{HOME_ALT_M:.0f},353"
    fixed = [
        "--model",
        "+",
        "--speedup",
        str(speedup),
        "-I0",
        "--home",
        home,
        "--defaults",
        ",".join(map(str, defaults)),
    ]
    return [str(binary), *fixed, "--serial0", f"udpclient:127.0.0.1:{port}"]


def read_parameters(text: str) -> dict[str, float]:
    """Name → value of a parameter file: a name and a number a line, apart by blanks or a comma; `#` and what
    follows, and a line without a number, is a comment."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].replace(",", " ").split()
        try:
            found[words[0]] = float(words[1])
        except (IndexError, ValueError):
            continue
    return found


def changed_parameters(given: Path | None) -> dict[str, float]:
    """What the launch sets and the package's own files do not set so; {} where only they are used."""
    if given is None:
        return {}
    own: dict[str, float] = {}
    for name in ("copter-sitl.parm", "lab-sitl.parm"):
        own |= read_parameters(resources.files("pqsitl").joinpath("data", name).read_text(encoding="utf-8"))
    theirs = read_parameters(given.read_text(encoding="utf-8", errors="replace"))
    return {name: value for name, value in sorted(theirs.items()) if own.get(name) != value}


def _digest(path: Path | None) -> str | None:
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


class ArduCopter:
    """The running autopilot. Thread-safe: the service asks, one relay thread does all socket work."""

    def __init__(
        self,
        binary: Path,
        defaults: Path | None,
        link: UdpLink,
        *,
        settle_s: float = 60.0,
        limit_s: float = 240.0,
        speedup: int = 1,
    ) -> None:
        self.binary = binary.resolve()
        self.sha256 = hashlib.sha256(binary.read_bytes()).hexdigest()
        beside = self.binary.parent / "copter.parm"
        self.defaults = defaults or (beside if beside.is_file() else None)
        if self.defaults is not None and not self.defaults.is_file():
            raise SourceUnavailableError(
                f"SITL_DEFAULTS {self.defaults} does not exist here",
                "name a file that the sitl container sees, or leave it out",
            )
        #: digest of the given defaults, and what they set that the package's own least set does not set so
        self.defaults_sha256 = _digest(self.defaults)
        self.parameters = changed_parameters(self.defaults)
        self._link = link
        self._settle_s, self._limit_s, self._speedup = settle_s, limit_s, speedup
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self._peer: tuple[str, int] | None = None
        self._mav = mav.MAVLink(None, srcSystem=DIRECTOR_SYSTEM_ID, srcComponent=DIRECTOR_COMPONENT_ID)
        self._mav.robust_parsing = True
        self._lock = threading.Lock()
        self._receiver: Callable[[bytes], None] | None = None
        self._heard: Callable[[bytes], None] | None = None
        self._closing = threading.Event()
        self._process: Supervised | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="arducopter-")
        self._director = FlightDirector(time.monotonic_ns())
        self.restart_count = 0
        self.failure: str | None = None
        #: last words of the launch before this one
        self._died: str | None = None
        self._deaths_in_a_row = 0
        self._piloted = False
        self._thread = threading.Thread(target=self._guarded, name="arducopter", daemon=True)

    def start(self) -> None:
        """Launch; returns at once, `ready` follows after about 75 s."""
        self._launch()
        self._thread.start()

    @property
    def ready(self) -> bool:
        process = self._process
        alive = process is not None and process.exit_status is None
        flown = self._piloted or self._director.piloted
        return alive and self.failure is None and not flown and self._director.phase == "ready"

    @property
    def lost(self) -> str | None:
        """Why it left its last hover; None while it never did."""
        process = self._process
        if process is not None and process.exit_status is not None:
            return process.death_message()
        return self._director.lost or self._died

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def facts(self) -> dict[str, object]:
        """For hello: which binary, how far it is."""
        defaults = "package copter-sitl.parm" if self.defaults is None else self.defaults.name
        return {
            "available": True,
            "sha256": self.sha256,
            "version": self._director.version,
            "phase": "failed" if self.failure else self._director.phase,
            "reason": self.failure,
            "defaults": defaults,
            "defaults_sha256": self.defaults_sha256,
            "parameters": self.parameters,
            "restart_count": self.restart_count,
            "refly_count": self._director.refly_count,
            "lost": self.lost,
            "retry_after_s": self._director.retry_after_s(time.monotonic_ns()),
        }

    def require_ready(self) -> None:
        """NotReadyError while it climbs, ProcessError when it never will."""
        if self.failure is not None:
            raise ProcessError(self.failure, "look into the sitl log, or ask for source embedded")
        if not self.ready:
            left_s = self._director.retry_after_s(time.monotonic_ns())
            raise NotReadyError(
                f"ArduPilot is in phase {self._director.phase!r}",
                f"ask again in {left_s:.0f} s",
                round(left_s, 1),
            )

    def attach(self, receiver: Callable[[bytes], None], heard: Callable[[bytes], None] | None = None) -> None:
        """Pass every datagram of the vehicle to `receiver`, and the link's datagrams to the vehicle; `heard`
        is told of each of those."""
        with self._lock:
            self._receiver, self._heard = receiver, heard

    def detach(self) -> None:
        with self._lock:
            self._receiver = self._heard = None

    def pilot(self, flies: bool) -> None:
        """A pilot takes it, or gives it back."""
        self._piloted = flies

    @property
    def speaks(self) -> bool:
        """It runs, and has been heard since its launch."""
        return self._director.phase != "boot"

    def set_rates(self, rates_hz: dict[int, float]) -> None:
        """SET_MESSAGE_INTERVAL for each message id; 0 Hz switches it off."""
        for message_id, rate_hz in rates_hz.items():
            self._tell(interval(message_id, rate_hz))

    def close(self) -> None:
        """Stop everything; no process and no folder stays behind."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        if self._process is not None:
            self._process.stop()
        self._socket.close()
        self._folder.cleanup()

    def _launch(self) -> None:
        folder = Path(self._folder.name)
        own = ["lab-sitl.parm"] if self.defaults else ["copter-sitl.parm", "lab-sitl.parm"]
        for name in own:
            data = resources.files("pqsitl").joinpath("data", name).read_bytes()
            (folder / name).write_bytes(data)
        defaults = [*([self.defaults.resolve()] if self.defaults else []), *(folder / name for name in own)]
        self._peer = None
        self._director = FlightDirector(time.monotonic_ns(), settle_s=self._settle_s, limit_s=self._limit_s)
        self._director.piloted = self._piloted
        arguments = command_line(self.binary, defaults, self._socket.getsockname()[1], self._speedup)
        self._process = Supervised("arducopter", arguments, cwd=folder)

    def _tell(self, message: mav.MAVLink_message) -> None:
        with self._lock:
            frame = message.pack(self._mav)
            self._mav.seq = (self._mav.seq + 1) & 0xFF
            peer = self._peer
        if peer is not None:
            self._socket.sendto(frame, peer)

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - the thread's end must show in `facts` and at `start`
            self.failure = f"{type(error).__name__}: {error}"
            traceback.print_exc(file=sys.stderr)

    def _run(self) -> None:
        poll_ns = 0
        while not self._closing.is_set() and self.failure is None:
            receiver = self._receiver
            watched = [self._socket] if receiver is None else [self._socket, self._link.socket]
            ready, _, _ = select.select(watched, [], [], POLL_S)
            if self._socket in ready:
                self._from_vehicle(receiver)
            if self._link.socket in ready and (datagram := self._link.receive()) and self._peer is not None:
                self._socket.sendto(datagram, self._peer)
                if (heard := self._heard) is not None:
                    heard(datagram)
            now_ns = time.monotonic_ns()
            if now_ns - poll_ns >= POLL_S * 1e9:
                poll_ns = now_ns
                self._supervise(now_ns)

    def _from_vehicle(self, receiver: Callable[[bytes], None] | None) -> None:
        for _ in range(64):
            try:
                datagram, self._peer = self._socket.recvfrom(RECEIVE_BYTES)
            except BlockingIOError:
                return
            if receiver is not None and not _answers_director(datagram):
                receiver(datagram)
            if len(datagram) >= 12 and int.from_bytes(datagram[7:10], "little") in _DIRECTED_IDS:
                hovers = self._director.phase == "ready" and not self._director.piloted
                if hovers and datagram[7] not in _HEARD_IN_FLIGHT:
                    continue  # decoding costs more than passing on
                for message in self._mav.parse_buffer(datagram) or []:
                    self._director.receive(message, time.monotonic_ns())

    def _supervise(self, now_ns: int) -> None:
        if self._piloted != self._director.piloted:
            if self._piloted:
                self._director.hand_to_pilot()
            else:
                self._director.take_back(now_ns)
        for message in self._director.poll(now_ns):
            self._tell(message)
        if self._director.phase == "failed":
            self.failure = f"ArduPilot did not fly: {self._director.failure}"
        if self._director.phase == "ready":
            self._deaths_in_a_row = 0
        process = self._process
        if process is None or process.exit_status is None or self._closing.is_set():
            return
        death = self._died = process.death_message()
        if self._deaths_in_a_row >= MAX_RESTARTS:
            self.failure = f"{death}; launched again {self._deaths_in_a_row} times and never in the air"
            return
        print(f"pqsitl: {death}; launching it again in {RESTART_PAUSE_S:.0f} s", file=sys.stderr, flush=True)
        if not self._closing.wait(RESTART_PAUSE_S):
            self._launch()
            self.restart_count += 1
            self._deaths_in_a_row += 1


class ArduCopterSource(Source):
    """A window of ArduPilot's traffic: rates asked at its start, switched off at its end."""

    name = "arducopter"

    def __init__(self, copter: ArduCopter, link: UdpLink, spec: TrafficSpec) -> None:
        super().__init__(link, spec)
        copter.require_ready()
        self._copter = copter
        self._profile = load_profile(spec.profile)
        self._restarts_before = copter.restart_count
        self.uplink = UplinkAccount()

    def report(self) -> dict[str, object]:
        return super().report() | {"uplink": self.uplink.report()}

    def detail(self) -> dict[str, object]:
        return {
            "profile": self._profile.name,
            "rate_hz": self.spec.rate_hz,
            "ardupilot": True,
            "sha256": self._copter.sha256,
            "version": self._copter.facts()["version"],
            "defaults_sha256": self._copter.defaults_sha256,
        }

    def run(self) -> None:
        copter = self._copter
        rates_hz = asked_rates_hz(self._profile, self.spec.rate_hz)
        copter.pilot(self.spec.piloted)
        copter.attach(self.send, self.uplink.heard)
        copter.set_rates(rates_hz)
        try:
            while not self.finished(time.monotonic_ns()):
                if self.spec.piloted:
                    self._go_on(rates_hz)
                elif not copter.ready or copter.restart_count != self._restarts_before:
                    raise ProcessError(
                        f"ArduPilot left its hover: {copter.lost or copter.facts()['phase']}",
                        "look into the sitl log",
                    )
                self._stopping.wait(MAX_WAIT_S)
        finally:
            copter.detach()
            copter.set_rates(dict.fromkeys(rates_hz, 0.0))
            copter.pilot(False)

    def _go_on(self, rates_hz: dict[int, float]) -> None:
        """What a pilot does with it ends nothing; a new launch has to be asked for its streams again."""
        copter = self._copter
        if copter.failure is not None:
            raise ProcessError(copter.failure, "look into the sitl log")
        if copter.restart_count != self._restarts_before and copter.speaks:
            self._restarts_before = copter.restart_count
            copter.set_rates(rates_hz)


def asked_rates_hz(profile: Profile, rate_hz: float) -> dict[int, float]:
    """Rates to ask of the autopilot, by message id, so that all messages together reach `rate_hz`."""
    streamed = [row for row in profile.mix if row.name not in FIXED_NAMES]
    scale = (rate_hz - sum(profile.fixed_hz.values())) / sum(row.rate_hz for row in streamed)
    return {row.msgid: row.rate_hz * scale for row in streamed}
