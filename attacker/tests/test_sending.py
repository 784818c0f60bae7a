"""Rates as asked for on a clock of our own, frames as the standards have them, handshakes nobody made."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pqattack import handshakes
from pqattack.bounds import BIN_NS, MAX_BIN_COUNT
from pqattack.frames import Flow, arp_answer, arp_request, checksum, udp_frame
from pqattack.handshakes import CHALLENGE_BYTES, HELLO_BODY_BYTES, HandshakeFlood, hello
from pqattack.profile import due_of
from pqattack.sender import Sender
from pqattack.settings import Episode
from waiting import LIMIT_S, unstalled_ns, wait_for

S = 1_000_000_000
FRAMES = [b"a", b"b", b"c"]


class Clock:
    """Time that only sleeping moves."""

    def __init__(self, nap_s: float = 0.001) -> None:
        self.now_ns = 5 * S
        self._least_s = nap_s

    def read(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(max(seconds, self._least_s) * S)


def carry_out(
    episode: Episode, send: Callable[[bytes], object] = lambda frame: None, nap_s: float = 0.001
) -> tuple[Sender, list[bytes]]:
    clock, sent = Clock(nap_s), list[bytes]()

    def keep(frame: bytes) -> None:
        send(frame)
        sent.append(frame)

    sender = Sender(episode, FRAMES, keep, clock_ns=clock.read, real_ns=clock.read, sleep=clock.sleep)
    sender.run()
    return sender, sent


@pytest.mark.parametrize("rate_pps", [1, 7, 320, 20_000, 25_000])
def test_a_steady_rate_is_held(rate_pps: int) -> None:
    sender, sent = carry_out(Episode("flood", 2.0, rate_pps=rate_pps))
    assert len(sent) == sender.bins.sent
    assert 2 * rate_pps - rate_pps * 0.005 - 1 <= len(sent) <= 2 * rate_pps
    assert sent[:4] == [b"a", b"b", b"c", b"a"][: len(sent)]
    assert max(sender.bins.counts.values()) <= MAX_BIN_COUNT
    assert sender.bins.skipped == 0


def test_a_ramp_rises_and_pulses_pause() -> None:
    ramp, _ = carry_out(Episode("ramp", 4.0, rate_pps=1000))
    assert ramp.bins.sent == pytest.approx(2000, rel=0.01)
    middle = (5 * S + 2 * S) // BIN_NS
    halves = [sum(c for b, c in ramp.bins.counts.items() if (b >= middle) == late) for late in (False, True)]
    assert halves[1] == pytest.approx(3 * halves[0], rel=0.05)
    episode = Episode("pulsing", 3.0, rate_pps=1000, pulse_on_ms=200, pulse_off_ms=800)
    pulsing, _ = carry_out(episode)
    assert pulsing.bins.sent == pytest.approx(600, abs=3)
    assert len(pulsing.bins.counts) in (30, 31, 32, 33), "200 ms of every second, in bins of 20"
    assert due_of(episode)(1.1) == pytest.approx(300)


def test_a_sender_that_fell_behind_does_not_catch_up() -> None:
    """Naps of 300 ms instead of one: what was missed is left out and counted, never sent in a burst."""
    sender, sent = carry_out(Episode("flood", 3.0, rate_pps=20_000), nap_s=0.3)
    assert sender.bins.skipped > 10_000
    assert max(sender.bins.counts.values()) <= MAX_BIN_COUNT
    assert len(sent) < 60_000 - sender.bins.skipped + 1000


def test_what_the_kernel_does_not_take_is_counted_apart() -> None:
    calls = iter(range(10**6))

    def full(frame: bytes) -> None:
        if next(calls) % 4 == 0:
            raise BlockingIOError

    sender, sent = carry_out(Episode("flood", 1.0, rate_pps=400), full)
    assert sender.failed == pytest.approx(100, abs=2)
    assert sender.bins.sent == len(sent) == pytest.approx(300, abs=2)


def test_a_refusal_of_the_kernel_ends_it_and_is_told() -> None:
    def gone(frame: bytes) -> None:
        raise OSError(100, "Network is down")

    sender = Sender(Episode("flood", 5.0), FRAMES, gone)
    sender.start()
    wait_for(lambda: sender.ended is not None)
    assert sender.ended is not None and "Network is down" in sender.ended


def test_it_stops_at_once_when_told() -> None:
    sent: list[bytes] = []
    sender = Sender(Episode("flood", 60.0, rate_pps=500), FRAMES, sent.append)
    sender.start()
    wait_for(lambda: len(sent) > 0)
    sender.stop("enough")
    assert sender.ended == "enough"
    count = len(sent)
    assert 0 < count == sender.bins.sent
    time.sleep(0.05)
    assert len(sent) == count
    sender.stop("again")
    assert sender.ended == "enough"


# ---------------------------------------------------------------------- frames


def test_a_frame_is_what_it_says() -> None:
    flow = Flow(b"\x02" * 6, b"\x04" * 6, "198.18.2.30", 46011, "198.18.2.20", 46012)
    frame = udp_frame(flow, b"payload")
    assert frame[:14] == b"\x04" * 6 + b"\x02" * 6 + b"\x08\x00"
    header = frame[14:34]
    assert checksum(header) == 0, "a header that holds its own checksum sums up to nothing"
    assert struct.unpack_from("!H", header, 2)[0] == len(frame) - 14
    assert (socket.inet_ntoa(header[12:16]), socket.inet_ntoa(header[16:20])) == (
        "198.18.2.30",
        "198.18.2.20",
    )
    assert struct.unpack_from("!HHHH", frame, 34) == (46011, 46012, 15, 0)
    assert frame[42:] == b"payload"


def test_arp_asks_and_hears_only_its_answer() -> None:
    asked = arp_request(b"\x02" * 6, "198.18.2.60", "198.18.2.20")
    assert asked[:6] == b"\xff" * 6 and len(asked) == 42
    assert arp_answer(asked, "198.18.2.20") is None, "a question is no answer"
    answer = bytearray(asked)
    answer[21] = 2
    answer[22:28] = b"\x0a" * 6
    answer[28:32] = socket.inet_aton("198.18.2.20")
    assert arp_answer(bytes(answer), "198.18.2.20") == b"\x0a" * 6
    assert arp_answer(bytes(answer), "198.18.2.30") is None
    assert arp_answer(bytes(answer[:30]), "198.18.2.20") is None


# ---------------------------------------------------------------------- handshakes


def test_hellos_arrive_at_the_rate_and_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener of ours on loopback that sends a Challenge-sized greeting and reads what comes."""
    clock_ns = unstalled_ns()
    clock = SimpleNamespace(monotonic=lambda: clock_ns() / 1e9, time_ns=time.time_ns)
    monkeypatch.setattr(handshakes, "time", clock)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(LIMIT_S)
                    connection.sendall(bytes(CHALLENGE_BYTES))
                    data = b""
                    while len(data) < 4 + HELLO_BODY_BYTES:
                        chunk = connection.recv(4096)
                        if not chunk:
                            break
                        data += chunk
                    heard.append(data)

        threading.Thread(target=serve, daemon=True).start()
        episode = Episode("handshake-flood", 1.0, rate_pps=50, target="gcs")
        flood = HandshakeFlood(episode, "127.0.0.1", random.Random(1), port=server.getsockname()[1])
        flood.start()
        wait_for(lambda: flood.ended is not None)
        assert flood.ended == "deadline"
        wait_for(lambda: len(heard) >= flood.bins.sent - 3)
        server.shutdown(socket.SHUT_RDWR)
    assert flood.bins.sent == pytest.approx(50, abs=6)
    assert flood.failed <= 3
    assert len(heard) >= flood.bins.sent - 3
    assert {len(data) for data in heard if data} == {4 + HELLO_BODY_BYTES}
    assert len(set(heard)) == len(heard), "each is another"


def test_a_hello_has_its_frame() -> None:
    frame = hello(random.Random(3))
    assert frame[0] == 0x12
    assert int.from_bytes(frame[1:4], "big") == HELLO_BODY_BYTES == len(frame) - 4
