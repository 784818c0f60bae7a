"""Which agent answers where: the few facts pqlab needs from an Ansible INI inventory.

In scope: groups, host variables, `[group:vars]`, `[group:children]`. Not in scope: patterns, ranges and
everything else Ansible itself does with the file.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from pqevidence.errors import UsageError
from pqevidence.paths import project_root, shown
from pqlab.lab_number import FIRST_PROJECT, LabNumber, lab_number

ROLES = ("drone", "gcs")
DEFAULT_AGENT_PORT = 48080
DETECTORS = ("xgboost", "tst", "cascade")
DEFAULT_INVENTORY = Path("ansible") / "inventories" / "lab.ini"
PLACEHOLDER = "REPLACE_WITH_"


@dataclass(frozen=True)
class AgentAddress:
    """Where one agent listens; `role` is the name its certificate must carry."""

    role: str
    name: str
    host: str
    port: int


@dataclass(frozen=True)
class Inventory:
    """The hosts of one lab. influx_url is None where no database is named: then nothing is reconciled.

    detectors: names of those that are installed on the drone's host; () in the container lab, which has
    its own. windows_station: the ground station's platform is a Windows.
    place: of a shared rack, at which these hosts stand; None where nobody says.
    """

    file: Path
    agents: dict[str, AgentAddress]
    ring: str
    keys: Path
    influx_url: str | None
    influx_database: str
    compose_project: str | None
    detectors: tuple[str, ...] = ()
    windows_station: bool = False
    place: str | None = None

    @property
    def controller_keys(self) -> Path:
        """The controller's own identity inside `keys`."""
        return self.keys / "controller"


@dataclass
class _Group:
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


def load_inventory(file: str | None = None, keys: str | None = None) -> Inventory:
    """Read an inventory. Raises UsageError (exit 2) naming file and line, or the host that is missing.

    The container lab's is that of lab 1; ports and project are those of the lab that LAB names.
    """
    path = Path(file) if file else project_root() / DEFAULT_INVENTORY
    groups = _read(path)
    shared = _shared_variables(groups)
    agents = {role: _agent(role, groups, shared, path) for role in ROLES}
    drone, gcs = (_of_role(groups, shared, role) for role in ROLES)
    folder = Path(keys) if keys else Path(shared.get("pqlab_keys", "keys"))
    if not folder.is_absolute():
        folder = (Path.cwd() if keys else project_root()) / folder
    found = Inventory(
        file=path,
        agents=agents,
        ring=shared.get("pqlab_ring", "lab"),
        keys=folder,
        influx_url=shared.get("pqlab_influx_url") or None,
        influx_database=shared.get("pqlab_influx_database", "pqlab"),
        compose_project=shared.get("pqlab_compose_project") or None,
        detectors=_detectors(drone.get("pqlab_detectors", ""), path),
        windows_station=gcs.get("pqlab_platform", "").startswith("windows/"),
        place=shared.get("pqlab_place") or None,
    )
    return _of_lab(found, lab_number()) if found.compose_project == FIRST_PROJECT else found


def _of_lab(first: Inventory, lab: LabNumber) -> Inventory:
    """The same lab by another number."""
    url = first.influx_url
    if url is not None:
        head, _, port = url.rpartition(":")
        url = f"{head}:{lab.port(int(port))}"
    agents = {role: replace(agent, port=lab.port(agent.port)) for role, agent in first.agents.items()}
    return replace(first, agents=agents, influx_url=url, compose_project=lab.project)


def variables_of(file: Path) -> dict[str, dict[str, str]]:
    """Role → every variable of its host, the nearer one winning. Raises UsageError (exit 2) as
    `load_inventory` does."""
    load_inventory(str(file))
    groups = _read(file)
    return {role: _of_role(groups, _shared_variables(groups), role) for role in ROLES}


def _of_role(groups: dict[str, _Group], shared: dict[str, str], role: str) -> dict[str, str]:
    return {**shared, **groups[role].variables, **next(iter(groups[role].hosts.values()))}


