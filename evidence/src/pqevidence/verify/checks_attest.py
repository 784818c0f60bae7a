"""What both ends swore to while they measured, against what the bundle holds.

A bundle without chains is unsigned: that is said, and is no fault of it, unless its plan says that it is
attested.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from pqbase.documents import part_of
from pqbase.text import canonical_json
from pqevidence.errors import LabError
from pqevidence.kernel.result import CheckResult, Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.plan import plan_digest
from pqevidence.record.raw import Json
from pqevidence.verify.chains import (
    FOLDER,
    ROLES,
    AttestedRun,
    Segment,
    Sworn,
    attempts_in,
    attested_runs,
    documents_digest,
    files_digest,
)
from pqevidence.verify.ed25519 import verified

SCHEMA = "pqlab/attestation/v1"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "tag:pqlab,2026:attestation/v1"
PAYLOAD = "application/vnd.in-toto+json"
BLOCK_LINES = 256
UNSIGNED = "unsigned: only the files themselves vouch for what was measured, in which order and how often"
_NOT_ASKED = "unsigned"
#: stream → its file in an attempt's folder; spans and events of both ends share one
_FILES = {
    "ledger": "ledger.{role}.csv",
    "telemetry": "telemetry.{role}.lp",
    "power": "power.{role}.csv",
    "log": "logs/{role}.log",
    "spans": "spans.ndjson",
    "events": "events.ndjson",
}
_ONE_END = {
    ("drone", "bins"): "bins.ndjson",
    ("gcs", "bins"): "bins.gcs.ndjson",
    ("drone", "detector"): "detector.ndjson",
    ("gcs", "tlog"): "mavlink.gcs.tlog",
}


def _attested(bundle: BundleView, tally: Tally) -> Iterator[AttestedRun]:
    """Runs whose chains can be read; the note where a run has none."""
    for run in attested_runs(bundle):
        if run.there:
            yield run
        elif run.cells:
            tally.note = _NOT_ASKED


# ------------------------------------------------------------------ signatures and chains


def signed(bundle: BundleView, tally: Tally) -> None:
    """Every chain is whole, is signed by the key that it names, is of this run and this end, follows the one
    before it, and has come to its end."""
    notes = []
    for run in attested_runs(bundle):
        if not run.there:
            if run.claimed:
                tally.fail(f"run {run.run_id} is attested, says plan.json; there is no {FOLDER}/")
            elif run.cells:
                notes.append(UNSIGNED)
            continue
        for role in ROLES:
            segments = run.segments[role]
            if not segments:
                tally.fail(f"run {run.run_id}: there is no chain of the {role}")
                continue
            _in_a_row(run, role, segments, tally)
            keys = ", ".join(segment.key_id for segment in segments)
            notes.append(f"{role} signed with key {keys}")
    tally.note = "; ".join(dict.fromkeys(notes))


def _in_a_row(run: AttestedRun, role: str, segments: list[Segment], tally: Tally) -> None:
    if [segment.number for segment in segments] != list(range(1, len(segments) + 1)):
        tally.fail(f"run {run.run_id}: a chain of the {role} is missing between those that are there")
    earlier: str | None = None
    for segment in segments:
        tally.see()
        if why := _wrong(segment, run, earlier):
            tally.fail(f"{segment.label}: {why}")
        earlier = segment.heads[-1]
    last = segments[-1]
    if last.rows[-1]["entry"] != "end" or last.statement["predicate"]["ended"] is not True:
        tally.fail(f"{last.label} does not come to an end: what followed is not here")


def _wrong(segment: Segment, run: AttestedRun, earlier: str | None) -> str | None:
    """The first thing that is wrong with a segment, None for nothing."""
    if not segment.rows:
        return "it holds no line"
    first, statement = segment.rows[0], segment.statement
    before = str(first["plan_sha256"])
    for number, (row, head) in enumerate(zip(segment.rows, segment.heads, strict=True)):
        if row["n"] != number or row["prev"] != before:
            return f"line {number + 1} does not follow the line before it"
        before = head
    if first["entry"] != "begin" or any(row["entry"] == "begin" for row in segment.rows[1:]):
        return "it does not begin once, with its first line"
    told = statement["predicate"]
    due: Json = {
        "run_id": run.run_id,
        "role": segment.role,
        "segment": segment.number,
        "plan_sha256": first["plan_sha256"],
        "public_key": first["public_key"],
        "earlier": earlier,
    }
    for source, where in ((first, "its first line"), (told, "the signed statement")):
        for name, value in due.items():
            if source[name] != value:
                return f"{where} says {name} {source[name]}, due is {value}"
    if first["schema"] != SCHEMA:
        return f"it is of {first['schema']}, known is {SCHEMA}"
    whole = hashlib.sha256(segment.content).hexdigest()
    if statement["subject"] != [{"name": segment.label, "digest": {"sha256": whole}}]:
        return "the signed statement is of other lines"
    if (told["entries"], told["head"]) != (len(segment.rows), before):
        return "the signed head is another one"
    return _signature(segment)


def _signature(segment: Segment) -> str | None:
    envelope, statement = segment.envelope, segment.statement
    kinds = (envelope["payloadType"], statement["_type"], statement["predicateType"])
    if kinds != (PAYLOAD, STATEMENT, PREDICATE):
        return f"its statement is of another kind: {', '.join(map(str, kinds))}"
    (given,) = envelope["signatures"]
    if given["keyid"] != segment.key_id:
        return f"it names key {given['keyid']}, and was signed with {segment.key_id}"
    # DSSE's pre-authentication encoding
    message = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(segment.payload), segment.payload)
    if not verified(segment.public_key, message, base64.b64decode(given["sig"], validate=True)):
        return f"the signature is not that of key {segment.key_id}"
    return None


# ------------------------------------------------------------------ plan, crosswise, attempts


def plan(bundle: BundleView, tally: Tally) -> None:
    """The first link of every chain is the digest of the plan in the bundle; its last, of all that the run
    says of itself."""
    for run in _attested(bundle, tally):
        due = plan_digest(run.raw.plan)
        documents = documents_digest(run.folder.parent)
        tally.note = f"plan {due}"
        for segments in run.segments.values():
            for segment in segments:
                tally.see()
                told = segment.rows[0]["plan_sha256"]
                if told != due:
                    tally.fail(f"{segment.label} began with plan {told}, plan.json is {due}")
            # one that ended before, in a run that was not sealed then, ended with another run.json
            last = segments[-1].rows[-1] if segments else {}
            if last.get("entry") == "end" and last["documents_sha256"] != documents:
                told = segments[-1].label
                tally.fail(f"run.json, plan, scenario, builds or hosts are not as {told} ended with")


def crossed(bundle: BundleView, tally: Tally) -> None:
    """Every head that one end names is one of the other end's, none before one that was named earlier; the
    end that ends last names the last head of the other."""
    for run in _attested(bundle, tally):
        last = []
        for role, other in (ROLES, ROLES[::-1]):
            heads = [head for segment in run.segments[other] for head in segment.heads]
            place = {head: number for number, head in enumerate(heads)}
            reached = 0
            for segment in run.segments[role]:
                for row in segment.rows:
                    if "peer" not in row:
                        continue
                    tally.see()
                    at = place.get(str(row["peer"]))
                    if at is None or at < reached:
                        why = "is none of" if at is None else "came earlier in"
                        tally.fail(
                            f"{segment.label} line {row['n'] + 1}: the head that it names {why} the {other}'s"
                        )
                        break
                    reached = at
            last.append(bool(heads) and reached == len(heads) - 1)
        tally.require(any(last), f"run {run.run_id}: neither end names the last head of the other")


def attempts(bundle: BundleView, tally: Tally) -> None:
    """Every attempt that the ends swore to is here with the files that it had, in its order, and no other."""
    for run in _attested(bundle, tally):
        notes = []
        for role, account in run.accounts.items():
            for cell_id in sorted(set(account.attempts) - run.cells):
                tally.fail(f"the {role} swore to cell {cell_id}, which is not in the plan")
            for cell_id in account.open:
                tally.fail(f"the {role} prepared cell {cell_id}, and no attempt of it follows")
            if account.given_up:
                notes.append(
                    f"{len(account.given_up)} attempts cut off at the {role} by a controller's death"
                )
        for cell_id in sorted(run.cells):
            _attempts_of(bundle, run, cell_id, tally)
        if notes:
            tally.note = ", ".join(notes)


def _attempts_of(bundle: BundleView, run: AttestedRun, cell_id: str, tally: Tally) -> None:
    folders = attempts_in(bundle.data / "cells" / cell_id)
    here = [files_digest(folder) for folder in folders]
    for role, account in run.accounts.items():
        sworn = account.attempts.get(cell_id, [])
        told = [one.files_sha256 for one in sworn]
        tally.see()
        if cell_id in account.lost:
            told = [digest for digest in told if digest in here]
        if len(told) > len(here):
            tally.fail(f"cell {cell_id}: the {role} swore to {len(told)} attempts, {len(here)} are here")
        elif len(told) < len(here):
            tally.fail(f"cell {cell_id}: {len(here)} attempts are here, the {role} swore to {len(told)}")
        for number, (due, digest) in enumerate(zip(told, here, strict=False), start=1):
            if due != digest:
                tally.fail(
                    f"cell {cell_id}: the files of attempt {number} are not those that the {role} was told of"
                )
        for folder, digest in zip(folders, here, strict=True):
            one = next((one for one in sworn if one.files_sha256 == digest), None)
            if one is not None and not one.measured and not _excused(folder):
                told_of = tally.warn if one.late else tally.fail
                why = ", which was started again before it could swear to its records" if one.late else ""
                told_of(f"cell {cell_id}: an attempt that the {role} did not measure{why}")


def _excused(folder: Path) -> bool:
    """Did the controller not begin the attempt, or lose an agent on the way? Its events say so."""
    rows = _json_lines(folder / "events.ndjson")
    told = {row.get("event") for row in rows if row.get("host") == "controller"}
    return bool(told & {"unsupported", "not-run", "error"})


def as_promised(path: Path, promised: list[Json]) -> CheckResult:
    """Is a run of this bundle the one that published files foretold, signed with the keys they name?

    A key that came later, of an agent that was started again, counts where the other end, signing with one
    that counts, names a head of its chain.
    """
    tally = Tally(unit="runs")
    try:
        for run in attested_runs(BundleView(path.resolve())):
            due = [one for one in promised if one["plan_sha256"] == plan_digest(run.raw.plan)]
            if not due:
                continue
            tally.see()
            tally.note = "plan as promised"
            named = {pair for one in due for pair in (one.get("public_keys") or {}).items()}
            if not named:
                continue
            tally.note = "plan and keys as promised"
            if not run.there:
                tally.fail(f"run {run.run_id} was promised with keys, and holds no {FOLDER}/")
                continue
            used = {(one.role, one.rows[0]["public_key"]) for one in _segments(run)}
            for role, key in sorted(named - used):
                tally.fail(f"the {role} of run {run.run_id} never signed with {key}, which was promised")
            for segment in _unpromised(run, {key for _, key in named}):
                tally.fail(f"{segment.label} of run {run.run_id} was signed with a key that nobody promised")
        tally.require(tally.looked > 0, "no run here has the plan that was promised")
    except (LabError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        tally.fail(f"the chains cannot be read: {error}")
    return tally.result("as_promised", "the run that was promised before it began")


def _segments(run: AttestedRun) -> list[Segment]:
    return list(itertools.chain.from_iterable(run.segments.values()))


def _unpromised(run: AttestedRun, keys: set[str]) -> list[Segment]:
    """Segments whose key is neither promised nor vouched for by the other end."""
    left = _segments(run)
    counts: list[Segment] = []
    while True:
        named = {(one.role, row.get("peer")) for one in counts for row in one.rows}
        fresh = [
            one
            for one in left
            if one.rows[0]["public_key"] in keys
            or any((role, head) in named for role in ROLES if role != one.role for head in one.heads)
        ]
        if not fresh:
            return left
        counts += fresh
        left = [one for one in left if one not in fresh]


# ------------------------------------------------------------------ raw files, record by record


def raw(cell: CellView, tally: Tally) -> None:
    """Every record of every raw file is the one that its end handed out, counters and answers included."""
    run = next((run for run in attested_runs(cell.bundle) if cell.cell_id in run.cells), None)
    if run is None or not run.there:
        tally.note = _NOT_ASKED
        return
    folders = attempts_in(cell.folder)
    for role, account in run.accounts.items():
        known = account.attempts.get(cell.cell_id, [])
        if cell.cell_id in account.lost:
            here = [files_digest(folder) for folder in folders]
            known = [one for one in known if one.files_sha256 in here]
        for folder, sworn in zip(folders, known, strict=False):
            if sworn.measured:
                for why in _unlike(folder, role, sworn):
                    tally.fail(f"{cell.label}: {why}")
    tally.see()


def _unlike(folder: Path, role: str, sworn: Sworn) -> Iterator[str]:
    """What in an attempt's folder is not as this end handed it out. What was lost on the way is not held
    against an attempt that says so."""
    excused = _excused(folder)
    names = {stream: name.format(role=role) for stream, name in _FILES.items()}
    names |= {stream: name for (end, stream), name in _ONE_END.items() if end == role}
    for stream, name in names.items():
        here, told = _records(folder / name, role, stream), sworn.streams.get(stream)
        if told is None:
            if here:
                yield f"{name} holds records of the {role}, who handed out none"
        elif here or not excused:
            yield from _different(name, role, here, told)
    counted = _read(folder / "counters.json").get(role)
    if (counted is not None or not excused) and _digest(counted) != sworn.counters_sha256:
        yield f"counters.json: those of the {role} are not what it counted"
    windows = part_of(_read(folder / "traffic.json"), "windows", {})
    for window in sorted({*windows, *sworn.windows_sha256}):
        side, due = part_of(windows, window, {}).get(role) or {}, sworn.windows_sha256.get(window)
        lost = not (isinstance(side, dict) and "close_ns" in side) and (excused or due is None)
        if not lost and _digest(side) != due:
            yield f"traffic.json: window {window} is not what the {role} answered"


def _different(name: str, role: str, here: list[bytes] | bytes, told: Json) -> Iterator[str]:
    if isinstance(here, bytes):
        if [hashlib.sha256(here).hexdigest()] != told["sha256"]:
            yield f"{name} is not the one that the {role} handed out"
        return
    if len(here) != told["lines"]:
        yield f"{name} holds {len(here)} records of the {role}, who handed out {told['lines']}"
        return
    for number, due in enumerate(told["sha256"]):
        first = number * BLOCK_LINES
        block = here[first : first + BLOCK_LINES]
        if hashlib.sha256(b"".join(line + b"\n" for line in block)).hexdigest() != due:
            most = first + len(block)
            yield f"{name}: of records {first + 1} to {most} of the {role} one is not as it was handed out"
            return


def _records(path: Path, role: str, stream: str) -> list[bytes] | bytes:
    """The records of one end in a raw file as they were handed out, events by time; the bytes of a telemetry
    log. Empty where there is no file."""
    content = path.read_bytes() if path.is_file() else b""
    if stream == "tlog":
        return content
    lines = content.split(b"\n")[:-1]
    if stream == "spans":
        return [line for line in lines if json.loads(line).get("host") == role]
    if stream == "events":
        rows = [row for row in map(json.loads, lines) if row.get("host") == role]
        return [canonical_json(row) for row in sorted(rows, key=lambda row: int(row["t_ns"]))]
    return lines


def _json_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.is_file() else []


def _read(path: Path) -> Json:
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()
