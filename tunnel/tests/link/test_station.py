"""One `pqlink` ground station with many drones: real processes on loopback, one drone's trouble beside
another's traffic, keys that come and go while the station runs, and a farm of fifty."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from link_kit import fields, program
from test_pqlink import SUITE, WAIT_S, End, SpecEnd, hits, passes, pqlink, secrets_of, wait_for

from pqspec.keyschedule import PskKeys
from pqtunnel.errors import HandshakeError
from pqtunnel.handshake.identity import DronePsk
from pqtunnel.primitives import Primitives
from waiting import free_port

OUTSTANDING = 4
"""Datagrams under way at once: a machine that stands still for seconds must not lose any."""


_given: set[int] = set()
"""Plaintext ports of drones that were added: free until a station runs."""


class Seat:
    """A drone's place at the station: where its application speaks and listens."""

    def __init__(self) -> None:
        self.application = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.application.bind(("127.0.0.1", 0))
        self.plaintext = next(port for port in iter(free_port, None) if port not in _given)
        _given.add(self.plaintext)

    @property
    def addresses(self) -> tuple[str, str]:
        return f"127.0.0.1:{self.plaintext}", "{}:{}".format(*self.application.getsockname())


class Station:
    """`pqlink up` of a ground station whose drones are in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.drones = folder, folder / "drones"
        self.ports = {"handshake": free_port(), "gcs": free_port()}
        self.config = folder / "gcs.toml"
        self.config.write_text(
            f'role = "gcs"\nsuite = "{SUITE}"\ndrones = "drones"\nstatus = "gcs.sock"\n'
            f'handshake = "127.0.0.1:{self.ports["handshake"]}"\nsealed = "127.0.0.1:{self.ports["gcs"]}"\n',
            "utf-8",
        )
        made = pqlink("keygen", folder)
        assert made.returncode == 0, made.stderr
        self.drones.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "gcs.log").open("ab") as log:
            self.process = subprocess.Popen([program("pqlink"), "up", self.config], stderr=log)
        wait_for("the station", lambda: pqlink("status", self.config).returncode == 0)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def peer(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return pqlink("peer", verb, self.config, *words)

    def add(self, name: str) -> Seat:
        seat = Seat()
        made = self.peer("add", name, *seat.addresses)
        assert made.returncode == 0, made.stderr
        return seat

    def keys_of(self, name: str, key: str = "") -> Path:
        """A folder as the drone has it."""
        own = self.folder / f"{name}-own"
        own.mkdir(exist_ok=True)
        for source, copy in ((key or f"drones/{name}.key", "drone.key"), ("gcs.pub", "gcs.pub")):
            shutil.copy(self.folder / source, own / copy)
        shutil.copy(self.folder / "gcs.key", own / "gcs.key")  # the specification's end reads its public half
        return own

    def drone(self, name: str, **more: object) -> End:
        """A `pqlink up` of a drone, not started."""
        own = self.keys_of(name)
        return End(own, "drone", own, self.ports | {"drone": free_port()}, **more)

    def status(self) -> dict[str, Any]:
        told = pqlink("status", self.config, "--json")
        answer: dict[str, Any] = json.loads(told.stdout)
        return answer

    def of(self, name: str) -> dict[str, Any]:
        found = [one for one in self.status().get("drone", []) if one["name"] == name]
        assert found, f"{name} is not served"
        drone: dict[str, Any] = found[0]
        return drone

    def log(self) -> str:
        return (self.folder / "gcs.log").read_text("utf-8")

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)


@contextmanager
def station_in(folder: Path) -> Iterator[Station]:
    station = Station(folder)
    try:
        yield station
    finally:
        station.close()


def both_ways(drone: End, seat: Seat, station: Station, round_: str) -> None:
    there = End.__new__(End)  # `passes` asks for application and plaintext address alone
    there.application, there.plaintext = seat.application, seat.plaintext
    assert passes(drone, there, f"up {round_}".encode()), station.log()
    assert passes(there, drone, f"down {round_}".encode()), station.log()


class Stream:
    """Numbered datagrams of a drone, a few under way at once, until told to stop; each must come once and in
    order."""

    def __init__(self, drone: End, seat: Seat, pause_s: float = 0.005) -> None:
        self.drone, self.seat, self.pause_s, self.sent, self.got = drone, seat, pause_s, 0, 0
        self._stop = threading.Event()
        self._wrong: list[bytes] = []
        self._thread = threading.Thread(target=self._work)
        seat.application.settimeout(WAIT_S)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.is_set():
            for _ in range(OUTSTANDING):
                to = ("127.0.0.1", self.drone.plaintext)
                self.drone.application.sendto(b"n%d" % self.sent, to)
                self.sent += 1
            while self.got < self.sent:
                try:
                    payload = self.seat.application.recv(65_536)
                except TimeoutError:
                    return
                if payload.startswith(b"n"):
                    if payload != b"n%d" % self.got:
                        self._wrong.append(payload)
                        return
                    self.got += 1
            self._stop.wait(self.pause_s)

    def goes_on(self) -> None:
        """At least some rounds from now on pass."""
        before = self.got
        wait_for(
            "the other drone's traffic", lambda: self.got >= before + 5 * OUTSTANDING or bool(self._wrong)
        )
        assert not self._wrong

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        assert (self._wrong, self.got) == ([], self.sent)


DROPS = {
    "bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch", "queue_full",
    "not_ready",
}  # fmt: skip


def test_two_drones_and_one_station_each_unharmed_by_the_others_trouble(
    tmp_path: Path, native: Primitives
) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        seats = {name: station.add(name) for name in ("alpha", "bravo")}
        station.start()
        ends = {name: station.drone(name) for name in seats}
        for name, end in ends.items():
            stack.callback(end.close)
            end.start()
            both_ways(end, seats[name], station, f"first of {name}")
        for victim, other in (("alpha", "bravo"), ("bravo", "alpha")):
            stream = Stream(ends[other], seats[other])
            before = station.of(other)["hs_completed"]
            ends[victim].end(signal.SIGKILL)
            stream.goes_on()
            ends[victim].start()
            wait_for("its return", lambda v=victim: station.of(v)["state"] == "up")  # type: ignore[misc]
            stream.goes_on()
            stream.end()
            both_ways(ends[victim], seats[victim], station, f"{victim} is back")
            assert station.of(other)["hs_completed"] == before, "it never had to dial again"
        # Somebody with alpha's id and a key that is not alpha's.
        stream, before = Stream(ends["bravo"], seats["bravo"]), station.of("bravo")["hs_completed"]
        ends["alpha"].end(signal.SIGKILL)
        own = tmp_path / "alpha-own/drone.key"
        lines = own.read_text().splitlines()
        own.write_text("\n".join([*lines[:2], f'psk = "{"5a" * 32}"']) + "\n")
        ends["alpha"].start()
        wait_for("a refusal by name", lambda: station.of("alpha").get("hs_bad_mac", 0) >= 1)
        ends["alpha"].end(signal.SIGKILL)
        # And alpha's right key, rekeyed as fast as it goes.
        spec_end = SpecEnd("drone", station.keys_of("alpha"), native, station.ports | {"drone": free_port()})
        stack.callback(spec_end.close)
        completed = station.of("alpha")["hs_completed"]
        for _ in range(20):
            spec_end.dial()
            wait_for("an answer", spec_end.heard)
        assert station.of("alpha")["hs_completed"] == completed + 20
        stream.goes_on()
        stream.end()
        bravo = station.of("bravo")
        assert bravo["hs_completed"] == before and bravo["refusals"] == 0 and bravo["rx_missing"] == 0
        assert not DROPS & set(bravo), bravo
        # The station itself: both are back, by themselves.
        station.end(signal.SIGKILL)
        station.start()
        both_ways(ends["bravo"], seats["bravo"], station, "after the station")
        assert station.end(signal.SIGTERM) == 0
        assert "stopped" in station.log() and not (tmp_path / "gcs.sock").exists()


def test_two_drones_for_an_hour_with_rekeys_each_unharmed_by_the_others_kill(tmp_path: Path) -> None:
    """Of the hour the whole check has a quarter of a minute; PQLAB_TWO_DRONES_S=3600 is all of it."""
    for_s = float(os.environ.get("PQLAB_TWO_DRONES_S", "15"))
    kills = {"alpha": 0, "bravo": 0}
    sent = dict.fromkeys(kills, 0)
    with station_in(tmp_path) as station, ExitStack() as stack:
        seats = {name: station.add(name) for name in kills}
        station.start()
        ends = {name: station.drone(name, rekey_s=1) for name in kills}
        for name, end in ends.items():
            stack.callback(end.close)
            end.start()
            both_ways(end, seats[name], station, f"first of {name}")
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < for_s:
            for victim, other in (("alpha", "bravo"), ("bravo", "alpha")):
                stream = Stream(ends[other], seats[other], pause_s=0.05)
                ends[victim].end(signal.SIGKILL)
                kills[victim] += 1
                stream.goes_on()
                ends[victim].start()
                both_ways(ends[victim], seats[victim], station, f"{victim}, kill {kills[victim]}")
                time.sleep(max(3.0, for_s / 120))
                stream.end()
                sent[other] += stream.sent
        took_s = time.monotonic() - begun_s
        for name, end in ends.items():
            told, log = station.of(name), (end.folder / "drone.log").read_text("utf-8")
            sessions, rekeys = log.count("new session: "), told["hs_completed"] - 1 - kills[name]
            told_of = f"{kills[name]} kills, {sessions} sessions, {rekeys} rekeys"
            print(f"{name}: {took_s:.0f} s, {told_of}, 0 of {sent[name]} lost beside the other's kills")
            assert sessions == 1 + kills[name], "it dialled after its own kills alone"
            assert rekeys >= took_s / 3
            assert told["refusals"] == 0 and not DROPS & set(told), told


def test_keys_that_changed_places_take_no_session_along(tmp_path: Path) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        seats = {name: station.add(name) for name in ("alpha", "bravo")}
        station.start()
        ends = {name: station.drone(name) for name in seats}
        for name, end in ends.items():
            stack.callback(end.close)
            end.start()
            both_ways(end, seats[name], station, f"of {name}")
        files = [station.drones / f"{name}.key" for name in seats]
        for file, text in zip(files, [file.read_text() for file in reversed(files)], strict=True):
            file.write_text(text)
        told = station.peer("reload").stdout
        assert all(f"{name}'s session under its old key ended" in told for name in seats), told
        both_ways(ends["alpha"], seats["bravo"], station, "alpha in bravo's place")
        both_ways(ends["bravo"], seats["alpha"], station, "bravo in alpha's place")


def test_keys_come_and_go_while_the_station_runs(tmp_path: Path) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        seats = {"alpha": station.add("alpha")}
        station.start()
        ends: dict[str, End] = {}

        def join(name: str) -> None:
            ends[name] = station.drone(name)
            stack.callback(ends[name].close)
            ends[name].start()
            both_ways(ends[name], seats[name], station, f"of {name}")

        join("alpha")
        pid = station.status()["pid"]
        seats["bravo"] = station.add("bravo")
        join("bravo")
        stream = Stream(ends["alpha"], seats["alpha"])
        # Rotation: the old key is good until the next one is there.
        rotated = station.peer("rotate", "bravo")
        assert rotated.returncode == 0 and "bravo.next.key: copy it" in rotated.stdout, rotated.stderr
        both_ways(ends["bravo"], seats["bravo"], station, "while it is rotated")
        ends["bravo"].end(signal.SIGTERM)
        station.keys_of("bravo", "drones/bravo.next.key")
        ends["bravo"].start()
        both_ways(ends["bravo"], seats["bravo"], station, "with its next key")
        completed = station.of("bravo")["hs_completed"]
        assert station.peer("retire", "bravo").returncode == 0
        both_ways(ends["bravo"], seats["bravo"], station, "its old key is gone")
        assert station.of("bravo")["hs_completed"] == completed, "its session went on"
        assert not (station.drones / "bravo.next.key").exists()
        # An application that moved: its file is edited by hand, and counts from the next reload on.
        assert "nothing changed" in station.peer("reload").stdout
        moved, settings = Seat(), station.drones / "bravo.toml"
        settings.write_text(settings.read_text().replace(seats["bravo"].addresses[1], moved.addresses[1]))
        seats["bravo"].application.close()
        seats["bravo"].application = moved.application
        reloaded = station.peer("reload")
        assert "bravo ended, bravo is served" in reloaded.stdout, reloaded.stderr
        both_ways(ends["bravo"], seats["bravo"], station, "where its application is now")
        # A rotation that the drone has no part in: retiring its key ends what runs under it.
        assert station.peer("rotate", "bravo").returncode == 0
        retired = station.peer("retire", "bravo")
        assert "bravo's session under its old key ended" in retired.stdout, retired.stderr
        assert station.of("bravo")["state"] == "no session"
        # Revoked: session ended, files gone, dials counted by name.
        revoked = station.peer("revoke", "bravo")
        assert revoked.returncode == 0 and "bravo ended" in revoked.stdout, revoked.stderr
        assert not list(station.drones.glob("bravo*"))
        wait_for(
            "a refusal by name",
            lambda: (
                sum(one["refusals"] for one in station.status()["revoked"] if one["name"] == "bravo") >= 1
            ),
        )
        told = station.status()
        assert [one["name"] for one in told["drone"]] == ["alpha"] and told["hs_revoked"] >= 1
        assert {one["name"] for one in told["revoked"]} == {"bravo"} and len(told["revoked"]) == 3
        assert "with the revoked key of bravo" in station.log()
        listed = station.peer("list").stdout
        assert listed.count("revoked: bravo id ") == 3 and listed.startswith("alpha id ")
        # Its name and port are free for another key.
        seats["bravo"].application.close()
        ends["bravo"].end(signal.SIGKILL)
        seats["bravo"] = station.add("bravo")
        join("bravo")
        # A stranger of another station.
        other = tmp_path / "other"
        assert pqlink("keygen", other).returncode == 0
        shutil.copy(other / "drone.key", station.drones.parent / "bravo-own/drone.key")
        ends["bravo"].end(signal.SIGKILL)
        ends["bravo"].start()
        wait_for("an unknown drone", lambda: station.status().get("hs_unknown_drone", 0) >= 1)
        stream.goes_on()
        stream.end()
        alpha, told = station.of("alpha"), station.status()
        assert alpha["hs_completed"] == 1 and told["pid"] == pid and not DROPS & set(alpha), alpha
        lines = pqlink("status", station.config).stdout
        assert lines.count("[[drone]]") == 2 and 'name = "alpha"' in lines and lines.count("[[revoked]]") == 3


def test_one_key_of_two_drones_and_other_mistakes_are_told_with_file_and_line(tmp_path: Path) -> None:
    with station_in(tmp_path) as station:
        for name in ("alpha", "bravo"):
            station.add(name)
        station.start()
        folder = station.drones
        alpha, bravo = folder / "alpha.key", folder / "bravo.key"
        right = bravo.read_text()

        def refused() -> str:
            listed = station.peer("list")
            assert listed.returncode == 1
            return listed.stderr

        bravo.write_text(alpha.read_text())
        assert f"{bravo}:2: bravo has the id of alpha, {alpha}:2; one key is one drone's" in refused()
        bravo.write_text("\n".join([right.splitlines()[1], alpha.read_text().splitlines()[2]]) + "\n")
        assert f"{bravo}:2: bravo has the PSK of alpha, {alpha}:3" in refused()
        # The running station keeps what it has, and says why; the drone that could not be added is not there.
        seat = Seat()
        added = station.peer("add", "charlie", *seat.addresses)
        assert added.returncode == 1 and "has the PSK of alpha" in added.stderr
        assert not list(folder.glob("charlie*")) and len(station.status()["drone"]) == 2
        bravo.write_text(right)
        bravo.chmod(0o644)
        assert "mode 0644 lets others read a secret" in refused()
        bravo.chmod(0o600)
        taken = station.peer(
            "add", "charlie", "{}:{}".format(*seat.application.getsockname()), seat.addresses[1]
        )
        assert taken.returncode == 1 and "of charlie cannot be bound" in taken.stderr, taken.stderr
        assert not list(folder.glob("charlie*")) and len(station.status()["drone"]) == 2
        settings = folder / "bravo.toml"
        text = settings.read_text()
        settings.write_text((folder / "alpha.toml").read_text())
        assert "is alpha's; name a free port" in refused()
        settings.write_text(text.replace("application", "aplication"))
        assert f'{settings}:2: unknown key "aplication"; did you mean application?' in refused()
        settings.write_text(text)
        (folder / "Bad Name.toml").write_text(text)
        assert "Bad Name.toml: a drone is named with" in refused()
        assert pqlink("peer", "sing", station.config).returncode == 2
        assert "there is no drone" in station.peer("revoke", "nobody").stderr
        assert station.peer("add", "alpha", *seat.addresses).returncode == 1, "keys are never overwritten"
        # A revocation that the running station does not take in is no quiet success.
        revoked = station.peer("revoke", "alpha")
        assert revoked.returncode == 1 and "may still serve alpha" in revoked.stderr, revoked.stderr
        (folder / "Bad Name.toml").unlink()
        assert station.peer("reload").returncode == 0
        assert [one["name"] for one in station.status()["drone"]] == ["bravo"]


def test_a_port_that_is_taken_at_the_start_keeps_nobody_else_out(tmp_path: Path) -> None:
    with station_in(tmp_path) as station:
        alpha = station.add("alpha")
        station.add("bravo")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", alpha.plaintext))
            station.start()
            assert [one["name"] for one in station.status()["drone"]] == ["bravo"]
            assert "of alpha cannot be bound" in station.log()
        assert "alpha is served" in station.peer("reload").stdout


def test_keys_are_changed_by_one_command_at_a_time_and_what_a_power_cut_left_is_swept(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system has no flock")
    with station_in(tmp_path) as station:
        station.add("alpha")
        with (station.drones / ".lock").open("w") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            for verb in ("rotate", "revoke"):
                refused = station.peer(verb, "alpha")
                assert refused.returncode == 1 and "another pqlink peer changes keys" in refused.stderr
            assert station.peer("list").returncode == 0, "who reads waits for nobody"
        # Cut off in a rotation: half a key that never got its name, and one that was on its way out.
        for name in ("alpha.next.key.new", "alpha.key.gone"):
            (station.drones / name).write_text('psk = "5a5a')
        station.start()
        rotated = station.peer("rotate", "alpha")
        assert rotated.returncode == 0, rotated.stderr
        names = {path.name for path in station.drones.iterdir()}
        assert names == {".lock", "alpha.toml", "alpha.key", "alpha.next.key"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/mem is Linux's")
def test_secrets_of_a_revoked_drone_are_nowhere_in_memory(tmp_path: Path, native: Primitives) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        for name in ("alpha", "bravo"):
            station.add(name)
        station.start()
        spec_ends, psks = {}, {}
        for name in ("alpha", "bravo"):
            end = SpecEnd("drone", station.keys_of(name), native, station.ports | {"drone": free_port()})
            stack.callback(end.close)
            for _ in range(2):
                end.dial()
                epoch = len(end.made) - 1
                wait_for("an answer", lambda n=name, e=epoch: station.of(n).get("epoch") == e)  # type: ignore[misc]
            spec_ends[name], psks[name] = end, long_term(end.psk)
        last = {name: secrets_of(end.made[-1:]) for name, end in spec_ends.items()}
        every = secrets_of(spec_ends["bravo"].made) | psks["bravo"]
        living = hits(station.pid, last["bravo"] | psks["bravo"])
        assert sum(living.values()) == 3 + 3, f"the search finds what is there, each in one place: {living}"
        assert station.peer("revoke", "bravo").returncode == 0
        with pytest.raises((HandshakeError, OSError)):
            spec_ends["bravo"].dial()  # a thread of a handshake has seen the new store, and ended
        wait_for("the end of its handshake", lambda: not any(hits(station.pid, every).values()))
        assert not any(hits(station.pid, every).values())
        assert sum(hits(station.pid, last["alpha"] | psks["alpha"]).values()) == 3 + 3, "the other's stay"


def long_term(psk: DronePsk) -> dict[str, bytes]:
    """What a station holds of a drone's PSK: keys derived from it, never the PSK."""
    held = PskKeys.derive(psk.psk)
    return {
        "hello key": held.hello,
        "drone finished key": held.drone_finished,
        "session unknown key": held.session_unknown,
    }


