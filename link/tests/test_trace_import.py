"""Recordings to traces: what a log or a capture tells, and that nothing beside it is made up."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path

import pytest

from pqlink.capture import Clocks, from_captures, read_capture
from pqlink.errors import TraceError
from pqlink.radio_log import Given, Status, from_reports, read_log
from pqlink.synthetic import State, gilbert_elliott
from pqlink.trace import Trace, parse_trace

META = {"origin": "synthetic", "source": "a test"}
MS_NS = 1_000_000
UTC_NS = 1_700_000_000_000_000_000


def trace_of(text: str) -> Trace:
    return parse_trace(text.encode())


# ---------------------------------------------------------------------- captures


def csv_of(rows: list[tuple[int, str]]) -> bytes:
    return "".join(["seq,t_ms\n", *(f"{seq},{t}\n" for seq, t in rows)]).encode()


SENT = csv_of([(n, f"{1000 + 10 * n}") for n in range(10)])
#: 0 and 9 are at the edges; 3, 4 and 7 are lost, 5 comes late, 6 twice; 99 was never sent
RECEIVED = csv_of(
    [(1, "1030"), (2, "1040.5"), (5, "1090"), (6, "1080.25"), (6, "1081"), (8, "1100"), (99, "1101")]
)


def made(clocks: Clocks, rate_bit_s: int | None = None) -> Trace:
    capture = from_captures(
        read_capture(SENT), read_capture(RECEIVED), clocks, rate_bit_s=rate_bit_s, meta=META
    )
    assert (capture.packets, capture.lost, capture.outside) == (7, 3, 2)
    assert (capture.doubles, capture.strangers) == (1, 1)
    return trace_of(capture.text)


def test_each_packets_fate_holds_until_the_next_one() -> None:
    trace = made(Clocks(one=True))
    assert [s // MS_NS for s in trace.starts_ns] == [0, 10, 20, 40, 50, 60]
    assert trace.end_ns == 70 * MS_NS
    assert trace.losses_pct == (0, 0, 100, 0, 0, 100)
    assert trace.delays_ns is not None and trace.rates_bit_s is None
    assert [d / MS_NS for d in trace.delays_ns] == [20, 20.5, 0, 40, 20.25, 0]


def test_without_a_common_clock_delays_are_unknown_unless_the_least_is_given() -> None:
    trace = made(Clocks())
    assert trace.delays_ns is None and trace.known == ("loss_pct",)
    assert trace.losses_pct == (0, 100, 0, 100)
    shifted = made(Clocks(least_delay_ms=Decimal("3.5")), rate_bit_s=64_000)
    assert shifted.delays_ns is not None and shifted.rates_bit_s == (64_000,) * 6
    assert [d / MS_NS for d in shifted.delays_ns] == [3.5, 4, 0, 23.5, 3.75, 0]


def test_clocks_that_are_not_one_are_found_out() -> None:
    early = csv_of([(n, f"{900 + 10 * n}") for n in range(10)])
    with pytest.raises(TraceError, match="clocks are not one"):
        from_captures(read_capture(SENT), read_capture(early), Clocks(one=True), rate_bit_s=None, meta=META)


@pytest.mark.parametrize(
    ("sent", "received", "told"),
    [
        (SENT, csv_of([(70, "1"), (71, "2")]), "0 of 10"),
        (SENT, csv_of([(1, "1030")]), "1 of 10"),
        (csv_of([(1, "0"), (1, "5")]), RECEIVED, "sent twice"),
    ],
)
def test_captures_that_give_no_trace(sent: bytes, received: bytes, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        from_captures(read_capture(sent), read_capture(received), Clocks(), rate_bit_s=None, meta=META)


def frame(payload: bytes, port: int, link: int) -> bytes:
    udp = struct.pack(">HHHH", port, 5000, 8 + len(payload), 0) + payload
    packet = struct.pack(">BBHHHBBH8x", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + udp
    head = {1: bytes(12) + b"\x08\0", 113: bytes(14) + b"\x08\0", 276: b"\x08\0" + bytes(18)}
    return head.get(link, b"") + packet + b"\0" * (4 if link == 1 else 0)


def pcap(rows: list[tuple[bytes, int]], link: int = 1, order: str = "<", nano: bool = False) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65_535, link)
    for data, t_ns in rows:
        fraction = t_ns % 10**9 // (1 if nano else 1000)
        out += struct.pack(order + "IIII", t_ns // 10**9, fraction, len(data), len(data)) + data
    return out


@pytest.mark.parametrize("link", [1, 101, 113, 228, 276])
@pytest.mark.parametrize(("order", "nano"), [("<", False), (">", False), ("<", True), (">", True)])
def test_pcaps_of_every_kind_tell_the_same(link: int, order: str, nano: bool) -> None:
    rows = [(frame(b"packet %d" % n, 4000, link), UTC_NS + n * 10 * MS_NS) for n in range(6)]
    other = (frame(b"packet 1", 4444, link), UTC_NS)
    sent = read_capture(pcap([other, *rows], link, order, nano), 4000)
    late = [(data, t + 7 * MS_NS) for data, t in rows]
    received = read_capture(pcap([*late[:2], *late[3:]], link, order, nano), 4000)
    trace = trace_of(from_captures(sent, received, Clocks(one=True), rate_bit_s=None, meta=META).text)
    assert [s // MS_NS for s in trace.starts_ns] == [0, 20, 30] and trace.end_ns == 50 * MS_NS
    assert trace.losses_pct == (0, 100, 0) and trace.delays_ns == (7 * MS_NS, 0, 7 * MS_NS)


def test_equal_payloads_are_told_apart_by_their_order() -> None:
    rows = [(frame(b"same", 4000, 1), UTC_NS + n * MS_NS) for n in range(3)]
    assert len({key for key, _ in read_capture(pcap(rows))}) == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x0a\x0d\x0d\x0a", "pcapng"),
        (b"", "seq,t_ms"),
        (b"seq,t_ms\n1\n", "line 2"),
        (b"seq,t_ms\nx,1\n", "line 2"),
        (b"seq,t_ms\n1,now\n", "line 2"),
        (b"\xff\xfe", "neither"),
        (b"\xd4\xc3\xb2\xa1", "head"),
        (pcap([(frame(b"x", 1, 1), 0)])[:-5], "within a packet"),
        (pcap([], link=147), "link type 147"),
        (pcap([]) + struct.pack("<IIII", 0, 0, 0, 9), "cut its packets"),
    ],
)
def test_what_is_no_capture_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(TraceError, match=told):
        read_capture(content)


# ---------------------------------------------------------------------- ArduPilot's logs

#: (s, rxerrors): 50 packets a second are due; 0, 10 and 25 of 50 are lost, over the end of the counter
REPORTS = [
    Status(round(t_s * 10**9), 190, 180, 99, 60, 55, rxerrors, 4)
    for t_s, rxerrors in ((10.0, 65_530), (11.0, 65_530), (12.0, 4), (13.0, 29))
]


def fmt(kind: int, length: int, name: str, letters: str, columns: str) -> bytes:
    texts = struct.pack("<4s16s64s", name.encode(), letters.encode(), columns.encode())
    return b"\xa3\x95\x80" + bytes([kind, length]) + texts


def dataflash() -> bytes:
    columns = "TimeUS,RSSI,RemRSSI,TxBuf,Noise,RemNoise,RxErrors,Fixed"
    out = fmt(128, 89, "FMT", "BBnNZ", "Type,Length,Name,Format,Columns")
    out += fmt(7, 3 + 8 + 8, "TST", "Qd", "TimeUS,Value") + fmt(9, 3 + 17, "RAD", "QBBBBBHH", columns)
    for r in REPORTS:
        out += b"\xa3\x95\x07" + struct.pack("<Qd", r.t_ns // 1000, 1.5)
        told = (r.rssi, r.remrssi, r.txbuf, r.noise, r.remnoise, r.rxerrors, r.fixed)
        out += b"\xa3\x95\x09" + struct.pack("<QBBBBBHH", r.t_ns // 1000, *told)
    return out


def dataflash_text() -> bytes:
    columns = "TimeUS,RSSI,RemRSSI,TxBuf,Noise,RemNoise,RxErrors,Fixed"
    lines = [
        "FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format,Columns",
        f"FMT, 9, 20, RAD, QBBBBBHH, {columns}",
    ]
    lines += [
        f"RAD, {r.t_ns // 1000}, {r.rssi}, {r.remrssi}, {r.txbuf}, {r.noise}, {r.remnoise}, "
        f"{r.rxerrors}, {r.fixed}"
        for r in REPORTS
    ]
    return "\n".join([*lines, "PARM, 1, NAME, 2.0", ""]).encode()


@pytest.mark.parametrize("content", [dataflash(), dataflash() + b"\xa3\x95\x09cut", b"", dataflash_text()])
def test_radio_reports_of_dataflash_logs(content: bytes) -> None:
    if not content:
        content = dataflash()[: 89 * 3] + b"\0noise\xa3\x95\xff\xff" + dataflash()[89 * 3 :]
    assert read_log(content) == {"RAD": REPORTS}


def test_pymavlink_reads_the_same_of_a_dataflash_log(tmp_path: Path) -> None:
    reader = pytest.importorskip("pymavlink.DFReader")
    file = tmp_path / "flight.bin"
    file.write_bytes(dataflash())
    log, found = reader.DFReader_binary(str(file)), []
    while (message := log.recv_match(type="RAD")) is not None:
        found.append((message.TimeUS, message.RSSI, message.RemNoise, message.RxErrors))
    assert found == [(r.t_ns // 1000, r.rssi, r.remnoise, r.rxerrors) for r in REPORTS]


@pytest.mark.parametrize("version", [1, 2])
def test_radio_status_of_a_telemetry_log_that_pymavlink_wrote(version: int) -> None:
    dialect = pytest.importorskip(f"pymavlink.dialects.v{version}0.ardupilotmega")
    radio = dialect.MAVLink(None, srcSystem=51, srcComponent=68)
    vehicle = dialect.MAVLink(None, srcSystem=1, srcComponent=1)
    content = b""
    for r in REPORTS:
        beat = vehicle.heartbeat_encode(2, 3, 0, 0, 4)
        told = radio.radio_status_encode(r.rssi, r.remrssi, r.txbuf, r.noise, r.remnoise, r.rxerrors, r.fixed)
        older = radio.radio_encode(1, 2, 3, 4, 5, 6, 7)
        for message, mav in ((beat, vehicle), (told, radio), (older, radio)):
            content += (r.t_ns // 1000).to_bytes(8, "big") + message.pack(mav)
    assert read_log(content) == {"51:68": REPORTS}
    spoilt = bytearray(content)
    spoilt[content.index(told.pack(radio)[:4]) + 12] ^= 1
    assert len(read_log(bytes(spoilt)).get("51:68", [])) <= len(REPORTS)
    assert read_log(content[:-3]) == {"51:68": REPORTS}


def test_zeros_that_a_sender_left_out_are_zeros() -> None:
    dialect = pytest.importorskip("pymavlink.dialects.v20.ardupilotmega")
    radio = dialect.MAVLink(None, srcSystem=51, srcComponent=68)
    frame = dialect.MAVLink_radio_status_message(190, 0, 0, 0, 0, 7, 0).pack(radio)
    assert frame[1] < 9, "MAVLink 2 cuts zeros off"
    assert read_log(bytes(8) + frame) == {"51:68": [Status(0, 190, 0, 0, 0, 0, 7, 0)]}


def test_loss_follows_from_errors_and_what_was_sent() -> None:
    trace = trace_of(from_reports(REPORTS, Given(packets_hz=50), META))
    assert trace.known == ("loss_pct",)
    assert trace.losses_pct == (0, 20, 50)
    assert trace.starts_ns == (0, 10**9, 2 * 10**9) and trace.end_ns == 3 * 10**9
    text = from_reports(REPORTS, Given(50, 64_000, Decimal("65.5")), META)
    assert "t_ms,rate_bit_s,delay_ms,loss_pct,x_rssi,x_remrssi,x_txbuf," in text
    assert "0,64000,65.5,0.0000,190,180,99,60,55,65530,4" in text


def test_nothing_is_made_of_signal_and_noise() -> None:
    with pytest.raises(TraceError, match="no share of loss, rate or delay") as caught:
        from_reports(REPORTS, Given(), META)
    assert "--packets-hz" in caught.value.hint
    assert trace_of(from_reports(REPORTS, Given(rate_bit_s=9600), META)).losses_pct is None


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        (REPORTS[:1], "one report"),
        (REPORTS[::-1], "back in time"),
        ([REPORTS[3], Status(14 * 10**9, 1, 1, 1, 1, 1, 0, 0)], "at 13.000 s 65507 errors"),
    ],
)
def test_reports_that_give_no_trace(reports: list[Status], told: str) -> None:
    with pytest.raises(TraceError, match=told):
        from_reports(reports, Given(packets_hz=50), META)


@pytest.mark.parametrize("content", [b"", b"no log at all, but some text", dataflash()[: 89 * 3]])
def test_what_holds_no_reports_is_refused(content: bytes) -> None:
    with pytest.raises(TraceError):
        read_log(content)


# ---------------------------------------------------------------------- generated ones


def test_a_generated_trace_says_so_and_keeps_its_means() -> None:
    text = gilbert_elliott(
        State(900, "0", "64000"),
        State(100, "100", "9600"),
        length_ms=2_000_000,
        slot_ms=5,
        seed=3,
        meta={"licence": "MIT"},
    )
    trace = trace_of(text)
    assert trace.meta["origin"] == "synthetic" and "no radio was measured" in trace.meta["source"]
    assert trace.mean_loss_pct == pytest.approx(10, abs=1)
    assert trace.end_ns == 2_000_000 * MS_NS
    assert text == gilbert_elliott(
        State(900, "0", "64000"),
        State(100, "100", "9600"),
        length_ms=2_000_000,
        slot_ms=5,
        seed=3,
        meta={"licence": "MIT"},
    )


@pytest.mark.parametrize(
    ("good", "bad", "slot_ms"),
    [
        (State(3, "0"), State(9, "0"), 5),
        (State(9, "0"), State(9, "0"), 0),
        (State(9, "0"), State(9, "0", "1"), 5),
    ],
)
def test_states_that_do_not_fit(good: State, bad: State, slot_ms: int) -> None:
    with pytest.raises(TraceError):
        gilbert_elliott(good, bad, length_ms=1000, slot_ms=slot_ms, seed=1, meta={})
