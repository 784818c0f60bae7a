"""Options of `run` and `resume` for a place of a shared rack, and the place that they hold."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pqevidence.errors import LabError, UsageError
from pqevidence.paths import shown
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.cli.common import stopped_by_signal
from pqlab.inventory import PLACE, Inventory, load_inventory, load_pairs
from pqlab.rack.hold import Wanted, held

#: labgrid's own names
ADDRESS, POWER_FILE = "LG_COORDINATOR", "LG_ENV"
DEFAULT_ADDRESS: Final = "127.0.0.1:20408"
#: in the name of an inventory: the place's own
IN_INVENTORY: Final = "{place}"
#: how long to wait for a turn where nobody says: a named place is free or not, a tag is a queue, and the
#: place of a run that was killed may still be on its way back
PLACE_WAIT_S, RESERVE_WAIT_S, RESUME_WAIT_S = 0.0, 3600.0, 120.0


def add_rack_options(parser: argparse.ArgumentParser) -> None:
    """Options that `run` and `resume` share."""
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help=f"labgrid coordinator of the rack (default: ${ADDRESS}, else {DEFAULT_ADDRESS})",
    )
    parser.add_argument(
        "--wait-s",
        type=_seconds,
        metavar="S",
        help=f"how long to wait for the place (default: {PLACE_WAIT_S:g} with --place, {RESERVE_WAIT_S:g} "
        f"with --reserve, {RESUME_WAIT_S:g} with resume)",
    )
    parser.add_argument(
        "--power",
        metavar="FILE",
        help=f"labgrid environment whose targets drone and gcs have a power driver (default: ${POWER_FILE}, "
        "else the power ports that the place exports)",
    )


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Options of `run` alone: a run that goes on is at the place where it began."""
    parser.add_argument(
        "--place",
        metavar="NAME",
        help="hold this place of a shared rack while the run lasts (docs/PLACES.md)",
    )
    parser.add_argument(
        "--reserve",
        action="append",
        metavar="TAG=VALUE",
        help="hold a place that has this tag, in turn; repeat for more tags",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 604_800.0 or math.isnan(seconds):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to a week")
    return seconds


def wanted_of(args: argparse.Namespace, known: Inventory | None) -> Wanted | None:
    """What `run` is to hold, None for hosts that nobody else uses. known: the inventory, where it is the same
    at every place; hosts that stand at a place are held, asked for or not. Raises LabError."""
    tags = dict(_tag(text) for text in args.reserve or [])
    if args.place and tags:
        raise UsageError(
            "place-and-tag",
            "--place and --reserve are given",
            "each of them says which place",
            "keep one of them",
        )
    if tags:
        _require_any(known)
        return _wanted(args, None, tags, RESERVE_WAIT_S)
    return _named(args, args.place, known, PLACE_WAIT_S, "neither --place nor --reserve is given")


def wanted_again(args: argparse.Namespace, facts: object, known: Inventory | None) -> Wanted | None:
    """What `resume` is to hold. facts: the `place` of the run's hosts; None where it held none."""
    name = str(facts["name"]) if isinstance(facts, dict) else None
    return _named(args, name, known, RESUME_WAIT_S, "the run was begun without a place")


def require_for_pairs(args: argparse.Namespace, pairs: tuple[Inventory, ...]) -> None:
    """Raises UsageError for options of a place where no pair stands at one, and for drivers of one place."""
    if all(pair.place is None for pair in pairs):
        _require_no_rack_option(args, f"no pair of the inventory has {PLACE}")
    elif POWER_FILE in os.environ:
        raise UsageError(
            "not-for-pairs",
            f"{POWER_FILE} does not go with all pairs of an inventory",
            "one file names the power drivers of one place",
            f"unset {POWER_FILE}; each place exports its own power ports",
        )


def _named(
    args: argparse.Namespace, name: str | None, known: Inventory | None, wait_s: float, without: str
) -> Wanted | None:
    stated = None if known is None else known.place
    if name is None and stated is None:
        _require_no_rack_option(args, without)
        return None
    if known is not None and name is not None:
        _require_there(known, name, chosen=False)
    return _wanted(args, name or stated, {}, wait_s)


def _require_any(known: Inventory | None) -> None:
    """Before anybody waits: the hosts of one place are not those of whichever comes first."""
    if known is not None and (known.place is not None or known.ring == "hardware"):
        of = "real hosts" if known.place is None else f"the hosts of place {known.place}"
        raise UsageError(
            "which-place",
            f"--reserve may bring any place, and {shown(known.file)} has {of}",
            "a lock of one place keeps nobody from the boards of another",
            f"an inventory a place: --inventory FOLDER/{IN_INVENTORY}.ini",
        )


def _wanted(args: argparse.Namespace, place: str | None, tags: dict[str, str], wait_s: float) -> Wanted:
    power = args.power or os.environ.get(POWER_FILE) or None
    if power is not None and not Path(power).is_file():
        raise UsageError(
            "no-power-file",
            f"{shown(Path(power))} is no file",
            "it is to name power drivers",
            "docs/PLACES.md shows one",
        )
    return Wanted(
        coordinator=args.coordinator or os.environ.get(ADDRESS) or DEFAULT_ADDRESS,
        place=place,
        tags=tags,
        wait_s=wait_s if args.wait_s is None else args.wait_s,
        power=None if power is None else str(Path(power).resolve()),
    )


def _require_no_rack_option(args: argparse.Namespace, why: str) -> None:
    given = {"--coordinator": args.coordinator, "--wait-s": args.wait_s, "--power": args.power}
    if named := [option for option, value in given.items() if value is not None]:
        raise UsageError("no-place", f"{named[0]} is of a place", why, "--place NAME, or leave it out")


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(
            "bad-tag", f"--reserve {text} names no tag", "a tag has a value", "--reserve TAG=VALUE"
        )
    return key, value


@contextlib.contextmanager
def place_of(wanted: Wanted | None, note: Callable[[str], None]) -> Iterator[Place]:
    """The place, held, or no place. Raises LabError."""
    if wanted is None:
        yield NO_PLACE
        return
    with stopped_by_signal(), held(wanted, note) as place:
        yield place


def of_each_place(args: argparse.Namespace) -> bool:
    """Whether the inventory is known only once a place is."""
    return IN_INVENTORY in (args.inventory or "")


def inventory_before(args: argparse.Namespace) -> Inventory | None:
    """The inventory where it is the same at every place, so that what is wrong with it is said before anybody
    waits. Raises UsageError."""
    return None if of_each_place(args) else load_inventory(args.inventory, args.keys, args.pair)


def pairs_before(args: argparse.Namespace) -> tuple[Inventory, ...]:
    """All pairs of the inventory, () where it has none or one is asked for. Raises UsageError."""
    return () if args.pair is not None or of_each_place(args) else load_pairs(args.inventory, args.keys)


def inventory_at(args: argparse.Namespace, name: str | None) -> Inventory:
    """The inventory of the hosts at the place of that name, None for no place. Raises UsageError where it is
    another place's, and for hardware of which nobody says where it stands."""
    file = args.inventory
    if file is not None and IN_INVENTORY in file:
        if name is None:
            raise UsageError(
                "which-place",
                f"{file} is an inventory a place",
                "no place is named",
                "--place NAME, or --reserve TAG=VALUE without --dry-run",
            )
        file = file.replace(IN_INVENTORY, name)
    inventory = load_inventory(file, args.keys, args.pair)
    if name is not None:
        _require_there(inventory, name, chosen=file != args.inventory)
    return inventory


def _require_there(inventory: Inventory, name: str, *, chosen: bool) -> None:
    if inventory.place is not None and inventory.place != name:
        raise LabError(
            "other-place",
            f"{shown(inventory.file)} has the hosts of place {inventory.place}, held is {name}",
            "a lock of one place keeps nobody from the boards of another",
            f"--place {inventory.place}; or an inventory a place: --inventory FOLDER/{IN_INVENTORY}.ini",
        )
    if inventory.place is None and inventory.ring == "hardware" and not chosen:
        raise UsageError(
            "which-place",
            f"{shown(inventory.file)} does not say at which place its hosts stand",
            f"held is {name}, which may be the place of others",
            f"{PLACE}={name} under [{_vars_of(inventory)}:vars]; or one inventory a place: --inventory "
            f"FOLDER/{IN_INVENTORY}.ini",
        )


def _vars_of(inventory: Inventory) -> str:
    """The group whose variables both its ends have."""
    return "all" if inventory.share is None or inventory.share.of == 1 else inventory.share.pair
