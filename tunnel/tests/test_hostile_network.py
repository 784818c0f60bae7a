"""Real endpoints on loopback against slow peers, floods and forged packets, on both data planes."""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from endpoint_kit import Lab

from pqspec.shell.sockets import failed_send
from pqtunnel import wire
from waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.native
#: both data planes pass the same tests
PLANES = ("python", "native")

SLOW_PEERS = 200
HERE = Path(__file__).parent


@contextmanager
def slow_peers(address: tuple[str, int], count: int, seconds: float) -> Iterator[None]:
    """`count` strangers who hold their connections, until the block ends."""
    command = [
        sys.executable,
        str(HERE / "slow_peers.py"),
        address[0],
        str(address[1]),
        str(count),
        str(seconds),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            yield
        finally:
            child.terminate()


def handshake_ms(pair: Lab, count: int) -> list[float]:
    """Walls of `count` cold handshakes as the drone measures them."""
    before = len(drone_walls(pair))
    assert pair.handshakes(count)["completed"] == count
    return drone_walls(pair)[before:]


def drone_walls(pair: Lab) -> list[float]:
    """Walls of all handshakes so far, ms."""
    spans = map(json.loads, pair.drone.agent.endpoint.work.journal.span_lines(0, 1_000_000))
    return [(s["end_ns"] - s["start_ns"]) / 1e6 for s in spans if s["step"] == "handshake"]


@pytest.mark.linux("times under wine say nothing")
def test_slowloris_leaves_a_good_drone_twice_its_idle_handshake_at_most(lab_pair: Lab) -> None:
    """Idle and attacked blocks take turns, so that a busy machine is busy for both."""
    lab_pair.prepare()
    address = lab_pair.gcs.door
    idle, attacked = handshake_ms(lab_pair, 10)[:0], list[float]()
    for _ in range(3):
        idle += handshake_ms(lab_pair, 20)
        with slow_peers(address, SLOW_PEERS, 30.0):
            attacked += handshake_ms(lab_pair, 20)
    ratio = statistics.median(attacked) / statistics.median(idle)
    print(
        f"handshake median idle {statistics.median(idle):.2f} ms, beside {SLOW_PEERS} slow peers "
        f"{statistics.median(attacked):.2f} ms: {ratio:.2f} x; slowest {max(attacked):.1f} ms; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    counted = lab_pair.gcs.counters()
    assert counted["hs_evicted"] >= SLOW_PEERS - lab_pair.gcs.config.half_open_limit  # they were there
    assert counted["hs_completed"] == len(idle) + len(attacked) + 10
    assert ratio <= 2.0


def open_descriptors() -> int:
    """How many this process holds."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.linux("counts open files in /proc")
def test_thousands_of_connections_leave_no_trace(lab_pair: Lab) -> None:
    lab_pair.prepare()
    address = lab_pair.gcs.door
    threads, open_files = threading.active_count(), open_descriptors()
    for _ in range(3000):
        with socket.socket() as sock:
            sock.settimeout(LIMIT_S)
            try:
                sock.connect(address)
            except OSError:
                continue  # refused by reset before it was up: that is one answer
    assert wait_until(lambda: lab_pair.handshakes(1)["completed"] == 1)
    assert wait_until(lambda: open_descriptors() <= open_files + 2)
    assert wait_until(lambda: threading.active_count() <= threads + 2)
    counted = lab_pair.gcs.counters()
    refused = sum(
        counted[n] for n in ("hs_connection_lost", "hs_rate_limited", "hs_evicted", "hs_half_open_limit")
    )
    assert refused > 1000 and counted["hs_keygens"] == 1


def test_a_flood_of_hellos_costs_macs_and_nothing_else(lab_pair: Lab) -> None:
    lab_pair.prepare()
    address = lab_pair.gcs.door
    rng = random.Random(1)
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            body = bytes((1, 1, 2, 2, 1, 0)) + rng.randbytes(wire.HELLO_BODY_BYTES - 6)
            try:
                with socket.create_connection(address, 2, source_address=("127.0.0.9", 0)) as sock:
                    sock.sendall(wire.frame_header(wire.HELLO, len(body)) + body)
                    while sock.recv(4096):
                        pass
            except OSError:
                continue

    threads = [threading.Thread(target=flood, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert wait_until(lambda: lab_pair.gcs.counters()["hs_bad_mac"] > 20)
        result = lab_pair.handshakes(5)
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert result["completed"] == 5
    counted = lab_pair.gcs.counters()
    assert counted["hs_bad_mac"] > 20
    assert counted["hs_keygens"] == counted["hs_signatures"] == counted["hs_decaps"] == 5


def spoiled(rng: random.Random, genuine: bytes) -> bytes:
    """One forged, truncated, flipped, stretched or foreign datagram made from a genuine one."""
    kind = rng.randrange(6)
    at = rng.randrange(len(genuine))
    if kind == 0:
        return genuine[:at] + bytes((genuine[at] ^ 1 << rng.randrange(8),)) + genuine[at + 1 :]
    if kind == 1:
        return genuine[:at]
    if kind == 2:
        return genuine + rng.randbytes(1 + rng.randrange(16))
    if kind == 3:  # another sequence, far ahead or behind
        return genuine[:4] + rng.randbytes(4) + genuine[8:]
    if kind == 4:  # another epoch or type
        return bytes((rng.randrange(256),)) + genuine[1:]
    return rng.randbytes(rng.randrange(200))


def test_forged_copied_and_replayed_packets_do_not_disturb_the_link(lab_pair: Lab, plane: str) -> None:
    lab_pair.flowing()
    target = lab_pair.gcs.agent.endpoint.dataplane.sealed_address
    seen: list[bytes] = []
    moved = lab_pair.gcs.counters()["path_changed"]
    wiretap = Wiretap(lab_pair, target)
    rng = random.Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign:
        foreign.bind(("127.0.0.9", 0))
        for number in range(60):
            payload = b"honest %03d" % number
            lab_pair.drone.plain.send(payload)
            sealed = wiretap.take()
            assert lab_pair.gcs.plain.receive() == payload
            seen.append(sealed)
            for _ in range(4):
                foreign.sendto(spoiled(rng, rng.choice(seen)), target)
            foreign.sendto(rng.choice(seen), target)  # an exact copy, from elsewhere and late
    lab_pair.gcs.plain.send(b"back")  # and the gcs still answers to the drone, not to the copier
    assert lab_pair.drone.plain.receive() == b"back"
    wiretap.close()
    lab_pair.shut()
    drone, gcs = lab_pair.stop()
    assert gcs["rx_ok"] == drone["tx_data"] == 60
    assert drone["rx_ok"] == gcs["tx_data"] == 1
    copies = gcs["duplicate"] + gcs["replay"]
    refused = copies + sum(gcs[name] for name in ("bad_header", "unknown_index", "auth_failed", "old_epoch"))
    assert refused >= 240 and copies >= 60
    assert gcs["path_changed"] == moved and gcs["hs_completed"] == 1


class Wiretap:
    """Stands in the sealed path from drone to gcs and keeps what passes."""

    def __init__(self, pair: Lab, target: tuple[str, int]) -> None:
        self._target = target
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(LIMIT_S)
        self._pair = pair
        pair.drone.agent.endpoint.dataplane.set_peer(self._socket.getsockname())
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._out.bind(("127.0.0.2", 0))

    def take(self) -> bytes:
        """The next data packet, passed on. Keepalives are passed on too."""
        while True:
            datagram = self._socket.recv(65_536)
            self._out.sendto(datagram, self._target)
            if datagram[0] >> 4 == 1:
                return datagram

    def close(self) -> None:
        self._pair.drone.agent.endpoint.dataplane.set_peer(self._target)
        self._socket.close()
        self._out.close()


def test_a_datagram_larger_than_the_link_has_its_own_counter_and_a_hint() -> None:
    counter, line = failed_send(OSError(errno.EMSGSIZE, "Message too long"), 1600, ("198.18.2.30", 46011))
    assert counter == "oversize_link" and "1600 bytes" in line and "MTU" in line
    assert failed_send(OSError(errno.ENETUNREACH, "no route"), 9, ("198.18.2.30", 1))[0] == "send_failed"
