"""Roles of Linux hosts as far as they can be known without a host: what they render, choose and refuse.

Their own task files run on localhost, with a host that is a folder or a few facts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from role_kit import ROLES, ROOT, Task, play, tasks_of, yaml_of

from played import read
from pqtelemetry.segments import MOST_BYTES
from pqtunnel import config


def endpoint_unit(folder: Path, device_tree: Path, kind: str = "image") -> str:
    """The drone's unit as its role has it written on a host with that device tree."""
    service = tasks_of("tunnel_endpoint", "40-service.yml")
    unit = folder / "unit"
    template = str(ROLES / "service_unit/templates" / f"{kind}.service.j2")
    given = {
        name: value for name, value in service["The agent"]["vars"].items() if name == "service_unit_board"
    }
    assert given
    variables = {
        "tunnel_endpoint_device_tree": str(device_tree),
        "tunnel_endpoint_kind": kind,
        "pqlab_role": "drone",
        "service_unit_kind": kind,
        "service_unit_name": "pqtunnel-drone",
        "service_unit_artefact": "tunnel",
        "service_unit_group_lines": {"results": []},
        "service_unit_tree": "/opt/pqlab/tunnel-x",
    }
    render = {"ansible.builtin.template": {"src": template, "dest": str(unit)}, "vars": given}
    tasks = [service["Look which board this is"], render]
    done = play(folder, tasks, variables, roles=("service_unit", "tunnel_endpoint"))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return unit.read_text()


def test_a_container_is_shown_its_board(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "system").mkdir(parents=True)
    (tree / "model").write_text("Raspberry Pi 5\0")
    (tree / "system/linux,revision").write_bytes(bytes.fromhex("00c04170"))
    unit = endpoint_unit(tmp_path, tree).splitlines()
    shown = [line.split()[1] for line in unit if "/device-tree/" in line]
    assert shown == [
        f"/sys/firmware/devicetree/base/{name}:/host/device-tree/{name}:ro"
        for name in ("model", "system/linux,revision")
    ]


def test_where_no_device_tree_is_nothing_is_bound(tmp_path: Path) -> None:
    """The engine would make what is not there, or the unit would fail."""
    unit = endpoint_unit(tmp_path, tmp_path / "none")
    assert "device" not in unit
    assert unit.count("ExecStart=") == 1


def test_kind_archive_sees_the_device_tree_as_it_is(tmp_path: Path) -> None:
    assert "/host/device-tree" not in endpoint_unit(tmp_path, ROOT, "archive")


def test_the_sampler_has_room_for_its_bound_in_a_container(tmp_path: Path) -> None:
    """A file of it has a quarter of its disk at most; the same room as in the container lab."""
    found = re.findall(r"--tmpfs /run:\S*size=(\d+)m", endpoint_unit(tmp_path, tmp_path / "none"))
    assert len(found) == 1
    assert int(found[0]) * 1024 * 1024 // 4 >= MOST_BYTES
    compose = (ROOT / "compose/lab.yml").read_text()
    assert f'"/run:mode=1777,size={found[0]}m' in compose


# ---------------------------------------------------------------------- the engine and what builds images

