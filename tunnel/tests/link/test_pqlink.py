"""`pqlink` as people use it: two processes on loopback, killed and started again; and against the
specification's own end, whose knowledge of the keys lets the test look for them in the program's memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from link_kit import fields, program
from memory_search import hits, secrets_of

from pqspec.handshake import DroneHandshake, GcsHandshake, PskStore
from pqspec.session import Session
from pqspec.shell.stream import FrameStream, converse
from pqtunnel import packet
from pqtunnel.errors import HandshakeError
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.primitives import KemKeyPair, Primitives
from pqtunnel.suites import get
from pqtunnel.trace import Tracer
from waiting import free_port

SUITE = "cs-mlkem768-aesgcm-mldsa65"
WAIT_S = 60.0
"""No test judges a time; this only ends one that would wait for ever on a machine that is very busy."""


def wait_for(what: str, check: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < end, f"waited for: {what}"
        time.sleep(0.05)


def pqlink(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [program("pqlink"), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    made = pqlink("keygen", folder)
    assert made.returncode == 0, made.stderr
    return folder


class End:
    """One `pqlink up`, with the application beside it."""

    def __init__(self, folder: Path, role: str, keys: Path, ports: dict[str, int], **more: object) -> None:
        self.folder, self.role = folder, role
        self.application = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.application.bind(("127.0.0.1", 0))
        self.plaintext = free_port()
        gcs = role == "gcs"
        settings: dict[str, object] = {
            "role": role,
            "suite": SUITE,
            "handshake": f"127.0.0.1:{ports['handshake']}",
            "sealed": f"127.0.0.1:{ports[role]}",
            "peer_port": ports["drone" if gcs else "gcs"],
            "plaintext": f"127.0.0.1:{self.plaintext}",
            "application": "{}:{}".format(*self.application.getsockname()),
            "gcs_key": keys / ("gcs.key" if gcs else "gcs.pub"),
            "drone_key": keys / "drone.key",
            "status": f"{role}.sock",
            **more,
        }
        lines = [f"{k} = {v}" if isinstance(v, int) else f'{k} = "{v}"' for k, v in settings.items()]
        self.config = folder / f"{role}.toml"
        self.config.write_text("\n".join(lines) + "\n", "utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.folder / f"{self.role}.log").open("ab")
        with log:
            self.process = subprocess.Popen([program("pqlink"), "up", self.config], stderr=log)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def status(self) -> dict[str, str]:
        told = pqlink("status", self.config)
        lines = [line.replace(" = ", "=", 1) for line in told.stdout.splitlines()]
        return {name: value.strip('"') for name, value in fields(lines).items()}

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)
        self.application.close()


def passes(sender: End, receiver: End, payload: bytes) -> bool:
    """Does this datagram come out at the other end? Sent again until it does, as traffic goes on."""
    receiver.application.settimeout(0.3)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        sender.application.sendto(payload, ("127.0.0.1", sender.plaintext))
        try:
            while True:
                if receiver.application.recv(65_536) == payload:
                    return True
        except TimeoutError:
            continue
    return False


@contextmanager
def two_ends(folder: Path, keys: Path, **more: object) -> Iterator[tuple[End, End]]:
    ports = {"handshake": free_port()}
    ports |= {role: free_port() for role in ("drone", "gcs")}
    drone, gcs = (End(folder, role, keys, ports, **more) for role in ("drone", "gcs"))
    try:
        yield drone, gcs
    finally:
        for end in (drone, gcs):
            end.close()


def both_ways(drone: End, gcs: End, round_: str) -> None:
    assert passes(drone, gcs, f"up {round_}".encode()), (drone.folder / "drone.log").read_text()
    assert passes(gcs, drone, f"down {round_}".encode()), (gcs.folder / "gcs.log").read_text()


def test_traffic_passes_and_resumes_after_a_kill_of_either_end(tmp_path: Path, keys: Path) -> None:
    with two_ends(tmp_path, keys) as (drone, gcs):
        gcs.start()
        drone.start()
        both_ways(drone, gcs, "first")
        for victim in (drone, gcs):
            victim.end(signal.SIGKILL)
            victim.start()
            both_ways(drone, gcs, f"after the {victim.role}")
        status = drone.status()
        assert status["role"] == "drone" and status["state"] == "up" and status["suite"] == SUITE
        assert int(status["hs_completed"]) == 2 and int(status["rx_ok"]) >= 1
        assert gcs.status()["hs_completed"] == "1", "this one began after the kill"
        for end in (drone, gcs):
            assert end.end(signal.SIGTERM) == 0
            assert not (tmp_path / f"{end.role}.sock").exists()
            assert "stopped" in (tmp_path / f"{end.role}.log").read_text()


def test_a_program_that_only_answers_learns_where_to_send(tmp_path: Path, keys: Path) -> None:
    """As MAVProxy's `udpin`, which is silent until it has heard something."""
    with two_ends(tmp_path, keys) as (drone, _):
        drone.start()
        drone.application.settimeout(WAIT_S)
        for _ in range(2):  # and again, for a program that began later
            payload, source = drone.application.recvfrom(65_536)
            assert (payload, source) == (b"", ("127.0.0.1", drone.plaintext))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_log_on_a_full_disk_ends_no_link(tmp_path: Path, keys: Path) -> None:
    with two_ends(tmp_path, keys) as (drone, gcs):
        for end in (drone, gcs):
            (end.folder / f"{end.role}.log").touch()  # to be shown where traffic does not come
            with Path("/dev/full").open("ab", buffering=0) as full:
                end.process = subprocess.Popen([program("pqlink"), "up", end.config], stderr=full)
        both_ways(drone, gcs, "without a log")


