"""One submission looked at: unpacked where it is an archive, surveyed, read, verified, and what the index
needs of it as one JSON object."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import Json, part_of, rows_of
from pqevidence.analysis.groups import by_suite_table
from pqevidence.analysis.handshakes import handshake_table
from pqevidence.analysis.load import BundleData, Known
from pqevidence.analysis.origin import STEADINESS
from pqevidence.analysis.table import read_rows
from pqevidence.bundle.corrections import load_corrections
from pqevidence.bundle.digest import NO_LINK, hash_file
from pqevidence.bundle.tarball import ArchiveError
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import LabError
from pqevidence.index.cache import Looks
from pqevidence.index.documents import Documents, end_ns, read_documents
from pqevidence.index.patience import OutOfTime, most_time
from pqevidence.index.rules import VERIFY, Refused, Said, plain
from pqevidence.index.survey import MAX_TOTAL_BYTES, Surveyed, digest_of, digests_of, surveyed
from pqevidence.record.quiet import busy_told
from pqevidence.record.rings import weakest
from pqevidence.verify import verify_bundle

ARCHIVE: Final = ".tar.zst"
#: what a damaged file can raise in code that reads it as what it should be
DAMAGE = (
    LabError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip
_STEAL = "steal_mean_pct"
#: what one look may take of a processor: the largest bundle there may be takes a tenth of it
LOOK_S: Final = 3_600


@dataclass(frozen=True)
class Look:
    """found: what the index shows of an accepted bundle, None where a rule refused it; kept: nobody looked, a
    kept look was taken."""

    found: Json | None
    refused: Said | None = None
    kept: bool = False


def look(path: Path, looks: Looks, *, verify: bool) -> Look:
    """Never raises for what lies in the submission."""
    try:
        with most_time(LOOK_S):
            return _look(path, looks, verify=verify)
    except OutOfTime:
        return Look(None, Said("looked_through", f"it took more than {LOOK_S:,} s of processor time"))


def _look(path: Path, looks: Looks, *, verify: bool) -> Look:
    try:
        if path.name.endswith(ARCHIVE):
            return _archive(path, looks, verify=verify)
        return _folder(path, looks, verify=verify)
    except Refused as refused:
        return Look(None, refused.said)
    except ArchiveError as error:
        return Look(None, Said(error.code.replace("-", "_"), plain(f"{error.what}: {error.why}")))
    except DAMAGE as error:
        return Look(None, Said("looked_through", _told(error)))


def _archive(path: Path, looks: Looks, *, verify: bool) -> Look:
    """The key of an archive is its own bytes: one that was looked at is not unpacked again."""
    if (size := path.stat().st_size) > MAX_TOTAL_BYTES:
        raise Refused("archive_too_large", f"the archive has {size:,} bytes")
    # no file's own bytes give the key of a folder: those that digest_of takes could lie here as an archive
    before = f"archive {hash_file(path, NO_LINK).sha256.hex()}"
    if verify and (kept := looks.get(before)) is not None:
        return Look(kept, kept=True)
    with tempfile.TemporaryDirectory(prefix="pqlab-index-") as folder:
        with path.open("rb") as content:
            bundle = unpack(content, Path(folder), MAX_TOTAL_BYTES).bundle
        found = _looked(bundle, surveyed(bundle), verify=verify)
    if f"archive {hash_file(path, NO_LINK).sha256.hex()}" != before:
        raise Refused("unchanged", "the archive was written to meanwhile")
    if verify:
        looks.put(before, found)
    return Look(found)


def _folder(path: Path, looks: Looks, *, verify: bool) -> Look:
    seen = surveyed(path)
    before = digest_of(seen.files)
    if verify and (kept := looks.get(before)) is not None:
        return Look(kept, kept=True)
    found = _looked(path, seen, verify=verify)
    if digests_of(path) != seen.files:
        raise Refused("unchanged", "its files were written to meanwhile")
    if verify:
        looks.put(before, found)
    return Look(found)


def _looked(root: Path, seen: Surveyed, *, verify: bool) -> Json:
    told = read_documents(root)
    known: dict[str, Known] = {}
    results = verify_bundle(root, known=known, hashed=seen.files, contents=seen.contents) if verify else []
    for result in results:
        if result.status == "fail" or result.name == "sealed":
            failed = sum(other.status == "fail" for other in results)
            more = f" (and {failed - 1} more checks)" if failed > 1 else ""
            raise _by_verify(result.name, f"{result.observed}{more}")
    status = {result.name: result.status for result in results}
    warned = [f"{result.name}: {result.observed}" for result in results if result.status == "warn"]
    bundle = BundleData(root, known, told.scenario)
    again = verify and status.get("report_rebuild") != "ok"
    return {
        "digest": digest_of(seen.files),
        "checked": ("verified, with warnings" if warned else "verified") if verify else "NOT VERIFIED",
        "warned": plain(warned[0]) if warned else None,
        "page": status.get("report_rebuild") == "ok",
        "run_id": str(told.plan["run_id"]),
        "scenario": told.scenario_name,
        "ring": weakest({cell.ring for cell in bundle.cells} or {told.ring}),
        "begun_utc": str(told.plan["created_utc"]),
        "end_ns": end_ns(told),
        "release": str(told.run["pqlab_version"]),
        "verdicts": dict(Counter(cell.verdict for cell in bundle.cells)),
        "busy": plain(busy) if (busy := busy_told(bundle.run)) else None,
        "untimed": plain("; ".join(bundle.untimed)) if bundle.untimed else None,
        "licence": told.licence,
        "attested": status.get("attest_signed") == "ok" and (root / "data" / "attestation").is_dir(),
        "earlier": sorted(_earlier(bundle)),
        "corrected": [layer.of_run for layer in load_corrections(root / "data")],
        "answers": [] if bundle.untimed else _answers(_made_again(bundle) if again else _told_by(root)),
        "facts": _facts(bundle, told),
    }


class _by_verify(Refused):
    """A check of `verify` has no row of its own in the table of rules."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__("looked_through", why)
        self.said = Said(VERIFY + check, plain(why))


