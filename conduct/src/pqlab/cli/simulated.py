"""`pqlab run` in ring sim on several machines or by workers: shares as tasks, their bundles, their merge."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from pqbase.documents import counts_of, texts_of
from pqbase.workers import Where, WorkersError, refused, runner_of
from pqevidence.errors import EXIT_FAILED, EXIT_OK, LabError, UsageError
from pqevidence.paths import results_dir, shown
from pqevidence.scenario import Scenario
from pqlab.campaign.finish import exit_code
from pqlab.campaign.ring import SIM
from pqlab.campaign.store import read_json
from pqlab.cli.merge import merge, tell
from pqlab.cli.place import of_each_place
from pqlab.inventory import Inventory, load_inventory, load_pairs

HINT_ALONE = "leave it out, or simulate: ./pqlab run {} --inventory ansible/inventories/sim.ini --workers 2"
#: options of `run` that speak of one run of one process
ALONE = ("into", "seal", "share", "pair", "junit", "max_fail", "place", "reserve")
#: options that decide what a share is, as a command has them
_DECIDING = (
    "session_s",
    "suites",
    "reps",
    "overlays",
    "level",
    "family",
    "tag",
    "condition",
    "only",
)


@contextlib.contextmanager
def of_the_lab() -> Iterator[None]:
    """What workers have to say, as an error of pqlab."""
    try:
        yield
    except WorkersError as error:
        raise LabError(error.code, error.what, error.why, error.hint, error.exit_code) from error


def require_pure(args: argparse.Namespace) -> None:
    """Raises LabError (2) where workers are asked for what is measured, for pairs of an inventory or at a
    place of a rack; and for several simulated machines at a place."""
    if of_each_place(args) and _several(args):
        raise _not_of_a_place(args)
    if args.workers is None and args.scheduler is None:
        return
    if args.pair is None and load_pairs(args.inventory, args.keys):
        raise UsageError(
            "workers-of-pairs",
            "workers do not go with an inventory of pairs",
            "each of its pairs has a controller of its own",
            "leave them out, or name simulated machines: --host-seed 1-4 with ansible/inventories/sim.ini",
        )
    inventory = load_inventory(args.inventory, args.keys, args.pair)
    if inventory.ring != SIM:
        with of_the_lab():
            refused(args, f"ring {inventory.ring}", HINT_ALONE.format(args.scenario))


def where_of(args: argparse.Namespace) -> Where | None:
    """Where the tasks are carried out. Raises LabError (2)."""
    with of_the_lab():
        return Where.asked(args.workers, args.scheduler)


def run_pairs(args: argparse.Namespace, scenario: Scenario, inventory: Inventory, where: Where | None) -> int:
    """One bundle a machine and, of several, their merge; exit code as of both. Raises LabError."""
    from pqevidence.bundle.sealing import point_latest
    from pqlab.sim.shares import SimulatedPairs, bundles

    _require_whole(args)
    if inventory.place is not None:
        raise _not_of_a_place(args)
    results = results_dir(args.out)
    command = tuple(_command(args, inventory))
    seeds = args.host_seed or (None,)
    asked = SimulatedPairs(scenario, inventory, seeds, command, args.strict)
    told = sys.stderr if args.json else sys.stdout
    codes, made = [], []
    with of_the_lab(), runner_of(where, _note) as runner:
        for bundle in bundles(asked, results, runner, _note):
            run = read_json(bundle / "data" / "run.json")
            counts = counts_of(run, "verdict_counts")
            codes.append(exit_code(counts, texts_of(run, "warnings"), strict=args.strict))
            said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            print(f"{shown(bundle)}: {said}", file=told)
            made.append(bundle)
    if len(made) == 1:
        point_latest(results, made[0].name)
        print(shown(made[0] / "data" / "report.html"))
        return codes[0]
    print(f"verifying and merging {len(made)} bundles", file=told)
    done = merge(made, results, again=True)
    tell(done, as_json=args.json)
    return _worst([*codes, done.code])


def _worst(codes: list[int]) -> int:
    return EXIT_FAILED if EXIT_FAILED in codes else max(codes, default=EXIT_OK)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _several(args: argparse.Namespace) -> str | None:
    """What else than one machine in this process was asked for; None for nothing."""
    if args.workers is not None or args.scheduler is not None:
        return "workers"
    return "several simulated machines" if len(args.host_seed or ()) > 1 else None


def _not_of_a_place(args: argparse.Namespace) -> UsageError:
    return UsageError(
        "not-of-one-run",
        f"a place of a rack does not go with {_several(args)}",
        "a place is held for one run of one process",
        "leave one of them out",
    )


def _require_whole(args: argparse.Namespace) -> None:
    for name in ALONE:
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                "not-of-one-run",
                f"{option} does not go with {_several(args)}",
                "it speaks of one run of one process; here each machine carries out a share",
                f"leave {option} out",
            )


def _command(args: argparse.Namespace, inventory: Inventory) -> Iterator[str]:
    """The command that makes a share again, its own options apart; no path of this machine in it."""
    yield from ("pqlab", "run", _portable(args.scenario))
    for name in _DECIDING:
        option = "--with" if name == "overlays" else f"--{name.replace('_', '-')}"
        value = getattr(args, name)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                yield from (option, _portable(str(one)))
    if args.strict:
        yield "--strict"
    yield from ("--inventory", _portable(shown(inventory.file)))


def _portable(word: str) -> str:
    return Path(word).name if Path(word).is_absolute() else word
