"""The native forwarder beyond what both data planes are held to: trains of datagrams, bins, its choice."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from core_pair import pq_core
from endpoint_kit import SUITE, Lab, Side, lab

from pqtunnel import packet
from pqtunnel.config import ConfigError, EndpointConfig
from pqtunnel.endpoint.native import NativeCell
from pqtunnel.endpoint.sockets import PortTakenError
from pqtunnel.endpoint.tunnel import native_tunnel
from pqtunnel.errors import ProviderMissing
from waiting import wait_until

pytestmark = pytest.mark.native
_UDP_SEGMENT = 103
_SETTINGS = {
    "PQ_PEER": "127.0.0.1", "PQ_PLAINTEXT_TARGET": "127.0.0.1:9", "PQ_BIND": "127.0.0.1",
    "PQ_SEALED_PORT": "0", "PQ_PLAINTEXT_PORT": "0",
}  # fmt: skip


@pytest.fixture(params=["native", "mixed"])
def pair(request: pytest.FixtureRequest, key_folder: Path, tmp_path: Path) -> Iterator[Lab]:
    """Both ends native, and a native drone with a Python gcs: one protocol."""
    with lab(key_folder, tmp_path, plane=request.param) as made:
        yield made


def _run(pair: Lab) -> None:
    pair.flowing()


def test_bursts_keep_order_and_boundaries_both_ways(pair: Lab) -> None:
    _run(pair)
    sizes = [64, 64, 64, 40, 280, 280, 1, 1200, 1200, 1200, 1199, 65_483, 3]
    for source, sink in ((pair.drone, pair.gcs), (pair.gcs, pair.drone)):
        for turn in range(20):
            payloads = [bytes([turn]) + os.urandom(size - 1) for size in sizes]
            for payload in payloads:
                source.plain.send(payload)
            assert [sink.plain.receive() for _ in payloads] == payloads
    pair.shut()
    drone, gcs = pair.stop()
    assert drone["tx_data"] == gcs["rx_ok"] == gcs["tx_data"] == drone["rx_ok"] == 20 * len(sizes)
    assert drone["digest_tx"] == gcs["digest_rx"] and gcs["digest_tx"] == drone["digest_rx"]
    for counted in (drone, gcs):
        assert counted["queue_full"] == counted["send_failed"] == counted["replay"] == 0
        assert counted["seal_count"] == counted["open_count"] == 20 * len(sizes)
        assert counted["seal_ns_total"] > 0 and counted["open_ns_total"] > 0


@pytest.mark.linux("has the kernel segment a datagram (UDP_SEGMENT)")
def test_a_train_from_the_plaintext_side_is_sealed_one_for_one(pair: Lab) -> None:
    _run(pair)
    train = os.urandom(64 * 40 + 17)
    assert pair.drone.plain.target is not None
    ancillary = [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("=H", 64))]
    try:
        pair.drone.plain.socket.sendmsg([train], ancillary, 0, pair.drone.plain.target)
    except OSError as error:
        pytest.skip(f"this kernel does not segment UDP: {error}")
    expected = [train[at : at + 64] for at in range(0, len(train), 64)]
    assert [pair.gcs.plain.receive() for _ in expected] == expected
    assert pair.drone.counters()["plaintext_in"] == len(expected) == 41


def test_bins_are_read_while_traffic_runs_and_add_up(pair: Lab) -> None:
    _run(pair)
    cell = pair.drone.agent.endpoint.dataplane._cell  # type: ignore[attr-defined]
    assert isinstance(cell, NativeCell)
    started = time.time_ns()
    for n in range(60):
        pair.drone.plain.send(b"x" * 40)
        pair.gcs.plain.receive()
        pair.gcs.plain.send(b"y" * 50)
        pair.drone.plain.receive()
        if n % 10 == 0:
            assert cell.session.bins()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"\xfd" * 30, pair.drone.agent.endpoint.dataplane.sealed_address)
    assert wait_until(lambda: pair.drone.counters()["bad_header"] == 1)
    sent = pq_core.BIN_FIELDS.index("tx_data")
    # A sender may lose the processor between sending a packet and noting it.
    assert wait_until(lambda: sum(row[sent] for _, row in cell.session.bins(started // pq_core.BIN_NS)) == 60)
    bins = cell.session.bins(started // pq_core.BIN_NS)
    numbers = [number for number, _ in bins]
    assert numbers == sorted(set(numbers)) and numbers[-1] <= time.time_ns() // pq_core.BIN_NS
    total = dict(zip(pq_core.BIN_FIELDS, map(sum, zip(*(row for _, row in bins), strict=True)), strict=True))
    assert total["tx_data"] == total["rx_data"] == 60
    assert total["tx_bytes"] == 60 * 64
    assert total["rx_bytes_sq"] == 60 * 74**2 + 30**2 + 24**2 * (total["rx_keepalive"] + total["rx_control"])
    assert total["rx_filled"] == total["new_source"] == total["queue_full"] == 0
    assert total["bad_header"] == 1 and total["sequence_gap"] == total["replay"] == 0
    counted = pair.drone.counters()
    names = [name.replace("-", "_") for name in packet.TYPE_NAMES.values()]
    control = sum(counted[f"rx_{name}"] for name in names if name != "data")
    assert 61 + total["rx_keepalive"] + total["rx_control"] == total["rx_datagrams"] <= 61 + control
    assert cell.session.bins(numbers[-1] + 1_000_000) == []


@pytest.mark.linux("the kernel tells what it dropped")
def test_every_datagram_of_a_flood_is_sealed_or_counted(key_folder: Path, tmp_path: Path) -> None:
    with lab(key_folder, tmp_path, plane="native") as made:
        _run(made)
        assert made.drone.plain.target is not None
        sent = 60_000
        for _ in range(sent):
            made.drone.plain.socket.sendto(b"f" * 1000, made.drone.plain.target)

        def accounted() -> int:
            counted = made.drone.counters()
            return int(counted["plaintext_in"] + counted["queue_full"])

        # The kernel tells of drops with the next datagram that fits.
        assert wait_until(lambda: (made.drone.plain.send(b"probe"), accounted() >= sent)[1], 10)
        assert made.drone.counters()["tx_data"] == made.drone.counters()["plaintext_in"]


def test_each_cell_says_which_plane_carried_it(key_folder: Path, tmp_path: Path) -> None:
    for plane in ("native", "python"):
        side = Side("gcs", key_folder, tmp_path / plane, plane=plane)
        try:
            assert side.agent.endpoint.dataplane.kind == plane
            side.call("prepare", cell_id="c", suite_id=SUITE)
            (line,) = side.call("fetch", cell_id="c", stream="events", since=0, limit=1)["lines"]
            told = json.loads(line)
            assert (told["event"], told["dataplane"]) == ("prepare", plane)
        finally:
            side.close()


@pytest.mark.parametrize("asked", ["python", "fast"])
def test_another_data_plane_than_the_native_one_is_refused(asked: str) -> None:
    with pytest.raises(ConfigError, match=f"PQ_DATAPLANE is '{asked}'") as refused:
        EndpointConfig.from_environment("drone", {**_SETTINGS, "PQ_DATAPLANE": asked})
    assert "leave PQ_DATAPLANE out" in refused.value.hint
    EndpointConfig.from_environment("drone", {**_SETTINGS, "PQ_DATAPLANE": "native"})


def test_without_the_wheel_there_is_no_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pq_core", None)
    with pytest.raises(ProviderMissing, match="pq_core"):
        native_tunnel()


def test_a_taken_port_names_its_setting() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        taken = str(holder.getsockname()[1])
        for setting in ("PQ_PLAINTEXT_PORT", "PQ_SEALED_PORT"):
            settings = {**_SETTINGS, setting: taken}
            with pytest.raises(PortTakenError, match=setting):
                native_tunnel().plane(EndpointConfig.from_environment("drone", settings), print)


@pytest.mark.linux("counts threads in /proc")
def test_ports_are_free_after_close_and_no_thread_stays() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    made = native_tunnel().plane(EndpointConfig.from_environment("drone", _SETTINGS), print)
    made.open()
    assert threads() == before + 2
    addresses = made.plaintext_address, made.sealed_address
    made.close()
    made.close()
    assert threads() == before
    for address in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(address)
