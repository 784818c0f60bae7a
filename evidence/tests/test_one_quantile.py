"""One word, one meaning: every distribution's quantile is the same, and no second one is written down."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from bundle_kit import make_ready

from pqbase.stats import quantile7
from pqevidence.analysis import stats
from pqevidence.record import stats as record_stats

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("base", "tunnel", "sitl", "telemetry", "link", "attacker", "detectors", "evidence", "conduct",
           "bench")  # fmt: skip
#: a definition of its own, or a rank picked out of sorted values by a share of their number
SECOND = re.compile(
    r"def _?(quantile|percentile|nearest_rank)(_s)?\("
    r"|\[[^\]\n]*int\([^\]\n]*len\([^\]\n]*\*|\[[^\]\n]*ceil\([^\]\n]*\* *len"
)
#: the definition; numpy under a local name, for finite values; a count of detections, misses infinite
KNOWN = {
    "base/src/pqbase/stats.py",
    "detectors/src/pqdetect/compare.py",
    "detectors/src/pqdetect/evaluation/metrics.py",
}


def test_nobody_writes_a_second_quantile() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for name in SOURCES
        for path in (ROOT / name).rglob("*.py")
        if "tests" not in path.parts and SECOND.search(path.read_text(encoding="utf-8"))
    }
    assert found <= KNOWN


def test_what_counts_as_a_second_quantile() -> None:
    for line in (
        "def quantile(values, share):",
        "late[int(len(late) * 0.99)]",
        "ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]",
    ):
        assert SECOND.search(line), line
    assert not SECOND.search("def student_t_quantile(p, df):")


@pytest.mark.parametrize("n", [3, 20, 101])
def test_every_distribution_means_the_same(n: int) -> None:
    values = [((i * 7919) % 613) / 10 for i in range(n)]
    assert stats.median(values) == record_stats.median(values) == quantile7(values, 0.5)


@pytest.mark.parametrize("handshakes", [19, 24])
def test_record_and_table_print_one_tail(tmp_path: Path, handshakes: int) -> None:
    work = make_ready(tmp_path, handshakes=handshakes, session_s=0.5, bulk=False)
    tables = {
        name: list(csv.DictReader((work / "data" / "analysis" / f"{name}.csv").open(encoding="utf-8")))
        for name in ("handshakes", "traffic")
    }
    compared = 0
    for row in tables["handshakes"]:
        field = field_of(work, row["cell_id"], "D", "handshake_p95_ms")
        same(field, row["drone_wall_p95_ms"])
        assert (field["value"] is None) == (handshakes < 20)
        assert field["value"] is not None or field["reason"] == f"n too small: {handshakes} of 20"
        compared += 1
    for row in tables["traffic"]:
        if row["window"] == "traffic" and row["direction"] == "down":
            for share in ("p50", "p95", "p99"):
                field = field_of(work, row["cell_id"], "H", f"one_way_latency_{share}_ms")
                same(field, row[f"latency_{share}_ms"])
                compared += field["value"] is not None
    assert compared > len(tables["handshakes"])


def field_of(work: Path, cell: str, letter: str, name: str) -> dict[str, object]:
    record = json.loads((work / "data" / "cells" / cell / "record.json").read_text(encoding="utf-8"))
    found: dict[str, object] = record["categories"][letter][name]
    return found


def same(field: dict[str, object], printed: str) -> None:
    """A record rounds to six digits after the point, a table to nine in all."""
    assert (field["value"] is None) == (printed == ""), (field, printed)
    if printed:
        assert field["value"] == pytest.approx(float(printed), abs=1e-6)
