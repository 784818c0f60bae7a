"""The documented example: a reader with pandas alone gets from the shipped bundle what its own table says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from pqevidence.bundle import locate
from pqevidence.bundle.bag import payload, read_manifest, sha512_file
from pqlab.cli.main import main
from tools import ended

ROOT = Path(__file__).resolve().parents[2]
DOC = (ROOT / "docs" / "REANALYSE.md").read_text(encoding="utf-8")
#: Debian's Python, which has pandas; the tests' own environment does not
PYTHON = "/usr/bin/python3"
#: what the reader's own table must say beside the bundle's
CLAIM = """
theirs = theirs.loc[ours.index]
assert (ours["median"] - theirs.median_ms).abs().max() < 1e-6
assert (ours["count"] == theirs.n_cells).all() and len(ours) >= 3
"""


def section() -> str:
    return DOC.split("## Read one with pandas", 1)[1].split("\n## ", 1)[0]


def test_ten_lines_of_pandas_give_what_the_bundle_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = re.findall(r"```console\n\./pqlab (.+)\n```", section())
    (code,) = re.findall(r"```python\n(.+?)```", section(), re.S)
    body = [line for line in code.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(body) <= 10
    (archive,) = sorted((ROOT / "docs" / "example").glob("*.tar.zst"))
    assert archive.stat().st_size < 1_000_000
    words = [str(archive) if word.endswith(".tar.zst") else word for word in command.split()]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    done = ended([PYTHON, "-c", code + CLAIM], 200, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    assert "cs-mlkem768-aesgcm-mldsa65" in done.stdout


def test_the_shipped_bundle_is_as_it_was_sealed(tmp_path: Path) -> None:
    (archive,) = sorted((ROOT / "docs" / "example").glob("*.tar.zst"))
    assert main(["unpack", str(archive), "--out", str(tmp_path)]) == 0
    root = locate(archive.name.removesuffix(".tar.zst"), tmp_path)
    promised = read_manifest(root / "manifest-sha512.txt")
    assert set(promised) == set(payload(root))
    assert all(sha512_file(root / name) == digest for name, digest in promised.items())


def test_a_bundle_opens_as_frames_where_pandas_is(tmp_path: Path) -> None:
    """`pqlab.open`, in Debian's Python with this one's libraries behind its own."""
    (archive,) = sorted((ROOT / "docs" / "example").glob("*.tar.zst"))
    assert main(["unpack", str(archive), "--out", str(tmp_path)]) == 0
    root = locate(archive.name.removesuffix(".tar.zst"), tmp_path)
    code = """
import sys, pqlab
opened, plain = pqlab.open(sys.argv[1]), pqlab.open(sys.argv[1], frames=False)
spans = opened.spans
assert type(spans).__name__ == "DataFrame" and len(spans) == len(plain.spans) > 100
assert {"start_ns", "suite_id", "cell_id"} <= set(spans.columns)
assert list(opened.table("by_suite").suite_id) == [row["suite_id"] for row in plain.table("by_suite")]
"""
    late = "import sys; sys.path += sys.argv[2:]\n"
    done = ended([PYTHON, "-c", late + code, str(root), *sys.path], 200, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
