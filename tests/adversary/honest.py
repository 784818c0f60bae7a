"""Honest bundles: `verify` over every bundle in some folders, and what it held against them.

    PYTHONPATH=tests python -m adversary.honest FOLDER…              one line a bundle, then the tables
    PYTHONPATH=tests python -m adversary.honest --this-tree FOLDER…  bundles that this very tree made

(with the packages' src folders on PYTHONPATH, as in the test image). A failed check of a bundle that nobody
forged is a false alarm. Tables, pages and records change while a version is developed, and the tree at hand
makes them again: without `--this-tree` such failures stand apart, by check. Nothing is changed. Ends with 0
where no false alarm was found, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pqevidence.record.raw import ROLES
from pqevidence.verify import verify_bundle

#: what the tree at hand makes again, or knows the form of
MADE_AGAIN = frozenset({
    "record_schema", "record_rebuild", "report_rebuild", "raw_fingerprints", "report_numbers", "attributed",
    "scenario_schema", "files_known",
})  # fmt: skip
RINGS = ("sim", "lab", "hardware")


@dataclass(frozen=True)
class Seen:
    """What was found in one bundle: failed checks with what they say, those of another build apart."""

    name: str
    scenario: str
    ring: str
    cells: int
    cpu_s: float
    alarms: tuple[str, ...]
    apart: tuple[str, ...]
    warned: tuple[str, ...]


def bundles(folders: Iterable[Path]) -> Iterator[Path]:
    """Sealed runs in these folders, or that these folders are; each once, whatever links lead to it."""
    seen: set[Path] = set()
    for folder in folders:
        for root in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
            found = root.resolve()
            sealed = (found / "tagmanifest-sha512.txt").is_file() and (found / "data" / "run.json").is_file()
            if sealed and found not in seen:
                seen.add(found)
                yield found


def look(root: Path, *, this_tree: bool = False) -> Seen:
    """Verify one bundle. this_tree: nothing may be put down to another build."""
    data = root / "data"
    hosts = [json.loads((data / "hosts" / f"{role}.json").read_text(encoding="utf-8")) for role in ROLES]
    ring = min((str(host.get("ring")) for host in hosts), key=RINGS.index)
    plan = json.loads((data / "plan.json").read_text(encoding="utf-8"))
    began_s = time.process_time()
    results = verify_bundle(root)
    cpu_s = time.process_time() - began_s
    failed = [result for result in results if result.status == "fail"]
    ours = [result for result in failed if this_tree or result.name not in MADE_AGAIN]
    return Seen(
        root.name,
        str(plan.get("scenario")),
        ring,
        len(list((data / "cells").iterdir())),
        cpu_s,
        tuple(f"{result.name}: {result.observed}" for result in ours),
        tuple(result.name for result in failed if result not in ours),
        tuple(result.name for result in results if result.status == "warn"),
    )


def tables(found: Iterable[Seen]) -> str:
    """By ring and scenario, and what stands apart by check."""
    rows: dict[tuple[str, str], list[Seen]] = {}
    apart: Counter[str] = Counter()
    for seen in found:
        rows.setdefault((seen.ring, seen.scenario), []).append(seen)
        apart.update(seen.apart)
    lines = ["| ring | scenario | bundles | cells | bundles with a false alarm |", "|---|---|---|---|---|"]
    total = [0, 0, 0]
    for (ring, scenario), group in sorted(rows.items()):
        counted = (len(group), sum(seen.cells for seen in group), sum(bool(seen.alarms) for seen in group))
        total = [before + now for before, now in zip(total, counted, strict=True)]
        lines.append(f"| {ring} | {scenario} | {counted[0]} | {counted[1]:,} | {counted[2]} |")
    lines.append(f"| all | | {total[0]} | {total[1]:,} | {total[2]} |")
    if apart:
        lines += ["", "Bundles of another build, by check that makes again or knows the form of something:"]
        lines += [f"- `{name}`: {count}" for name, count in sorted(apart.items())]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="honest", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--this-tree", action="store_true")
    args = parser.parse_args(argv)
    found = []
    for root in bundles(args.folders):
        seen = look(root, this_tree=args.this_tree)
        told = "; ".join(seen.alarms) or "no alarm"
        more = f" (apart: {', '.join(seen.apart)})" if seen.apart else ""
        what = f"{seen.ring}, {seen.scenario}, {seen.cells} cells, {seen.cpu_s:.1f} s"
        print(f"{seen.name}: {what}: {told}{more}", flush=True)
        found.append(seen)
    print(tables(found), end="")
    return 1 if not found or any(seen.alarms for seen in found) else 0


if __name__ == "__main__":
    sys.exit(main())
