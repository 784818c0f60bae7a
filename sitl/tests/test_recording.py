"""Recordings: what the ground's source receives becomes a log that pymavlink reads, and nothing else does."""

from __future__ import annotations

import base64
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymavlink import mavutil
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import recording
from pqsitl.errors import SitlError, SpecError
from pqsitl.net import UdpLink
from pqsitl.profile import load_profile
from pqsitl.recording import Recording
from pqsitl.service import TrafficService
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from pqsitl.tlog import read_frames
from pqsitl.uplink import UplinkSource
from pqsitl.vehicle import EmbeddedVehicle
from waiting import LIMIT_S, hold_back, wait_for

NOW_NS = 1_700_000_000_123_456_789


def frames(seconds: float = 1.0) -> list[bytes]:
    vehicle = EmbeddedVehicle(load_profile(), 320.0, 1, 0)
    found: list[bytes] = []
    while (now_ns := vehicle.next_ns) < seconds * 1e9:
        found += vehicle.poll(now_ns)
    return found


def fetched(ask: Any) -> bytes:
    """All pieces of a recording, page by page."""
    data, since = b"", 0
    while True:
        page = ask(since)
        data += b"".join(base64.b64decode(chunk) for chunk in page["chunks"])
        since = page["next"]
        if page["end"]:
            assert since == page["total"]
            return data


def counted(path: Path) -> Counter[str]:
    """Messages of a log by their type, as pymavlink reads it."""
    log = mavutil.mavlink_connection(str(path))
    seen: Counter[str] = Counter()
    while (message := log.recv_msg()) is not None:
        seen[message.get_type()] += 1
    return seen


def test_every_frame_is_kept_byte_for_byte_with_its_time() -> None:
    kept = Recording()
    sent = frames()
    for index, frame in enumerate(sent):
        kept.take(frame, NOW_NS + index * 1_000)
    read = list(read_frames(fetched(kept.page)))
    assert [one.frame for one in read] == sent
    assert [one.time_us for one in read] == [NOW_NS // 1000 + index for index in range(len(sent))]
    size = sum(8 + len(frame) for frame in sent)
    assert kept.account() == {
        "frame_count": len(sent),
        "bytes": size,
        "unframed_count": 0,
        "left_out_count": 0,
    }


def test_a_datagram_of_several_frames_gives_each_of_them() -> None:
    kept = Recording()
    kept.take(b"".join(frames()[:3]), NOW_NS)
    assert [one.frame for one in read_frames(fetched(kept.page))] == frames()[:3]


@pytest.mark.parametrize(
    "datagram", [b"", b"\xfd", b"hello, this is no frame", frames()[0][:-1], frames()[0] + b"\0", bytes(64)]
)
def test_what_is_no_frame_is_counted_and_nothing_of_it_kept(datagram: bytes) -> None:
    kept = Recording()
    kept.take(datagram, NOW_NS)
    assert kept.account()["unframed_count"] == 1
    assert kept.page(0) == {"chunks": [], "next": 0, "end": True, "total": 0}


def test_a_full_log_keeps_its_beginning_and_counts_the_rest() -> None:
    sent = frames()
    kept = Recording(max_bytes=1_000)
    for frame in sent:
        kept.take(frame, NOW_NS)
    account = kept.account()
    assert account["frame_count"] + account["left_out_count"] == len(sent)
    assert 0 < account["bytes"] <= 1_000
    read = [one.frame for one in read_frames(fetched(kept.page))]
    assert read == sent[: len(read)], "no gap before the end"


def test_nothing_fits_any_more_once_something_did_not() -> None:
    short, *_, long = sorted(frames(), key=len)
    kept = Recording(max_bytes=8 + len(long) + 8 + len(short))
    for frame in (long, long, short):
        kept.take(frame, NOW_NS)
    assert [one.frame for one in read_frames(fetched(kept.page))] == [long]
    assert kept.account()["left_out_count"] == 2


def test_pages_are_bounded_and_end_with_whole_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "CHUNK_BYTES", 500)
    monkeypatch.setattr(recording, "PAGE_CHUNKS", 2)
    kept = Recording()
    for frame in frames():
        kept.take(frame, NOW_NS)
    page = kept.page(0)
    assert (page["next"], page["end"]) == (2, False)
    for chunk in page["chunks"]:  # type: ignore[attr-defined]
        assert len(base64.b64decode(chunk)) <= 500
        assert list(read_frames(base64.b64decode(chunk)))
    assert len(list(read_frames(fetched(kept.page)))) == len(frames())


