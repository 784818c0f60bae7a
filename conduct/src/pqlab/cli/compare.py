"""`pqlab compare`: bundle B in place of bundle A, pair by pair, with intervals and verdicts."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, EXIT_FAILED, EXIT_OK, LabError
from pqevidence.paths import project_root, shown
from pqevidence.terminal import COLUMNS
from pqlab.cli.common import print_json

if TYPE_CHECKING:
    from pqevidence.analysis.between import Between
    from pqevidence.analysis.gate import Gate, Judged
    from pqevidence.analysis.origin import Differing
    from pqevidence.analysis.table import Row

HELP = "compare two bundles: paired effects with intervals and verdicts"
_SHOWN_LINES = 12
#: columns of a grid that are told once where all rows have the same there
_SAME = ("metric", "condition", "ring", "n", "published", "verdict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="the reference: path or run id")
    parser.add_argument("b", metavar="B", help="what stands in its place: path or run id")
    parser.add_argument("--csv", metavar="FILE", help="write every effect as a table")
    parser.add_argument("--html", metavar="FILE", help="write a page, self-contained")
    parser.add_argument(
        "--fail-on",
        action="append",
        metavar="WHAT",
        default=[],
        help="end with 1 where B regressed, improved or any (of both); with a least size: regressed:5%%",
    )
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML, one test case an effect")
    parser.add_argument(
        "--unverified", action="store_true", help="do not verify the bundles first; the output says so"
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 where a `--fail-on` is met.

    Raises LabError `unverified` (exit 5) when a check of verify fails in either bundle; `unlike-rings` or
    `one-run-id` (exit 2) when the two say nothing about each other."""
    from pqevidence.analysis.between import compare_bundles
    from pqevidence.analysis.comparison import reference_dir
    from pqevidence.analysis.gate import gate_of, judge
    from pqevidence.analysis.merged import open_data
    from pqevidence.analysis.origin import differing, reach, require_comparable
    from pqevidence.exchange.junit import require_place
    from pqevidence.report.between import counts, page
    from pqevidence.report.html import render_html

    gates = [gate_of(text) for text in args.fail_on]
    require_place(args.junit)
    paths = [locate(name, project_root() / "results") for name in (args.a, args.b)]
    checked = _checked(paths, args.unverified)
    a, b = (open_data(path) for path in paths)
    require_comparable(a, b)
    names = (_name(a.plan, paths[0]), _name(b.plan, paths[1]))
    found = compare_bundles(a, b, reference_dir())
    facts = differing(a, b)
    far = "; ".join(filter(None, (reach(facts, found.one_run), found.left_out)))
    judged = judge(gates, found.table.rows) if gates else None
    code = EXIT_OK if judged is None or judged.passes else EXIT_FAILED
    if args.junit:
        _write_junit(args.junit, found, names, checked, far, judged)
    if args.csv:
        Path(args.csv).write_text(found.table.csv_text(), encoding="utf-8", newline="")
    if args.html:
        text = render_html(page(found, names, checked, far, facts))
        Path(args.html).write_text(text, encoding="utf-8", newline="\n")
    if args.json:
        print_json(
            {
                "a": {"bundle": names[0], "checked": checked[0]},
                "b": {"bundle": names[1], "checked": checked[1]},
                "reach": far,
                "differing": [asdict(fact) for fact in facts],
                "pairs_count": found.pairs_count,
                "shared_count": found.shared_count,
                "unpaired": [asdict(cell) for cell in found.unpaired],
                "verdicts": counts(found),
                "effects": found.table.rows,
                **_gate_json(gates, judged),
            }
        )
        return code
    for line in _lines(found, names, checked, far, facts):
        print(line)
    for file in (args.csv, args.html, args.junit):
        if file:
            print(shown(Path(file)))
    for line in _gate_lines(gates, judged):
        print(line)
    return code


def _gate_json(gates: list[Gate], judged: Judged | None) -> dict[str, object]:
    if judged is None:
        return {}
    met = [{key: row[key] for key in ("condition", "metric", "scope", "verdict")} for row in judged.rows]
    return {"fail_on": {"asked": [str(gate) for gate in gates], "met": met, "blind": judged.blind}}


def _gate_lines(gates: list[Gate], judged: Judged | None) -> Iterator[str]:
    """What `--fail-on` found: the rows that bite, or why it does not pass, or that it does."""
    if judged is None:
        return
    asked = ", ".join(str(gate) for gate in gates)
    if judged.blind is not None:
        yield f"--fail-on {asked}: not passed: {judged.blind}"
    elif not judged.rows:
        yield f"--fail-on {asked}: passed, no claim is of that kind"
    else:
        yield f"--fail-on {asked}: not passed, {len(judged.rows)} effects:"
        for row in judged.rows:
            yield f"  {_claim(row)}"


def _claim(row: Row) -> str:
    from pqevidence.report.between import effect_text, interval_text

    where = f"{row['metric']} of {row['scope']} under {row['condition']}"
    return f"{where} {row['verdict']}: {effect_text(row)} ({interval_text(row)})"


