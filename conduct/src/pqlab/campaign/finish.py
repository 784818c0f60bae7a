"""After the last cell: compare with the database, analyse, report, search for secrets, seal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from pqbase.documents import Json
from pqevidence.errors import EXIT_FAILED, EXIT_OK, EXIT_WARNING, LabError
from pqevidence.paths import shown
from pqevidence.plan import Cell
from pqlab.campaign.outputs import Outputs
from pqlab.campaign.store import WORK_FOLDER, Store, write_atomic
from pqlab.progress import Reporter

Seal = Callable[[Path, Path, list[Path]], Path]
#: ending of the mark that a run leaves beside its work folder while it is sealed
_SEALING = ".sealing"
#: what was lost on the way to the database is known to who should have written it: restarts, a full disk
_WHO_KNOWS = "docker logs pqlab-influxdb-1, docker logs pqlab-telegraf-1"
#: verdicts that end a run with exit code 1
BAD_VERDICTS = ("fail", "invalid", "not-run")
#: what `pqtunnel keys` makes that nobody else may see; the rest of the folder is public
_SECRET_PATTERNS = ("*.key.pem", "*.secret")


def reconcile_run(
    store: Store, cells: Iterable[Cell], outputs: Outputs, reporter: Reporter
) -> tuple[Json, list[str]]:
    """The `influx` block of run.json and the warnings it gives rise to. The files are the record: a database
    that is away or short of points is a warning, never a verdict."""
    if outputs.reconcile is None:
        return {"available": False, "reason": "the inventory names no database", "cells": []}, []
    rows: list[Json] = []
    unequal = 0
    for cell in cells:
        folder = store.cell_dir(str(cell.cell_id))
        lines = [
            line
            for file in sorted(folder.glob("telemetry.*.lp"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        if not lines:
            continue
        try:
            series = outputs.reconcile(lines)
        except LabError as error:
            warning = f"InfluxDB was not compared: {error.what} ({error.why})"
            reporter.note(f"warning: {warning}; the record is the files; next: {error.hint}")
            return {"available": False, "reason": f"{error.what}: {error.why}", "cells": rows}, [warning]
        unequal += sum(1 for row in series if not row["ok"])
        rows.append({"cell_id": cell.cell_id, "series": series})
    warnings = []
    if unequal:
        warnings.append(f"InfluxDB shows other points than the files in {unequal} series")
        reporter.note(f"warning: {warnings[0]}; the record is the files; next: {_WHO_KNOWS}")
    return {"available": True, "reason": None, "cells": rows}, warnings


def secret_files(keys: Path) -> list[Path]:
    """Every secret under the key folder. Raises LabError when there is none: that search would pass all."""
    found = sorted({file for pattern in _SECRET_PATTERNS for file in keys.rglob(pattern)})
    if not found:
        raise LabError(
            "missing-key",
            f"no secret key under {shown(keys)}",
            "the bundle is searched for the keys the run held, and there are none to search for",
            "give the folder the lab was started with: --keys DIR",
        )
    return found


def seal_marked(store: Store, seal: Seal, secrets: list[Path]) -> Path:
    """Seal the run, with a mark beside its work folder until `latest` names it: a sealed folder without one
    came from elsewhere. Raises what `seal` raises."""
    mark = store.root.with_name(store.run_id + _SEALING)
    write_atomic(mark, "", durable=True)
    try:
        bundle = seal(store.root, store.results, secrets)
    except BaseException:
        if store.data.is_dir():  # else it is sealed, and `resume` lets `latest` name it
            mark.unlink(missing_ok=True)
        raise
    mark.unlink(missing_ok=True)
    forget_marks(store.results)
    return bundle


def sealed_unnamed(results: Path, run_id: str | None) -> Path | None:
    """The newest bundle (or that of `run_id`) whose run died after sealing it, before `latest` named it."""
    latest = results / "latest"
    named = latest.resolve().name if latest.is_dir() else ""
    sealed = [path for path in _marked(results) if run_id in (None, path.name)]
    return sealed[-1] if sealed and sealed[-1].name > named else None


def _marked(results: Path) -> list[Path]:
    """Bundles whose mark was left by a run that died when it was about to be done."""
    marks = sorted((results / WORK_FOLDER).glob(f"*{_SEALING}"))
    named = [results / mark.name.removesuffix(_SEALING) for mark in marks]
    return [bundle for bundle in named if (bundle / "bagit.txt").is_file()]


def forget_marks(results: Path) -> None:
    """Take away the marks of runs that are sealed; call it when `latest` is what it should be."""
    for bundle in _marked(results):
        (results / WORK_FOLDER / f"{bundle.name}{_SEALING}").unlink(missing_ok=True)


def verdict_counts(verdicts: Iterable[str]) -> dict[str, int]:
    """How many cells ended how; verdicts that did not occur are left out."""
    return dict(sorted(Counter(verdicts).items()))


def exit_code(counts: dict[str, int], warnings: list[str], *, strict: bool) -> int:
    """0 all pass · 1 failed or invalid cells · 3 warnings or unsupported only (`strict` makes them 1)."""
    if any(counts.get(verdict) for verdict in BAD_VERDICTS):
        return EXIT_FAILED
    if warnings or counts.get("unsupported"):
        return EXIT_FAILED if strict else EXIT_WARNING
    return EXIT_OK
