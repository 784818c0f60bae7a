"""The ground port: real sockets on 127.0.0.1; the ground's container is one of the test's own."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from pqevidence.errors import LabError, UsageError
from pqlab.fly.frames import Frames
from pqlab.fly.port import GroundPort, checked_port

#: a MAVLink 2 frame of 9 bytes of payload, one of MAVLink 1, one that is signed
V2 = bytes([0xFD, 9, 0, 0, 1, 255, 190, 0, 0, 0, *range(9), 1, 2])
V1 = bytes([0xFE, 2, 7, 255, 190, 0, 8, 8, 1, 2])
SIGNED = bytes([0xFD, 1, 1, 0, 1, 255, 190, 0, 0, 0, 5, 1, 2, *range(13)])


def framed(datagram: bytes) -> bytes:
    return len(datagram).to_bytes(2, "big") + datagram


@pytest.fixture
def container() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5.0)
        yield server


@pytest.fixture
def station() -> Iterator[socket.socket]:
    """A ground station that listens on UDP, as QGroundControl does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        end.settimeout(5.0)
        yield end


def until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30.0
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def read(stream: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        chunk = stream.recv(count - len(found))
        assert chunk, "the connection ended"
        found += chunk
    return found


def test_frames_are_cut_out_of_any_stream() -> None:
    stream = V2 + b"noise" + V1 + SIGNED + V2
    frames = Frames()
    assert [one for at in range(len(stream)) for one in frames.feed(stream[at : at + 1])] == [
        V2,
        V1,
        SIGNED,
        V2,
    ]
    assert frames.skipped_bytes == 5


def test_every_frame_goes_to_who_listens_and_to_who_connects_and_back(
    container: socket.socket, station: socket.socket
) -> None:
    told: list[tuple[str, str]] = []
    port = GroundPort(station.getsockname()[1], 0, lambda kind, who: told.append((kind, who)))
    try:
        port.begin(container.getsockname())
        vehicle, _ = container.accept()
        vehicle.settimeout(5.0)
        with vehicle, socket.create_connection(("127.0.0.1", port.tcp_port), timeout=5.0) as client:
            until(lambda: port.counts.tcp_clients == 1)
            vehicle.sendall(framed(V2) + framed(V1))
            assert read(client, len(V2 + V1)) == V2 + V1
            first, sender = station.recvfrom(1000)
            assert (first, station.recvfrom(1000)[0]) == (V2, V1)
            client.sendall(SIGNED[:7])
            client.sendall(SIGNED[7:])
            assert read(vehicle, len(framed(SIGNED))) == framed(SIGNED)
            station.sendto(V1, sender)
            assert read(vehicle, len(framed(V1))) == framed(V1)
        until(lambda: port.lost is not None)
    finally:
        port.close()
    assert [kind for kind, _ in told].count("ground_station") == 2
    counts = port.counts
    assert (counts.down_frames, counts.up_frames, counts.tcp_clients, counts.udp_stations) == (2, 2, 1, 1)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port.tcp_port), timeout=1.0)


def test_a_stranger_on_the_udp_side_is_not_heard(container: socket.socket, station: socket.socket) -> None:
    port = GroundPort(station.getsockname()[1], 0, lambda kind, who: None)
    try:
        port.begin(container.getsockname())
        vehicle, _ = container.accept()
        with vehicle, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            vehicle.sendall(framed(V2))
            _, sender = station.recvfrom(1000)
            stranger.sendto(V1, sender)
            station.sendto(SIGNED, sender)
            vehicle.settimeout(5.0)
            assert read(vehicle, len(framed(SIGNED))) == framed(SIGNED)
    finally:
        port.close()


def test_nobody_listens_is_no_error(container: socket.socket) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        number = gone.getsockname()[1]
    port = GroundPort(number, 0, lambda kind, who: None)
    try:
        port.begin(container.getsockname())
        vehicle, _ = container.accept()
        with vehicle:
            until(lambda: vehicle.sendall(framed(V2)) is None and port.counts.udp_refused > 0)
            assert port.lost is None
    finally:
        port.close()


def test_a_taken_port_is_one_sentence_with_the_next_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        with pytest.raises(LabError) as caught:
            GroundPort(0, number, lambda kind, who: None)
    assert caught.value.exit_code == 4
    assert caught.value.what == f"TCP port {number} on this machine is taken"
    assert caught.value.hint.startswith("./pqlab fly --tcp-port ")


def test_a_number_that_is_no_port_is_refused() -> None:
    with pytest.raises(UsageError, match="80000"):
        checked_port(80_000, "--udp-port")
    assert checked_port(14550, "--udp-port") == 14550


def test_a_container_that_does_not_answer_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    port = GroundPort(0, 0, lambda kind, who: None)
    try:
        with pytest.raises(LabError, match="does not answer"):
            port.begin(address)
    finally:
        port.close()
