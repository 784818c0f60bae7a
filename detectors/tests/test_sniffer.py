"""The sniffer's counting, packet by packet; listening itself where this host allows it."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

import pytest

from pqdetect import cli
from pqdetect.sniffer import Counter, Sniffer, SnifferError

PORT = 46012


def ipv4(
    payload: bytes,
    *,
    port: int = PORT,
    source: str = "192.0.2.7",
    protocol: int = 17,
    fragment: int = 0,
    options: bytes = b"",
) -> tuple[memoryview, int]:
    header = struct.pack("!BBHHHBBH", 0x40 | (20 + len(options)) // 4, 0, 0, 1, fragment, 64, protocol, 0)
    udp = struct.pack("!HHHH", 9, port, 8 + len(payload), 0) + payload
    whole = header + socket.inet_aton(source) + socket.inet_aton("192.0.2.1") + options + udp
    return memoryview(whole + bytes(100)), len(whole)


def test_datagrams_to_the_port_are_counted() -> None:
    counter = Counter(PORT)
    counter.packet(*ipv4(b"\x10" + bytes(39)))
    counter.packet(*ipv4(b"\x60" + bytes(59), source="192.0.2.8", options=bytes(4)))
    counter.packet(*ipv4(b"\xfd" + bytes(39)))
    counter.packet(*ipv4(b"\x10" + bytes(20)))
    for other in (
        ipv4(b"\x10" + bytes(39), port=PORT + 1),
        ipv4(b"\x10" + bytes(39), protocol=6),
        ipv4(b"\x10" + bytes(39), fragment=100),
        (memoryview(bytes(64)), 20),
    ):
        counter.packet(*other)
    seen = counter.take()
    assert (seen.datagrams, seen.size_bytes, seen.malformed) == (4, 40 + 60 + 40 + 21, 2)
    assert seen.sources == {socket.inet_aton("192.0.2.7"), socket.inet_aton("192.0.2.8")}
    assert counter.take().datagrams == 0


def test_an_interface_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SnifferError):
        Sniffer("nowhere0", PORT)
    assert cli.main(["sniff", "--interface", "nowhere0"]) == cli.EXIT_ENVIRONMENT
    assert cli.main(["sniff", "--interface", "lo", "--windows", "0"]) == cli.EXIT_USAGE
    assert "next:" in capsys.readouterr().err


def test_it_hears_what_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        Sniffer("lo", PORT).close()
    except SnifferError as error:
        pytest.skip(f"no packet socket here: {error}")
    done = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not done.wait(0.01):
                sender.sendto(b"\x10" + bytes(39), ("127.0.0.1", PORT))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        time.sleep(0.05)
        assert cli.main(["sniff", "--interface", "lo", "--windows", "1"]) == 0
    finally:
        done.set()
        thread.join()
    told = json.loads(capsys.readouterr().out)
    assert told["datagrams"] > 10 and told["malformed"] == 0 and told["sources"] == ["127.0.0.1"]
