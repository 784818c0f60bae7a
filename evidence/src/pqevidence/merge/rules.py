"""What may stand in one merged bundle. Every refusal has a code, one sentence, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from pqbase.documents import whole_of
from pqbase.text import canonical_json
from pqevidence.analysis.load import ROLES
from pqevidence.analysis.merged import Part
from pqevidence.analysis.origin import HOST_FACTS
from pqevidence.errors import EXIT_CHECK, EXIT_USAGE, LabError

LEAST_PARTS = 2


def require_mergeable(parts: Sequence[Part]) -> None:
    """Raises LabError (exit 2) for parts that do not belong into one bundle; `forged-share` (exit 5)."""
    if len(parts) < LEAST_PARTS:
        _refuse("one-part", "one bundle is no merge", "a merge is of two parts at least", "name the others")
    _no_part_twice(parts)
    _one_ring(parts)
    _one_campaign(parts)
    _own_blocks(parts)
    _one_build(parts)
    _pairs_told_apart(parts)
    _no_cell_twice(parts)


def _no_part_twice(parts: Sequence[Part]) -> None:
    for part, other in _two_by_two(parts):
        if part.run_id == other.run_id:
            _refuse(
                "same-bundle",
                f"{part.run_id} is named twice",
                "a bundle counted twice would be measured once",
                "name each bundle once",
            )


def _one_ring(parts: Sequence[Part]) -> None:
    for part, other in _two_by_two(parts):
        if part.ring != other.ring:
            _refuse(
                "unlike-rings",
                f"{part.run_id} is of ring {part.ring}, {other.run_id} of ring {other.ring}",
                "a simulated, a lab and a hardware time are different quantities",
                "merge bundles of one ring",
            )


def _one_campaign(parts: Sequence[Part]) -> None:
    for part, other in _two_by_two(parts):
        one, two = str(part.bundle.plan["campaign"]), str(other.bundle.plan["campaign"])
        if one != two:
            _refuse(
                "unlike-campaigns",
                f"{part.run_id} is of campaign {one[:12]}…, {other.run_id} of {two[:12]}…",
                "a campaign is one scenario in one order; these differ in either, or in an option",
                "run all shares with the same scenario and options",
            )
        if part.share.of != other.share.of:
            _refuse(
                "unlike-shares",
                f"{part.run_id} is a share of {part.share.of}, {other.run_id} a share of {other.share.of}",
                "a block could belong to two shares",
                "run the campaign in shares of one number",
            )


def _own_blocks(parts: Sequence[Part]) -> None:
    for part in parts:
        own = {block + 1 for block in part.share.blocks(whole_of(part.bundle.scenario, "repetitions"))}
        if strange := [number for number in part.repetitions if number not in own]:
            raise forged_share(part.run_id, f"repetition {strange[0]} is none of its share's")


def forged_share(run_id: str, why: str) -> LabError:
    """The refusal of a part that holds what its share does not own."""
    return LabError(
        "forged-share",
        f"{run_id} holds other blocks than share and campaign that it names",
        why,
        "./pqlab verify names what does not fit; merge what was run",
        EXIT_CHECK,
    )


def _one_build(parts: Sequence[Part]) -> None:
    """On one architecture all parts have one build of each end, and of the drone's detectors."""
    known: dict[tuple[str, str], tuple[Part, object]] = {}
    for part in parts:
        for role in (*ROLES, "detectors"):
            machine = str(part.host("drone" if role == "detectors" else role).get("machine"))
            build = part.bundle.providers.get(role)
            first, there = known.setdefault((role, machine), (part, build))
            if canonical_json(there) != canonical_json(build):
                what = ", ".join(_changed(there, build)) or role
                _refuse(
                    "other-builds",
                    f"{first.run_id} and {part.run_id} have other builds of the {role} on {machine}: {what}",
                    "an effect of the build would be taken for one of the host",
                    "run every share of one architecture with the same images",
                )


def _changed(one: object, other: object) -> list[str]:
    one, other = (value if isinstance(value, dict) else {} for value in (one, other))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def _pairs_told_apart(parts: Sequence[Part]) -> None:
    for part, other in _two_by_two(parts):
        if part.pair != other.pair:
            continue
        for role in ROLES:
            facts = [{name: p.host(role).get(name) for name in HOST_FACTS} for p in (part, other)]
            if changed := _changed(*facts):
                _refuse(
                    "pair-of-two-hosts",
                    f"pair {part.pair} has another {role} in {part.run_id} than in {other.run_id}",
                    f"{', '.join(changed)} differ: two pairs under one name would count as one host",
                    "give each pair of hosts a name of its own when it is run: --pair NAME",
                )


def _no_cell_twice(parts: Sequence[Part]) -> None:
    owners: dict[str, Part] = {}
    places: dict[tuple[str, str, int], Part] = {}
    for part in parts:
        for cell in part.bundle.cells:
            place = (cell.suite_id, cell.condition, cell.repetition)
            what = f"{cell.suite_id} under {cell.condition} #{cell.repetition}"
            owner, other = owners.setdefault(cell.cell_id, part), places.setdefault(place, part)
            if owner is not part and _same_hosts(owner, part):
                _refuse(
                    "two-owners",
                    f"cell {cell.cell_id} has two owners: {owner.run_id} and {part.run_id}",
                    f"pair {part.pair} measured {what} twice, and the merge does not choose",
                    "name one of the two",
                )
            if owner is not part:
                _refuse(
                    "cell-of-two-hosts",
                    f"cell {cell.cell_id} was measured on pair {owner.pair} and on pair {part.pair}",
                    f"{what} belongs to one share, and a share to one pair",
                    "name one of the two; twins of hosts are for ./pqlab compare",
                )
            if other is not part:
                _refuse(
                    "overlapping-cells",
                    f"{what} is in {other.run_id} and in {part.run_id}, with other builds",
                    "a place in the campaign is measured once",
                    "name one of the two",
                )


def _same_hosts(one: Part, other: Part) -> bool:
    boots = [{str(p.host(role).get("boot_id")) for role in ROLES} for p in (one, other)]
    return one.pair == other.pair or bool(boots[0] & boots[1])


def _two_by_two(parts: Sequence[Part]) -> Iterable[tuple[Part, Part]]:
    """The first part beside each other one: what is equal to it is equal among themselves. For what may
    hold of any two, every pair."""
    return ((one, other) for place, one in enumerate(parts) for other in parts[place + 1 :])


def _refuse(code: str, what: str, why: str, hint: str) -> NoReturn:
    raise LabError(code, what, why, hint, EXIT_USAGE)
