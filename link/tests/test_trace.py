"""Traces: what is one and what is not, and a replay that does what the file says, to the nanosecond."""

from __future__ import annotations

import random
import struct

import pytest

from pqlink.channel import MS_NS, Channel
from pqlink.control import TRACE_PART_CHARS, Control
from pqlink.errors import LinkError, TraceError
from pqlink.lease import Lease
from pqlink.router import Router, generator
from pqlink.settings import Replay, Side
from pqlink.trace import MAGIC, Playback, Trace, parse_trace

HEAD = f"{MAGIC}\n# origin: synthetic\n# source: a test\n"
#: 100 ms at 80 kbit/s and 10 ms, 100 ms of a fade without a rate, 200 ms at 8 kbit/s and 30 ms
ROWS = "t_ms,rate_bit_s,delay_ms,loss_pct\n0,80000,10,0\n100,0,,100\n200,8000,30,0\n400,,,\n"


def trace_of(text: str) -> Trace:
    return parse_trace(text.encode())


def channel_of(trace: Trace, at_end: str = "loop", start_ms: int = 0, **settings: float) -> Channel:
    replay = Replay.parse({"sha256": trace.sha256, "at_end": at_end, "start_ms": start_ms})
    channel = Channel(random.Random(1))
    channel.set(Side(trace=replay, **settings), trace)  # type: ignore[arg-type]
    return channel


def test_a_trace_is_read_exactly() -> None:
    trace = trace_of(HEAD + ROWS)
    assert trace.starts_ns == (0, 100 * MS_NS, 200 * MS_NS) and trace.end_ns == 400 * MS_NS
    assert trace.rates_bit_s == (80_000, 0, 8_000)
    assert trace.delays_ns == (10 * MS_NS, 0, 30 * MS_NS)
    assert trace.losses_pct == (0.0, 100.0, 0.0)
    assert trace.known == ("rate_bit_s", "delay_ms", "loss_pct")
    assert trace.mean_rate_bit_s == pytest.approx((80_000 * 100 + 8_000 * 200) / 400)
    assert trace.mean_loss_pct == 25.0
    assert trace.meta == {"origin": "synthetic", "source": "a test"}


