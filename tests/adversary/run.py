"""Every forgery once: made, sealed, verified; what survives, by class, as the table of docs/WITNESSES.md.

    PYTHONPATH=tests python -m adversary.run            one line a forgery, then the table
    PYTHONPATH=tests python -m adversary.run --write    the same, and the table goes into docs/WITNESSES.md
    PYTHONPATH=tests python -m adversary.run log        those whose name or class holds the word

(with the packages' src folders on PYTHONPATH, as in the test image). A forgery survives when `verify` ends
with 0 or 3. `BUNDLE` as --lab takes a sealed bundle of a real lab in place of the synthetic one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from adversary.catalogue import Forgery, forgeries
from adversary.material import MATERIALS, ROOT, copy
from adversary.raw import Bundle
from adversary.rebuild import bag, describe, rebuild
from pqevidence.errors import LabError
from pqevidence.verify import CheckResult, exit_code, verify_bundle

PAGE = ROOT / "docs" / "WITNESSES.md"
BEGIN, END = "<!-- adversary: begin -->\n", "<!-- adversary: end -->\n"
NAMED_BEGIN, NAMED_END = "<!-- named: begin -->\n", "<!-- named: end -->\n"
#: what anybody would try first, each by the most careful forgery of its kind in the kit
NAMED = {
    "a simulation relabelled": "sim-simulation_on_a_lab_machine",
    "a lab relabelled": "lab-lab_sold_as_two_machines",
    "times × 0.5": "lab-block_squeezed_to_half",
    "times × 0.001": "lab-block_squeezed_to_a_thousandth",
    "the slowest third dropped": "lab-slowest_gone_and_the_sampler_agrees",
    "a repetition copied": "lab-first_repetition_twice",
    "a cell deleted": "lab-one_bad_cell_gone",
    "an attempt deleted": "lab-invalid_attempt_gone",
    "suites swapped": "lab-times_of_one_suite_for_another",
    "loss erased": "lossy-lost_datagrams_arrived",
    "verdicts flipped": "watched-scores_flipped_with_their_verdicts",
    "the truth moved": "watched-truth_moved",
    "another boot": "lab-one_end_of_another_boot",
    "an unknown version": "lab-page_by_hand_of_a_version_to_come",
}
SURVIVES = (0, 3)
#: what the builder raises over raw files that are not what they should be
_BUILDER_ERRORS = (LabError, ValueError, LookupError, TypeError, ArithmeticError)


@dataclass(frozen=True)
class Outcome:
    """What `verify` said of one forgery."""

    forgery: Forgery
    survived: bool
    stopped_by: tuple[str, ...]
    first: str


def attempt(
    forgery: Forgery,
    material: Path,
    folder: Path,
    also: Callable[[Path, list[CheckResult]], None] = lambda _root, _results: None,
) -> Outcome:
    """Make the forgery of a copy of the material below `folder`, and verify it. also: called with the forged
    bundle and what was said of it, while it is there."""
    root = copy(material, folder)
    try:
        if not forgery.last:
            forgery.change(Bundle(root))
        if forgery.pages:
            try:
                rebuild(root)
            except _BUILDER_ERRORS as error:  # the forger goes on with what there is
                print(f"{forgery.label}: the builder refused: {error}", file=sys.stderr)
        describe(root)
        if forgery.last:
            forgery.change(Bundle(root))
        bag(root)
        results = verify_bundle(root)
        also(root, results)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    failed = [result for result in results if result.status == "fail"]
    first = f"{failed[0].name}: {failed[0].observed}" if failed else ""
    return Outcome(forgery, exit_code(results) in SURVIVES, tuple(r.name for r in failed), first)


def table(outcomes: Iterable[Outcome]) -> str:
    """The table by class, and the list of what only an attested measurement would stop."""
    by_class: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_class.setdefault(outcome.forgery.klass, []).append(outcome)
    lines = ["| class | forgeries | survive | those that do |", "|---|---|---|---|"]
    total = [0, 0]
    for klass, found in by_class.items():
        alive = [o for o in found if o.forgery.witnessed]
        if not alive:
            continue
        left = sorted(f"`{o.forgery.label}`" for o in alive if o.survived)
        total[0], total[1] = total[0] + len(alive), total[1] + len(left)
        lines.append(f"| {klass} | {len(alive)} | {len(left)} | {', '.join(left) or '–'} |")
    lines.append(f"| all | {total[0]} | {total[1]} | |")
    lines.append("")
    lines.append(
        "Every witness rewritten, or none in the bundle; a measurement that is attested while it is made"
    )
    lines.append("would stop them:")
    lines.append("")
    for found in by_class.values():
        for o in found:
            if not o.forgery.witnessed:
                lines.append(f"- `{o.forgery.label}`: {o.forgery.belief}")
    return "\n".join(lines) + "\n"


def named_table(outcomes: Iterable[Outcome]) -> str:
    """The forgeries of NAMED: what each would have a reader believe, which checks stop it, what the first one
    says."""
    by_label = {outcome.forgery.label: outcome for outcome in outcomes}
    lines = ["| forgery | in the kit | failed checks | the first one says |", "|---|---|---|---|"]
    for name, label in NAMED.items():
        if (outcome := by_label.get(label)) is None:
            continue
        checks = [f"`{check}`" for check in outcome.stopped_by]
        more = f" and {len(checks) - 3} more" if len(checks) > 3 else ""
        said = outcome.first.partition(": ")[2].replace("|", "/")
        lines.append(f"| {name} | `{label}` | {', '.join(checks[:3]) or 'none'}{more} | {said or '–'} |")
    return "\n".join(lines) + "\n"


def without_numbers(text: str) -> str:
    """A table less what differs from build to build: digests, run ids, measured numbers."""
    return re.sub(r"\b[0-9a-f]{12,}\b|[−-]?\d[\d.,]*", "#", text)


def written(page: str, begin: str = BEGIN, end: str = END) -> str:
    """The part of docs/WITNESSES.md between two marks."""
    return page.partition(begin)[2].partition(end)[0]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--lab", type=Path, metavar="BUNDLE")
    args = parser.parse_args(argv)
    chosen = [f for f in forgeries() if args.word in f.label or args.word in f.klass]
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        material = {}
        for kind in dict.fromkeys(f.material for f in chosen):
            honest = args.lab if kind == "lab" and args.lab else MATERIALS[kind](folder / kind)
            told = [f"{r.name}: {r.observed}" for r in verify_bundle(honest) if r.status == "fail"]
            if told:
                print(f"the honest {kind} does not verify: {told}", file=sys.stderr)
                return 1
            material[kind] = honest
        for forgery in chosen:
            outcome = attempt(forgery, material[forgery.material], folder / "forged")
            mark = "SURVIVES" if outcome.survived else ", ".join(outcome.stopped_by[:4])
            print(f"{forgery.klass}: {forgery.label}: {mark}", flush=True)
            outcomes.append(outcome)
    text = table(outcomes)
    named = named_table(outcomes)
    print(f"{text}\n{named}", end="")
    if args.write:
        write_between(BEGIN, text, END)
        write_between(NAMED_BEGIN, named, NAMED_END)
    return 0


def write_between(begin: str, text: str, end: str) -> None:
    """Put `text` into the page between two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    PAGE.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
