"""What a pair's own controller is called with: the words and the environment of `pqlab run` or `resume`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from pqevidence.errors import UsageError
from pqlab.inventory import Inventory
from pqlab.lab_number import VARIABLE

#: option → its name among the arguments, and why pairs do not take it
_NOT_FOR_PAIRS: Final = {
    "--share": ("share", "the inventory says which share is which pair's"),
    "--host-seed": (
        "host_seed",
        "each simulated pair has a machine of its own: pqlab_host_seed in the inventory",
    ),
    "--into": ("into", "what is added to a bundle of one pair is no share of a campaign"),
    "--only": ("only", "ids of cells hold the builds of one pair of hosts"),
    "--seal": ("seal", "each pair's agents have keys of their own"),
    "--junit": ("junit", "each pair has cells of its own, and one file holds those of one bundle"),
    "--place": ("place", "each pair stands at a place of its own: pqlab_place in the inventory"),
    "--reserve": ("reserve", "each pair stands at a place of its own: pqlab_place in the inventory"),
    "--power": (
        "power",
        "one file names the power drivers of one place; a place exports its own power ports",
    ),
}
#: options of `run` that every pair's controller is given as they are: option → its name among the arguments
_SCENARIO: Final = {"--session-s": "session_s", "--reps": "reps"}
_LISTS: Final = {
    "--suites": "suites",
    "--with": "overlays",
    "--level": "level",
    "--family": "family",
    "--tag": "tag",
    "--condition": "condition",
}
_RUN: Final = {"--keys": "keys", "--max-fail": "max_fail", "--settle-s": "settle_s"}
#: for pairs that stand at a place of a shared rack
_RACK: Final = {"--coordinator": "coordinator", "--wait-s": "wait_s"}
_FLAGS: Final = {"--strict": "strict", "--busy-ok": "busy_ok"}


def require_for_pairs(args: argparse.Namespace) -> None:
    """Raises UsageError for an option that is one pair's."""
    for option, (name, why) in _NOT_FOR_PAIRS.items():
        if getattr(args, name, None) is not None:
            raise UsageError(
                "not-for-pairs",
                f"{option} does not go with all pairs of an inventory",
                why,
                "leave it out, or name one pair: --pair pair_1",
            )


def run_words(args: argparse.Namespace, pair: Inventory, results: Path) -> list[str]:
    """`run` of its share, with the options that all pairs were given."""
    words = ["run", str(args.scenario)]
    words += [word for option, name in _SCENARIO.items() for word in _given(option, getattr(args, name))]
    for option, name in _LISTS.items():
        words += [word for value in getattr(args, name) or [] for word in (option, str(value))]
    if pair.host_seed is not None:
        words += ["--host-seed", str(pair.host_seed)]
    return [*words, *_common(args, pair, results)]


def resume_words(args: argparse.Namespace, pair: Inventory, results: Path) -> list[str]:
    """`resume` of the run in work there: its scenario is in its folder."""
    return ["resume", *_common(args, pair, results)]


def _common(args: argparse.Namespace, pair: Inventory, results: Path) -> list[str]:
    assert pair.share is not None
    words = ["--inventory", str(pair.file), "--pair", pair.share.pair, "--out", str(results), "--json"]
    options = _RUN if pair.place is None else {**_RUN, **_RACK}
    words += [word for option, name in options.items() for word in _given(option, getattr(args, name))]
    return [*words, *(option for option, name in _FLAGS.items() if getattr(args, name))]


def _given(option: str, value: object) -> list[str]:
    return [] if value is None else [option, str(value)]


def command(words: list[str]) -> list[str]:
    """The same interpreter, the same package."""
    return [sys.executable, "-m", "pqlab", *words]


def environment(pair: Inventory) -> dict[str, str]:
    """This process's, with the number of the pair's container lab."""
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    lab = {} if pair.lab is None else {VARIABLE: str(pair.lab.number)}
    return {**inherited, **lab, "PYTHONIOENCODING": "utf-8"}
