"""Suite plain, pooled handshakes and signing drones, from raw files to verify; forged ones are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_bundles.forge import cell_of, counted, edit, edit_field, finish, load_lines, save_lines
from bundle_kit import make_sealed

from pqevidence.verify import verify_bundle

SUITE = "cs-mlkem768-aesgcm-mldsa65"
SIGNING = {"name": "signing", "drone_auth": "signature"}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("plain")
    return make_sealed(base, suites=(SUITE, "plain"), pooled=6, handshakes=8)


def record(root: Path, part: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((cell_of(root, part) / "record.json").read_text("utf-8"))
    return loaded


def test_a_plain_cell_passes_without_a_handshake(sealed: Path) -> None:
    assert [result for result in verify_bundle(sealed) if result.status != "ok"] == []
    found = record(sealed, "plain")
    assert (found["verdict"], [w["name"] for w in found["windows"]]) == ("pass", ["traffic", "bulk-600"])
    shakes = found["categories"]["D"]
    assert {f["value"] for f in shakes.values()} == {None}
    assert shakes["handshake_total_duration_ms"]["reason"] == "suite plain makes no handshake"
    assert found["categories"]["E"]["shared_secret_size_bytes"]["value"] is None
    assert found["categories"]["G"]["size_overhead_bytes"]["value"] == 8


def test_plain_and_sealed_goodput_agree_where_the_traffic_does(sealed: Path) -> None:
    plain, tunnel = (record(sealed, part)["categories"]["G"] for part in ("plain", SUITE))
    goodput = tunnel["goodput_down_mbps"]["value"]
    assert plain["goodput_down_mbps"]["value"] == pytest.approx(goodput, rel=0.02)
    wire = tunnel["wire_rate_down_mbps"]["value"] - plain["wire_rate_down_mbps"]["value"]
    assert wire == pytest.approx(16 * 8 * tunnel["achieved_rate_hz"]["value"] / 1e6, rel=0.05)


def test_cold_and_pooled_stand_apart(sealed: Path) -> None:
    found = record(sealed, SUITE)
    shakes = {name: field["value"] for name, field in found["categories"]["D"].items()}
    assert (shakes["handshake_completed_count"], shakes["pooled_handshake_count"]) == (8, 6)
    assert 0 < shakes["pooled_handshake_duration_ms"] < shakes["handshake_total_duration_ms"]
    assert found["categories"]["E"]["kem_keygen_ms"]["n"] == 8  # the pooled ones made no key pair


def test_a_signing_drone_does_not_blur_the_ground_signature(tmp_path: Path) -> None:
    plain = {"name": "baseline", "drone_auth": "psk"}
    root = make_sealed(tmp_path, suites=(SUITE,), conditions=(plain, SIGNING))
    assert [result for result in verify_bundle(root) if result.status != "ok"] == []
    told = {}
    for path in (root / "data" / "cells").glob("*/record.json"):
        cell = json.loads(path.read_text("utf-8"))
        told[cell["condition"]] = {name: f["value"] for name, f in cell["categories"]["E"].items()}
    assert told["baseline"]["drone_sign_ms"] is None
    assert told["signing"]["drone_sign_ms"] > 2 * told["signing"]["sig_sign_ms"] > 0
    assert told["signing"]["drone_sig_verify_ms"] > told["signing"]["sig_verify_ms"]
    assert told["signing"]["sig_sign_ms"] == pytest.approx(told["baseline"]["sig_sign_ms"], rel=0.2)


# ------------------------------------------------------------------ forged ones


def plain_with_a_handshake(root: Path) -> None:
    spans = load_lines(cell_of(root, SUITE) / "spans.ndjson")
    save_lines(cell_of(root, "plain") / "spans.ndjson", spans[:20])


def plain_with_a_tag(root: Path) -> None:
    for _, _, counters in counted(cell_of(root, "plain") / "counters.json"):
        counters["tx_data_bytes"] += 16 * counters["tx_data"]
        counters["rx_ok_bytes"] += 16 * counters["rx_ok"]


def sealed_without_a_tag(root: Path) -> None:
    for _, _, counters in counted(cell_of(root, SUITE) / "counters.json"):
        counters["tx_data_bytes"] -= 16 * counters["tx_data"]
        counters["rx_ok_bytes"] -= 16 * counters["rx_ok"]


def pooled_filed_as_cold(root: Path) -> None:
    path = cell_of(root, SUITE) / "spans.ndjson"
    save_lines(path, [{**row, "mode": "cold"} for row in load_lines(path)])


def pooled_that_made_their_key(root: Path) -> None:
    path = cell_of(root, SUITE) / "spans.ndjson"
    save_lines(path, [{**row, **({"keygen": "cold"} if "keygen" in row else {})} for row in load_lines(path)])


def pooled_in_the_cold_window(root: Path) -> None:
    path = cell_of(root, SUITE) / "events.ndjson"
    rows = [row for row in load_lines(path) if row.get("window") != "handshake_pooled"]
    for row in rows:
        if row.get("window") == "handshake_cold" and row["event"] == "window_end":
            row["t_ns"] += 5_000_000
    save_lines(path, rows)


def pooled_time_told_as_cold(root: Path) -> None:
    cell = cell_of(root, SUITE)
    value = record(root, SUITE)["categories"]["D"]["pooled_handshake_duration_ms"]["value"]
    edit_field(cell, "D", "handshake_total_duration_ms", value=value)


FORGED: list[tuple[Callable[[Path], None], str]] = [
    (plain_with_a_handshake, "handshake_count"),
    (plain_with_a_tag, "seal_overhead"),
    (sealed_without_a_tag, "seal_overhead"),
    (pooled_filed_as_cold, "pooled_apart"),
    (pooled_that_made_their_key, "pooled_apart"),
    (pooled_in_the_cold_window, "span_window"),
    (pooled_time_told_as_cold, "record_medians"),
]


@pytest.mark.parametrize(("spoil", "check"), FORGED)
def test_forged_cells_are_refused(
    sealed: Path, tmp_path: Path, spoil: Callable[[Path], None], check: str
) -> None:
    root = Path(shutil.copytree(sealed, tmp_path / sealed.name))
    spoil(root)
    finish(root)
    assert {r.name: r.status for r in verify_bundle(root)}[check] == "fail"


def test_what_key_pairs_were_is_told_in_one_order(sealed: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sealed, tmp_path / sealed.name))
    path = cell_of(root, SUITE) / "spans.ndjson"
    rows = load_lines(path)
    of_one = next(row["handshake_id"] for row in rows if row["mode"] == "cold" and "keygen" in row)
    mine = [row for row in rows if row["handshake_id"] == of_one and "keygen" in row]
    names = [f"k{number}" for number in range(len(mine))]
    for row, name in zip(mine, names, strict=True):
        row["keygen"] = name
    save_lines(path, rows)
    observed = {r.name: r.observed for r in verify_bundle(root)}["pooled_apart"]
    assert len(names) >= 6 and f"its key pair was {', '.join(sorted(names))}" in observed


def test_a_plain_cell_whose_record_claims_a_failure(sealed: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sealed, tmp_path / sealed.name))
    path = cell_of(root, "plain") / "record.json"
    edit(path, lambda told: told.update(verdict="fail", reason="handshake: no handshake completed"))
    finish(root)
    assert {r.name: r.status for r in verify_bundle(root)}["record_rebuild"] == "fail"
