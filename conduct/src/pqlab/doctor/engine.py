"""The container engine and what the lab put there: engine, compose, images, services, ports."""

from __future__ import annotations

import re

from pqlab.doctor.model import Reading, Requirement
from pqlab.doctor.system import System
from pqlab.lab_number import lab_number

MIN_ENGINE = (20, 10)
IMAGES = ("base", "liboqs", "tunnel", "sitl", "influxdb", "telegraf")
SERVICES = ("sitl", "mavproxy-air", "drone", "gcs", "mavproxy-gcs", "telegraf", "influxdb")
PORTS = {48080: "agent of the gcs", 48081: "agent of the drone", 8086: "InfluxDB"}
"""Those of lab 1."""
_LISTEN = "0A"
#: how compose/lab.sh tells what happened, why, and the next command
_TOLD = re.compile(r"error: (.*)\n  why:  (.*)\n  next: (.*)")


def _ours() -> str:
    return f"label=com.docker.compose.project={lab_number().project}"


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not found:
        raise ValueError(f"{text!r} is no version")
    return tuple(int(part) for part in found.groups(default="0"))


def read_engine(system: System) -> Reading:
    """Version of the engine that answers."""
    result = system.command(["docker", "version", "--format", "{{.Server.Version}}"])
    if result.code is None:
        return Reading(False, "no docker command")
    if result.code != 0:
        if "permission denied" in result.stderr.lower():
            return Reading(
                False,
                "this user may not talk to the engine",
                "sudo usermod -aG docker $USER, then log in again; or run as root",
            )
        return Reading(False, "no engine answers")
    return Reading(_version(result.stdout)[:2] >= MIN_ENGINE, f"Docker Engine {result.stdout}")


def read_compose(system: System) -> Reading:
    """Version of compose."""
    result = system.command(["docker", "compose", "version", "--short"])
    if result.code != 0:
        return Reading(False, "no `docker compose`")
    return Reading(_version(result.stdout)[0] >= 2, f"compose {result.stdout}")


def read_images(system: System) -> Reading:
    """Which of the lab's images are there."""
    result = system.command(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"])
    if result.code != 0:
        return Reading(None, "no engine to ask")
    there = set(result.stdout.split())
    missing = [name for name in IMAGES if f"pqlab/{name}:dev" not in there]
    return Reading(not missing, f"missing: {', '.join(missing)}" if missing else f"{len(IMAGES)} images")


def read_services(system: System) -> Reading:
    """Which services run, and whether any is unwell."""
    result = system.command(["docker", "ps", "--filter", _ours(), "--format", "{{.Names}}\t{{.Status}}"])
    if result.code != 0:
        return Reading(None, "no engine to ask")
    rows = dict(line.split("\t", 1) for line in result.stdout.splitlines() if "\t" in line)
    if not rows:
        return Reading(False, "the lab is down")
    missing = [name for name in SERVICES if f"{lab_number().project}-{name}-1" not in rows]
    unwell = [name for name, status in rows.items() if "unhealthy" in status or "Restarting" in status]
    if missing or unwell:
        parts = [f"not running: {', '.join(missing)}"] if missing else []
        parts += [f"not well: {', '.join(unwell)}"] if unwell else []
        return Reading(False, "; ".join(parts), "make lab-status, then make lab-up")
    return Reading(True, f"{len(SERVICES)} services up")


def read_owner(system: System) -> Reading:
    """Whose lab it is that is up on this machine; the rule is compose/owner.sh."""
    script = system.project / "compose" / "lab.sh"
    if not script.is_file():
        return Reading(None, "no compose/lab.sh to ask")
    result = system.command([str(script), "mine"])
    if result.code == 0:
        return Reading(True, "this checkout's, or none is up")
    told = _TOLD.search(result.stderr)
    if told is None:
        return Reading(None, result.stderr or "compose/lab.sh says nothing")
    what, why, following = told.groups()
    return Reading(False, f"{what}: {why}", following)


def _listening(system: System) -> set[int]:
    """Local TCP ports in state LISTEN (proc(5), /proc/net/tcp: address:port in hex, state 0A)."""
    ports: set[int] = set()
    for name in ("tcp", "tcp6"):
        path = f"proc/net/{name}"
        if not system.exists(path):
            continue
        for line in system.text(path).splitlines()[1:]:
            columns = line.split()
            if len(columns) > 3 and columns[3] == _LISTEN:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return ports


def read_ports(system: System) -> Reading:
    """Whether the published ports are free, or ours."""
    ports = {lab_number().port(port): name for port, name in PORTS.items()}
    taken = _listening(system) & ports.keys()
    result = system.command(["docker", "ps", "--filter", _ours(), "--format", "{{.Ports}}"])
    ours = {int(port) for port in re.findall(r":(\d+)->", result.stdout)} if result.code == 0 else set()
    foreign = sorted(taken - ours)
    if foreign:
        names = ", ".join(f"{port} ({ports[port]})" for port in foreign)
        return Reading(False, f"taken by another program: {names}", f"ss -ltnp 'sport = :{foreign[0]}'")
    held = f"{len(taken)} held by the lab" if taken else "all free"
    return Reading(True, f"{', '.join(map(str, sorted(ports)))}: {held}")


#: of one container lab, which LAB names; the others are of the machine
OF_A_LAB = ("ports", "lab owner", "services")
REQUIREMENTS = (
    Requirement("engine", "need", "Docker Engine 20.10 or newer", read_engine, "make lab-up (starts one)"),
    Requirement("compose", "need", "docker compose 2 or newer", read_compose, "make lab-up (installs it)"),
    Requirement("ports", "need", "free, or held by the lab", read_ports, "ss -ltnp"),
    Requirement("lab owner", "need", "this checkout's, or no lab", read_owner, "make lab-status"),
    Requirement("images", "want", "all images built", read_images, "make images"),
    Requirement("services", "note", "all services up while a scenario runs", read_services, "make lab-up"),
)