def test_what_has_no_column_stays_unknown() -> None:
    trace = trace_of(HEAD + "t_ms,loss_pct,x_rssi\n0,0,90\n0.000001,12.5,\n7,,\n")
    assert (trace.rates_bit_s, trace.delays_ns, trace.known) == (None, None, ("loss_pct",))
    assert trace.starts_ns == (0, 1)
    assert trace.mean_rate_bit_s is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        (ROWS, "line 1"),
        (MAGIC + "\n" + ROWS, "origin"),
        (MAGIC + "\n# origin: guessed\n" + ROWS, "origin"),
        (HEAD, "no rows"),
        (HEAD + "# origin: measured\n" + ROWS, "each key once"),
        (HEAD + ROWS[:-1], "cut off"),
        (HEAD + "t_ms,loss\n0,0\n1,\n", "columns are"),
        (HEAD + "t_ms,x_note\n0,0\n1,\n", "says nothing"),
        (HEAD + "t_ms,loss_pct\n0,0\n", "a row with its end"),
        (HEAD + "t_ms,loss_pct\n0,0\n9,0\n", "time alone"),
        (HEAD + "t_ms,loss_pct\n1,0\n9,\n", "first row is at 0"),
        (HEAD + "t_ms,loss_pct\n0,0\n5,0\n5,1\n9,\n", "later than"),
        (HEAD + "t_ms,loss_pct\n0,0,0\n9,\n", "3 cells"),
        (HEAD + "t_ms,loss_pct\n0,101\n9,\n", "loss_pct is"),
        (HEAD + "t_ms,loss_pct\n0,nan\n9,\n", "loss_pct is"),
        (HEAD + "t_ms,loss_pct\n0,\n9,\n", "loss_pct is"),
        (HEAD + "t_ms,loss_pct\n0,0\n-1,\n", "t_ms is"),
        (HEAD + "t_ms,loss_pct\n0,0\n1.0000001,\n", "t_ms is"),
        (HEAD + "t_ms,delay_ms\n0,60001\n9,\n", "delay_ms is"),
        (HEAD + "t_ms,delay_ms,loss_pct\n0,,0\n9,,\n", "delay_ms is"),
        (HEAD + "t_ms,rate_bit_s\n0,1e6\n9,\n", "rate_bit_s is"),
        (HEAD + "t_ms,rate_bit_s\n0,0\n9,\n", "nothing would ever be sent"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        parse_trace(text.encode())


@pytest.mark.parametrize("content", [b"\xff\n", b"\0" * 100, MAGIC.encode() * 10])
def test_bytes_that_are_no_text_are_refused(content: bytes) -> None:
    with pytest.raises(TraceError):
        parse_trace(content)


def test_rate_delay_and_loss_hold_when_the_packet_is_sent() -> None:
    channel = channel_of(trace_of(HEAD + ROWS), queue_ms=1000)
    assert channel.offer(100, 0) == (20 * MS_NS,)  # 800 bits at 80 kbit/s, 10 ms
    assert channel.offer(100, 100 * MS_NS) == ()  # the fade; its transmitter waits for the rate: 200 + 100 ms
    assert channel.offer(100, 250 * MS_NS) == (430 * MS_NS,)  # from 300 on, 100 ms at 8 kbit/s, 30 ms
    assert channel.counts.lost_trace == 1
    # at 400 ms the trace begins anew
    assert channel.offer(100, 400 * MS_NS) == (430 * MS_NS,), "and none overtakes the one before"
    assert channel.offer(100, 420 * MS_NS) == (440 * MS_NS,)


def test_a_packet_may_be_sent_over_several_steps_and_turns() -> None:
    playback = Playback(trace_of(HEAD + ROWS), 0, loop=True)
    # a turn carries 8,000 + 1,600 bits
    assert playback.sent_ns(0, 1000) == 100 * MS_NS
    assert playback.sent_ns(0, 1001) == 201 * MS_NS
    assert playback.sent_ns(0, 1200) == 400 * MS_NS
    assert playback.sent_ns(0, 3600) == 1200 * MS_NS
    assert playback.sent_ns(50 * MS_NS, 1200) == 450 * MS_NS
    assert playback.sent_ns(150 * MS_NS, 1) == 201 * MS_NS


def test_a_pause_behind_the_last_bit_does_not_count() -> None:
    playback = Playback(trace_of(HEAD + "t_ms,rate_bit_s\n0,8000\n100,0\n200,\n"), 0, loop=True)
    assert playback.sent_ns(0, 100) == 100 * MS_NS
    assert playback.sent_ns(0, 200) == 300 * MS_NS
    assert playback.sent_ns(0, 201) == 401 * MS_NS


def test_behind_the_end_nothing_of_it_holds_where_it_is_told_so() -> None:
    channel = channel_of(trace_of(HEAD + ROWS), at_end="clear", queue_ms=1000)
    assert channel.offer(100, 150 * MS_NS) == ()
    assert channel.offer(100, 400 * MS_NS) == (400 * MS_NS,)
    assert channel.offer(100, 500 * MS_NS) == (500 * MS_NS,)


def test_it_begins_where_it_is_told_to() -> None:
    channel = channel_of(trace_of(HEAD + ROWS), start_ms=150)
    assert channel.offer(100, 0) == ()
    assert channel.offer(10, 200 * MS_NS) == (240 * MS_NS,)


def test_a_share_of_loss_is_drawn_from_the_seed() -> None:
    trace = trace_of(HEAD + "t_ms,loss_pct\n0,30\n1000,\n")
    fates = [[bool(channel_of(trace).offer(100, 0)) for _ in range(1)] for _ in range(2)]
    assert fates[0] == fates[1]
    channel = channel_of(trace)
    lost = sum(not channel.offer(100, i * MS_NS) for i in range(20_000))
    assert lost / 20_000 == pytest.approx(0.3, abs=4.5 * (0.3 * 0.7 / 20_000) ** 0.5)


def test_the_queue_is_bounded_while_the_rate_is_low() -> None:
    channel = channel_of(trace_of(HEAD + "t_ms,rate_bit_s\n0,8000\n1000,\n"), queue_ms=250)
    fates = [channel.offer(100, 0) for _ in range(10)]  # 100 ms each
    assert [bool(fate) for fate in fates] == [True] * 3 + [False] * 7
    assert channel.counts.lost_queue == 7


# ---------------------------------------------------------------------- the router, its log, its requests


def packet(size: int, way: str = "up") -> bytes:
    ends = (b"\xc6\x12\x02\x14", b"\xc6\x12\x02\x1e")  # 198.18.2.20 and .30
    head = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 17, 0)
    return head + b"".join(ends if way == "up" else ends[::-1]) + bytes(size - 20)