BUILD = ["docker-buildx", "mmdebstrap", "make"]
#: host: its system, pqlab_source, and whether an engine and buildx answer
HOSTS = {
    "trixie": ("Debian 13", None, False, False),
    "trixie-auto": ("Debian 13", "auto", False, False),
    "trixie-build": ("Debian 13", "build", True, False),
    "trixie-archive": ("Debian 13", "archive", False, False),
    "ready": ("Debian 13", "build", True, True),
    "ubuntu": ("Ubuntu 24", "auto", False, False),
    "bookworm": ("Debian 12", None, False, False),
    "bookworm-engine": ("Debian 12", "build", True, False),
    "bookworm-archive": ("Debian 12", "archive", False, False),
    "bookworm-theirs": ("Debian 12", "auto", True, True),
}
DOCKER = """#!/bin/sh
case "$1" in
version) [ "$ENGINE" = True ] ;;
buildx) [ "$BUILDX" = True ] ;;
esac
"""


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str] | str]:
    """What role docker_host would install on each host, or why it refuses; in check mode."""
    folder = tmp_path_factory.mktemp("engines")
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    rows = {}
    for name, (system, source, engine, buildx) in HOSTS.items():
        rows[name] = {
            "system": system.split(),
            "engine": str(engine),
            "buildx": str(buildx),
            **({"pqlab_source": source} if source else {}),
        }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": rows}}))
    tasks: list[Task] = [
        {
            "ansible.builtin.set_fact": {
                "distribution": "{{ system[0] }}",
                "distribution_major_version": "{{ system[1] }}",
                "cacheable": True,
            }
        },
        {
            "environment": {
                "PATH": f"{folder}:{os.environ['PATH']}",
                "ENGINE": "{{ engine }}",
                "BUILDX": "{{ buildx }}",
            },
            "block": [{"ansible.builtin.include_role": {"name": "docker_host"}}],
        },
    ]
    variables = {"packages_there": [], "docker_host_free_bytes": 0}
    done = play(folder, tasks, variables, options=("-i", "hosts.json", "--check"))
    answers: dict[str, list[str] | str] = {name: [] for name in HOSTS}
    for host, task, result in read(done.returncode, done.stdout, done.stderr, 0.0).rows:
        if result.get("failed"):
            assert answers[host] == [], "it refused after something was installed"
            answers[host] = str(result["msg"])
        elif task.startswith("Say what would be installed") and "msg" in result:
            assert answers[host] == [], "one transaction, or what is not to be had leaves the rest installed"
            answers[host] = sorted(str(result["msg"]).split(", "))
    return answers


@pytest.mark.parametrize(
    ("host", "packages"),
    [
        ("trixie", ["docker.io", "docker-cli", *BUILD]),
        ("trixie-auto", ["docker.io", "docker-cli", *BUILD]),
        ("trixie-build", BUILD),
        ("trixie-archive", ["docker.io", "docker-cli"]),
        ("ready", BUILD[1:]),
        ("ubuntu", ["docker.io", *BUILD]),
        ("bookworm-archive", ["docker.io"]),
        ("bookworm-theirs", BUILD[1:]),
    ],
)
def test_a_host_gets_the_packages_of_its_release(
    engines: dict[str, list[str] | str], host: str, packages: list[str]
) -> None:
    """Package docker-cli is of Debian 13 and later, docker-buildx is not in Debian 12."""
    assert engines[host] == sorted(packages)


@pytest.mark.parametrize("host", ["bookworm", "bookworm-engine"])
def test_debian_12_is_refused_where_it_would_have_to_build(
    engines: dict[str, list[str] | str], host: str
) -> None:
    assert f"{host} runs Debian 12, which has no docker-buildx" in engines[host]
    assert "pqlab_source=archive" in engines[host]


def test_whether_an_engine_can_be_had_is_asked_before_any_role_installs() -> None:
    first, second = yaml_of(ROOT / "ansible/tasks/linux.yml")[1:3]
    asked = first["ansible.builtin.include_role"]
    assert (asked["name"], asked["tasks_from"]) == ("docker_host", "10-preflight")
    assert second["ansible.builtin.include_role"]["name"] == "common"


# ---------------------------------------------------------------------- ports for no outgoing connection


def commands_of(unit: str) -> dict[str, list[str]]:
    """The words of ExecStart and ExecStop as systemd would run them."""
    lines = (line.partition("=") for line in unit.splitlines() if line.startswith("Exec"))
    return {name: shlex.split(words.replace("$$", "$")) for name, _, words in lines}