def _earlier(bundle: BundleData) -> set[str]:
    return {cell.earlier_run for cell in bundle.cells if cell.earlier_run is not None}


def _told_by(root: Path) -> list[dict[str, str]]:
    """by_suite.csv as it lies there, which `verify` made again where it was asked."""
    path = root / "data" / "analysis" / "by_suite.csv"
    return read_rows(path) if path.is_file() else []


def _made_again(bundle: BundleData) -> list[dict[str, str]]:
    """The same of cells and raw files: `verify` makes no table of an older version, so that what lies there
    could say anything."""
    runs = {cell.cell_id: cell.earlier_run for cell in bundle.cells}
    table = by_suite_table(handshake_table(bundle), bundle.seed, runs)
    return list(csv.DictReader(io.StringIO(table.csv_text(), newline="")))


def _answers(rows: list[dict[str, str]]) -> list[Json]:
    """Rows that have a median, as the report's table has them. ValueError for a time that is none."""

    def real(text: str | None) -> float | None:
        if not text:
            return None
        if not 0.0 < float(text) < math.inf:
            raise ValueError(f"a time of {text} ms")
        return float(text)

    return [
        {
            "suite_id": row["suite_id"],
            "condition": row["condition"],
            "ring": row["ring"],
            "cells_count": int(row["n_cells"]),
            "median_ms": real(row["median_ms"]),
            "low_ms": real(row.get("interval_low_ms")),
            "high_ms": real(row.get("interval_high_ms")),
            "method": row.get("interval_method") or None,
            "unit": row.get("unit_of_inference") or None,
            "units_count": int(row["n_units"]) if row.get("n_units") else None,
        }
        for row in rows
        if row["median_ms"]
    ]


def _facts(bundle: BundleData, told: Documents) -> Json:
    """What `compare` asks of two bundles before it compares them. No name, address or boot id of a host."""
    hosts = {
        role: {
            **{key: end.get(key) for key in ("dataplane", "timestamp_source") if key in end},
            "host": {k: v for k, v in part_of(end, "host", {}).items() if k not in ("hostname", "boot_id")},
            "sensors": sorted(
                plain(s.get("name")) for s in rows_of(end, "sensors", []) if s.get("available")
            ),
        }
        for role, end in bundle.hosts.items()
    }
    before = part_of(part_of(bundle.hosts.get("controller") or {}, "steadiness", {}), "before", {})
    rows = [row for row in rows_of(before, "findings", []) if row.get("name") in STEADINESS]
    steadiness = [{"name": row["name"], "observed": plain(row["observed"])} for row in rows]
    hosts["controller"]["steadiness"] = {"before": {"findings": steadiness}}
    return {
        "hosts": hosts,
        "providers": {role: bundle.providers.get(role) for role in ("drone", "gcs")},
        "scenario": bundle.scenario,
        "plan": {"conditions": told.plan.get("conditions"), "seed": told.plan.get("seed")},
        "run": {
            **{key: bundle.run.get(key) for key in ("run_id", "pqlab_version")},
            **{key: _load(bundle.run.get(key)) for key in ("loadavg_start", "loadavg_end")},
        },
        "cells": [
            {"ring": cell.ring, "verdict": cell.verdict, "steal": cell.value("N", _STEAL)}
            for cell in bundle.cells
        ],
    }


def _load(told: object) -> list[float] | None:
    """A load average. ValueError, TypeError here, where it refuses one submission, and not beside others."""
    return [float(value) for value in told] if isinstance(told, list) and told else None


def _told(error: BaseException) -> str:
    if isinstance(error, LabError):
        return plain(f"{error.what}: {error.why}")
    if isinstance(error, OSError):
        name = Path(error.filename).name if error.filename else "a file"
        return plain(f"{name}: {error.strerror or error}")
    return plain(f"{type(error).__name__}: {error}")
