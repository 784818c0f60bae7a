"""A hostile network at the handshake: relays, replays, malformed frames, silent strangers. Each is refused
before it costs anything dear, with its counter."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import SUITE, Lab, Side, lab

from crowd import A_SECOND, ROUND_TRIP_S, SOURCES, Distance, knocking
from early_kit import early_drone, held_to_what_was_given
from pqtunnel import wire
from pqtunnel.endpoint.identity_files import load_drone
from pqtunnel.primitives import load
from waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.native


class Relay:
    """A TCP relay between drone and gcs that may alter the bytes of either direction."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = 0
        self.change: dict[str, Any] = {}
        self.recorded: dict[str, bytearray] = {"up": bytearray(), "down": bytearray()}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            for name, a, b in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self._pump, args=(name, a, b), daemon=True).start()

    def _pump(self, name: str, source: socket.socket, sink: socket.socket) -> None:
        position = 0
        try:
            while chunk := source.recv(65_536):
                data = bytearray(chunk)
                self.recorded[name] += data
                change = self.change.get(name)
                if change is not None:
                    data = change(data, position)
                position += len(chunk)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for sock in (source, sink):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def relayed(key_folder: Path, tmp_path: Path) -> Any:
    relay = Relay()

    def through(port: int) -> int:
        relay.target = port
        return relay.port

    with lab(key_folder, tmp_path, handshake_port=through) as pair:
        yield pair, relay
    relay.close()


def _swap(at: int, bits: int) -> Callable[[bytearray, int], bytearray]:
    """Changes the byte at `at` of the whole stream."""

    def swap(data: bytearray, position: int) -> bytearray:
        if position <= at < position + len(data):
            data[at - position] ^= bits
        return data

    return swap


def _hello_bytes() -> int:
    return wire.max_frame_length(wire.HELLO, None)


def test_relay_that_swaps_one_ciphertext_byte_is_refused_before_decapsulation(relayed: Any) -> None:
    pair, relay = relayed
    pair.prepare()
    relay.change["up"] = _swap(_hello_bytes() + 4 + 40, 1)  # inside ClientKem's ciphertext
    result = pair.handshakes(1)
    assert result["completed"] == 0
    assert result["failures"][0]["reason"]
    assert wait_until(lambda: pair.gcs.counters()["hs_bad_finished"] >= 1)
    counted = pair.gcs.counters()
    assert counted["hs_decaps"] == 0
    assert counted["hs_completed"] == 0
    assert pair.drone.counters()["hs_completed"] == 0
    relay.change.clear()
    assert pair.handshakes(1)["completed"] == 1  # and nothing is left broken


def test_relay_that_alters_the_server_hello_is_refused_by_signature(relayed: Any) -> None:
    pair, relay = relayed
    pair.prepare()
    relay.change["down"] = _swap(wire.max_frame_length(wire.CHALLENGE, None) + 200, 0x80)
    assert pair.handshakes(1)["completed"] == 0
    assert pair.drone.counters()["hs_bad_signature"] >= 1
    assert pair.drone.counters()["hs_encaps"] == 0


def test_recorded_hello_replayed_500_times_costs_no_keygen_and_no_signature(relayed: Any) -> None:
    pair, relay = relayed
    pair.prepare()
    assert pair.handshakes(1)["completed"] == 1
    hello = bytes(relay.recorded["up"][: _hello_bytes()])
    before = pair.gcs.counters()
    for _ in range(500):
        with socket.create_connection(("127.0.0.1", relay.target), timeout=LIMIT_S) as sock:
            sock.sendall(hello)
            while sock.recv(4096):
                pass
    assert wait_until(
        lambda: pair.gcs.counters()["hs_bad_mac"] + pair.gcs.counters()["hs_rate_limited"] == 500
    )
    after = pair.gcs.counters()
    assert after["hs_keygens"] == before["hs_keygens"]
    assert after["hs_signatures"] == before["hs_signatures"]
    assert after["hs_bad_mac"] > 0
    assert pair.handshakes(1)["completed"] == 1


def test_another_suite_than_the_prepared_one_is_refused(lab_pair: Lab) -> None:
    lab_pair.gcs.call("prepare", cell_id="cell-1", suite_id="cs-mlkem1024-aesgcm-mldsa87")
    lab_pair.gcs.call("start", cell_id="cell-1")
    lab_pair.drone.call("prepare", cell_id="cell-1", suite_id=SUITE)
    lab_pair.drone.call("start", cell_id="cell-1")
    result = lab_pair.handshakes(1)
    assert result["completed"] == 0
    assert wait_until(lambda: lab_pair.gcs.counters()["hs_policy"] >= 1)
    assert lab_pair.gcs.counters()["hs_keygens"] == 0