@pytest.mark.parametrize("before", ["", "8080,50000-50010"])
def test_ports_are_reserved_beside_those_that_were_and_given_back(tmp_path: Path, before: str) -> None:
    kernel = tmp_path / "ip_local_reserved_ports"
    kernel.write_text(f"{before}\n")
    template = ROLES / "tunnel_endpoint/templates/pqlab-ports.service.j2"
    task = {"ansible.builtin.template": {"src": str(template), "dest": str(tmp_path / "unit")}}
    variables = {"pqlab_role": "drone", "tunnel_endpoint_reserved_file": str(kernel)}
    done = play(tmp_path, [task], variables, roles=("tunnel_endpoint",))
    assert done.returncode == 0, done.stdout[-3000:]
    commands = commands_of((tmp_path / "unit").read_text())
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    subprocess.run(commands["ExecStart"], env=environment, check=True)
    ours = yaml_of(ROLES / "tunnel_endpoint/vars/main.yml")["tunnel_endpoint_reserved"]
    assert kernel.read_text() == ",".join([*filter(None, [before]), ours]) + "\n"
    subprocess.run(commands["ExecStop"], env=environment, check=True)
    assert kernel.read_text() == f"{before}\n"


def test_every_port_of_an_endpoint_is_reserved() -> None:
    variables = yaml_of(ROLES / "tunnel_endpoint/vars/main.yml")
    ours = variables["tunnel_endpoint_reserved"]
    ranges = [[int(end) for end in part.split("-")] for part in ours.split(",")]
    ends = variables["tunnel_endpoint_ports"].values()
    guarded = {port for end in ends for row in end.values() for port in row}
    ports = guarded | {config.CONTROL_PORT, config.HANDSHAKE_PORT, *config.SEALED_PORT.values()}
    assert ports > set(config.PLAINTEXT_IN_PORT.values())
    assert [port for port in ports if not any(first <= port <= last for first, last in ranges)] == []
    assert f'net.ipv4.ip_local_reserved_ports: "{ours}"' in (ROOT / "compose/lab.yml").read_text()


@pytest.mark.parametrize("writable", [True, False])
def test_where_the_kernel_does_not_let_us_it_is_said(tmp_path: Path, writable: bool) -> None:
    """A container has /proc/sys read-only; in check mode, so nothing is written."""
    kernel = tmp_path / "ip_local_reserved_ports"
    if writable:
        kernel.write_text("\n")
    part = [{"ansible.builtin.include_role": {"name": "tunnel_endpoint", "tasks_from": "25-ports"}}]
    variables = {"pqlab_role": "drone", "tunnel_endpoint_reserved_file": str(kernel)}
    done = play(tmp_path, part, variables, options=("-i", "localhost,", "--check"))
    played = read(done.returncode, done.stdout, done.stderr, 0.0)
    assert played.code == 0, played.failures
    assert ("Write the unit that reserves them" in " ".join(played.changed)) is writable
    assert (f"{kernel} cannot be written on localhost" in played.said("Say that they cannot")) is not writable


def below(root: Path, task: Task) -> Task:
    """A shell task that finds the kernel's files below a folder."""
    cmd = task["ansible.builtin.shell"]["cmd"].replace("/sys/", f"{root}/sys/")
    return {**task, "ansible.builtin.shell": {"cmd": cmd}}


def kernel_file(root: Path, path: str, text: str) -> Path:
    file = root / "sys" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("device", ["soc/soc:firmware", "axi/soc@107c000000:firmware", None])
