"""`pqlab merge`: the bundles of a campaign's shares as one, each verified first; nothing is left out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, EXIT_OK, EXIT_USAGE, EXIT_WARNING, LabError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import add_out, outside_bundles, print_json

if TYPE_CHECKING:
    from pqevidence.analysis.merged import MergedData, Part

HELP = "make one bundle of the shares that several pairs of hosts carried out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundles", nargs="+", metavar="BUNDLE", help="a share's bundle: path or run id; all of one campaign"
    )
    add_out(parser, "results folder of the merged bundle (default: results); `latest` is not moved")


def run(args: argparse.Namespace) -> int:
    """0 with the bundle's path, 3 where blocks are missing or a part has warnings. Raises LabError with the
    code of the refusal (`pqevidence.merge.rules`), `merged-part`, `part-unverified` or `flown`."""
    results = results_dir(args.out)
    outside_bundles(results)
    paths = [locate(name, results) for name in args.bundles]
    _named_once(paths)
    done = merge(paths, results)
    tell(done, as_json=args.json)
    return done.code


def tell(done: Merged, *, as_json: bool) -> None:
    """The closing lines of a merge, or its one JSON document."""
    data = done.data
    if as_json:
        print_json(
            {
                "bundle": shown(done.bundle),
                "parts": [part.run_id for part in data.parts],
                "pairs": sorted(data.boards),
                "hosts": sorted(set(data.boards.values())),
                "missing_repetitions": data.missing,
                "warnings": done.warnings,
            }
        )
        return
    for line in done.told():
        print(line)
    print(f"check it: ./pqlab verify {shown(done.bundle)}")
    print(shown(done.bundle / "data" / "report.html"))


@dataclass(frozen=True)
class Merged:
    """The sealed merge, and what `verify` warned of in its parts."""

    bundle: Path
    data: MergedData
    warnings: list[str]

    @property
    def code(self) -> int:
        """Exit code of a command that made it."""
        return EXIT_WARNING if self.warnings or self.data.missing else EXIT_OK

    def told(self) -> list[str]:
        """Warnings, which hosts are in it, and which blocks are missing."""
        from pqevidence.merge.page import hosts_sentence, missing_sentence

        return [*self.warnings, hosts_sentence(self.data), missing_sentence(self.data)]


def merge(paths: Sequence[Path], results: Path, *, again: bool = False) -> Merged:
    """Verify the parts, then make one bundle of them. again: this very merge may be there already, and is
    given back then. Raises LabError as `run`."""
    from pqevidence.analysis.merged import MergedData
    from pqevidence.merge.compose import ThereAlready, compose
    from pqevidence.merge.rules import require_mergeable

    parts, warnings = [], []
    for path in paths:
        part, told = _verified(path)
        parts.append(part)
        warnings += told
    require_mergeable(parts)
    try:
        bundle = compose(parts, results)
    except ThereAlready as there:
        if not again:
            raise
        bundle = there.bundle
    return Merged(bundle, MergedData(bundle), warnings)


def _named_once(paths: list[Path]) -> None:
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise LabError(
                "same-bundle",
                f"{shown(path)} is named twice",
                "a bundle counted twice would be measured once",
                "name each bundle once",
                EXIT_USAGE,
            )


def _verified(path: Path) -> tuple[Part, list[str]]:
    """The part, and what verify warns of."""
    from pqevidence.analysis.merged import Part, is_merged
    from pqevidence.merge.rules import forged_share
    from pqevidence.verify import verify_bundle

    require_safe(path)
    if is_merged(path):
        raise LabError(
            "merged-part",
            f"{shown(path)} is a merged bundle",
            "a merge is made of what each pair measured",
            "name its parts: they lie below data/parts",
            EXIT_USAGE,
        )
    results = verify_bundle(path)
    failed = {result.name: result for result in results if result.status == "fail"}
    if "share_owned" in failed:
        raise forged_share(path.name, failed["share_owned"].observed)
    if failed or any(result.name == "sealed" for result in results):
        first = next(iter(failed.values()), results[0])
        raise LabError(
            "part-unverified",
            f"{path.name} is not merged: {first.name}: {first.observed}",
            f"{len(failed)} of {len(results)} checks failed" if failed else "it is not sealed",
            f"./pqlab verify {shown(path)}",
            EXIT_CHECK,
        )
    told = [f"{path.name}: {r.name}: {r.observed}" for r in results if r.status == "warn"]
    return Part(path), told