def test_wrong_psk_is_refused_like_an_unknown_drone(key_folder: Path, tmp_path: Path) -> None:
    import shutil

    keys = tmp_path / "keys"
    shutil.copytree(key_folder, keys)
    (keys / "drone" / "psk.secret").write_bytes(bytes(32))
    with lab(keys, tmp_path / "state") as pair:
        pair.prepare()
        assert pair.handshakes(1)["completed"] == 0
        assert wait_until(lambda: pair.gcs.counters()["hs_bad_mac"] >= 1)
        assert pair.gcs.counters()["hs_keygens"] == 0


@pytest.mark.parametrize(
    ("attack", "counter"),
    [
        (bytes([wire.VERSION << 4 | wire.HELLO]) + b"\xff\xff\xff" + b"x" * 100, "hs_bad_length"),  # 16 MiB
        (wire.frame_header(wire.CLIENT_KEM, 1200) + b"x" * 100, "hs_bad_length"),  # not its turn
        (b"\xff\xff\xff\xff", "hs_bad_version"),
        (b"GET / HTTP/1.1\r\n\r\n", "hs_bad_version"),
        (wire.frame_header(wire.HELLO, wire.HELLO_BODY_BYTES) + b"x", "hs_connection_lost"),  # cut short
        (b"\x11", "hs_connection_lost"),
    ],
)
def test_malformed_frames_are_refused_without_work(lab_pair: Lab, attack: bytes, counter: str) -> None:
    lab_pair.prepare()
    address = lab_pair.gcs.door
    with socket.create_connection(address, timeout=LIMIT_S) as sock:
        sock.sendall(attack)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    assert wait_until(lambda: lab_pair.gcs.counters()[counter] == 1)
    assert lab_pair.gcs.counters()["hs_keygens"] == 0
    assert lab_pair.handshakes(1)["completed"] == 1


def test_silent_strangers_do_not_keep_the_drone_out(lab_pair: Lab) -> None:
    lab_pair.prepare()
    address = lab_pair.gcs.door
    held = [socket.create_connection(address, timeout=LIMIT_S) for _ in range(10)]
    try:
        assert lab_pair.handshakes(3)["completed"] == 3
    finally:
        for sock in held:
            sock.close()


def test_half_open_connections_are_bounded_and_the_oldest_gives_way(lab_pair: Lab) -> None:
    lab_pair.prepare()
    address = lab_pair.gcs.door
    limit = lab_pair.gcs.config.half_open_limit
    held = []
    try:
        for _ in range(limit + 4):
            sock = socket.create_connection(address, timeout=LIMIT_S)
            held.append(sock)
            assert sock.recv(1)  # the Challenge: it has its place
        assert wait_until(lambda: lab_pair.gcs.counters()["hs_evicted"] == 4)
        assert lab_pair.handshakes(1)["completed"] == 1  # while all places are taken
        assert lab_pair.gcs.counters()["hs_half_open_limit"] == 0
        assert lab_pair.gcs.counters()["hs_evicted"] == 5
    finally:
        for sock in held:
            sock.close()


@pytest.mark.linux("loopback has 127.0.0.0/8 there alone")
def test_a_hello_that_comes_first_answers_what_was_given_to_its_source_once(
    key_folder: Path, tmp_path: Path
) -> None:
    keys = load_drone(key_folder / "drone")
    with lab(key_folder, tmp_path, plane="native") as pair, ExitStack() as stack:
        pair.prepare()
        address = pair.gcs.door

        def dial(source: str) -> socket.socket:
            made = socket.create_connection(address, timeout=LIMIT_S, source_address=(source, 0))
            return stack.enter_context(made)

        def counted(name: str) -> int:
            return int(pair.gcs.counters()[name])

        held_to_what_was_given(
            dial,
            pair.gcs.config.half_open_limit,
            lambda: early_drone(keys.psk, keys.trusted, load()),
            counted,
        )
        assert counted("hs_keygens") == 2, "nothing dear was done for any that was refused"


@pytest.mark.linux("loopback has 127.0.0.0/8 there alone")
def test_a_drone_with_a_late_hello_gets_through_whoever_knocks(key_folder: Path, tmp_path: Path) -> None:
    """It loses its place before its Hello comes, and comes back with it first."""
    ways: list[Distance] = []

    def far_away(port: int) -> int:
        ways.append(Distance(("127.0.0.1", port), ROUND_TRIP_S / 2))
        return ways[0].port

    try:
        with lab(key_folder, tmp_path, plane="native", handshake_port=far_away) as pair:
            pair.prepare()
            assert pair.handshakes(1)["completed"] == 1
            address = pair.gcs.door
            with knocking(address[1], SOURCES, A_SECOND, 100_000):
                assert wait_until(lambda: pair.gcs.counters()["hs_evicted"] >= 256)
                for _ in range(8):
                    assert pair.event("rekey")["result"] == "completed"
                in_a_block = pair.handshakes(1)
                drone, gcs = pair.stop()
        assert drone["rekey_failed"] == 0
        assert drone["hs_retry"] >= 8 and gcs["hs_early"] >= 8, "the crowd did take its places"
        assert (drone["hs_connection_lost"], gcs["hs_stale_cookie"]) == (0, 0)
        refused = {failure["counter"] for failure in in_a_block["failures"]}
        assert refused <= {"hs_retry"}, "what is measured is dialled once, and said where it failed"
    finally:
        for way in ways:
            way.close()


