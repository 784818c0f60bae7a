"""Router and lease: directions, order, strangers, and settings that end by themselves."""

from __future__ import annotations

import ipaddress

import pytest

from pqlink.errors import RequestError
from pqlink.lease import Lease
from pqlink.router import MAX_WAITING, Router
from pqlink.settings import BLOCKED, NOTHING, Side

DRONE, GCS = "198.18.2.20", "198.18.2.30"
S = 1_000_000_000
MS = 1_000_000


def packet(source: str, target: str, body: bytes = b"") -> bytes:
    head = bytearray(20)
    head[0] = 0x45
    head[12:16], head[16:20] = (ipaddress.IPv4Address(a).packed for a in (source, target))
    return bytes(head) + body


def test_each_direction_has_its_settings() -> None:
    router = Router(DRONE, GCS)
    router.set(Side(delay_ms=80), Side(delay_ms=20))
    up, down = packet(DRONE, GCS, b"up"), packet(GCS, DRONE, b"down")
    router.offer(up, 0)
    router.offer(down, 0)
    assert router.next_ns == 20 * MS
    assert router.due(20 * MS - 1) == []
    assert router.due(20 * MS) == [down]
    assert router.due(80 * MS) == [up]
    assert router.next_ns is None


def test_packets_due_at_once_leave_in_order_of_arrival() -> None:
    router = Router(DRONE, GCS)
    sent = [packet(DRONE, GCS, bytes([i])) for i in range(50)]
    for p in sent:
        router.offer(p, 5)
    assert router.due(5) == sent


@pytest.mark.parametrize(
    "stranger",
    [
        b"",
        b"\x45",
        packet("198.18.4.20", GCS),
        packet(DRONE, "192.0.2.1"),
        packet(DRONE, DRONE),
        b"\x60" + bytes(60),
    ],
)
def test_strangers_are_dropped_and_counted(stranger: bytes) -> None:
    router = Router(DRONE, GCS)
    router.offer(stranger, 0)
    assert router.due(1 << 60) == []
    assert router.strangers == 1


def test_a_guest_takes_the_queue_of_its_direction_and_is_counted_apart() -> None:
    guest = "198.18.2.60"
    router = Router(DRONE, GCS, guest=guest)
    router.set(NOTHING, Side(rate_kbps=80, queue_ms=10))  # a packet of 100 bytes takes 10 ms
    for _ in range(5):
        router.offer(packet(guest, DRONE, bytes(80)), 0)
    router.offer(packet(GCS, DRONE, bytes(80)), 0)
    router.offer(packet(guest, GCS), 0)
    counts = router.counts()
    assert counts["down"].offered == 6
    assert counts["down"].lost_queue > 0, "the guest's packets fill the queue that the peer's must wait in"
    assert counts["up"].offered == 1
    router.due(1 * S)
    passed = 5 - counts["down"].lost_queue + 1  # the peer's own was the last to come, and is lost
    assert router.guests == {
        "up": {"offered": 1, "delivered": 1},
        "down": {"offered": 5, "delivered": passed},
    }
    assert counts["down"].delivered == passed
    router.restart(1)
    assert router.guests["down"] == {"offered": 0, "delivered": 0}


def test_without_a_guest_it_is_a_stranger() -> None:
    router = Router(DRONE, GCS)
    router.offer(packet("198.18.2.60", DRONE), 0)
    assert router.strangers == 1


def test_the_schedule_is_bounded() -> None:
    router = Router(DRONE, GCS)
    router.set(Side(delay_ms=1000), NOTHING)
    for _ in range(MAX_WAITING + 7):
        router.offer(packet(DRONE, GCS), 0)
    assert router.overflow == 7
    assert len(router.due(2 * S)) == MAX_WAITING


def test_new_settings_leave_what_is_on_its_way_alone() -> None:
    router = Router(DRONE, GCS)
    router.set(Side(delay_ms=100), NOTHING)
    router.offer(packet(DRONE, GCS, b"slow"), 0)
    router.set(NOTHING, NOTHING)
    router.offer(packet(DRONE, GCS, b"fast"), 10)
    assert [p[20:] for p in router.due(10)] == [b"fast"]
    assert [p[20:] for p in router.due(100 * MS)] == [b"slow"]


def test_lateness_is_counted() -> None:
    router = Router(DRONE, GCS)
    router.set(Side(delay_ms=1), NOTHING)
    router.offer(packet(DRONE, GCS), 0)
    router.due(3 * MS)
    counts = router.counts()["up"]
    assert (counts.late_count, counts.late_max_ns) == (1, 2 * MS)


# ---------------------------------------------------------------------- lease


def test_a_silent_holder_loses_the_link() -> None:
    lease = Lease()
    lease.take("cell", (Side(delay_ms=80), NOTHING), 3.0, 0)
    for second in range(1, 10):
        assert lease.tick(second * S) is None
        lease.renew("cell", second * S)
    assert lease.next_ns == 12 * S
    assert lease.tick(12 * S - 1) is None
    assert lease.tick(12 * S) == "holder"
    assert not lease.active
    assert lease.sides == (NOTHING, NOTHING)
    assert lease.next_ns is None
    with pytest.raises(RequestError, match="does not hold"):
        lease.renew("cell", 12 * S)


def test_a_change_ends_by_itself_and_never_outlives_the_holder() -> None:
    lease = Lease()
    base = (Side(delay_ms=5), NOTHING)
    lease.take("cell", base, 3.0, 0)
    lease.change("cell", (BLOCKED, BLOCKED), 2.0, 0)
    assert lease.sides == (BLOCKED, BLOCKED)
    assert lease.tick(2 * S) == "change"
    assert lease.sides == base
    lease.change("cell", (BLOCKED, BLOCKED), 3000.0, 2 * S)
    assert lease.tick(3 * S) == "holder"
    assert lease.sides == (NOTHING, NOTHING)


def test_the_link_has_one_holder() -> None:
    lease = Lease()
    lease.take("a", (NOTHING, NOTHING), 1.0, 0)
    with pytest.raises(RequestError) as caught:
        lease.take("b", (NOTHING, NOTHING), 1.0, 0)
    assert caught.value.code == "held"
    assert lease.release("b") is False
    assert lease.release("a") is True
    lease.take("b", (NOTHING, NOTHING), 1.0, 0)
    assert lease.owner == "b"


@pytest.mark.parametrize(("hold_s", "owner"), [(0, "a"), (6, "a"), (3, "")])
def test_leases_that_would_not_heal_are_refused(hold_s: float, owner: str) -> None:
    with pytest.raises(RequestError):
        Lease().take(owner, (NOTHING, NOTHING), hold_s, 0)
