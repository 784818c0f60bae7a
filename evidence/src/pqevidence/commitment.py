"""What is fixed before a run, in a file to be published: the digest of its plan, and, once both agents have
begun, the public keys that they made for it.

`plan --seal FILE` and `run --seal FILE` write it, `verify --sealed FILE` holds a bundle against it.
"""

from __future__ import annotations

import json
from pathlib import Path

from pqbase.documents import Json, rows_of
from pqevidence.errors import LabError, UsageError
from pqevidence.paths import shown
from pqevidence.plan import plan_digest

SCHEMA = "pqlab/commitment/v1"


def document(plan: Json, keys: dict[str, str]) -> Json:
    """plan: a plan.json. keys: role → public key (64 hex); empty before a run and for one without chains."""
    return {
        "schema_version": SCHEMA,
        "scenario": plan["scenario"],
        "cells_count": len(rows_of(plan, "cells")),
        "plan_sha256": plan_digest(plan),
        **({"run_id": plan["run_id"]} if plan.get("run_id") else {}),
        **({"public_keys": keys} if keys else {}),
    }


def place(text: str | None) -> Path | None:
    """The file to write, None where none is asked for. Raises UsageError for one that is there."""
    if text is None:
        return None
    path = Path(text)
    if path.exists():
        raise UsageError(
            "exists",
            f"{shown(path)} is there already",
            "what was promised is never overwritten",
            "name another file: --seal FILE",
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(
            "no-folder",
            f"{shown(path)} cannot be written",
            "its folder is not there",
            "name a file in a folder that is: --seal FILE",
        )
    return path


def write(path: Path, plan: Json, keys: dict[str, str]) -> None:
    """Raises LabError where the file cannot be written."""
    try:
        path.write_text(json.dumps(document(plan, keys), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LabError(
            "not-writable",
            f"{shown(path)} cannot be written",
            str(error.strerror or error),
            "name a file you may write: --seal FILE",
        ) from error


def read(text: str) -> Json:
    """Raises UsageError for what is no such file."""
    try:
        loaded = json.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            "bad-commitment", f"{text} cannot be read", str(error), "name a file that --seal has written"
        ) from error
    if not isinstance(loaded, dict) or loaded.get("schema_version") != SCHEMA:
        raise UsageError(
            "bad-commitment",
            f"{text} holds no {SCHEMA}",
            "it is another kind of file",
            "name a file that --seal has written",
        )
    return loaded