def _read(path: Path) -> dict[str, _Group]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # an editor of Windows may have put a mark before it
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "no-inventory",
            f"cannot read inventory {shown(path)}",
            str(error.strerror) if isinstance(error, OSError) else "it is not UTF-8 text",
            "--inventory ansible/inventories/lab.ini is the container lab",
        ) from error
    return _parse(text, shown(path))


def _parse(text: str, name: str) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    section, kind = "ungrouped", "hosts"
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                raise _bad_line(name, number, "a section is written [group]")
            section, _, suffix = line[1:-1].partition(":")
            kind = suffix or "hosts"
            if kind not in ("hosts", "vars", "children"):
                raise _bad_line(name, number, f"`:{kind}` is neither :vars nor :children")
            groups.setdefault(section, _Group())
            continue
        group = groups.setdefault(section, _Group())
        if kind == "children":
            group.children.append(line)
        elif kind == "vars":
            key, equals, value = line.partition("=")
            if not equals:
                raise _bad_line(name, number, "a variable is written key=value")
            group.variables[key.strip()] = value.strip().strip("'\"")
        else:
            group.hosts.update([_host(line, name, number)])
    return groups


def _host(line: str, name: str, number: int) -> tuple[str, dict[str, str]]:
    try:
        host, *pairs = shlex.split(line, comments=True)
    except ValueError as error:
        raise _bad_line(name, number, str(error)) from error
    variables = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _bad_line(name, number, f"`{pair}` is not key=value")
        variables[key] = value
    return host, variables


def _bad_line(name: str, number: int, why: str) -> UsageError:
    return UsageError(
        "bad-inventory", f"{name}:{number}: not an inventory line", why, f"correct line {number}"
    )


def _shared_variables(groups: dict[str, _Group]) -> dict[str, str]:
    """Variables of `all` and of every parent group, the nearer one winning."""
    shared: dict[str, str] = {}
    for name in ("all", *(g for g in groups if g != "all" and groups[g].children)):
        if name in groups:
            shared.update(groups[name].variables)
    return shared


def _detectors(text: str, path: Path) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if unknown := [name for name in names if name not in DETECTORS]:
        raise UsageError(
            "bad-detector",
            f"{shown(path)}: no detector is named {unknown[0]!r}",
            "pqlab_detectors names it",
            f"choose of {', '.join(DETECTORS)}, separated by commas",
        )
    return names


def _agent(role: str, groups: dict[str, _Group], shared: dict[str, str], path: Path) -> AgentAddress:
    group = groups.get(role)
    if group is None or not group.hosts:
        raise UsageError(
            "no-host",
            f"{shown(path)} names no host in group [{role}]",
            "a run needs one drone and one gcs",
            f"add a line under [{role}]; the top-level inventory.ini shows one",
        )
    if len(group.hosts) > 1:
        raise UsageError(
            "many-hosts",
            f"{shown(path)} names {len(group.hosts)} hosts in group [{role}]",
            "a run measures one pair",
            f"leave one line under [{role}]",
        )
    name, own = next(iter(group.hosts.items()))
    variables = {**shared, **group.variables, **own}
    port = variables.get("pqlab_agent_port", str(DEFAULT_AGENT_PORT))
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise UsageError(
            "bad-port", f"{shown(path)}: pqlab_agent_port={port} of {name}", "not a TCP port", "use 48080"
        )
    host = variables.get("pqlab_agent_host") or variables.get("ansible_host") or name
    if host.startswith(PLACEHOLDER):
        raise UsageError(
            "placeholder",
            f"{shown(path)} still holds the placeholder {host} for {name}",
            "it is the inventory as it was delivered",
            f"write your own addresses into {shown(path)}; the container lab needs none: "
            "--inventory ansible/inventories/lab.ini",
        )
    return AgentAddress(variables.get("pqlab_role", role), name, host, int(port))
