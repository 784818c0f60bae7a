"""Committed corpora: one text file a target, one input a line, `name base64`, sorted by name.

Names say where an input came from: `cov-…` kept because it reached code that no other input had reached,
`finding-…` an input that once broke something. The seeds (`seed-…`) are in the code of the targets.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MAX_INPUT_BYTES = 4096
MAX_PACK_BYTES = 200_000


def pack_path(target: str) -> Path:
    """The file that holds this target's inputs."""
    return FOLDER / f"{target}.txt"


def load(target: str) -> dict[str, bytes]:
    """Name → input; empty when the target has no corpus yet."""
    path = pack_path(target)
    if not path.is_file():
        return {}
    rows = (line.split(" ") for line in path.read_text(encoding="ascii").splitlines())
    return {name: base64.b64decode(text) for name, text in rows}


def save(target: str, inputs: dict[str, bytes]) -> None:
    """Write the pack; the same inputs give the same bytes."""
    FOLDER.mkdir(exist_ok=True)
    lines = [f"{name} {base64.b64encode(inputs[name]).decode()}\n" for name in sorted(inputs)]
    pack_path(target).write_text("".join(lines), encoding="ascii")


def name_of(data: bytes, kind: str = "cov") -> str:
    """The name of an input nobody named."""
    return f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