def test_a_source_that_dials_too_often_is_slowed_before_any_work(key_folder: Path, tmp_path: Path) -> None:
    gcs = Side("gcs", key_folder, tmp_path, limits={"token_burst": 10, "tokens_per_s": 0.01})
    try:
        gcs.call("prepare", cell_id="c", suite_id=SUITE)
        address = gcs.door
        challenged = 0
        for _ in range(40):
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(address, timeout=LIMIT_S) as sock,
            ):
                challenged += bool(sock.recv(1))
        assert 10 <= challenged <= 12, "a new place each 100 s: none, however long this takes"
        assert wait_until(lambda: gcs.counters()["hs_rate_limited"] == 40 - challenged)
        assert gcs.counters()["hs_keygens"] == 0
    finally:
        gcs.close()


@pytest.mark.parametrize("plane", ["native", "python"])
def test_an_older_handshake_held_back_displaces_no_newer_one(
    key_folder: Path, tmp_path: Path, plane: str
) -> None:
    """Who stands on the path keeps the last frame of a handshake that the drone has given up."""
    keys = load_drone(key_folder / "drone")
    with lab(key_folder, tmp_path, plane=plane) as pair:
        pair.prepare()
        address = pair.gcs.door
        older = early_drone(keys.psk, keys.trusted, load())
        with socket.create_connection(address, timeout=LIMIT_S) as sock, sock.makefile("rb") as stream:
            older.start()
            for _ in range(2):
                length = older.on_header(stream.read(4))
                frame = b"".join(older.on_body(stream.read(length)))
                if older.wait_step == "wait_server_hello":
                    sock.sendall(frame)
            assert pair.handshakes()["completed"] == 1, "the drone has dialled again"
            sock.sendall(frame)
            assert stream.read(4) == wire.ALERT_FRAME
        assert wait_until(lambda: pair.gcs.counters()["hs_policy"] == 1)
        assert pair.gcs.counters()["hs_completed"] == 1
        pair.open()
        for number in range(5):
            pair.drone.plain.send(b"up %d" % number)
            assert pair.gcs.plain.receive() == b"up %d" % number
            pair.gcs.plain.send(b"down %d" % number)
            assert pair.drone.plain.receive() == b"down %d" % number


@pytest.mark.parametrize("plane", ["native", "python"])
def test_a_second_drone_that_takes_the_place_is_counted(key_folder: Path, tmp_path: Path, plane: str) -> None:
    """The lab's gcs has one session: who loses it to another drone, and who takes it back, is told."""
    keys = tmp_path / "keys"
    shutil.copytree(key_folder, keys)
    other = keys / "gcs" / "psk" / "0123456789abcdef.secret"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    second = tmp_path / "second"
    shutil.copytree(keys, second)
    (second / "drone" / "psk.secret").write_bytes(other.read_bytes())
    (second / "drone" / "drone_id.hex").write_text(other.stem)
    with lab(keys, tmp_path, plane=plane) as pair:
        pair.prepare()
        assert pair.handshakes(3)["completed"] == 3
        assert pair.gcs.counters()["hs_displaced"] == 0, "a drone may replace its own session"
        address = pair.gcs.door
        rival = Side(
            "drone",
            second,
            tmp_path / "rival",
            plane=plane,
            PQ_BIND="127.0.0.5",
            PQ_PEER="127.0.0.1",
            PQ_HANDSHAKE_PORT=str(address[1]),
            PQ_SEALED_PORT=str(pair.drone.agent.endpoint.dataplane.sealed_address[1]),
            PQ_PEER_SEALED_PORT=str(pair.gcs.agent.endpoint.dataplane.sealed_address[1]),
        )
        try:
            rival.call("prepare", cell_id="cell-1", suite_id=SUITE)
            rival.call("start", cell_id="cell-1")
            block = {"kind": "handshake_block", "count": 2, "min_count": 1, "max_s": LIMIT_S}
            assert rival.call("event", cell_id="cell-1", **block)["completed"] == 2
            assert pair.gcs.counters()["hs_displaced"] == 1
            assert pair.handshakes(1)["completed"] == 1
            assert pair.gcs.counters()["hs_displaced"] == 2
        finally:
            rival.close()


def test_a_station_that_ends_waits_for_no_strangers(key_folder: Path, tmp_path: Path) -> None:
    with lab(key_folder, tmp_path) as pair:
        pair.prepare()
        endpoint = pair.gcs.agent.endpoint
        address, acceptor = endpoint.handshake_address, endpoint._acceptor
        assert address is not None and acceptor is not None
        with socket.create_connection(address, timeout=LIMIT_S) as sock, sock.makefile("rb") as stream:
            assert len(stream.read(4)) == 4, "it is challenged, and says nothing"
            acceptor.close()
            assert not any(thread.is_alive() for thread in acceptor._threads)