def test_rekeys_by_time_lose_nothing(tmp_path: Path, keys: Path) -> None:
    with two_ends(tmp_path, keys, rekey_s=1) as (drone, gcs):
        gcs.start()
        drone.start()
        both_ways(drone, gcs, "first")
        sent, got = 0, 0
        gcs.application.settimeout(WAIT_S)
        while int(drone.status().get("epoch", 0)) < 3:
            for _ in range(20):
                drone.application.sendto(b"n%d" % sent, ("127.0.0.1", drone.plaintext))
                sent += 1
            while got < sent:
                payload = gcs.application.recv(65_536)
                if payload.startswith(b"n"):
                    assert payload == b"n%d" % got, "each once, in order"
                    got += 1
        status = gcs.status()
        assert int(status["hs_completed"]) >= 4 and status["handshake_was_rekey"] == "true"
        refusals = {
            "bad_header",
            "unknown_index",
            "auth_failed",
            "duplicate",
            "replay",
            "old_epoch",
            "hs_failed",
            "hs_policy",
        }
        assert not refusals & (set(status) | set(drone.status()))


def test_a_loose_key_file_and_a_wrong_configuration_are_refused(tmp_path: Path, keys: Path) -> None:
    with two_ends(tmp_path, keys) as (drone, _):
        for mode, told in (
            (0o644, "mode 0644 lets others read a secret; run: chmod 600"),
            (0o620, "mode 0620"),
        ):
            (keys / "drone.key").chmod(mode)
            refused = pqlink("up", drone.config)
            assert refused.returncode == 1 and told in refused.stderr
        (keys / "drone.key").chmod(0o600)
        text = drone.config.read_text()
        drone.config.write_text(text.replace("peer_port", "peer_prot"))
        refused = pqlink("up", drone.config)
        assert f'{drone.config}:5: unknown key "peer_prot"; did you mean peer_port?' in refused.stderr
        drone.config.write_text(text + f'liboqs_sha256 = "{"0" * 64}"\n')
        refused = pqlink("up", drone.config)  # another digest, or a pqlink with liboqs inside
        assert refused.returncode == 1 and "liboqs_sha256" in refused.stderr
        assert "does not answer" in pqlink("status", drone.config).stderr
    again = pqlink("keygen", keys)
    assert again.returncode == 1 and "is there already" in again.stderr
    assert pqlink("sing").returncode == 2


# ---------------------------------------------------------------------- the specification's end, and memory


def identities(keys: Path) -> tuple[DronePsk, GcsIdentity]:
    """What `keygen` made, as Python holds it."""
    read = {
        name: fields(
            [line.replace(" = ", "=").replace('"', "") for line in (keys / name).read_text().splitlines()]
        )
        for name in ("drone.key", "gcs.key")
    }
    drone, gcs = read["drone.key"], read["gcs.key"]
    by_kind = {
        kind: {k.removesuffix(kind): bytes.fromhex(v) for k, v in gcs.items() if k.endswith(kind)}
        for kind in ("_public", "_secret")
    }
    psk = DronePsk(bytes.fromhex(drone["id"]), bytes.fromhex(drone["psk"]))
    return psk, GcsIdentity(GcsPublicIdentity(by_kind["_public"]), by_kind["_secret"])


