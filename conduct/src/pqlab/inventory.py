"""Which agent answers where: the few facts pqlab needs from an Ansible INI inventory.

Either one drone and one ground station, or several pairs of them (`pair_groups`). How the file is written:
`ini`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from pqevidence.errors import UsageError
from pqevidence.paths import project_root, shown
from pqevidence.share import Share
from pqlab.ini import Group, read
from pqlab.lab_number import FIRST_PROJECT, VARIABLE, LabNumber, lab_number
from pqlab.pair_groups import ROLES as ROLES
from pqlab.pair_groups import SIM, PairGroup, pairs_in

DEFAULT_AGENT_PORT = 48080
DETECTORS = ("xgboost", "tst", "cascade")
DEFAULT_INVENTORY = Path("ansible") / "inventories" / "lab.ini"
PLACEHOLDER = "REPLACE_WITH_"
#: of a host: the place of a shared rack at which it stands
PLACE = "pqlab_place"


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
    its own. windows_station: the ground station's platform is a Windows. place: of a shared rack, at which
    these hosts stand; None where nobody says. share: of an inventory of several pairs, which of them this is
    and the share that it carries out. lab: the number of its container lab, None for other hosts. host_seed:
    of a simulated pair, the machine to simulate.
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
    share: Share | None = None
    lab: LabNumber | None = None
    host_seed: int | None = None

    @property
    def controller_keys(self) -> Path:
        """The controller's own identity inside `keys`."""
        return self.keys / "controller"


def load_inventory(file: str | None = None, keys: str | None = None, pair: str | None = None) -> Inventory:
    """Read an inventory. Raises UsageError (exit 2) naming file and line, or the host that is missing; for
    one of several pairs where none of them is named, and where the command is of another lab than the pair.

    The container lab's is that of lab 1; ports and project are those of the lab that LAB names. pair: one of
    the inventory's; means nothing where it has none.
    """
    path = _path(file)
    groups = read(path)
    if pairs := _pairs(groups, path, keys):
        return _of_this_lab(_chosen(pairs, path, pair))
    shared = _shared_variables(groups)
    names = {role: _only_host(role, groups, path) for role in ROLES}
    found = _made(path, keys, names, {role: _of_role(groups, shared, role) for role in ROLES}, shared)
    return _of_lab(found, lab_number()) if found.compose_project == FIRST_PROJECT else found


def load_pairs(file: str | None = None, keys: str | None = None) -> tuple[Inventory, ...]:
    """Every pair of an inventory by its number; () for an inventory without pairs. Raises UsageError."""
    path = _path(file)
    return _pairs(read(path), path, keys)


def load_every(
    file: str | None = None, keys: str | None = None, pair: str | None = None
) -> tuple[Inventory, ...]:
    """What a command that goes from pair to pair is for: all of them, or the one that is named. Raises
    UsageError."""
    found = load_pairs(file, keys)
    if not found:
        return (load_inventory(file, keys),)
    return found if pair is None else (_chosen(found, _path(file), pair),)


def _path(file: str | None) -> Path:
    return Path(file) if file else project_root() / DEFAULT_INVENTORY


def _pairs(groups: Mapping[str, Group], path: Path, keys: str | None) -> tuple[Inventory, ...]:
    found = tuple(_of_pair(path, keys, pair) for pair in pairs_in(groups, path))
    for one, other in combinations(found, 2):
        _apart(one, other)
    return found


def _of_pair(path: Path, keys: str | None, pair: PairGroup) -> Inventory:
    made = _made(path, keys, pair.ends, pair.variables, pair.variables["drone"])
    if pair.lab is not None:
        made = _of_lab(made, pair.lab)
    return replace(made, share=pair.share, host_seed=pair.host_seed)


def _apart(one: Inventory, other: Inventory) -> None:
    """Two names may lead to one host, and one place is held by one campaign. Simulated hosts have no
    address."""
    if one.place is not None and one.place == other.place:
        raise UsageError(
            "bad-pairs",
            f"{shown(one.file)}: {_name(one)} and {_name(other)} are both at place {one.place}",
            "a place is one pair of hosts, and is held for one pair at a time",
            f"give each pair its own: {PLACE}=NAME under [{_name(other)}:vars]",
        )
    if one.ring == SIM:
        return
    known = {(agent.host, agent.port): agent for agent in one.agents.values()}
    for agent in other.agents.values():
        if (same := known.get((agent.host, agent.port))) is not None:
            raise UsageError(
                "bad-pairs",
                f"{shown(one.file)}: {_name(one)} and {_name(other)} share a host: {same.name} and "
                f"{agent.name} are both {agent.host}:{agent.port}",
                "an agent measures for one pair at a time",
                "correct ansible_host or pqlab_agent_port of one of them",
            )


