"""Epochs change, the peer moves, and the plain mode runs, under both data planes alike."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from core_pair import established
from plane_pair import PlanePair, plane_pair

from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.primitives import load
from waiting import LIMIT_S, OUTSTANDING, wait_until

pytestmark = pytest.mark.native
CLOCKS_NS = 50_000
"""How far the core's clock may be from the interpreter's."""
KINDS = ["native", "python", "mixed"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(kind: str) -> Iterator[PlanePair]:
    with plane_pair(kind) as made:
        made.install(0)
        assert made.drone.confirmed.wait(LIMIT_S) and made.gcs.confirmed.wait(LIMIT_S)
        yield made


def test_an_epoch_is_acknowledged_and_timed(pair: PlanePair) -> None:
    assert wait_until(lambda: pair.counters("drone")["rx_epoch_ack"] == 1)
    before_ns = time.monotonic_ns()
    pair.drone.confirmed.clear()
    pair.install(1)
    assert pair.drone.confirmed.wait(LIMIT_S)
    assert [frame.kind for frame in pair.drone.take_control()] == [packet.EPOCH_ACK] * 2
    assert pair.drone.take_control() == []
    for plane in pair.planes.values():
        assert wait_until(lambda plane=plane: plane.first_sent_ns(1) is not None)  # type: ignore[misc]
        first_ns = plane.first_sent_ns(1)
        assert first_ns is not None and before_ns - CLOCKS_NS <= first_ns <= time.monotonic_ns() + CLOCKS_NS
        assert plane.first_sent_ns(0) is not None and plane.first_sent_ns(2) is None
    gcs = pair.counters("gcs")
    assert gcs["tx_epoch_ack"] == 2 and gcs["tx_keepalive"] == 0
    pair.drone.attach(None)
    assert pair.drone.first_sent_ns(1) is None


def test_requests_reach_the_drone_while_traffic_runs_and_no_plaintext_port(pair: PlanePair) -> None:
    payload = packet.rekey_request(packet.REQUEST_ASKED)
    assert pair.gcs.send_control(packet.REKEY_REQUEST, payload)
    assert pair.gcs.send_control(packet.REKEY_REQUEST, payload + b"?")  # authentic, and means nothing
    pair.send("gcs", b"traffic")
    assert pair.receive("drone") == b"traffic"
    frames = [frame for frame in pair.drone.take_control() if frame.kind != packet.EPOCH_ACK]
    assert [frame[:3] for frame in frames] == [(packet.REKEY_REQUEST, payload, 0)]
    assert frames[0].source == pair.gcs.sealed_address
    assert wait_until(lambda: pair.counters("drone")["plaintext_out"] == 1)
    assert pair.counters("drone")["rx_rekey_request"] == 2 and pair.counters("drone")["rx_ok"] == 1


def test_frames_that_nobody_fetches_give_way_and_are_counted(pair: PlanePair) -> None:
    assert wait_until(lambda: pair.counters("drone")["rx_epoch_ack"] == 1)
    for number in range(100):
        pair.gcs.send_control(packet.REKEY_REQUEST, number.to_bytes(4, "big"))
    assert wait_until(lambda: pair.counters("drone")["rx_rekey_request"] == 100)
    frames = pair.drone.take_control()
    assert [int.from_bytes(frame.payload, "big") for frame in frames] == list(range(36, 100))
    assert pair.counters("drone")["control_dropped"] == 101 - 64


def refusals(pair: PlanePair, role: str) -> dict[str, int]:
    """What an end has refused, by reason."""
    counted = pair.counters(role)
    reasons = ("old_epoch", "unknown_index", "bad_header", "auth_failed", "replay", "not_ready", "queue_full")
    return {name: counted[name] for name in reasons if counted[name]}


def test_three_hundred_rekeys_under_traffic_lose_nothing(kind: str) -> None:
    """320 Hz both ways while the four epoch bits wrap 18 times.

    Whichever thread is stalled, no more is under way than the sockets hold: what is lost, the planes lost.
    """
    epochs, done, over = 300, threading.Event(), threading.Event()
    sent = {"drone": 0, "gcs": 0}
    got: dict[str, list[int]] = {"drone": [], "gcs": []}
    other = {"drone": "gcs", "gcs": "drone"}
    with plane_pair(kind) as pair:
        pair.install(0)
        assert pair.drone.confirmed.wait(LIMIT_S)

        def traffic() -> None:
            next_s = time.monotonic()
            while not done.is_set():
                for role in sent:
                    if sent[role] - len(got[other[role]]) < OUTSTANDING:
                        number = sent[role]
                        sent[role] += 1  # first: whoever waits for all that was sent waits for this one
                        pair.send(role, number.to_bytes(8, "big"))
                next_s += 1 / 320
                time.sleep(max(0.0, next_s - time.monotonic()))

        def sink(role: str) -> None:
            pair.peers[role].settimeout(0.1)
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    got[role].append(int.from_bytes(pair.receive(role), "big"))

        def arrived(before: dict[str, int]) -> bool:
            return all(len(got[other[role]]) >= before[role] for role in before)

        sender = threading.Thread(target=traffic)
        sinks = [threading.Thread(target=sink, args=(role,)) for role in sent]
        for thread in (sender, *sinks):
            thread.start()
        try:
            for epoch in range(1, epochs + 1):
                pair.drone.confirmed.clear()
                pair.install(epoch)
                assert pair.drone.confirmed.wait(LIMIT_S), epoch
                # Both ends seal under the new epoch from here on.
                before = dict(sent)
                time.sleep(0.01)
                # A third epoch ends the first at once, and with it what a thread that was kept waiting has
                # sealed under it: nobody rekeys that fast, so what came before the switch arrives first.
                whole = wait_until(lambda before=before: arrived(before))  # type: ignore[misc]
                assert whole, (epoch, {role: refusals(pair, role) for role in sent})
        finally:
            done.set()
            sender.join()
            wait_until(lambda: arrived(sent))
            over.set()
            for thread in sinks:
                thread.join()
        assert got["gcs"] == list(range(sent["drone"])) and got["drone"] == list(range(sent["gcs"]))
        assert sent["drone"] > epochs
        for role in sent:
            assert refusals(pair, role) == {}
        assert pair.counters("drone")["rx_epoch_ack"] == pair.counters("gcs")["tx_epoch_ack"] == epochs + 1


class Relay:
    """Sits before the drone: what the drone sends reaches the gcs from another port, as behind a new NAT
    binding."""

    def __init__(self, pair: PlanePair) -> None:
        self.pair = pair
        self.outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outer.bind(("127.0.0.4", 0))
        self.inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inner.bind(("127.0.0.4", 0))
        for end in (self.outer, self.inner):
            end.settimeout(LIMIT_S)
        pair.drone.set_peer(self.inner.getsockname())

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.outer.getsockname()
        return host, port

    def up(self) -> bytes:
        """One datagram from the drone to the gcs."""
        datagram = self.inner.recv(65_536)
        self.outer.sendto(datagram, self.pair.gcs.sealed_address)
        return datagram

    def down(self) -> bytes:
        """One datagram from the gcs, not passed on."""
        return self.outer.recv(65_536)

    def close(self) -> None:
        self.outer.close()
        self.inner.close()


@pytest.fixture
def relay(pair: PlanePair) -> Iterator[Relay]:
    made = Relay(pair)
    yield made
    made.close()


def test_the_peer_moves_after_an_answered_challenge_and_not_before(pair: PlanePair, relay: Relay) -> None:
    home = pair.drone.sealed_address
    assert pair.gcs.peer == home
    pair.send("drone", b"from elsewhere")
    relay.up()
    assert pair.receive("gcs") == b"from elsewhere"  # authentic: delivered
    challenge = relay.down()
    assert challenge[0] >> 4 == packet.PATH_CHALLENGE
    assert pair.gcs.peer == home
    counted = pair.counters("gcs")
    assert (counted["path_new_source"], counted["path_changed"], counted["tx_path_challenge"]) == (1, 0, 1)
    pair.send("gcs", b"still the old way")
    assert pair.receive("drone") == b"still the old way"
    # The drone knows the gcs as the relay's inner end, and answers the challenge to where it came from.
    relay.inner.sendto(challenge, home)
    assert relay.up()[0] >> 4 == packet.PATH_RESPONSE
    assert wait_until(lambda: pair.gcs.peer == relay.address)
    assert pair.counters("gcs")["path_changed"] == pair.counters("drone")["tx_path_response"] == 1
    pair.send("gcs", b"the new way")
    relay.inner.sendto(relay.down(), home)
    assert pair.receive("drone") == b"the new way"
    pair.gcs.deliver_notes()
    assert f"the peer moved to {relay.address[0]}:{relay.address[1]}" in pair.notes


def test_a_copied_or_held_packet_moves_nothing(pair: PlanePair, relay: Relay) -> None:
    home = pair.drone.sealed_address
    pair.send("drone", b"held back")
    held = relay.inner.recv(65_536)
    pair.drone.set_peer(pair.gcs.sealed_address)
    pair.send("drone", b"directly")
    assert pair.receive("gcs") == b"directly"
    for _ in range(3):  # late once, then a second copy, then a replay
        relay.outer.sendto(held, pair.gcs.sealed_address)
    assert pair.receive("gcs") == b"held back"
    assert wait_until(lambda: pair.counters("gcs")["duplicate"] + pair.counters("gcs")["replay"] == 2)
    counted = pair.counters("gcs")
    assert counted["replay"] >= 1
    assert counted["tx_path_challenge"] == counted["path_changed"] == 0 and counted["path_new_source"] == 1
    assert pair.gcs.peer == home


def test_the_answer_counts_only_from_the_challenged_address(pair: PlanePair, relay: Relay) -> None:
    home = pair.drone.sealed_address
    pair.send("drone", b"x")
    relay.up()
    relay.inner.sendto(relay.down(), home)
    response = relay.inner.recv(65_536)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(response, pair.gcs.sealed_address)
        assert wait_until(lambda: pair.counters("gcs")["rx_path_response"] == 1)
    assert pair.gcs.peer == home and pair.counters("gcs")["path_changed"] == 0


def test_a_new_cell_starts_from_the_configured_peer(pair: PlanePair, relay: Relay) -> None:
    home = pair.drone.sealed_address
    pair.send("drone", b"x")
    relay.up()
    relay.inner.sendto(relay.down(), home)
    relay.up()
    assert wait_until(lambda: pair.gcs.peer == relay.address)
    pair.gcs.attach(pair.gcs.new_cell(load(), ledger=False))
    assert pair.gcs.peer == home and pair.gcs.take_control() == []


def test_plain_forwards_in_the_clear_to_the_configured_peer_alone(kind: str) -> None:
    with plane_pair(kind, "null") as pair:
        pair.install(0)
        pair.send("drone", b"in the clear")
        assert pair.receive("gcs") == b"in the clear"
        pair.send("gcs", b"and back")
        assert pair.receive("drone") == b"and back"
        home = pair.drone.sealed_address
        # Whoever can reach the port is heard: that is what plain means. It still moves nothing.
        forger = Session("drone", {}, load())
        forger.install(established("drone", "null", 0, 1, 1), 0)
        for _ in range(500):
            datagram, _, _ = forger.seal_data(b"forged")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.settimeout(0.2)
            stranger.bind(("127.0.0.5", 0))
            stranger.sendto(datagram, pair.gcs.sealed_address)
            assert pair.receive("gcs") == b"forged"
            challenge = forger.seal_control(packet.PATH_CHALLENGE, bytes(8))
            stranger.sendto(challenge, pair.gcs.sealed_address)
            assert wait_until(lambda: pair.counters("gcs")["rx_path_challenge"] == 1)
            with pytest.raises(TimeoutError):
                stranger.recv(2048)
        counted = pair.counters("gcs")
        assert pair.gcs.peer == home and pair.gcs.take_control() == []
        assert counted["tx_path_challenge"] == counted["tx_path_response"] == counted["path_new_source"] == 0
        assert counted["tx_epoch_ack"] == pair.counters("drone")["rx_epoch_ack"] == 0
        assert counted["tx_data_bytes"] == 8 + len(b"and back")


def test_the_largest_plaintext_passes_and_a_larger_one_is_counted(pair: PlanePair) -> None:
    largest = os.urandom(packet.MAX_PLAINTEXT_BYTES)
    pair.send("drone", largest)
    assert pair.receive("gcs") == largest
    pair.send("drone", largest + b"x")
    assert wait_until(lambda: pair.counters("drone")["oversize"] == 1)
    assert pair.counters("drone")["oversize_link"] == 0
