"""A translator between drone and GCS changes the address packets seem to come from."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint_kit import Lab, lab

from waiting import wait_until

pytestmark = pytest.mark.native
#: both data planes pass the same tests
PLANES = ("python", "native")


class Translator:
    """Forwards sealed datagrams between drone and gcs; towards the gcs through a socket that `rebind`
    replaces, as a NAT does that lost its state."""

    def __init__(self) -> None:
        self.gcs: tuple[str, int] | None = None
        self._drone: tuple[str, int] | None = None
        self.inner = self._bound("127.0.0.1")
        self.outer = [self._bound("127.0.0.5")]
        self.passed: list[bytes] = []
        self.pass_back = True
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def _bound(host: str) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((host, 0))
        return sock

    def in_front_of(self, gcs_port: int) -> int:
        self.gcs = ("127.0.0.1", gcs_port)
        self._thread.start()
        return int(self.inner.getsockname()[1])

    def rebind(self) -> None:
        self.outer.append(self._bound("127.0.0.5"))

    def _run(self) -> None:
        assert self.gcs is not None
        while not self._ended.is_set():
            ready, _, _ = select.select([self.inner, *self.outer], [], [], 0.05)
            for sock in ready:
                data, source = sock.recvfrom(65_536)
                if sock is self.inner:
                    self._drone = source
                    self.passed.append(data)
                    self.outer[-1].sendto(data, self.gcs)
                elif sock is self.outer[-1] and self._drone is not None and self.pass_back:
                    self.inner.sendto(data, self._drone)  # the old binding is gone

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for sock in (self.inner, *self.outer):
            sock.close()


@pytest.fixture
def translator() -> Iterator[Translator]:
    made = Translator()
    yield made
    made.close()


@pytest.fixture
def pair(key_folder: Path, tmp_path: Path, plane: str, translator: Translator) -> Iterator[Lab]:
    with lab(key_folder, tmp_path, plane=plane, sealed_port=translator.in_front_of) as made:
        yield made


def both_ways(pair: Lab, text: bytes) -> None:
    pair.drone.plain.send(text)
    assert pair.gcs.plain.receive() == text
    assert wait_until(lambda: _answered(pair, text))


def _answered(pair: Lab, text: bytes) -> bool:
    pair.gcs.plain.send(text)
    return not pair.drone.plain.nothing_for(0.15)


def test_the_peer_is_followed_through_a_new_binding(pair: Lab, translator: Translator) -> None:
    pair.prepare()
    assert pair.handshakes()["completed"] == 1
    gcs = pair.gcs.agent.endpoint.dataplane
    assert wait_until(lambda: gcs.peer == translator.outer[0].getsockname())
    pair.open()
    both_ways(pair, b"first binding")
    translator.rebind()
    both_ways(pair, b"second binding")
    assert gcs.peer == translator.outer[1].getsockname()
    counted = pair.gcs.counters()
    assert counted["path_changed"] == 2 and counted["path_new_source"] >= 1
    assert counted["tx_path_challenge"] >= 2 and counted["rx_path_response"] == 2
    assert pair.drone.counters()["tx_path_response"] >= 2


def test_without_an_answer_everything_goes_where_it_went(pair: Lab, translator: Translator) -> None:
    pair.prepare()
    pair.handshakes()
    gcs = pair.gcs.agent.endpoint.dataplane
    assert wait_until(lambda: gcs.peer == translator.outer[0].getsockname())
    pair.open()
    before = gcs.peer
    translator.pass_back = False
    translator.rebind()
    for number in range(20):
        pair.drone.plain.send(b"%d" % number)
        assert pair.gcs.plain.receive() == b"%d" % number  # authentic, so it is delivered all the same
    assert gcs.peer == before
    assert pair.gcs.counters()["path_new_source"] == 20


def test_copies_and_forgeries_from_elsewhere_move_nothing(pair: Lab, translator: Translator) -> None:
    pair.prepare()
    pair.handshakes()
    gcs = pair.gcs.agent.endpoint.dataplane
    assert wait_until(lambda: gcs.peer == translator.outer[0].getsockname())
    pair.open()
    both_ways(pair, b"seen by an eavesdropper")
    challenges = pair.gcs.counters()["tx_path_challenge"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.9", 0))
        for copy in list(translator.passed):
            stranger.sendto(copy, gcs.sealed_address)
            stranger.sendto(copy[:-1] + bytes([copy[-1] ^ 1]), gcs.sealed_address)
        assert wait_until(lambda: pair.gcs.counters()["replay"] >= 2)
        stranger.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stranger.recv(100)
    assert gcs.peer == translator.outer[0].getsockname()
    assert pair.gcs.counters()["tx_path_challenge"] == challenges
    both_ways(pair, b"undisturbed")