def replayed(trace: Trace, seed: int, begin_ns: int = 0) -> tuple[bytes, Router]:
    """20,000 packets of irregular times and sizes through a router: all that it decides, as bytes."""
    router = Router("198.18.2.20", "198.18.2.30")
    router.keep(trace)
    replay = Replay(trace.sha256)
    router.restart(seed, begin_ns)
    router.set(
        Side(trace=replay, queue_ms=500, duplicate_pct=2),
        Side(trace=Replay(trace.sha256, "loop", 70), queue_ms=500),
    )
    packets, now_ns, out = random.Random(42), begin_ns, []
    for _ in range(20_000):
        now_ns += packets.randrange(20 * MS_NS)
        router.offer(packet(packets.randrange(28, 1400), packets.choice(("up", "down"))), now_ns)
        out += [len(each) for each in router.due(now_ns)]
    rows = list(router.log_rows(0, 100_000))
    return repr((rows, out, [c.as_dict() for c in router.counts().values()])).encode(), router


MIXED = (
    HEAD
    + "t_ms,rate_bit_s,delay_ms,loss_pct\n"
    + "0,800000,20,0\n90,250000,35.5,20\n133,0,,100\n150,64000,9,1\n400,,,\n"
)


def test_same_trace_seed_and_packets_same_bytes() -> None:
    trace = trace_of(MIXED)
    first, router = replayed(trace, 7)
    assert first == replayed(trace, 7)[0]
    assert first != replayed(trace, 8)[0]
    assert router.logged == 20_000 and router.unlogged == 0
    assert router.counts()["up"].lost_trace > 100 and router.counts()["up"].delivered > 1000


def test_a_replay_does_not_depend_on_when_it_began() -> None:
    trace = trace_of(MIXED)
    at_zero, later = (replayed(trace, 7, begin_ns)[1] for begin_ns in (0, 98_765_432_101_234))
    assert list(at_zero.log_rows(0, 20_000)) == list(later.log_rows(0, 20_000))


def test_the_log_alone_gives_the_same_decisions() -> None:
    trace = trace_of(MIXED)
    _, router = replayed(trace, 9, 5_000_000_000)
    channel = Channel(generator(9, "up"))
    channel.set(Side(trace=Replay(trace.sha256), queue_ms=500, duplicate_pct=2), trace)
    for way, t_ns, size, wait_ns in router.log_rows(0, 20_000):
        if way == "up":
            times = channel.offer(size, t_ns)
            assert (times[0] - t_ns if times else None) == wait_ns
    assert channel.counts.offered == router.counts()["up"].offered


@pytest.fixture
def control() -> Control:
    return Control(Router("198.18.2.20", "198.18.2.30"), Lease(), {"netem": False})


def send(control: Control, text: str) -> list[dict[str, object]]:
    parts = [text[at : at + TRACE_PART_CHARS] for at in range(0, len(text), TRACE_PART_CHARS)]
    return [
        control.answer({"op": "trace", "part": n, "parts": len(parts), "text": part}, 0)
        for n, part in enumerate(parts)
    ]