FLEET = 50
STRANGERS = 250
SESSION_LIMIT_KIB = 64


def resident_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(
        fields([line.replace(":", "=").replace("\t", " ") for line in text.splitlines()])["VmRSS"].split()[0]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/status is Linux's")
def test_fifty_drones_at_once_beside_silent_strangers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with station_in(tmp_path) as station, ExitStack() as stack:
        for number in range(FLEET):
            host = (
                f"127.0.1.{number + 1}"  # the farm binds each drone's application there, on ports of its own
            )
            made = station.peer("add", f"drone-{number:02}", f"{host}:14560", f"{host}:14550")
            assert made.returncode == 0, made.stderr
        station.start()
        handshake = ("127.0.0.1", station.ports["handshake"])
        for _ in range(STRANGERS):
            stack.enter_context(socket.create_connection(handshake, timeout=WAIT_S))
        wait_for("evictions", lambda: station.status().get("hs_evicted", 0) >= STRANGERS - 128 - FLEET)
        before_kib = resident_kib(station.pid)
        arguments = [
            program("farm"),
            station.drones,
            tmp_path / "gcs.pub",
            "{}:{}".format(*handshake),
            f"127.0.0.1:{station.ports['gcs']}",
            SUITE,
            "20",
            "50",
            "1",
            "hold",
        ]
        farm = subprocess.Popen(
            list(map(str, arguments)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert farm.stdout is not None
        assert farm.stdout.readline().startswith("held"), station.log()
        told, full_kib = station.status(), resident_kib(station.pid)
        out, _ = farm.communicate("", timeout=WAIT_S)
        result = fields(out.split())
        with capsys.disabled():
            each_kib = (full_kib - before_kib) / FLEET
            print(f"\n{out.strip()} session_kib={each_kib:.1f} station_kib={full_kib}")
        assert each_kib <= SESSION_LIMIT_KIB
        assert int(result["drones"]) == int(result["completed"]) == FLEET
        assert result["lost"] == "0" and result["crossed"] == "0" and int(result["sent"]) == 20 * FLEET
        assert int(result["dialled"]) <= 1.1 * FLEET, "no storm"
        assert len(told["drone"]) == FLEET and told["hs_evicted"] >= 1
        for one in told["drone"]:
            assert one["state"] == "up" and one["refusals"] == 0 and one["rx_missing"] == 0, one
            assert one["rx_ok"] == one["tx_data"] == 20 and "suite" in one and "handshake_ago_s" in one
