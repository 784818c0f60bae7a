"""`pqlink` as docs/LINK-PRODUCT.md gives it to a stranger.

Two machines that have the program and nothing else of it, the six commands of "Three commands a side" and its
two files. At one end a vehicle, at the other what a ground station asks of one. No lab is up.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, docker, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_computes]

ENDS = Path(__file__).with_name("pqlink_ends")
PAGE = (ROOT / "docs/LINK-PRODUCT.md").read_text(encoding="utf-8")
WORK = "/srv/link"
NETWORK = "pqlink-two-machines"
WAIT_S = 120.0


def part() -> str:
    """Of the page, what a stranger types and writes."""
    return PAGE.split("## Three commands a side\n")[1].split("\n## ")[0]


def typed() -> list[str]:
    """Its command lines, without remarks."""
    lines = [
        line
        for block in re.findall(r"```console\n(.*?)```", part(), re.DOTALL)
        for line in block.splitlines()
    ]
    return [line.removeprefix("$ ").split("#")[0].strip() for line in lines]


def written(name: str) -> str:
    """A file of its."""
    found = re.search(rf"`{re.escape(name)}`:\n\n```toml\n(.*?)```", part(), re.DOTALL)
    assert found is not None, name
    return found[1]


class Machine:
    """A container that has a vehicle or ground software, and of the link its program alone."""

    def __init__(self, name: str, program: Path) -> None:
        self.name = f"pqlink-{name}"
        run("docker", "rm", "-f", self.name)
        hardened = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--init", "--user", "0:0"]
        where = ["--name", self.name, "--network", NETWORK, "--entrypoint", "sleep"]
        docker("run", "-d", *where, *hardened, "pqlab/sitl:dev", "1800")
        assert self.sh("command -v pqlink || echo none", "/") == "none\n", "it is fresh"
        self.sh(f"mkdir -p {WORK}/keys", "/")
        docker("cp", str(program), f"{self.name}:/usr/local/bin/pqlink")

    @property
    def address(self) -> str:
        told = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", self.name)
        return told.strip()

    def sh(self, line: str, folder: str = WORK) -> str:
        return docker("exec", "-w", folder, self.name, "sh", "-ec", line)

    def stays(self, line: str) -> None:
        """A command that goes on until it is stopped; what it says is in its log."""
        docker("exec", "-d", "-w", WORK, self.name, "sh", "-c", f"exec {line} >>log 2>&1")

    def write(self, name: str, text: str, folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")
        docker("cp", str(folder / name), f"{self.name}:{WORK}/{name}")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    done = run("./images/build.sh", "base", "pqlink", "sitl")
    assert done.code == 0, done.text[-2000:]
    run("docker", "rm", "-f", "pqlink-program")
    docker("create", "--name", "pqlink-program", "pqlab/pqlink:dev", "none")
    docker("cp", "pqlink-program:/opt/pqlink/bin/pqlink", str(tmp_path / "pqlink"))
    docker("rm", "pqlink-program")
    run("docker", "network", "rm", NETWORK)
    docker("network", "create", "--internal", NETWORK)
    made: list[Machine] = []
    try:
        made += [Machine("ground", tmp_path / "pqlink"), Machine("drone", tmp_path / "pqlink")]
        yield made[0], made[1]
    finally:
        for name in ("pqlink-ground", "pqlink-drone"):
            run("docker", "rm", "-f", name)
        run("docker", "network", "rm", NETWORK)


def soon(told: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not told():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.2)


def beside(program: str) -> str:
    """What the page has this program do at the drone."""
    found = re.search(rf"^\| {program} \| `(.*?)`", PAGE, re.MULTILINE)
    assert found is not None, program
    return found[1]


@pytest.mark.parametrize("beside_link", ["the vehicle", "MAVProxy"])
def test_six_commands_from_two_fresh_machines_to_a_vehicle_that_a_ground_station_arms(
    machines: tuple[Machine, Machine], beside_link: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ground, drone = machines
    keygen, up_ground, ask_ground, chmod, up_drone, ask_drone = typed()
    assert all(line.startswith("pqlink ") for line in typed() if line != chmod), "six commands, and a mode"
    ground.write("gcs.toml", written("gcs.toml"), tmp_path)
    drone.write("drone.toml", written("drone.toml").replace("192.0.2.1", ground.address), tmp_path)
    drone.write("vehicle.py", (ENDS / "vehicle.py").read_text(), tmp_path)
    if beside_link == "MAVProxy":
        drone.stays("python3 vehicle.py 14552 14551")  # for a serial port
        line = beside("MAVProxy").replace("/dev/ttyAMA0,921600", "udpin:127.0.0.1:14551")
        assert line.startswith("mavproxy.py --master=udpin")
        drone.stays(f"{line} --daemon --non-interactive --nowait --no-state --mav20")
    else:
        drone.stays("python3 vehicle.py 14550 14560")

    begun_s = time.monotonic()
    ground.sh(keygen)
    for name in ("gcs.pub", "drone.key"):  # the channel that is trusted
        docker("cp", f"{ground.name}:{WORK}/keys/{name}", str(tmp_path / name))
        docker("cp", str(tmp_path / name), f"{drone.name}:{WORK}/keys/{name}")
    ground.stays(up_ground)
    drone.sh(chmod)
    drone.stays(up_drone)
    soon(lambda: "state = up" in drone.sh(f"{ask_drone} 2>&1 || true").replace('"', ""))
    up_s = time.monotonic() - begun_s
    assert "state = up" in ground.sh(ask_ground).replace('"', "")

    asks = (ENDS / "ground.py").read_text()
    ground.write("ground.py", asks, tmp_path)
    done = run(
        "docker", "exec", "-w", WORK, "-e", "MAVLINK20=1", ground.name, "python3", "ground.py", timeout_s=900
    )
    assert done.code == 0, done.text[-2000:]
    told = done.json()
    with capsys.disabled():
        print(f"\nsix commands and a copy: up after {up_s:.1f} s; the vehicle over it: {done.out.strip()}")
    assert told["heartbeat"] == [2, 3], "a quadrotor of ArduPilot's"
    assert told["version_asked"] == 0
    assert told["parameters"] == told["parameters_declared"] >= 300
    assert told["plan_acknowledged"] == 0 and told["plan_back"]
    assert (told["mode_ordered"], told["arming_ordered"], told["armed"]) == (0, 0, True)
    for asked, least in ((drone.sh(f"{ask_drone} --json"), 10), (ground.sh(f"{ask_ground} --json"), 300)):
        counted = json.loads(asked)
        assert counted["hs_completed"] == 1 and counted["rx_ok"] >= least, counted
        refused = {"auth_failed", "replay", "bad_header"} & {name for name, value in counted.items() if value}
        assert not refused, counted
