"""What a stranger with an antenna would see: no MAVLink in clear, 24 bytes more than the plaintext."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from busy import BUSY_OK

from .conftest import ROOT, container, docker, measured, pqlab, verifies

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

#: Prints one JSON list of [UDP payload as hex, destination port] seen on air within the seconds given.
SNIFFER = """
import json, socket, struct, sys, time
until = time.monotonic() + float(sys.argv[1])
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.settimeout(0.2)
seen = []
while time.monotonic() < until:
    try:
        packet, where = s.recvfrom(65535)
    except TimeoutError:
        continue
    if len(packet) < 28 or packet[9] != 17 or where[2] == socket.PACKET_OUTGOING:
        continue
    ihl = (packet[0] & 15) * 4
    if packet[12:15] != bytes([198, 18, 2]):
        continue
    port, length = struct.unpack_from('!HH', packet, ihl + 2)
    seen.append([packet[ihl + 8 : ihl + length].hex(), port])
print(json.dumps(seen))
"""


def split_train(payload: bytes) -> list[bytes]:
    """The datagrams of one captured buffer.

    With segmentation offload (UDP_SEGMENT) the kernel hands a train of equal datagrams to the bridge in one
    buffer and cuts it at the device. Each datagram of a train begins with the same first word and the next
    sequence number, which gives the length of a segment without trusting either end.
    """
    if len(payload) < 32:
        return [payload]
    following = payload[:4] + ((int.from_bytes(payload[4:8], "big") + 1) & 0xFFFFFFFF).to_bytes(4, "big")
    length = payload.find(following, 24)
    if length < 0:
        return [payload]
    return [payload[at : at + length] for at in range(0, len(payload), length)]


def is_mavlink2(datagram: bytes) -> bool:
    """Does this have the form of one unsigned MAVLink 2 frame (mavlink.io, "Packet Serialization")?

    Magic, length, both flag bytes and a message id below 16384 together: among random bytes that happens once
    in some 10^10 datagrams, where magic and length alone happen several times an hour.
    """
    return (
        len(datagram) >= 12
        and datagram[0] == 0xFD
        and len(datagram) == datagram[1] + 12
        and datagram[2:4] == b"\0\0"
        and int.from_bytes(datagram[7:10], "little") < 16384
    )


@dataclass(frozen=True)
class Observed:
    """What a stranger saw on air during one 30 s session, and the bundle of that session."""

    seen: list[tuple[bytes, int]]
    bundle: Path

    @property
    def sealed(self) -> list[bytes]:
        return [piece for payload, port in self.seen if port == 46011 for piece in split_train(payload)]


@pytest.fixture(scope="module")
def observed(lab: None) -> Observed:
    image = json.loads(docker("inspect", container("gcs")))[0]["Config"]["Image"]
    sniffer = subprocess.Popen(
        [
            "docker",
            "run",
            "--rm",
            "--network",
            f"container:{container('gcs')}",
            "--cap-drop",
            "ALL",
            "--cap-add",
            "NET_RAW",
            "--user",
            "0",
            "--read-only",
            "--entrypoint",
            "python3",
            image,
            "-c",
            SNIFFER,
            "60",
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    time.sleep(2.0)
    done = pqlab(
        "run",
        "smoke",
        "--suites",
        "cs-mlkem768-aesgcm-mldsa65",
        "--reps",
        "1",
        "--session-s",
        "30",
        "--json",
        *BUSY_OK,
        "--settle-s",
        "0",
        timeout_s=240,
    )
    out, _ = sniffer.communicate(timeout=120)
    bundle = measured(done)
    verifies(bundle)
    seen = [(bytes.fromhex(payload), int(port)) for payload, port in json.loads(out)]
    return Observed(seen, bundle)


def test_no_mavlink_in_clear(observed: Observed) -> None:
    assert len(observed.sealed) > 5000, "the sniffer saw too little to prove anything"
    assert {port for _, port in observed.seen} <= {46011, 46012}
    for skipped, tag in ((0, 0), (8, 16)):  # as the whole datagram, or in clear between header and tag
        pieces = [p[skipped : len(p) - tag] for p in observed.sealed]
        assert [p for p in pieces if is_mavlink2(p)] == []


def test_the_search_for_mavlink_can_find_it() -> None:
    # HEARTBEAT of system 1, component 1: nine bytes of payload between header and checksum.
    heartbeat = bytes.fromhex("fd0900000001010000000000000002030051040387a1")
    assert not is_mavlink2(heartbeat), "one byte too many for its length"
    assert is_mavlink2(heartbeat[:-1])
    assert not is_mavlink2(bytes(8) + heartbeat[:-1])


def test_plaintext_plus_24_bytes(observed: Observed) -> None:
    ledger = next((observed.bundle / "data" / "cells").glob("*/ledger.drone.csv"))
    traffic = json.loads(next((observed.bundle / "data" / "cells").glob("*/traffic.json")).read_text())
    with Path(ledger).open(newline="") as handle:
        sizes = Counter(int(r["size_bytes"]) for r in csv.DictReader(handle) if r["direction"] == "tx")
    on_air = Counter(len(p) for p in observed.sealed)
    # Every size that the drone wrote down went over the air that often; keepalives are the only extras.
    assert {s: n for s, n in sizes.items() if on_air[s] < n} == {}
    # And each is a plaintext size of the source plus 24: bulk payloads are the clearest case.
    sent = traffic["windows"]["bulk-600"]["drone"]["source_report"]["sent"]["sizes"]
    assert [int(size) for size in sent] == [1200]
    assert sizes[1224] > 0
    assert 1200 not in sizes


def test_influxdb_holds_the_10_hz_points_of_30_s(observed: Observed) -> None:
    """Per series: points by InfluxQL = lines in the files, and about ten a second of them."""
    cell = json.loads((observed.bundle / "data" / "run.json").read_text())["influx"]["cells"][0]
    counts = {row["series"]: (int(row["file_count"]), int(row["influx_count"])) for row in cell["series"]}
    assert {series: pair for series, pair in counts.items() if pair[0] != pair[1]} == {}
    fast = [pair[0] for series, pair in counts.items() if series.startswith("pq_tunnel")]
    assert len(fast) == 2, "one series an end"
    assert min(fast) >= 300
