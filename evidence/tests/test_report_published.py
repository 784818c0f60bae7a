"""What is said of the published tables is what the tables hold."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference"


def test_published_tables_have_provenance() -> None:
    folder = REFERENCE
    with (folder / "provenance.csv").open(encoding="utf-8", newline="") as handle:
        about = {row["file"]: row for row in csv.DictReader(handle)}
    tables = {path.name for path in folder.glob("*.csv")} - {"provenance.csv", "coverage.csv"}
    assert set(about) == tables
    assert all(row["source"] and row["known_wrong"] and row["n"] for row in about.values())


def test_figures_in_the_words_on_published_tables_are_those_of_the_tables() -> None:
    def rows(name: str) -> list[dict[str, str]]:
        with (REFERENCE / name).open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle))

    wrong = {row["file"]: row["known_wrong"] for row in rows("provenance.csv")}
    told = wrong["published-72-suites.csv"]
    suites_run = rows("published-72-suites.csv")

    def aead_us(column: str, aead: str = "") -> list[float]:
        picked = [row for row in suites_run if row[column] and row["aead"].startswith(aead)]
        return [float(row[column]) / 1e3 for row in picked]

    for way, word in (("enc", "encrypt"), ("dec", "decrypt")):
        assert f"{max(aead_us(f'base_aead_{way}_avg_ns')):.1f} µs to {word}" in told
    for name, word in (("xgb", "XGBoost"), ("tst", "TST")):
        most = max(max(aead_us(f"{name}_aead_{way}_avg_ns")) for way in ("enc", "dec"))
        assert f"{most:.1f} µs with {word}" in told
    middle = statistics.median(aead_us("base_aead_enc_avg_ns", "AES"))
    assert f"the {middle:.1f} µs of the report" in told and f"is {middle * 0.320:.0f} ms of CPU" in told

    by_aead: dict[tuple[str, str], list[float]] = {}
    for row in rows("primitives-2026-01-suites.csv"):
        _, kem, _, sig = row["suite_id"].split("-")
        by_aead.setdefault((kem, sig), []).append(float(row["median_ms"]))
    apart = max(by_aead.values(), key=lambda medians: max(medians) / min(medians))
    told = wrong["primitives-2026-01-suites.csv"]
    assert f"by up to {100 * (max(apart) / min(apart) - 1):.0f} %" in told
    assert f"{min(apart):,.0f} to {max(apart):,.0f} ms" in told

    singles = rows("primitives-2026-01.csv")
    medians = {(row["algorithm"], row["operation"]): float(row["median_ms"]) for row in singles}
    ratios = [
        float(row["time_ms"]) / medians[row["algorithm"], row["operation"]]
        for row in rows("power-2026-01.csv")
        if medians.get((row["algorithm"], row["operation"]), 9.0) < 1.0
    ]
    assert f"is {min(ratios):.1f} to {max(ratios):.1f} times" in wrong["power-2026-01.csv"]
