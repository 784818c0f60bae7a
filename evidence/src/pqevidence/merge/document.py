"""merge.json, the lineage file: digest, pair and hosts of each part, what is missing; made of the parts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import Counter
from pathlib import Path

import pqevidence
from pqbase.documents import Json, whole_of
from pqbase.text import utc_basic, utc_text
from pqevidence.analysis.load import ROLES
from pqevidence.analysis.merged import MergedData, Part
from pqevidence.analysis.origin import HOST_FACTS
from pqevidence.bundle import bag
from pqevidence.record.rings import weakest

SCHEMA = "pqlab/merge/v1"
ATTESTATION = "attestation"


def document(data: MergedData) -> Json:
    """What merge.json says; the same parts give the same, in whatever order they were named. Its run id is
    the last part's end and a digest of all tag manifests."""
    ended_ns = max(whole_of(part.bundle.run, "ended_ns") for part in data.parts)
    digests = [bag.sha512_file(part.root / bag.TAGMANIFEST) for part in data.parts]
    token = hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()[:6]
    first = data.parts[0]
    return {
        "schema_version": SCHEMA,
        "run_id": f"{utc_basic(ended_ns)}-{token}",
        "created_utc": utc_text(ended_ns),
        "pqlab_version": pqevidence.__version__,
        "scenario": first.bundle.plan.get("scenario"),
        "scenario_sha256": first.bundle.plan.get("scenario_sha256"),
        "campaign": first.bundle.plan["campaign"],
        "ring": weakest(part.ring for part in data.parts),
        "blocks_count": data.blocks_count,
        "missing_repetitions": data.missing,
        "parts": [_part(part, digest) for part, digest in zip(data.parts, digests, strict=True)],
        "pairs": {part.pair: _pair(part, data.boards[part.pair]) for part in data.parts},
    }


def text(data: MergedData) -> str:
    """The file."""
    return json.dumps(document(data), indent=1, ensure_ascii=False) + "\n"


def _part(part: Part, tagmanifest_sha512: str) -> Json:
    run = part.bundle.run
    verdicts = Counter(cell.verdict for cell in part.bundle.cells)
    return {
        "run_id": part.run_id,
        "pair": part.pair,
        "share": {"number": part.share.number, "of": part.share.of},
        "repetitions": part.repetitions,
        "cells_count": len(part.bundle.cells),
        "verdict_counts": dict(sorted(verdicts.items())),
        "tagmanifest_sha512": tagmanifest_sha512,
        "manifest_sha512": bag.sha512_file(part.root / bag.MANIFEST),
        "pqlab_version": run.get("pqlab_version"),
        "started_utc": utc_text(whole_of(run, "started_ns")),
        "ended_utc": utc_text(whole_of(run, "ended_ns")),
        "corrects": run.get("corrects"),
        "attestation": _attestation(part.bundle.data / ATTESTATION),
    }


def _attestation(folder: Path) -> list[Json] | None:
    """Each signature of the part by its end, file and digest, with the key that the statement names; None
    where the ends swore to nothing."""
    files = sorted(folder.glob("*.dsse.json")) if folder.is_dir() else []
    found = []
    for file in files:
        content = file.read_bytes()
        role, _, _ = file.name.partition("-")
        try:
            predicate = json.loads(base64.b64decode(json.loads(content)["payload"]))["predicate"]
            key = predicate.get("public_key")
        except (binascii.Error, ValueError, LookupError, TypeError, AttributeError):
            key = None  # whether it can be read is for the part's own checks
        digest = hashlib.sha512(content).hexdigest()
        found.append(
            {"role": role, "file": f"{ATTESTATION}/{file.name}", "sha512": digest, "public_key": key}
        )
    return found or None


def _pair(part: Part, counts_as: str) -> Json:
    known = (*HOST_FACTS, "hostname", "boot_id")
    hosts = {role: {name: part.host(role).get(name) for name in known} for role in ROLES}
    return {"counts_as_host": counts_as, "hosts": hosts}
