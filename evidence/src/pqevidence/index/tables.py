"""The index as two tables: a row a submission, and a row a bundle, suite and condition."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.analysis.table import Table
from pqevidence.index.alike import Line
from pqevidence.index.entries import VERDICTS, Entry, Folder

BUNDLES, HANDSHAKES = "index", "index-handshakes"


def line_keys(lines: Sequence[Line]) -> dict[str, str]:
    """Name of a bundle → key of its line."""
    return {run.name: line.key for line in lines for run in line.runs}


def _text(told: str | None) -> str | None:
    """Somebody's text, so that no spreadsheet takes it for a formula."""
    return f"'{told}" if told and told[0] in "=+-@" else told


def bundle_table(folder: Folder, lines: Sequence[Line]) -> Table:
    """One row a submission, refused ones last, with the check that refuses them."""
    columns = (
        "bundle",
        "run_id",
        "scenario",
        "ring",
        "begun_utc",
        "release",
        "machine_key",
        "machine",
        "line",
        "licence",
        "checked",
        "refused_by",
        "refused_why",
        "marks",
        "sha256",
        *(f"{verdict.replace('-', '_')}_count" for verdict in VERDICTS),
    )
    table = Table(BUNDLES, columns)
    keys = line_keys(lines)
    for entry in (*folder.entries, *folder.refused):
        if entry.refused is not None:
            why = entry.refused
            table.add(bundle=entry.name, checked="refused", refused_by=why.check, refused_why=_text(why.why))
            continue
        assert entry.machine is not None
        table.add(
            bundle=entry.name,
            run_id=entry.run_id,
            scenario=_text(entry.scenario),
            ring=entry.ring,
            begun_utc=entry.begun_utc,
            release=entry.release,
            machine_key=entry.machine.key,
            machine=_text(entry.machine.name),
            line=keys.get(entry.name),
            licence=entry.licence,
            checked=entry.checked,
            marks="; ".join(mark.told() for mark in entry.marks) or None,
            sha256=entry.digest,
            **{f"{verdict.replace('-', '_')}_count": entry.verdicts.get(verdict) for verdict in VERDICTS},
        )
    return table


def handshake_table(entries: Sequence[Entry], lines: Sequence[Line]) -> Table:
    """One row a bundle, suite and condition: cold handshake at the drone with the report's interval and unit
    of inference. No row is of more than one run."""
    table = Table(
        HANDSHAKES,
        (
            "bundle",
            "begun_utc",
            "release",
            "machine_key",
            "line",
            "ring",
            "suite_id",
            "condition",
            "cells_count",
            "median_ms",
            "interval_low_ms",
            "interval_high_ms",
            "interval_method",
            "unit_of_inference",
            "units_count",
        ),
    )
    keys = line_keys(lines)
    for entry in entries:
        for answer in entry.answers:
            assert entry.machine is not None
            table.add(
                bundle=entry.name,
                begun_utc=entry.begun_utc,
                release=entry.release,
                machine_key=entry.machine.key,
                line=keys.get(entry.name),
                ring=answer.ring,
                suite_id=answer.suite_id,
                condition=answer.condition,
                cells_count=answer.cells_count,
                median_ms=answer.median_ms,
                interval_low_ms=answer.low_ms,
                interval_high_ms=answer.high_ms,
                interval_method=answer.method,
                unit_of_inference=answer.unit,
                units_count=answer.units_count,
            )
    return table
