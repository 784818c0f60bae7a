"""What lies above the raw files, made again: records, tables and pages by the lab's builder, the bag by
hand."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from pqevidence.bundle.crate import write_crate
from pqevidence.bundle.format import write_format
from pqevidence.pages import render
from pqevidence.records import build_record, load_context
from pqevidence.tables import analyse


def rebuild(root: Path) -> None:
    """Everything above raw. What the builder cannot make of a forgery is left as it was: a forger would."""
    data = root / "data"
    context = load_context(data)
    for row in context.plan["cells"]:
        folder = data / "cells" / row["cell_id"]
        record = build_record(folder, row, context)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (folder / "record.json").write_text(text, encoding="utf-8")
    shutil.rmtree(data / "analysis", ignore_errors=True)
    analyse(root)
    render(root)


def _write_format(data: Path) -> None:
    """As the version that run.json names wrote it."""
    from adversary.forgeries.relabel import shape

    made_by = json.loads((data / "run.json").read_text(encoding="utf-8")).get("pqlab_version")
    if made_by == "0.1.0":
        return
    write_format(data)
    if made_by == "0.2.0":
        for name, content in shape(made_by).format.items():
            (data / "format" / name).write_bytes(content)


def seal(root: Path) -> None:
    """Words on the format and metadata by the builder, manifests by hand."""
    describe(root)
    bag(root)


def describe(root: Path) -> None:
    """Words on the format and metadata, by the builder."""
    (root / "data" / "ro-crate-metadata.json").unlink(missing_ok=True)
    _write_format(root / "data")
    write_crate(root / "data")


def bag(root: Path) -> None:
    """Tag files in six lines."""
    (root / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    payload = sorted(p.relative_to(root).as_posix() for p in (root / "data").rglob("*") if p.is_file())
    for manifest, names in (
        ("manifest-sha512.txt", payload),
        ("tagmanifest-sha512.txt", ["bagit.txt", "manifest-sha512.txt"]),
    ):
        lines = [f"{hashlib.sha512((root / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        (root / manifest).write_text("".join(lines), encoding="utf-8")
