"""What a detector sees of strangers' datagrams on the real sealed link: the right counts, within two
windows."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import IO, Any

import pytest

from busy import BUSY_OK, amiss, disturbed

from .conftest import ROOT, container, docker, load_records, pqlab

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

DRONE, SEALED_PORT = "198.18.2.20", 46012
WINDOW_NS, WINDOW_BINS = 600_000_000, 30
REPLAYED, FORGED, NOBODYS, FOREIGN = 5, 6, 7, 8

SCENARIO = """
schema: pqlab/scenario/v1
name: feed-visibility
title: Strangers' datagrams in the drone's bins
seed: 45
suites: [cs-mlkem768-aesgcm-mldsa65]
repetitions: 1
conditions:
  - name: fed
    feed: true
handshake: {count: 5, min_count: 5, max_s: 5}
traffic: {source: embedded, profile: intervals_320hz, rate_hz: 320, session_s: 15}
"""

#: Says `ready`, then prints one data packet of each session that comes to the drone, as hex, until it ends.
CAPTURE = """
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
print('ready', flush=True)
seen = set()
while True:
    packet, where = s.recvfrom(65535)
    if len(packet) < 60 or packet[9] != 17 or where[2] == socket.PACKET_OUTGOING:
        continue
    ihl = (packet[0] & 15) * 4
    port, length = struct.unpack_from('!HH', packet, ihl + 2)
    index = packet[ihl + 9 : ihl + 12]
    if port != int(sys.argv[1]) or packet[ihl + 8] >> 4 != 1 or index in seen:
        continue
    seen |= {index, bytes(255 - byte for byte in index)}  # the sender's nobody as well
    print(packet[ihl + 8 : ihl + length].hex(), flush=True)
"""

#: Says `ready`, reads captured datagrams; 3 s after the newest one sends it again, forged ones made from
#: its header, and foreign ones; prints when it began. Ends with its input.
SEND = """
import os, select, socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
replayed, forged, nobodys, foreign = map(int, sys.argv[3:7])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print('ready', flush=True)
heard = b''
while True:
    ready = select.select([0], [], [], 3.0 if heard else None)[0]
    if ready:
        chunk = os.read(0, 65536)
        if not chunk:
            break
        heard += chunk
        continue
    captured = bytes.fromhex(heard.decode().split()[-1])
    heard = b''
    ahead = ((int.from_bytes(captured[4:8], 'big') + 1000000) & 0xFFFFFFFF).to_bytes(4, 'big')
    index = bytes([captured[0], *(255 - byte for byte in captured[1:4])])
    print(time.time_ns(), flush=True)
    for datagram, count in ((captured, replayed), (captured[:4] + ahead + os.urandom(40), forged),
                            (index + os.urandom(44), nobodys), (b'\\xfd' + b'PLAINTEXT-MARKER' * 2, foreign)):
        for _ in range(count):
            s.sendto(datagram, (host, port))
