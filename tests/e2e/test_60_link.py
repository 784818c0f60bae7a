"""The link router: what it is set to, by TCP and UDP; heals when its controller dies; lets nothing out."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from busy import BUSY_OK
from pqlab.campaign.link import LinkControl, LinkFailure
from pqlab.campaign.link_probe import ProbeSettings, probe_link
from pqlink.achieved import check_tcp, check_udp
from pqlink.settings import NOTHING, Side

from .conftest import ROOT, container, docker, measured, processor_ticks, run, verifies
from .test_40_air import is_mavlink2, split_train

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("link")]

LOSSY = Side(delay_ms=80, jitter_ms=10, loss_pct=5)
#: with half of its processors taken a machine adds 2 to 19 ms to 80, and loses what waits for too long
STOLEN_PCT = 5.0
#: a hypervisor that is busy is so for minutes
PATIENCE_S = 480.0
SERVICES = ("link", "link-drone", "link-gcs")
#: holds the link with a partition on it until it is killed
HOLDER = """
import sys, time
from pqlab.campaign.link import LinkControl
from pqlink.settings import BLOCKED, Side
link = LinkControl()
link.take("to be killed", Side(delay_ms=80), Side(delay_ms=80), 1)
link.change(BLOCKED, BLOCKED, 600.0)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def link(lab: None) -> Iterator[None]:
    started = run("./compose/lab.sh", "profile", "link", timeout_s=300)
    assert started.code == 0, started.text[-2000:]
    yield


@pytest.fixture
def control() -> Iterator[LinkControl]:
    control = LinkControl()
    yield control
    control.close()


def inside(service: str, code: str, *argv: str) -> str:
    """Python in a container of the lab."""
    return docker("exec", container(service), "python3", "-c", code, *argv).strip()


def gateway(service: str, peer: str) -> str:
    """How an endpoint's kernel would send to the other end: `direct`, or the address it goes through."""
    table = docker("exec", container(service), "ip", "route", "get", peer)
    return table.split(" via ")[1].split()[0] if " via " in table else "direct"


def routes() -> tuple[str, str]:
    return gateway("link-drone", "198.18.2.30"), gateway("link-gcs", "198.18.2.20")


def test_services_hold_one_capability_and_no_more() -> None:
    for service in SERVICES:
        host = json.loads(docker("inspect", container(service)))[0]["HostConfig"]
        assert host["CapDrop"] == ["ALL"], service
        assert [name.removeprefix("CAP_") for name in host["CapAdd"]] == ["NET_ADMIN"], service
        assert host["ReadonlyRootfs"] is True
        assert not host["Privileged"]
    for service in ("drone", "gcs"):
        assert not json.loads(docker("inspect", container(service)))[0]["HostConfig"]["CapAdd"], service


def probe_undisturbed(control: LinkControl) -> Any:
    """A probe while the hypervisor left us our processors: a router without one delays what it holds. Where
    no such moment comes, the probe during which it took least; what was measured has no say in that."""
    probes: list[tuple[float, Any]] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while not probes or (probes[-1][0] > STOLEN_PCT and time.monotonic() < deadline_s):
        before = processor_ticks()
        control.take("test", LOSSY, LOSSY, seed=1)
        found = probe_link(control.connection, LOSSY, LOSSY, ProbeSettings(12_500, 12_500, 1250))
        spent = {name: after - before[name] for name, after in processor_ticks().items()}
        probes.append((100 * spent["steal"] / sum(spent.values()), found))
    return min(probes, key=lambda probe: probe[0])[1]


def test_achieved_values_are_those_that_were_set(control: LinkControl) -> None:
    """80 ± 10 ms and 5 % each way, within 10 %, by UDP in each direction and by TCP over both."""
    found = probe_undisturbed(control)
    udp, tcp = found["udp"], found["tcp"]
    for name in ("up", "down"):
        assert udp[name]["delay_mean_ms"] == pytest.approx(80, rel=0.10), udp
        assert udp[name]["delay_sd_ms"] == pytest.approx(10 / math.sqrt(3), abs=2.0), udp
        assert udp[name]["loss_pct"] == pytest.approx(5, rel=0.10), udp
        assert check_udp(name, LOSSY, udp[name], udp["size_bytes"]) == []
    assert tcp["rtt_mean_ms"] == pytest.approx(160, rel=0.10), tcp
    one_way_pct = 100 * (1 - math.sqrt(1 - tcp["loss_pct"] / 100))
    assert one_way_pct == pytest.approx(5, rel=0.10), tcp
    assert check_tcp(LOSSY, LOSSY, tcp) == []


def test_the_control_adds_next_to_nothing_and_loses_nothing(control: LinkControl) -> None:
    control.take("test", NOTHING, NOTHING, seed=1)
    assert routes() == ("198.18.2.50", "198.18.2.50")
    found = probe_link(control.connection, NOTHING, NOTHING, ProbeSettings(600, 300, 300))
    assert found["udp"]["returned"] == 600
    assert found["tcp"]["lost"] == 0
    assert found["udp"]["up"]["delay_p50_ms"] < 2


