"""What may differ between two simulated runs of one seed, and a bundle with exactly that taken out.

The one list of it: docs/DETERMINISM.md shows these rows and a test compares bundles by them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

#: (where, what, why)
WALL_CLOCK = (
    ("every file that names the run", "run_id", "its six hex digits are drawn anew: runs must not collide"),
    ("data/run.json", "command, sessions[].command", "the command line, with the output folder it names"),
    ("data/ro-crate-metadata.json", "contentSize of run.json", "the length of the command line"),
    ("data/analysis/fingerprints.csv", "sha256, size_bytes of run", "hashes over files that name the run"),
    ("data/report.html, data/report.md", "numbers sha256", "digest over records that name the run"),
    ("manifest-sha512.txt, tagmanifest-sha512.txt", "all", "digests over the files above"),
)  # fmt: skip
_MANIFESTS = ("manifest-sha512.txt", "tagmanifest-sha512.txt")
_NUMBERS = re.compile(rb"(numbers[ -]sha-?256.{1,40}?)[0-9a-f]{64}", re.IGNORECASE)


def comparable(bundle: Path) -> dict[str, bytes]:
    """File name → content without what WALL_CLOCK lists; equal for two runs of one seed."""
    run_id = bundle.name.encode()
    found = {}
    for path in sorted(p for p in bundle.rglob("*") if p.is_file()):
        name = path.relative_to(bundle).as_posix()
        if name in _MANIFESTS:
            continue
        content = path.read_bytes().replace(run_id, b"RUN_ID").replace(run_id.lower(), b"run_id")
        if name == "data/run.json":
            document = json.loads(content)
            for block in (document, *document["sessions"]):
                block["command"] = None
            content = json.dumps(document).encode()
        elif name == "data/ro-crate-metadata.json":
            document = json.loads(content)
            for entity in document["@graph"]:
                if entity["@id"] == "run.json":
                    del entity["contentSize"]
            content = json.dumps(document).encode()
        elif name == "data/analysis/fingerprints.csv":
            rows = [line.split(b",") for line in content.splitlines()]
            content = b"\n".join(b",".join(row[: 3 if row[0] == b"run" else 4]) for row in rows)
        elif name in ("data/report.html", "data/report.md"):
            content, count = _NUMBERS.subn(rb"\1NUMBERS", content)
            if count == 0:
                raise ValueError(f"{name} shows no digest of its numbers")
        found[name] = content
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Names of the files in which two bundles differ beyond WALL_CLOCK."""
    ours, theirs = comparable(one), comparable(other)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