def test_the_throttle_flags_of_any_board_are_found(tmp_path: Path, device: str | None) -> None:
    (tmp_path / "sys/devices/platform").mkdir(parents=True)
    if device is not None:
        kernel_file(tmp_path, f"devices/platform/{device}/get_throttled", "50005\n")
    task = below(tmp_path, tasks_of("common", "50-throttle.yml")["Read the throttle flags"])
    done = subprocess.run(
        ["sh", "-c", task["ansible.builtin.shell"]["cmd"]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == ((1, "") if device is None else (0, "50005\n"))


def test_the_kernels_driver_is_told_the_boards_shunt_once(tmp_path: Path) -> None:
    shunt = kernel_file(tmp_path, "class/hwmon/hwmon1/shunt_resistor", "10000\n")
    kernel_file(tmp_path, "class/hwmon/hwmon1/name", "ina219\n")
    other = kernel_file(tmp_path, "class/hwmon/hwmon2/shunt_resistor", "7\n")
    kernel_file(tmp_path, "class/hwmon/hwmon2/name", "ltc2945\n")
    tasks = tasks_of("companion_pi", "60-hwmon.yml")
    tell = below(tmp_path, tasks["Tell the kernel's driver the board's shunt"])
    rules = ROLES / "companion_pi/templates/60-pqlab-i2c.rules.j2"
    rule = {"ansible.builtin.template": {"src": str(rules), "dest": str(tmp_path / "rules")}}
    variables = {"companion_pi_sensor": "hwmon", "companion_pi_settings": {"shunt_ohm": 0.05}}
    for changes in (1, 0):
        done = play(tmp_path, [tell], variables, roles=("companion_pi",))
        played = read(done.returncode, done.stdout, done.stderr, 0.0)
        assert played.code == 0, played.failures
        assert len(played.changed) == changes
    assert (shunt.read_text(), other.read_text()) == ("50000\n", "7\n")
    assert play(tmp_path, [rule], variables, roles=("companion_pi",)).returncode == 0
    assert 'ATTR{shunt_resistor}="50000"' in (tmp_path / "rules").read_text()


# ---------------------------------------------------------------------- ports of the endpoint

LISTENERS = """\
udp   UNCONN 0      0          127.0.0.1:46011     0.0.0.0:*    users:(("somebody",pid=7,fd=3))
udp   UNCONN 0      0            0.0.0.0:48080     0.0.0.0:*
tcp   LISTEN 0      128             [::]:{port}       [::]:*    {users}
tcp   LISTEN 0      128          0.0.0.0:22        0.0.0.0:48080
"""


@pytest.mark.parametrize(
    ("role", "port", "users", "state", "said"),
    [
        ("drone", 48080, 'users:(("nginx",pid=12))', "inactive", "tcp 48080 on localhost is taken by nginx,"),
        ("drone", 48080, "", "failed", "is taken by another program,"),
        ("drone", 480800, "", "inactive", None),
        ("drone", 48080, 'users:(("python3",pid=12,fd=6))', "active", None),
        ("gcs", 1, "", "inactive", "Port udp 46011 on localhost is taken by somebody,"),
    ],
)  # fmt: skip
def test_a_taken_port_is_told_before_anything_is_installed(
    tmp_path: Path, role: str, port: int, users: str, state: str, said: str | None
) -> None:
    tools = {
        "ss": f"cat <<'EOF'\n{LISTENERS.format(port=port, users=users)}EOF",
        "systemctl": f"echo {state}",
    }
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tls.key.pem").write_text("key")
    look: Task = {
        "environment": {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        "block": [{"ansible.builtin.include_tasks": str(ROLES / "tunnel_endpoint/tasks/10-preflight.yml")}],
    }
    variables = {"tunnel_endpoint_role": role, "tunnel_endpoint_keys": str(tmp_path)}
    done = play(
        tmp_path, [look], variables, roles=("tunnel_endpoint",), options=("-i", "localhost,", "--check")
    )
    played = read(done.returncode, done.stdout, done.stderr, 0.0)
    assert (played.code == 0) == (said is None), played.failures or played.text[-2000:]
    if said is not None:
        assert said in str([item for _, _, row in played.rows for item in row.get("results", [])])


def test_the_ports_looked_at_are_those_of_the_endpoint() -> None:
    """The same that the firewall guards, without the far ends of the plaintext."""
    mine = yaml_of(ROLES / "tunnel_endpoint/vars/main.yml")
    for role, ports in mine["tunnel_endpoint_ports"].items():
        tcp = {*ports["handshake"], *ports["control"]}
        udp = {*ports["sealed"], min(ports["plaintext"])}
        guarded = {f"tcp:{port}" for port in tcp} | {f"udp:{port}" for port in udp}
        assert set(mine["tunnel_endpoint_listens"][role]) == guarded
