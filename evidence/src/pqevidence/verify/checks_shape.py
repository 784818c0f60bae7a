"""Nothing in the bundle that does not belong there: known versions, known files, logs that tell what the
events tell."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime

import pqevidence
from pqevidence.bundle.attribution import CITATION
from pqevidence.bundle.attribution import FILE as ATTRIBUTION
from pqevidence.bundle.crate import METADATA
from pqevidence.bundle.format import DICTIONARY, PACKAGE, SCHEMAS
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.measures import MEASURES
from pqevidence.record.raw import Json
from pqevidence.verify.older import later, later_of_cell, version_of
from pqevidence.versions import KNOWN, wrote_table

PROTOCOLS = (1,)
_RUN_ID = r"\d{8}T\d{6}Z-[0-9a-f]{6}"
_DOCUMENTS = (
    r"(?:run\.json|plan\.json|providers\.json|scenario\.effective\.yml|hosts/(?:drone|gcs|controller)\.json)"
)
_CELL = (
    r"(?:record\.json|counters\.json|traffic\.json|mavlink\.gcs\.tlog"
    r"|events\.ndjson|bins(?:\.gcs)?\.ndjson|ledger\.(?:drone|gcs)\.csv"
    r"|logs/(?:drone|gcs|controller)\.log"
    rf"|{'|'.join(file for measure in MEASURES for file in measure.files)})"
)
#: what a bundle says of its own format, and of who made it
_FORMAT = "|".join(map(re.escape, (PACKAGE, DICTIONARY, *SCHEMAS, ATTRIBUTION, CITATION)))
_ATTESTATION = r"attestation/(?:drone|gcs)-[1-9][0-9]*\.(?:ndjson|dsse\.json)"
#: every file there may be below data/
ALLOWED = re.compile(
    rf"{_DOCUMENTS}|{re.escape(METADATA)}|{_FORMAT}|report\.(?:html|md)|analysis/[a-z0-9_]+\.csv"
    rf"|traces/[0-9a-f]{{64}}\.csv|corrections/[1-9][0-9]*\.json"
    rf"|{_ATTESTATION}|lineage/{_RUN_ID}/(?:{_DOCUMENTS}|manifest-sha512\.txt|{_ATTESTATION})"
    rf"|cells/[0-9a-f]{{16}}/(?:attempt-[1-9][0-9]*/)?{_CELL}"
)

#: what 0.1.0 did not write yet beside tables: what a bundle says of its own format, who made it, chains
_AFTER_0_1 = re.compile(rf"{_FORMAT}|{_ATTESTATION}")


def versions(bundle: BundleView, tally: Tally) -> None:
    """Each run is of a version that there was, and holds nothing that came after it; both ends spoke a known
    protocol."""
    for raw in bundle.runs:
        tally.see()
        made_by, run_id = raw.run.get("pqlab_version"), raw.run.get("run_id")
        if made_by not in KNOWN:
            tally.fail(f"run {run_id} is of pqlab {made_by} (run.json), known are {', '.join(KNOWN)}")
        else:
            files = _later_files(bundle, str(made_by)) if raw is bundle.raw else []
            for what in [*later(raw), *files]:
                tally.fail(
                    f"run {run_id} is of pqlab {made_by} (run.json) and holds {what}, which came later"
                )
            if made_by != pqevidence.__version__:
                tally.warn(f"run {run_id} is of pqlab {made_by} (run.json), this is {pqevidence.__version__}")
        for role in ("drone", "gcs"):
            told = (raw.hosts.get(role) or {}).get("protocol_version")
            known = told in PROTOCOLS
            tally.require(
                known, f"the {role} spoke protocol {told} (hosts/{role}.json), known is {PROTOCOLS[0]}"
            )
    tally.unit = "runs"


def _later_files(bundle: BundleView, made_by: str) -> list[str]:
    """Files that the version did not write yet."""
    if made_by != "0.1.0":
        return []
    names = (name.removeprefix("data/") for name in bundle.payload)
    return [
        name
        for name in names
        if _AFTER_0_1.fullmatch(name)
        or (name.startswith("analysis/") and not wrote_table(made_by, name[len("analysis/") : -len(".csv")]))
    ]


def kept(cell: CellView, tally: Tally) -> None:
    """Raw files of a cell hold nothing that its run's version did not write yet."""
    tally.see()
    made_by = version_of(cell.run)
    for what in later_of_cell(made_by, cell.raw):
        tally.fail(f"{cell.label} is of pqlab {made_by} (run.json) and holds {what}, which came later")


def files(bundle: BundleView, tally: Tally) -> None:
    """Only files that a run writes, and logs of those who took part."""
    for name in bundle.payload:
        tally.see()
        name = name.removeprefix("data/")
        tally.require(ALLOWED.fullmatch(name) is not None, f"{name} is no file of a run")


def log(cell: CellView, tally: Tally) -> None:
    """logs/controller.log has one line for each of the controller's events, and no other."""
    if not has_witnesses(cell.run):
        tally.note = "not asked of another version"
        return
    tally.see()
    path = cell.folder / "logs" / "controller.log"
    if not path.is_file():
        tally.fail(f"{cell.label}: there is no logs/controller.log")
        return
    told = Counter(path.read_text(encoding="utf-8").splitlines())
    due = Counter(line_of(row) for row in cell.raw.events if row.get("host") == "controller")
    for line in (told - due).elements():
        tally.fail(f"{cell.label}: logs/controller.log says `{line[:90]}`, events.ndjson does not")
        return
    for line in (due - told).elements():
        tally.fail(f"{cell.label}: events.ndjson says `{line[:90]}`, logs/controller.log does not")
        return


def line_of(event: Json) -> str:
    """An event of the controller as its log tells it."""
    details = {key: value for key, value in event.items() if key not in ("t_ns", "host", "event")}
    told = " ".join(f"{key}={json.dumps(value)}" for key, value in details.items())
    t_ns = int(event["t_ns"])
    # divided as the journal does it: beside a full second its seconds round up
    when = datetime.fromtimestamp(t_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{when} {t_ns % 10**9 // 10**6:03d} {event['event']} {told}".rstrip()
