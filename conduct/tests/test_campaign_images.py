"""Images of services that start on demand are in providers.json all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqlab.campaign import hosts
from pqlab.campaign.store import Store

BEGUN = {"pqlab/sitl:dev": "sha256:" + "1" * 64, "pqlab/tunnel:dev": "sha256:" + "2" * 64}
LINK = {"pqlab/link:dev": "sha256:" + "3" * 64}


def after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: dict[str, str]
) -> tuple[dict[str, str], list[str]]:
    store = Store(tmp_path, "20260301T120000Z-ab12cd")
    store.write("providers.json", {"drone": {}, "gcs": {}, "images": BEGUN, "traffic": {}})
    monkeypatch.setattr(hosts, "image_digests", lambda project: now)
    warnings = hosts.note_late_images(store, "pqlab")
    return dict(store.read("providers.json")["images"]), warnings


def test_the_link_router_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert after(tmp_path, monkeypatch, BEGUN | LINK) == (dict(sorted((BEGUN | LINK).items())), [])


def test_an_image_that_was_replaced_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, warnings = after(tmp_path, monkeypatch, {**BEGUN, "pqlab/sitl:dev": "sha256:" + "9" * 64})
    assert images == BEGUN
    assert warnings == ["image pqlab/sitl:dev was replaced while the run went on"]


def test_no_engine_to_ask_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert after(tmp_path, monkeypatch, {}) == (BEGUN, [])
