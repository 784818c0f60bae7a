"""Groups `[pair_1]` … `[pair_n]` of an inventory: which hosts measure together, and what cannot be.

Pair k of n carries out share k of n, so their numbers are 1 to n. Every refusal is one sentence, said before
any host is touched. Not in scope: where an agent answers (`inventory`), how pairs are run (`pairs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, NoReturn

from pqevidence.errors import UsageError
from pqevidence.paths import shown
from pqevidence.share import Share
from pqlab.ini import Group, hosts_of, variables_of_host
from pqlab.lab_number import MOST, LabNumber

ROLES: Final = ("drone", "gcs")
#: of a host: which of the machine's container labs it is of
LAB: Final = "pqlab_lab"
#: of a host of ring sim: the machine to simulate
HOST_SEED: Final = "pqlab_host_seed"
SIM: Final = "sim"
_PREFIX: Final = "pair_"
_NAME: Final = re.compile(r"pair_([1-9][0-9]{0,3})", re.ASCII)


@dataclass(frozen=True)
class PairGroup:
    """One pair: its share, host and variables by role, and its number among the machine's container labs
    (None for other hosts). host_seed: the machine to simulate, ring sim only."""

    share: Share
    ends: Mapping[str, str]
    variables: Mapping[str, Mapping[str, str]]
    lab: LabNumber | None
    host_seed: int | None

    @property
    def name(self) -> str:
        """As the inventory calls it, and as plan and bundle do."""
        return self.share.pair

    @property
    def ring(self) -> str:
        return _ring(self.variables["drone"])


def pairs_in(groups: Mapping[str, Group], file: Path) -> tuple[PairGroup, ...]:
    """The pairs by number; () for an inventory without any. Raises UsageError (exit 2) with one sentence."""
    names = [name for name in groups if name.startswith(_PREFIX)]
    if not names:
        return ()
    strange = next((name for name in names if not _NAME.fullmatch(name)), None)
    if strange is not None:
        _refuse(
            file, f"[{strange}] is no pair", "pairs are [pair_1], [pair_2] and so on", f"rename [{strange}]"
        )
    numbers = sorted(int(name.removeprefix(_PREFIX)) for name in names)
    of = len(numbers)
    if beyond := [number for number in numbers if number > of]:
        _refuse(
            file,
            f"[pair_{beyond[0]}] would have share {beyond[0]}/{of} of a campaign",
            f"pair k of {of} carries out share k/{of}",
            f"number the pairs 1 to {of}",
        )
    found = tuple(_pair(groups, number, of, file) for number in numbers)
    _every_host_in_one(groups, found, file)
    _alike(found, file)
    return found


def _pair(groups: Mapping[str, Group], number: int, of: int, file: Path) -> PairGroup:
    name = f"{_PREFIX}{number}"
    members = hosts_of(groups, name)
    ends: dict[str, str] = {}
    for role in ROLES:
        own = [host for host in members if host in hosts_of(groups, role)]
        if len(own) != 1:
            told = " and ".join(own) if own else f"none of its hosts ({', '.join(members) or 'it has none'})"
            _refuse(
                file,
                f"{name} needs one host that is in group [{role}], and has {told}",
                "a pair is one drone and one ground station",
                f"write one host of [{role}] under [{name}]",
            )
        ends[role] = own[0]
    if other := [host for host in members if host not in ends.values()]:
        _refuse(
            file,
            f"{name} holds {other[0]}, which is in neither [drone] nor [gcs]",
            "a pair is one drone and one ground station",
            f"take it out of [{name}]",
        )
    if ends["drone"] == ends["gcs"]:
        _refuse(file, f"{name} has {ends['drone']} at both ends", "a pair is two hosts", "name the other one")
    variables = {role: variables_of_host(groups, host) for role, host in ends.items()}
    kinds = {role: _kind(variables[role], ends[role], file) for role in ROLES}
    if kinds["drone"] != kinds["gcs"]:
        _refuse(
            file,
            f"{name} is of unlike kinds: {ends['drone']} is {kinds['drone']}, {ends['gcs']} {kinds['gcs']}",
            "both ends of a pair are simulated, or containers of one lab, or hosts of one ring",
            "correct pqlab_ring, pqlab_compose_project or pqlab_lab of one of them",
        )
    drone = variables["drone"]
    return PairGroup(
        Share(number, of, name), ends, variables, _lab(drone, ends["drone"], file), _seed(drone, name, file)
    )


def _ring(variables: Mapping[str, str]) -> str:
    return variables.get("pqlab_ring", "lab")


def _kind(variables: Mapping[str, str], host: str, file: Path) -> str:
    lab = _lab(variables, host, file)
    if lab is not None:
        return f"of container lab {lab.number}"
    return "simulated" if _ring(variables) == SIM else f"a host of ring {_ring(variables)}"


def _lab(variables: Mapping[str, str], host: str, file: Path) -> LabNumber | None:
    """Its lab: 1 for a container that names none, None for a host that is no container."""
    text = variables.get(LAB)
    if not variables.get("pqlab_compose_project"):
        if text is not None:
            _refuse(
                file,
                f"{host} has {LAB}={text} and is no container",
                "only the container labs of one machine have numbers",
                f"leave {LAB} out, or name pqlab_compose_project=pqlab",
            )
        return None
    if text not in (None, *map(str, range(1, MOST + 1))):
        _refuse(
            file, f"{host} has {LAB}={text}, which is no lab", f"a machine has {MOST} at most", f"{LAB}=2"
        )
    return LabNumber(int(text or "1"))


def _seed(variables: Mapping[str, str], name: str, file: Path) -> int | None:
    text = variables.get(HOST_SEED)
    if text is None:
        return None
    if _ring(variables) != SIM or not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        _refuse(
            file,
            f"{HOST_SEED}={text} of {name} is not for it",
            "it is a whole number, for hosts of ring sim alone",
            f"{HOST_SEED}=1, or leave it out",
        )
    return int(text)


def _every_host_in_one(groups: Mapping[str, Group], pairs: Sequence[PairGroup], file: Path) -> None:
    for one, other in combinations(pairs, 2):
        if both := sorted({*one.ends.values()} & {*other.ends.values()}):
            _refuse(
                file,
                f"{one.name} and {other.name} share the host {both[0]}",
                "an agent measures for one pair at a time, and shares of one host are no two pairs",
                f"take {both[0]} out of one of them",
            )
    paired = {host for pair in pairs for host in pair.ends.values()}
    for role in ROLES:
        if alone := [host for host in hosts_of(groups, role) if host not in paired]:
            _refuse(
                file,
                f"{alone[0]} in [{role}] is of no pair",
                "where there are pairs every host that measures is of one",
                f"write it under a [pair_…], or take it out of [{role}]",
            )


def _alike(pairs: Sequence[PairGroup], file: Path) -> None:
    """Of one ring, and no two of one lab."""
    for one, other in combinations(pairs, 2):
        if one.ring != other.ring:
            _refuse(
                file,
                f"{one.name} is of ring {one.ring}, {other.name} of ring {other.ring}",
                "a simulated, a lab and a hardware time are different quantities, and are not merged",
                "give each ring an inventory of its own",
            )
        if one.lab is not None and one.lab == other.lab:
            _refuse(
                file,
                f"{one.name} and {other.name} are both of container lab {one.lab.number}",
                "a lab is one pair of hosts; a host that names none is of lab 1",
                f"give the hosts of {other.name} {LAB}={one.lab.number % MOST + 1}",
            )


def _refuse(file: Path, what: str, why: str, hint: str) -> NoReturn:
    raise UsageError("bad-pairs", f"{shown(file)}: {what}", why, hint)