def _write_junit(
    file: str,
    found: Between,
    names: tuple[str, str],
    checked: tuple[str, str],
    far: str,
    judged: Judged | None,
) -> None:
    """One case an effect; it fails where `--fail-on` is met, and is skipped where too little was measured."""
    from pqevidence.analysis.stats import INSUFFICIENT
    from pqevidence.exchange.junit import Case, write_junit

    biting = set() if judged is None else {id(row) for row in judged.rows}
    cases = []
    for row in found.table.rows:
        group, name, said = str(row["condition"]), f"{row['metric']} {row['scope']}", _claim(row)
        if id(row) in biting:
            case = Case(group, name, "failure", str(row["verdict"]), said, said)
        elif row["verdict"] == INSUFFICIENT:
            case = Case(group, name, "skipped", message=f"{INSUFFICIENT}: {row['reason'] or 'too few pairs'}")
        else:
            case = Case(group, name, output=said)
        cases.append(case)
    if judged is not None and judged.blind is not None:
        cases.append(Case("compare", "something was judged", "error", "blind", judged.blind, judged.blind))
    facts = {"A": f"{names[0]} ({checked[0]})", "B": f"{names[1]} ({checked[1]})", "reach": far}
    write_junit(file, f"{names[1]} in place of {names[0]}", cases, facts)


def _checked(paths: list[Path], unverified: bool) -> tuple[str, str]:
    """What to say of each bundle; verifies a bundle that is named twice once."""
    from pqevidence.verify import exit_code, verify_bundle

    said: dict[Path, str] = {}
    for path in paths:
        if path in said:
            continue
        require_safe(path)
        if unverified:
            said[path] = "NOT VERIFIED"
            continue
        results = verify_bundle(path)
        failed = [result for result in results if result.status == "fail"]
        if failed:
            raise LabError(
                "unverified",
                f"{path.name} is not compared: {failed[0].name}: {failed[0].observed}",
                f"{len(failed)} of {len(results)} checks failed",
                f"./pqlab verify {shown(path)}; --unverified compares all the same, and says so",
                EXIT_CHECK,
            )
        said[path] = "verified" if exit_code(results) == EXIT_OK else "verified, with warnings"
    return said[paths[0]], said[paths[1]]


def _name(plan: dict[str, object], path: Path) -> str:
    return str(plan.get("run_id") or path.name)


def _lines(
    found: Between, names: tuple[str, str], checked: tuple[str, str], far: str, facts: list[Differing]
) -> Iterator[str]:
    from pqevidence.analysis.between import claimed, overall
    from pqevidence.analysis.claims import ALL_SUITES
    from pqevidence.analysis.metrics import HANDSHAKE
    from pqevidence.report.between import counts

    yield f"A {names[0]} ({checked[0]})"
    yield f"B {names[1]} ({checked[1]}), in place of A"
    yield (
        f"{found.pairs_count} pairs of cells, {found.shared_count} held by both, "
        f"{len(found.unpaired)} cells unpaired"
    )
    for fact in facts[:_SHOWN_LINES]:
        told = f"{fact.kind}: {fact.what}: {_short(fact.a)} → {_short(fact.b)}"
        yield from textwrap.wrap(told, COLUMNS, initial_indent="  ", subsequent_indent="    ")
    if len(facts) > _SHOWN_LINES:
        yield f"  and {len(facts) - _SHOWN_LINES} more differences: --json, --html"
    yield from textwrap.wrap(far, COLUMNS)
    if not found.table.rows:
        yield "nothing to compare: no suite, condition and repetition passed in both"
        return
    yield ""
    suites = [row for row in found.table.rows if row["scope"] != ALL_SUITES]
    handshakes = [row for row in suites if row["metric"] == HANDSHAKE]
    others = [row for row in claimed(found.table) if row in suites and row not in handshakes]
    for title, rows in (
        ("mean over all suites", overall(found.table)),
        ("cold handshake, suite by suite", handshakes),
        ("other claims, suite by suite", others),
    ):
        yield f"{title}:" if rows else f"{title}: none"
        yield from _grid(rows)
    yield ""
    yield "effects: " + ", ".join(f"{count} {verdict}" for verdict, count in counts(found).items())


def _short(text: str) -> str:
    """A digest by its beginning; --json and --html have the whole."""
    return f"{text[:12]}…" if re.fullmatch(r"[0-9a-f]{32,}", text) else text


def _grid(rows: list[Row]) -> Iterator[str]:
    from pqevidence.analysis.claims import ALL_SUITES
    from pqevidence.report.between import effect_text, interval_text, real
    from pqevidence.report.svg import significant

    def beside(row: Row, name: str) -> str:
        return significant(real(row[name])) if row[name] is not None else "–"

    if not rows:
        return
    heads = ("metric", "condition", "ring", "n", "A", "B", "published", "effect", "95 % interval", "verdict")
    lines = [
        (
            str(row["metric"]),
            str(row["condition"]),
            str(row["ring"]),
            str(row["n_pairs"]),
            beside(row, "a_median"),
            beside(row, "b_median"),
            beside(row, "published"),
            effect_text(row),
            interval_text(row),
            str(row["verdict"]),
        )
        for row in rows
    ]
    columns = list(zip(heads, zip(*lines, strict=True), strict=True))
    told = {head: values[0] for head, values in columns if head in _SAME and len(set(values)) == 1}
    same = ", ".join(f"{head} {value}" for head, value in told.items() if value != "–")
    if same:
        yield from (f"  {line}" for line in textwrap.wrap(f"in every row: {same}", COLUMNS - 2))
    shown = [(head, values) for head, values in columns if head not in told]
    widths = [max(map(len, (head, *values))) for head, values in shown]

    def told_as(texts: Sequence[str]) -> str:
        return (
            "    " + "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()
        )

    yield told_as([head for head, _ in shown])
    scope = None
    for place, row in enumerate(rows):
        if row["scope"] not in (scope, ALL_SUITES):
            scope = row["scope"]
            yield f"  {scope}"
        yield told_as([values[place] for _, values in shown])
