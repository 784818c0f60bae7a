"""The shipped example is a bundle of this version: whoever checks it first must not meet a failed check."""

from __future__ import annotations

from pathlib import Path

from pqevidence.audit.own import audit
from pqevidence.bundle.unpack import unpack
from pqevidence.verify import verify_bundle

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "example"


def test_the_shipped_example_verifies_and_its_findings_follow(tmp_path: Path) -> None:
    (archive,) = sorted(FOLDER.glob("*.tar.zst"))
    with archive.open("rb") as content:
        root = unpack(content, tmp_path).bundle
    told = [result for result in verify_bundle(root) if result.status != "ok"]
    assert told == [], f"make it again (docs/example/make): {told}"
    found = audit(root)
    assert found.printed and not found.unfounded and not found.unsaid