class SpecEnd:
    """An end of the specification's machines and sessions on loopback: completes handshakes, answers packets,
    and remembers every key."""

    def __init__(
        self, role: str, keys: Path, native: Primitives, ports: dict[str, int], suite: str = SUITE
    ) -> None:
        self.psk, self.identity = identities(keys)
        self.native, self.ports, self.role, self.suite = native, ports, role, suite
        self.shared: list[bytes] = []
        """What each KEM gave."""
        self.made: list[Established] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.session = Session("gcs" if role == "gcs" else "drone", {}, native)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", ports[role]))
        self._udp.settimeout(0.1)
        self._threads = [
            threading.Thread(target=work) for work in (self._packets, self._accept)[: 1 + (role == "gcs")]
        ]
        if role == "gcs":
            self._server = socket.create_server(("127.0.0.1", ports["handshake"]))
            self._server.settimeout(0.1)
        for thread in self._threads:
            thread.start()

    def _peer(self) -> tuple[str, int]:
        return "127.0.0.1", self.ports["drone" if self.role == "gcs" else "gcs"]

    def _packets(self) -> None:
        while not self._stop.is_set():
            try:
                datagram = self._udp.recv(65_536)
            except TimeoutError:
                continue
            with self._lock:
                if self.session.receive(datagram, time.monotonic_ns()).first and self.role == "gcs":
                    self._udp.sendto(self.session.seal_control(packet.EPOCH_ACK), self._peer())

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                sock, _ = self._server.accept()
            except TimeoutError:
                continue
            with sock:
                self._serve(sock)

    def _basis(self, session_id: bytes) -> RekeyBasis | None:
        held = [one for one in self.made if one.session_id == session_id]
        return RekeyBasis(held[0].peer_key_id, held[0].epoch, held[0].rekey_secret) if held else None

    def _serve(self, sock: socket.socket) -> None:
        index = 1000 + len(self.made)
        machine = GcsHandshake(
            identity=self.identity,
            psks=PskStore([self.psk]),
            accepted={self.suite},
            min_level=1,
            primitives=self.native,
            rng=os.urandom,
            tracer=Tracer(),
            counters={},
            rx_index=index,
            rekey_basis=self._basis,
        )

        def install() -> None:
            if machine.established is not None and machine.established not in self.made:
                with self._lock:
                    self.session.install(machine.established, time.monotonic_ns())
                    self.made.append(machine.established)

        try:
            converse(FrameStream(sock, time.monotonic_ns()), machine, Tracer(), before_send=install)
        except HandshakeError:
            return  # the other end dials again

    def dial(self) -> None:
        """As a drone: a new session, or a rekey of the last."""
        last = self.made[-1] if self.made else None
        machine = DroneHandshake(
            suite=get(self.suite),
            psk=self.psk,
            trusted=[self.identity.public],
            min_level=1,
            epoch=len(self.made),
            primitives=self.native,
            rng=os.urandom,
            tracer=Tracer(),
            counters={},
            rx_index=1000 + len(self.made),
            rekey=RekeyFrom(last.session_id, last.epoch, last.rekey_secret) if last else None,
        )
        with socket.create_connection(("127.0.0.1", self.ports["handshake"]), timeout=10) as sock:
            converse(FrameStream(sock, time.monotonic_ns()), machine, Tracer())
        assert machine.established is not None
        with self._lock:
            self.session.install(machine.established, time.monotonic_ns())
            self.made.append(machine.established)
            self._udp.sendto(self.session.seal_control(packet.KEEPALIVE), self._peer())

    def heard(self) -> bool:
        """Has the peer been heard on the newest epoch?"""
        with self._lock:
            return self.session.epoch == self.made[-1].epoch

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._udp.close()
        if self.role == "gcs":
            self._server.close()


EPOCHS = 4


AEADS = {
    "aesgcm": SUITE,
    "chacha20poly1305": "cs-mlkem768-chacha20poly1305-mldsa65",
    "ascon128a": "cs-mlkem768-ascon128a-mldsa65",
    "asconaead128": "xs-mlkem768-asconaead128-mldsa65",
}


