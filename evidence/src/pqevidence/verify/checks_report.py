"""Tables and pages once more, from the files beneath them: what readers believe is the page."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence

import pqevidence
from pqevidence.bundle.crate import METADATA, crate_document
from pqevidence.bundle.digest import Hashed
from pqevidence.bundle.format import PACKAGE, format_texts
from pqevidence.kernel.result import Tally
from pqevidence.kernel.run_shape import sessions_due
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.dataplane import gate_ns
from pqevidence.record.raw import ROLES, read_object
from pqevidence.verify.older import SCHEMAS, version_of
from pqevidence.verify.older_pages import CHECKLIST, pool_of, read_page
from pqevidence.verify.older_tables import checked_off, compared
from pqevidence.versions import KNOWN, MADE_AGAIN, wrote_table

#: a gate that was open for longer is no measurement, whatever the verdict
GATE_FACTOR, GATE_SLACK_S = 2.0, 60.0
_DOCUMENTS = (
    "run.json", "plan.json", "providers.json", "scenario.effective.yml",
    "hosts/drone.json", "hosts/gcs.json", "hosts/controller.json",
)  # fmt: skip


def fingerprints(bundle: BundleView, tally: Tally) -> None:
    """Every file of every cell, logs included, and every document of the run are those that the tables were
    made from. A bundle of 0.1.0 was made before there were such rows."""
    # Here, because the analysis reads the checklist, which runs checks.
    from pqevidence.analysis.fingerprints import NAME, documents, fingerprint
    from pqevidence.analysis.load import Known
    from pqevidence.analysis.table import read_rows

    path = bundle.data / "analysis" / f"{NAME}.csv"
    made_by = bundle.raw.run.get("pqlab_version")
    if not path.is_file() and not has_witnesses(bundle.raw):
        tally.note = f"none in a bundle of pqlab {made_by}"
        return
    told = {row["cell_id"] or row["part"]: row for row in read_rows(path)}
    parts = {str(row["cell_id"]): bundle.data / "cells" / str(row["cell_id"]) for row in bundle.plan_cells}
    for name in sorted(set(told) ^ {*parts, "run"}):
        tally.fail(f"{NAME}.csv and the plan do not agree on {name}")
    for name, row in sorted(told.items()):
        tally.see()
        if name in parts:
            files = (path for path in parts[name].rglob("*") if path.is_file())
            found = fingerprint(parts[name], files, _below(bundle, f"data/cells/{name}/"))
            bundle.known.setdefault(name, Known()).fingerprint = found
        else:
            found = fingerprint(bundle.data, documents(bundle.data), _below(bundle, "data/"))
        for column, value in found.items():
            where = f"cell {name}" if name in parts else "the run's documents"
            told_here = row[column]
            tally.require(told_here == str(value), f"{where}: {column} {value}, tables of {told_here}")


def _below(bundle: BundleView, folder: str) -> dict[str, Hashed]:
    """What is hashed of a folder, by path below it."""
    return {n.removeprefix(folder): h for n, h in bundle.hashed.items() if n.startswith(folder)}


def beyond_reason(cell: CellView) -> str | None:
    """Why tables must not be made of this cell: work that grows with a number instead of with the files. A
    gate may be as long as its session and what the largest verdict allows; an alarm has a line."""
    path = cell.folder / "traffic.json"
    windows = read_object(path).get("windows") or {} if path.is_file() else {}
    due = sessions_due(cell.run.scenario)
    for window, told in windows.items():
        for role in ROLES:
            gate = gate_ns(told, role)
            open_s = (gate[1] - gate[0]) / 1e9 if gate else 0.0
            if open_s > GATE_FACTOR * due.get(window, 0.0) + GATE_SLACK_S:
                return f"{cell.label} {window}: the gate of {role} was open for {open_s:.0f} s"
    path = cell.folder / "detector.ndjson"
    lines = path.read_bytes().count(b"\n") if path.is_file() else 0
    for name in ("detector_alarm_count", "detector_false_alarm_count"):
        alarms = cell.value("S", name)
        if isinstance(alarms, int | float) and not alarms <= lines:
            return f"{cell.label}: {name} {alarms}, the detector has {lines} lines"
    return None


def rebuild(bundle: BundleView, tally: Tally) -> None:
    """Every analysis table is what the raw files give, both pages are what tables and records give, and what
    the bundle says of its format is what its files give, byte for byte, with the fields that its version had.
    Of a version that worked statistics out otherwise, or drew another page, tables are compared cell by cell
    and pages row by row (`older_tables`, `older_pages`); a warning says so."""
    # Here, because the analysis reads the checklist, which runs checks.
    from pqevidence.analysis.comparison import reference_dir
    from pqevidence.analysis.load import BundleData
    from pqevidence.derived import tables_of
    from pqevidence.pages import build
    from pqevidence.report.html import render_html
    from pqevidence.report.markdown import render_markdown
    from pqevidence.report.source import Source
    from pqevidence.verify.checklist import NEEDED, checklist_table, rows_of, table_of

    for cell in bundle.cells:
        if (beyond := beyond_reason(cell)) is not None:
            tally.fail(f"not made again: {beyond}")
            return
    made_by = version_of(bundle.raw)
    published = reference_dir()
    data = BundleData(bundle.root, bundle.known, bundle.raw.scenario)
    told = [bundle.told[name] for name in NEEDED if name in bundle.told]
    whole = len(told) == len(NEEDED)  # a check may have been left out
    checklist = table_of(rows_of(bundle, told)) if whole else checklist_table(bundle.root)
    due = {f"{table.name}": table.csv_text() for table in [*tables_of(data, published), checklist]}
    alike = made_by in MADE_AGAIN
    present = {path.stem for path in (bundle.data / "analysis").glob("*")}
    for name in sorted(present - set(due)):
        tally.fail(f"analysis/{name}.csv is no table of this version")
    if not alike:
        due = {name: text for name, text in due.items() if name in present or wrote_table(made_by, name)}
    if published is None:
        due.pop("comparison", None)  # the published tables are not at hand: it cannot be made again
    report = build(Source(bundle.root, data, None if alike else _rows_of(due)))
    pages = {"report.html": render_html(report), "report.md": render_markdown(report)}
    texts = {f"analysis/{name}.csv": text for name, text in due.items()}
    if made_by in SCHEMAS:
        for name, digest in SCHEMAS[made_by].items():
            tally.see()
            path = bundle.data / name
            same = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
            tally.require(same, f"{name} is not the one that pqlab {made_by} wrote")
        package = format_texts(bundle.data, made_by)[PACKAGE]
        texts |= {PACKAGE: package}
    elif alike:
        texts |= format_texts(bundle.data)
    if made_by == pqevidence.__version__ and (bundle.data / METADATA).is_file():
        tally.see()
        crate = read_object(bundle.data / METADATA)
        ours = crate_document(bundle.data)
        tally.require(crate == ours, f"{METADATA} is not what the files beneath it give")
    differ = []
    for name, text in {**texts, **pages}.items():
        tally.see()
        path = bundle.data / name
        if not path.is_file():
            tally.fail(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            differ.append(name)
    if made_by not in KNOWN or made_by == pqevidence.__version__:
        for name in differ:
            tally.fail(f"{name} is not what the files beneath it give")
    elif differ:
        _read_older(bundle, tally, made_by, _rows_of(due), pages, differ)


def _rows_of(texts: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """Tables by name, as whoever reads their files has them."""
    return {name: list(csv.DictReader(io.StringIO(text, newline=""))) for name, text in texts.items()}


def _read_older(
    bundle: BundleView,
    tally: Tally,
    made_by: str,
    rows: Mapping[str, list[dict[str, str]]],
    pages: Mapping[str, str],
    differ: Sequence[str],
) -> None:
    """Files of an earlier version that are not today's letter for letter. rows, pages: today's."""
    from pqevidence.analysis.table import read_rows

    records = [cell.record for cell in bundle.cells]
    pool = pool_of(bundle.data, records)
    spoken = [
        *map(json.dumps, records),
    ]
    tables = (path for path in sorted(bundle.data.glob("analysis/*.csv")) if path.stem != CHECKLIST)
    spoken += [path.read_text(encoding="utf-8") for path in tables]
    for name in _DOCUMENTS:
        spoken.append((bundle.data / name).read_text(encoding="utf-8"))
    own, seen = 0, 0
    for name in differ:
        text = (bundle.data / name).read_text(encoding="utf-8")
        table = name.removeprefix("analysis/").removesuffix(".csv")
        if table == CHECKLIST:
            for wrong in checked_off(read_rows(bundle.data / name), rows[CHECKLIST]):
                tally.fail(wrong)
        if name in pages or table == CHECKLIST:
            due = pages[name] if name in pages else "\n".join(row["evidence"] for row in rows[CHECKLIST])
            read = read_page(name, text, due, pool, made_by, spoken)
            own, seen = own + read.own, seen + read.rows
            for wrong in read.wrong:
                tally.fail(wrong)
        elif name.startswith("analysis/"):
            told = read_rows(bundle.data / name)
            for wrong in compared(table, told, rows[table], rows["handshakes"]):
                tally.fail(wrong)
        else:
            tally.fail(f"{name} is not what the files beneath it give")
    what = (
        f"{own} of {seen} rows are in words of its own, of which numbers and vocabulary alone were asked; "
        "drawings were not looked at"
        if seen
        else "tables were compared cell by cell, but for the statistics that it took otherwise"
    )
    tally.warn(f"made by pqlab {made_by}, this is {pqevidence.__version__}: {what}")
