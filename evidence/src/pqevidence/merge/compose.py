"""Parts in a folder → lineage file, tables, page, crate, tag files → one rename; all made of the parts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pqbase.documents import Json, rows_of
from pqevidence.analysis.claims import condition_effects_table
from pqevidence.analysis.effects import effects_table
from pqevidence.analysis.handshakes import handshake_table
from pqevidence.analysis.hosts import host_tables
from pqevidence.analysis.merged import DOCUMENT, PARTS, MergedData, Part, joined
from pqevidence.analysis.system import cpu_table
from pqevidence.analysis.table import Table
from pqevidence.analysis.traffic import traffic_table
from pqevidence.bundle import bag
from pqevidence.bundle.crate import CONTEXT, LICENSE_ID, MEDIA_TYPES, METADATA, SPECIFICATION
from pqevidence.errors import EXIT_ENVIRONMENT, LabError
from pqevidence.merge import document
from pqevidence.merge.page import page
from pqevidence.paths import shown
from pqevidence.report.html import render_html
from pqevidence.report.markdown import render_markdown


class ThereAlready(LabError):
    """This very merge was made before; `bundle` is it."""

    def __init__(self, bundle: Path) -> None:
        super().__init__(
            "exists",
            f"{shown(bundle)} is there already",
            "the same parts give the same bundle",
            f"./pqlab verify {shown(bundle)}",
            EXIT_ENVIRONMENT,
        )
        self.bundle = bundle


def merged_tables(data: MergedData) -> list[Table]:
    """`condition_effects` and `effects` of all blocks on these boards, then what is said over hosts."""
    found = []
    if not data.untimed:
        handshakes = joined(data, handshake_table)
        runs = {cell.cell_id: cell.earlier_run for cell in data.cells}
        conditions = condition_effects_table(
            data, handshakes, joined(data, traffic_table), joined(data, cpu_table)
        )
        found = [
            *([conditions] if conditions is not None else []),
            effects_table(handshakes, data.seed, runs),
        ]
    return [*found, *host_tables(data), _blocks(data)]


def _blocks(data: MergedData) -> Table:
    """A row a block of the campaign: who measured it, or that nobody did."""
    table = Table("blocks", ("repetition", "pair", "run_id", "cells_count", "passed_count", "missing"))
    for number in range(1, data.blocks_count + 1):
        part = next((part for part in data.parts if number in part.repetitions), None)
        cells = [cell for cell in data.cells if cell.repetition == number]
        table.add(
            repetition=number,
            pair=None if part is None else part.pair,
            run_id=None if part is None else part.run_id,
            cells_count=len(cells),
            passed_count=sum(cell.verdict == "pass" for cell in cells),
            missing=part is None,
        )
    return table


def derived(root: Path) -> dict[str, str]:
    """Path below data/ → text of everything but the parts. merge.json need not be there; the run id is that
    which the parts give. Raises LabError where a part cannot be read."""
    data = MergedData(root)
    lineage = document.document(data)
    data.plan["run_id"] = data.run["run_id"] = lineage["run_id"]
    tables = merged_tables(data)
    texts = {f"analysis/{table.name}.csv": table.csv_text() for table in tables}
    numbers = hashlib.sha256()
    for name, content in sorted(texts.items()):
        numbers.update(f"{name}\n{content}".encode())
    report = page(data, lineage, {table.name: table for table in tables}, numbers.hexdigest())
    texts |= {
        DOCUMENT: document.text(data),
        "report.html": render_html(report),
        "report.md": render_markdown(report),
    }
    return texts | {METADATA: _crate(root / "data", lineage, texts)}


def write_pages(root: Path, folder: Path) -> tuple[Path, Path]:
    """report.html and report.md of a merged bundle once more, into `folder`; returns both paths."""
    texts = derived(root)
    folder.mkdir(parents=True, exist_ok=True)
    pages = folder / "report.html", folder / "report.md"
    for path in pages:
        path.write_text(texts[path.name], encoding="utf-8", newline="\n")
    return pages


def compose(parts: Sequence[Part], results: Path) -> Path:
    """Seal the merge of these parts under `results` and return it. The parts are copied whole. Raises
    ThereAlready (`exists`) for a second time, and what the disk refuses."""
    results.mkdir(parents=True, exist_ok=True)
    work = results / f".merge.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    try:
        for part in parts:
            shutil.copytree(part.root, work / "data" / PARTS / part.run_id)
        for name, content in derived(work).items():
            path = work / "data" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="")
        run_id = json.loads((work / "data" / DOCUMENT).read_text(encoding="utf-8"))["run_id"]
        target = results / str(run_id)
        if target.exists():
            raise ThereAlready(target)
        bag.write_tags(work)
        os.sync()  # no name before the bytes that it vouches for
        work.rename(target)
        bag.fsync_folder(results)
        return target
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _crate(data_dir: Path, lineage: Json, texts: dict[str, str]) -> str:
    """RO-Crate 1.1: every file with its size; each part is a dataset of its own, with a crate inside."""
    sizes = {name: len(content.encode()) for name, content in texts.items()}
    parts = data_dir / PARTS
    sizes |= {
        path.relative_to(data_dir).as_posix(): path.stat().st_size
        for path in parts.rglob("*")
        if path.is_file()
    }
    folders = [f"{PARTS}/{part['run_id']}/" for part in rows_of(lineage, "parts")]
    inside: list[Json] = [{"@id": folder, "@type": "Dataset", "name": folder} for folder in folders]
    graph: list[Json] = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": SPECIFICATION},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Post-quantum MAVLink tunnel campaign on several pairs of hosts {lineage['run_id']}",
            "description": "Bundles of one campaign, whole, with effects over hosts; see docs/BUNDLE.md.",
            "identifier": lineage["run_id"],
            "datePublished": lineage["created_utc"],
            "license": {"@id": LICENSE_ID},
            "hasPart": [{"@id": name} for name in [*sorted(texts), *folders]],
        },
        {"@id": LICENSE_ID, "@type": "CreativeWork", "name": "not stated here: see the parts"},
        *inside,
    ]
    graph += [
        {
            "@id": name,
            "@type": "File",
            "name": Path(name).name,
            "contentSize": str(size),
            "encodingFormat": MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream"),
        }
        for name, size in sorted(sizes.items())
    ]
    return json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False) + "\n"