def shared_secrets(monkeypatch: pytest.MonkeyPatch, spec_end: SpecEnd) -> None:
    """Keep what this end's KEM gives or gets: the other end's library had it, too."""
    kem = spec_end.native.kem(get(spec_end.suite).kem.token)
    encapsulate, decapsulate = kem.encapsulate, kem.decapsulate

    def encapsulated(public_key: bytes) -> tuple[bytes, bytearray]:
        ciphertext, secret = encapsulate(public_key)
        spec_end.shared.append(bytes(secret))
        return ciphertext, secret

    def decapsulated(pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        secret = decapsulate(pair, ciphertext)
        spec_end.shared.append(bytes(secret))
        return secret

    monkeypatch.setattr(kem, "encapsulate", encapsulated)
    monkeypatch.setattr(kem, "decapsulate", decapsulated)
    monkeypatch.setattr(spec_end.native, "kem", lambda _token: kem)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/mem is Linux's")
@pytest.mark.parametrize("token", ["hqc128v5", "hqc192v5", "hqc256v5"])
def test_keys_of_the_newer_hqc_are_nowhere_in_memory(token: str, native: Primitives) -> None:
    """Of the code that `pqlink` runs, in a process that shows its keys, as hexadecimal text alone: the lab's
    own ends do not know these suites."""
    del native  # without liboqs the program does not start
    with subprocess.Popen(
        [program("oracle"), "kem", token], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as kem:
        assert kem.stdin is not None and kem.stdout is not None

        def ask(line: str) -> tuple[bytes, bytes]:
            assert kem.stdin is not None and kem.stdout is not None
            kem.stdin.write(line + "\n")
            first, second = kem.stdout.readline().split()
            return bytes.fromhex(first), bytes.fromhex(second)

        public, secret = ask("pair")
        assert secret.startswith(public)
        # The public key is no secret: after it come the seed of the vectors, sigma, and the seed of all.
        private = secret[len(public) :]
        seeds = {"of the vectors": private[:32], "sigma": private[32:-32], "of all": private[-32:]}
        assert hits(kem.pid, seeds) == dict.fromkeys(seeds, 1), "the search finds what is there, in one place"
        ciphertext, sent = ask(f"encaps {public.hex()}")
        assert not any(hits(kem.pid, {"sent": sent}).values())
        _, taken = ask(f"decaps {ciphertext.hex()}")
        assert taken == sent
        assert not any(hits(kem.pid, {**seeds, "shared secret": sent}).values())


def between_handshakes(link: End, secrets: dict[str, bytes]) -> dict[str, int]:
    """What is found while no handshake is under way: a drone whose station is gone goes on dialling, and a
    rekey has a copy of its secret until it has ended."""
    found: dict[str, int] = {}

    def begun_and_ended() -> tuple[int, int]:
        counts = {name: int(count) for name, count in link.status().items() if name.startswith("hs_")}
        begun = counts.pop("hs_started")
        counts.pop("hs_begun", None)  # a station's: the Hello was right
        return begun, sum(counts.values())  # what is left has an end each: completed, or a reason

    def looked() -> bool:
        before = begun_and_ended()
        found.update(hits(link.pid, secrets))
        return before[0] == before[1] and begun_and_ended() == before

    wait_for("a look without a handshake", looked)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/mem is Linux's")
@pytest.mark.parametrize("aead", AEADS)
@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_keys_of_ended_epochs_are_nowhere_in_memory(
    role: str, aead: str, tmp_path: Path, keys: Path, native: Primitives, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"handshake": free_port()}
    ports |= {end: free_port() for end in ("drone", "gcs")}
    rekey: dict[str, object] = {"suite": AEADS[aead]} | ({"rekey_s": 1} if role == "drone" else {})
    link, other = End(tmp_path, role, keys, ports, **rekey), "gcs" if role == "drone" else "drone"
    spec_end: SpecEnd | None = None
    try:
        if role == "drone":
            spec_end = SpecEnd(other, keys, native, ports, AEADS[aead])
            shared_secrets(monkeypatch, spec_end)
            link.start()
            wait_for("rekeys", lambda: spec_end is not None and len(spec_end.made) >= EPOCHS)
        else:
            link.start()
            wait_for("the gcs", lambda: (tmp_path / "gcs.sock").exists())
            spec_end = SpecEnd(other, keys, native, ports, AEADS[aead])
            shared_secrets(monkeypatch, spec_end)
            for _ in range(EPOCHS):
                spec_end.dial()
                wait_for("an answer", lambda: link.status().get("epoch") == str(len(spec_end.made) - 1))
        spec_end.close()  # no rekey begins any more
        wait_for("the epoch in use", lambda: link.status().get("epoch") == str(spec_end.made[-1].epoch))
        last = secrets_of(spec_end.made[-1:])
        ended = secrets_of(spec_end.made[:-1])
        # Two seconds after the switch the epoch before is over, whenever this machine gets to it.
        wait_for("the end of the epoch before", lambda: not any(hits(link.pid, ended).values()))
        assert not any(hits(link.pid, ended).values())
        living = between_handshakes(link, last)
        epoch = spec_end.made[-1].epoch
        for name in ("send key", "receive key", "rekey secret"):
            assert living[f"epoch {epoch} {name}"] >= 1, "the search finds what is there"
        assert living[f"epoch {epoch} exporter"] == 0, "nothing uses it"
        assert living[f"epoch {epoch} rekey secret"] == 1, "in one place"
        assert sum(living.values()) == 3, f"each in one place: {living}"
        # What liboqs gave or took: no epoch's, the living one's neither.
        given = {f"shared secret {number}": secret for number, secret in enumerate(spec_end.shared)}
        assert len(given) >= EPOCHS
        assert not any(hits(link.pid, given).values())
    finally:
        if spec_end is not None:
            spec_end.close()
        link.close()