def _name(pair: Inventory) -> str:
    return "" if pair.share is None else pair.share.pair


def _chosen(pairs: tuple[Inventory, ...], path: Path, name: str | None) -> Inventory:
    names = [_name(pair) for pair in pairs]
    if name not in names:
        raise UsageError(
            "which-pair",
            f"{shown(path)} holds {len(pairs)} pairs, and no {name}"
            if name
            else f"{shown(path)} holds {len(pairs)} pairs, and this is for one",
            f"its pairs are {', '.join(names)}",
            f"--pair {names[0]}",
        )
    return pairs[names.index(name)]


def _of_this_lab(pair: Inventory) -> Inventory:
    """Raises UsageError where the environment names another lab: half of a command would be of that one."""
    if pair.lab is not None and pair.lab != lab_number():
        raise UsageError(
            "other-lab",
            f"{_name(pair)} is of container lab {pair.lab.number}, this command of lab {lab_number().number}",
            f"{VARIABLE} in the environment names the lab",
            f"the same command with {VARIABLE}={pair.lab.number} before it",
        )
    return pair


def _made(
    path: Path,
    keys: str | None,
    names: Mapping[str, str],
    variables: Mapping[str, Mapping[str, str]],
    shared: Mapping[str, str],
) -> Inventory:
    """Of one drone and one ground station; shared: what holds for both."""
    agents = {role: _agent(role, names[role], variables[role], path) for role in ROLES}
    folder = Path(keys) if keys else Path(shared.get("pqlab_keys", "keys"))
    if not folder.is_absolute():
        folder = (Path.cwd() if keys else project_root()) / folder
    return Inventory(
        file=path,
        agents=agents,
        ring=shared.get("pqlab_ring", "lab"),
        keys=folder,
        influx_url=shared.get("pqlab_influx_url") or None,
        influx_database=shared.get("pqlab_influx_database", "pqlab"),
        compose_project=shared.get("pqlab_compose_project") or None,
        detectors=_detectors(variables["drone"].get("pqlab_detectors", ""), path),
        windows_station=variables["gcs"].get("pqlab_platform", "").startswith("windows/"),
        place=_place(names, variables, path),
    )


def _place(names: Mapping[str, str], variables: Mapping[str, Mapping[str, str]], path: Path) -> str | None:
    """Of a shared rack; both ends stand at it."""
    drone, gcs = (variables[role].get(PLACE) or None for role in ROLES)
    if drone != gcs:
        raise UsageError(
            "two-places",
            f"{shown(path)}: {names['drone']} is at place {drone or 'none'}, "
            f"{names['gcs']} at {gcs or 'none'}",
            "a place is held with both ends, or it keeps nobody from one of them",
            f"give both one {PLACE}, or none",
        )
    return drone


def _of_lab(first: Inventory, lab: LabNumber) -> Inventory:
    """The same lab by another number."""
    url = first.influx_url
    if url is not None:
        head, _, port = url.rpartition(":")
        url = f"{head}:{lab.port(int(port))}"
    agents = {role: replace(agent, port=lab.port(agent.port)) for role, agent in first.agents.items()}
    return replace(first, agents=agents, influx_url=url, compose_project=lab.project, lab=lab)


def variables_of(file: Path) -> dict[str, dict[str, str]]:
    """Role → every variable of its host, the nearer one winning. Raises UsageError (exit 2) as
    `load_inventory` does."""
    load_inventory(str(file))
    groups = read(file)
    return {role: _of_role(groups, _shared_variables(groups), role) for role in ROLES}


def _of_role(groups: dict[str, Group], shared: dict[str, str], role: str) -> dict[str, str]:
    return {**shared, **groups[role].variables, **next(iter(groups[role].hosts.values()))}


def _shared_variables(groups: dict[str, Group]) -> dict[str, str]:
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


def _only_host(role: str, groups: Mapping[str, Group], path: Path) -> str:
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
            "without groups [pair_1], [pair_2] … a run measures one pair",
            f"leave one line under [{role}], or say which hosts are a pair: docs/RACK.md",
        )
    return next(iter(group.hosts))


def _agent(role: str, name: str, variables: Mapping[str, str], path: Path) -> AgentAddress:
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
