"""What a stranger with an antenna would see: no MAVLink in clear, 24 bytes more than the plaintext."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from .conftest import ROOT, container, docker, pqlab

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


def test_air_shows_sealed_datagrams_only() -> None:
    image = json.loads(docker("inspect", container("gcs")))[0]["Config"]["Image"]
    sniffer = subprocess.Popen(
        ["docker", "run", "--rm", "--network", f"container:{container('gcs')}", "--cap-drop", "ALL",
         "--cap-add", "NET_RAW", "--user", "0", "--read-only", "--entrypoint", "python3", image,
         "-c", SNIFFER, "20"],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    time.sleep(2.0)
    done = pqlab(
        "run", "smoke", "--suites", "cs-mlkem768-aesgcm-mldsa65", "--reps", "1", "--json", timeout_s=120
    )
    out, _ = sniffer.communicate(timeout=60)
    assert done.code == 0, done.text[-3000:]
    seen = [(bytes.fromhex(h), port) for h, port in json.loads(out)]
    sealed = [payload for payload, port in seen if port == 46011]
    assert len(sealed) > 1000, "the sniffer saw too little to prove anything"
    assert {port for _, port in seen} <= {46011, 46012}

    # A MAVLink 2 frame starts 0xFD, length, flags 0. A sealed datagram's first byte is type and epoch.
    assert [p for p in sealed if p[0] in (0xFD, 0xFE)] == []
    assert [p for p in sealed if b"\xfd" in p[:1] and p[2:4] == b"\0\0"] == []

    bundle = ROOT / str(done.json()["bundle"])
    ledger = next((bundle / "data" / "cells").glob("*/ledger.drone.csv"))
    traffic = json.loads(next((bundle / "data" / "cells").glob("*/traffic.json")).read_text())
    with Path(ledger).open(newline="") as handle:
        sizes = Counter(int(r["size_bytes"]) for r in csv.DictReader(handle) if r["direction"] == "tx")
    on_air = Counter(len(p) for p in sealed)
    # Every size that the drone wrote down went over the air that often; keepalives are the only extras.
    assert {s: n for s, n in sizes.items() if on_air[s] < n} == {}
    # And each is a plaintext size of the source plus 24: bulk payloads are the clearest case.
    sent = traffic["windows"]["bulk-600"]["drone"]["source_report"]["sent"]["sizes"]
    assert [int(size) for size in sent] == [1200]
    assert sizes[1224] > 0
    assert 1200 not in sizes