def test_a_trace_comes_in_parts_and_is_replayed(control: Control) -> None:
    text = HEAD + "# note: " + "é" * 25_000 + "\n" + ROWS
    sha256 = trace_of(text).sha256
    side = {"trace": {"sha256": sha256, "file": "any.csv"}}
    assert control.answer({"op": "set", "owner": "c", "up": side}, 0)["code"] == "no_trace"
    assert [answer["traces"] for answer in send(control, text)] == [[], [], [sha256]]
    state = control.answer({"op": "set", "owner": "c", "up": side}, 0)
    assert state["ok"] and state["settings"]["up"]["trace"]["sha256"] == sha256
    assert control.answer({"op": "log", "first": 0}, 0) == {"ok": True, "rows": []}
    assert control.answer({"op": "change", "owner": "c", "for_s": 1}, 0)["code"] == "bad_request"
    assert "trace" not in control.answer({"op": "clear", "owner": "c"}, 0)["settings"]["up"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"op": "trace"}, "bad_request"),
        ({"op": "trace", "part": 1, "parts": 2, "text": ""}, "bad_request"),
        ({"op": "trace", "part": 0, "parts": 0, "text": ""}, "bad_request"),
        ({"op": "trace", "part": 0, "parts": 10**9, "text": ""}, "bad_request"),
        ({"op": "trace", "part": 0, "parts": 1, "text": "no trace"}, "bad_trace"),
        ({"op": "trace", "part": 0, "parts": 1, "text": "x" * (TRACE_PART_CHARS + 1)}, "bad_request"),
        ({"op": "log", "first": -1}, "bad_request"),
        ({"op": "log"}, "bad_request"),
        ({"op": "set", "owner": "c", "up": {"trace": "x"}}, "bad_settings"),
        ({"op": "set", "owner": "c", "up": {"trace": {}}}, "bad_settings"),
        (
            {"op": "set", "owner": "c", "up": {"trace": {"sha256": "0" * 64, "at_end": "stop"}}},
            "bad_settings",
        ),
        ({"op": "set", "owner": "c", "up": {"trace": {"sha256": "0" * 64, "start_ms": 0.5}}}, "bad_settings"),
        ({"op": "set", "owner": "c", "up": {"trace": {"sha256": "0" * 64, "loops": 1}}}, "bad_settings"),
    ],
)
def test_refusals(control: Control, request_: dict[str, object], code: str) -> None:
    answer = control.answer(request_, 0)
    assert (answer["ok"], answer["code"]) == (False, code) and answer["hint"]


@pytest.mark.parametrize(
    "setting", [{"rate_kbps": 64}, {"delay_ms": 5}, {"loss_pct": 1}, {"delay_ms": 5, "jitter_ms": 2}]
)
def test_what_the_trace_tells_is_not_said_twice(control: Control, setting: dict[str, float]) -> None:
    send(control, HEAD + ROWS)
    side = {**setting, "trace": {"sha256": trace_of(HEAD + ROWS).sha256}}
    answer = control.answer({"op": "set", "owner": "c", "down": side}, 0)
    assert answer["code"] == "bad_settings" and "the trace says" in answer["error"]
    assert control.answer({"op": "state"}, 0)["active"] is False


def test_settings_beside_a_trace_hold_for_what_it_does_not_know(control: Control) -> None:
    text = HEAD + "t_ms,loss_pct\n0,0\n10,100\n20,\n"
    send(control, text)
    side = {"rate_kbps": 8, "delay_ms": 7, "trace": {"sha256": trace_of(text).sha256}}
    assert control.answer({"op": "set", "owner": "c", "up": side}, 0)["ok"]
    channel = control._router.channels["up"]
    assert channel.offer(5, 0) == (12 * MS_NS,)
    assert channel.offer(5, 12 * MS_NS) == ()


def test_an_old_trace_makes_room_for_a_new_one(control: Control) -> None:
    texts = [HEAD + f"t_ms,loss_pct\n0,{n}\n10,\n" for n in range(6)]
    for text in texts:
        send(control, text)
    held = control.answer({"op": "state"}, 0)["traces"]
    assert held == [trace_of(text).sha256 for text in texts[2:]]


def test_errors_are_of_one_tree() -> None:
    assert issubclass(TraceError, LinkError)
