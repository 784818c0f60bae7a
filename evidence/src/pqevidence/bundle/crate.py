"""RO-Crate 1.1 metadata of a run, after the Process Run Crate profile 0.5.

One CreateAction: the campaign, with pqlab as instrument, the scenario as object and every cell folder and
report as result. Made from the run's own files, without a clock: the same data give the same bytes.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pqbase.documents import Json, rows_of, texts_of
from pqevidence.bundle.attribution import crate_entities, read

METADATA = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENSE_ID = "https://spdx.org/licenses/CC-BY-4.0"
MEDIA_TYPES = {
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv",
    ".lp": "text/plain",
    ".log": "text/plain",
    ".yml": "application/yaml",
    ".html": "text/html",
    ".md": "text/markdown",
    ".cff": "application/yaml",
}
#: what a run is made from, beside the layers of a correction
_OBJECTS = ("plan.json", "scenario.effective.yml")
Entity = Json


def crate_document(data_dir: Path) -> Entity:
    """The metadata document for everything that lies under `data_dir` now (itself excepted)."""
    plan = _load(data_dir / "plan.json")
    run = _load(data_dir / "run.json")
    sizes_bytes = _sizes(data_dir)
    files = sorted(sizes_bytes)
    run_id = str(plan.get("run_id") or run.get("run_id") or "unknown")
    suites = {cell["cell_id"]: cell for cell in rows_of(plan, "cells", [])}
    top = [name for name in files if not name.startswith("cells/")]
    cell_ids = sorted({name.split("/")[1] for name in files if name.startswith("cells/")})
    folders = [f"cells/{cell_id}/" for cell_id in cell_ids]
    earlier = {str(cell_id) for entry in rows_of(run, "lineage", []) for cell_id in texts_of(entry, "cells")}
    mine = [f"cells/{cell_id}/" for cell_id in cell_ids if cell_id not in earlier]
    results = [*mine, *[name for name in top if name.startswith(("analysis/", "report."))]]
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Post-quantum MAVLink tunnel campaign {run_id}",
        "description": "Raw measurements, records, analysis and report of one campaign; see docs/BUNDLE.md.",
        "identifier": run_id,
        "license": {"@id": LICENSE_ID},
        "conformsTo": {"@id": PROFILE},
        "hasPart": [{"@id": part} for part in [*top, *folders]],
        "mentions": [{"@id": "#campaign"}, *({"@id": _action_id(e)} for e in rows_of(run, "lineage", []))],
    }
    licences: list[Entity] = [
        {"@id": LICENSE_ID, "@type": "CreativeWork", "name": "not stated: ask whoever made this run"}
    ]
    if (told := read(data_dir)) is not None:
        named, licences = crate_entities(told)
        root.update(named)
    if ended := _time(run.get("ended_ns")):
        root["datePublished"] = ended
    action: Entity = {
        "@id": "#campaign",
        "@type": "CreateAction",
        "name": f"pqlab {'correct' if run.get('corrects') else 'run'} {run_id}",
        "instrument": {"@id": "#pqlab"},
        "object": [{"@id": name} for name in files if name in _OBJECTS or name.startswith("corrections/")],
        "result": [{"@id": name} for name in results],
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
    }
    for key, value in (("startTime", run.get("started_ns")), ("endTime", run.get("ended_ns"))):
        if moment := _time(value):
            action[key] = moment
    graph: list[Entity] = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": SPECIFICATION},
        },
        root,
        *licences,
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        {
            "@id": "#pqlab",
            "@type": "SoftwareApplication",
            "name": "pqlab",
            "softwareVersion": str(run.get("pqlab_version", "unknown")),
        },
        action,
    ]
    graph += _earlier_runs(data_dir, run)
    inside: dict[str, list[str]] = {cell_id: [] for cell_id in cell_ids}
    for name in files:
        if name.startswith("cells/"):
            inside[name.split("/")[1]].append(name)
    for cell_id, folder in zip(cell_ids, folders, strict=True):
        planned = suites.get(cell_id, {})
        graph.append(
            {
                "@id": folder,
                "@type": "Dataset",
                "name": f"{planned.get('suite_id', 'unplanned')} repetition {planned.get('repetition', '?')}",
                "hasPart": [{"@id": name} for name in inside[cell_id]],
            }
        )
    graph += [_file(name, sizes_bytes[name]) for name in files]
    return {"@context": CONTEXT, "@graph": graph}


def _action_id(entry: Entity) -> str:
    return f"#run-{entry['run_id']}"


def _earlier_runs(data_dir: Path, run: Entity) -> list[Entity]:
    """One CreateAction for each run whose cells were taken over unchanged."""
    found: list[Entity] = []
    for entry in rows_of(run, "lineage", []):
        run_id = str(entry["run_id"])
        before = _load(data_dir / "lineage" / run_id / "run.json")
        action: Entity = {
            "@id": _action_id(entry),
            "@type": "CreateAction",
            "name": f"pqlab run {run_id}",
            "description": f"Cells taken over unchanged; {entry['reason']} by the run of this bundle.",
            "instrument": {"@id": "#pqlab"},
            "object": [{"@id": f"lineage/{run_id}/{name}"} for name in _OBJECTS],
            # one that only corrected measured nothing: what is left of it is its own account
            "result": [{"@id": f"cells/{cell_id}/"} for cell_id in texts_of(entry, "cells")]
            or [{"@id": f"lineage/{run_id}/run.json"}],
            "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        }
        for key, value in (("startTime", before.get("started_ns")), ("endTime", before.get("ended_ns"))):
            if moment := _time(value):
                action[key] = moment
        found.append(action)
    return found


def write_crate(data_dir: Path) -> None:
    """Write data/ro-crate-metadata.json."""
    text = json.dumps(crate_document(data_dir), indent=1, ensure_ascii=False) + "\n"
    (data_dir / METADATA).write_text(text, encoding="utf-8")


def _sizes(data_dir: Path) -> dict[str, int]:
    """Bytes of each file below, the document itself excepted, by its path with forward slashes."""
    found: dict[str, int] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(data_dir / folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(f"{folder}{entry.name}/")
                elif entry.is_file():
                    found[f"{folder}{entry.name}"] = entry.stat().st_size
    found.pop(METADATA, None)
    return found


def _file(name: str, size_bytes: int) -> Entity:
    path = PurePosixPath(name)
    return {
        "@id": name,
        "@type": "File",
        "name": path.name,
        "contentSize": str(size_bytes),
        "encodingFormat": MEDIA_TYPES.get(path.suffix, "application/octet-stream"),
    }


def _time(t_ns: object) -> str | None:
    if not isinstance(t_ns, int):
        return None
    return datetime.fromtimestamp(t_ns // 1_000_000_000, tz=UTC).isoformat()


def _load(path: Path) -> Entity:
    if not path.is_file():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}