"""


def _image() -> str:
    return str(json.loads(docker("inspect", container("drone")))[0]["Config"]["Image"])


def _run_python(image: str, network: str, script: str, *argv: str) -> list[str]:
    options = ["--rm", "--init", "--interactive", "--network", network, "--user", "0", "--read-only"]
    may = ["--cap-drop", "ALL", "--cap-add", "NET_RAW"]
    return ["docker", "run", *options, *may, "--entrypoint", "python3", image, "-c", script, *argv]


def _ready(stdin: IO[str] | None, image: str, network: str, script: str, *argv: str) -> subprocess.Popen[str]:
    """That container once its program runs: a start beside the cell would disturb it, and it be tried
    again."""
    started = subprocess.Popen(
        _run_python(image, network, script, *argv),
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    return started


@pytest.fixture(scope="module")
def attacked(lab: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], int]:
    """(lines of bins.ndjson, realtime ns at which the datagrams were sent) of one cell."""
    folder = tmp_path_factory.mktemp("feed")
    scenario = folder / "feed-visibility.yml"
    scenario.write_text(SCENARIO)
    image = _image()
    capture = _ready(None, image, f"container:{container('drone')}", CAPTURE, str(SEALED_PORT))
    counts = map(str, (REPLAYED, FORGED, NOBODYS, FOREIGN))
    sender = _ready(capture.stdout, image, "pqlab_air", SEND, DRONE, str(SEALED_PORT), *counts)
    cell = subprocess.Popen(
        ["./pqlab", "run", str(scenario), "--out", str(folder / "results"), "--json", *BUSY_OK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    out, err = cell.communicate(timeout=600)
    capture.terminate()
    capture.wait(timeout=60)
    sent = [int(line) for line in sender.communicate(timeout=60)[0].split()]
    assert sender.returncode == 0 and sent, "no data packet came to the drone"
    assert cell.returncode in (0, 1, 3), err[-3000:]
    bundle = Path(json.loads(out.strip().splitlines()[-1])["bundle"])
    bundle = bundle if bundle.is_absolute() else ROOT / bundle
    assert amiss(bundle) == {}, err[-3000:]
    # The strangers are in no condition, so this bundle must be refused, for them alone: where its cell claims
    # a result. A busy machine's claims none.
    verified = pqlab("verify", str(bundle), "--json")
    failed = [check["name"] for check in verified.json()["checks"] if check["status"] == "fail"]
    claims = not any(map(disturbed, load_records(bundle)))
    assert failed == (["nothing_foreign"] if claims else []), verified.text[-2000:]
    assert verified.code == 5 if claims else verified.code in (0, 3)
    (path,) = (bundle / "data" / "cells").glob("*/bins.ndjson")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # An attempt that a busy machine spoiled was made again, and strangers came to each: the kept one's count.
    kept = {line["k"] for line in lines[1:] if isinstance(line, dict)}
    (sent_ns,) = [ns for ns in sent if ns // WINDOW_NS in kept]
    return lines, sent_ns


def _by_window(lines: list[Any]) -> dict[str, Counter[int]]:
    fields = lines[0]["fields"]
    found: dict[str, Counter[int]] = {name: Counter() for name in fields}
    for line in lines[1:]:
        if isinstance(line, list):
            for name, count in zip(fields, line[1], strict=True):
                found[name][line[0] // WINDOW_BINS] += count
    return found


def test_each_sort_of_datagram_raises_its_count_within_two_windows(attacked: tuple[list[Any], int]) -> None:
    lines, sent_ns = attacked
    counts = _by_window(lines)
    first = sent_ns // WINDOW_NS
    seen = {name: sum(found[k] for k in (first, first + 1)) for name, found in counts.items()}
    assert (seen["replay"], seen["auth_failed"]) == (REPLAYED, FORGED)
    assert (seen["unknown_index"], seen["bad_header"]) == (NOBODYS, FOREIGN)
    total = {name: sum(found.values()) for name, found in counts.items()}
    for name in ("replay", "auth_failed", "bad_header"):  # handshakes may leave old epochs behind
        assert total[name] == seen[name], f"{name} outside the two windows"


def test_the_host_counted_them_on_the_interface_too(attacked: tuple[list[Any], int]) -> None:
    lines, sent_ns = attacked
    assert lines[0]["interface_name"] not in (None, "lo")
    by_k = {line["k"]: line for line in lines[1:] if isinstance(line, dict)}
    first = sent_ns // WINDOW_NS
    assert {first, first + 1} <= set(by_k), "a window of the attack is missing"
    packets = sum(by_k[k]["interface"]["rx_packets"] for k in (first, first + 1))
    assert packets >= REPLAYED + FORGED + NOBODYS + FOREIGN


def test_the_traffic_is_counted_and_never_shown(attacked: tuple[list[Any], int]) -> None:
    lines, _ = attacked
    counts = {name: sum(found.values()) for name, found in _by_window(lines).items()}
    assert counts["tx_data"] > 320 * 10 and counts["rx_data"] > 30
    assert counts["queue_full"] == 0
    names = {name for line in lines[1:] if isinstance(line, dict) for name in line}
    assert names == {"k", "interface", "udp", "late_ns"}
    numbers = [value for line in lines[1:] if isinstance(line, list) for value in (line[0], *line[1])]
    assert all(isinstance(value, int) for value in numbers), "a bin holds numbers and nothing else"