class Relay:
    """Stands in for MAVProxy and the tunnel: what comes from the vehicle goes to the client that announced
    itself, and is counted."""

    def __init__(self) -> None:
        self.vehicle_side, self.client_side = (self._socket() for _ in range(2))
        self.taken = 0
        self.forwarded: list[bytes] = []
        self._client: Any = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @staticmethod
    def _socket() -> socket.socket:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind(("127.0.0.1", 0))
        return end

    def _run(self) -> None:
        while not self._closing.is_set():
            ready, _, _ = select.select([self.vehicle_side, self.client_side], [], [], 0.05)
            if self.client_side in ready:
                _, self._client = self.client_side.recvfrom(9000)
            if self.vehicle_side in ready:
                datagram = self.vehicle_side.recv(9000)
                self.taken += 1
                if self._client is not None:
                    self.client_side.sendto(datagram, self._client)
                    self.forwarded.append(datagram)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(LIMIT_S)
        self.vehicle_side.close()
        self.client_side.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


@pytest.fixture
def ground(relay: Relay) -> Iterator[TrafficService]:
    client = UdpLink(relay.client_side.getsockname())
    service = TrafficService("ground", {"uplink": lambda spec: UplinkSource(client, spec)})
    yield service
    service.close()
    client.close()


def fly(relay: Relay, ground: TrafficService, enough: int) -> None:
    """The embedded vehicle until so many of its frames were forwarded, and all of these have been heard.

    No more of them are under way than a socket holds, whoever is stalled.
    """
    link = UdpLink(relay.vehicle_side.getsockname())
    sent = 0

    def heard() -> int:
        count = ground.handle({"op": "status"})["downlink_frame_count"]
        assert isinstance(count, int)
        return count

    class Held(EmbeddedSource):
        def send(self, datagram: bytes) -> None:
            nonlocal sent
            hold_back(lambda: sent - relay.taken)
            hold_back(lambda: len(relay.forwarded) - heard())
            sent += 1
            super().send(datagram)

    vehicle = Held(link, TrafficSpec())
    vehicle.start()
    wait_for(lambda: len(relay.forwarded) >= enough)
    assert vehicle.stop()["error"] is None
    wait_for(lambda: relay.taken == sent and heard() == len(relay.forwarded))
    link.close()


def test_a_session_becomes_a_log_that_pymavlink_counts(
    relay: Relay, ground: TrafficService, tmp_path: Path
) -> None:
    before_us = time.time_ns() // 1000
    ground.handle({"op": "start", "spec": {"source": "uplink", "record": True}})
    fly(relay, ground, 200)
    report = ground.handle({"op": "stop"})
    after_us = time.time_ns() // 1000
    data = fetched(lambda since: ground.handle({"op": "recording", "since": since}))
    path = tmp_path / "flight.tlog"
    path.write_bytes(data)

    decoder = mav.MAVLink(None)
    due = Counter(
        message.get_type() for one in relay.forwarded for message in decoder.parse_buffer(one) or []
    )
    assert counted(path) == due
    assert due["ATTITUDE"] > 1 and due["HEARTBEAT"] >= 1
    assert report["recording"]["frame_count"] == sum(due.values()) == report["downlink_frame_count"]
    assert report["recording"]["bytes"] == len(data)
    times = [one.time_us for one in read_frames(data)]
    assert before_us <= times[0] and times[-1] <= after_us and times == sorted(times)


def test_a_recording_stays_until_the_next_one(relay: Relay, ground: TrafficService) -> None:
    with pytest.raises(SitlError) as nothing:
        ground.handle({"op": "recording", "since": 0})
    assert nothing.value.code == "no_recording"
    ground.handle({"op": "start", "spec": {"source": "uplink", "record": True}})
    fly(relay, ground, 20)
    ground.handle({"op": "stop"})
    ground.handle({"op": "start", "spec": {"source": "uplink"}})
    assert "recording" not in ground.handle({"op": "stop"})
    assert ground.handle({"op": "recording"})["total"] == 1
    ground.handle({"op": "start", "spec": {"source": "uplink", "record": True}})
    with pytest.raises(SitlError):
        ground.handle({"op": "recording"})


def test_what_cannot_record_says_so() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        link = UdpLink(end.getsockname())
        service = TrafficService("vehicle", {"embedded": lambda spec: EmbeddedSource(link, spec)})
        with pytest.raises(SpecError, match="keeps no recording"):
            service.handle({"op": "start", "spec": {"source": "embedded", "record": True}})
        with pytest.raises(SpecError, match="true or false"):
            service.handle({"op": "start", "spec": {"source": "embedded", "record": 1}})
        with pytest.raises(SpecError, match="whole number"):
            service.handle({"op": "recording", "since": -1})
        link.close()