def test_a_switch_is_quick_and_leaves_direct_routes(control: LinkControl) -> None:
    begin_s = time.monotonic()
    control.take("test", NOTHING, NOTHING, seed=1)
    taken_s = time.monotonic() - begin_s
    assert routes() == ("198.18.2.50", "198.18.2.50")
    begin_s = time.monotonic()
    assert control.release()
    released_s = time.monotonic() - begin_s
    assert routes() == ("direct", "direct")
    assert max(taken_s, released_s) <= 0.3, (taken_s, released_s)


def test_clean_within_ten_seconds_of_killing_the_controller(control: LinkControl) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    assert control.state()["settings"]["up"]["loss_pct"] == 100
    holder.send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    holder.wait(timeout=10)
    while control.state()["active"] or any(control.state()["routes"].values()):
        assert time.monotonic() < killed_s + 10, control.state()
        time.sleep(0.1)
    while routes() != ("direct", "direct"):
        assert time.monotonic() < killed_s + 10, routes()
    state = control.state()
    assert state["settings"]["up"] == state["settings"]["down"] == NOTHING.as_dict()


def test_clean_when_the_router_itself_is_killed(control: LinkControl) -> None:
    """The helpers withdraw their routes when the router is silent; it comes back with nothing set."""
    control.take("test", LOSSY, LOSSY, seed=1)
    pid = json.loads(docker("inspect", container("link")))[0]["State"]["Pid"]
    os.kill(int(pid), signal.SIGKILL)
    killed_s = time.monotonic()
    while routes() != ("direct", "direct"):
        assert time.monotonic() < killed_s + 10, routes()
        time.sleep(0.2)
    deadline_s = killed_s + 10
    while True:
        fresh = LinkControl()
        try:
            assert fresh.state()["active"] is False
            break
        except LinkFailure:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        finally:
            fresh.close()
    with pytest.raises(LinkFailure):
        control.release()  # its connection died with the router, and it says so


@pytest.mark.parametrize("service", ["drone", "gcs", "link"])
def test_still_no_way_out(service: str, control: LinkControl) -> None:
    """With the router in the path: not to a stranger, and not from one network of the lab to another."""
    control.take("test", NOTHING, NOTHING, seed=1)
    code = (
        "import socket,sys;s=socket.socket();s.settimeout(1.5)\n"
        "try:\n s.connect((sys.argv[1],int(sys.argv[2])));print('connected')\n"
        "except OSError as e:\n print(type(e).__name__)"
    )
    for address, port in (("192.0.2.1", "80"), ("198.18.1.10", "48070"), ("198.18.3.31", "48070")):
        if service == "drone" and address.startswith("198.18.1."):
            continue  # its own network
        if service == "gcs" and address.startswith("198.18.3."):
            continue
        assert inside(service, code, address, port) != "connected", address


SNIFFER = """
import json, socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.settimeout(0.2)
until, seen = time.monotonic() + float(sys.argv[1]), []
while time.monotonic() < until:
    try:
        packet, _ = s.recvfrom(65535)
    except TimeoutError:
        continue
    if len(packet) >= 28 and packet[9] == 17 and packet[12:15] == bytes([198, 18, 2]):
        head = (packet[0] & 15) * 4
        seen.append([packet[head + 8:].hex(), int.from_bytes(packet[head + 2:head + 4], 'big')])
print(json.dumps(seen))
"""


def test_a_routed_session_shows_no_mavlink_in_clear() -> None:
    """A whole cell through the router, watched from the router's own interface."""
    image = json.loads(docker("inspect", container("gcs")))[0]["Config"]["Image"]
    sniffer = subprocess.Popen(
        [
            "docker",
            "run",
            "--rm",
            "--label",
            "pqlab.tool=test",
            "--network",
            f"container:{container('link')}",
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
            "30",
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    done = run(
        "./pqlab",
        "run",
        "smoke",
        "--suites",
        "cs-mlkem768-aesgcm-mldsa65",
        "--reps",
        "1",
        "--session-s",
        "4",
        "--with",
        "link-0",
        "--json",
        *BUSY_OK,
        "--settle-s",
        "0",
        timeout_s=120,
    )
    out, _ = sniffer.communicate(timeout=60)
    bundle = measured(done)
    verifies(bundle)
    seen = [(bytes.fromhex(payload), int(port)) for payload, port in json.loads(out)]
    sealed = [piece for payload, port in seen if port in (46011, 46012) for piece in split_train(payload)]
    assert len(sealed) > 1000, "the sniffer saw too little to prove anything"
    assert {port for _, port in seen} <= {46011, 46012}
    assert [p for p in sealed if is_mavlink2(p) or is_mavlink2(p[8:-16])] == []
    cell: Any = next((bundle / "data" / "cells").iterdir())
    router = json.loads((cell / "link.json").read_text())["router"]
    counters = json.loads((cell / "counters.json").read_text())
    assert router["up"]["offered"] >= counters["drone"]["tx_data"] > 1000
    assert routes() == ("direct", "direct")
