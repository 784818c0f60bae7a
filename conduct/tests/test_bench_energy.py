"""Energy mode end to end in virtual time: known joules an operation come out within U, or a reason does."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from energy_world import RAIL_V, World, energy_folder

from pqevidence.analysis.table import Row
from pqlab.bench.energy import limits_of, load, read_blocks
from pqlab.bench.samples import read_samples
from pqlab.bench.sections_energy import _levels
from pqlab.bench.tree import BenchTreeError
from pqlab.bench.verdicts import _least_energy
from pqtunnel.bench import energy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World()
    root = tmp_path_factory.mktemp("energy") / "run"
    energy_folder(
        root,
        world,
        [
            world.operation("ML-KEM-512 keygen", 2_000_000, 0.3),
            world.operation("HQC-128 decapsulate", 50_000_000, 0.4),
            world.operation("nothing move", 1_000, 0.0),
        ],
    )
    return root


def test_known_joules_come_out_within_the_stated_uncertainty(folder: Path) -> None:
    results = {one.name: one for one in load(folder).results}
    for name, seconds, extra_a in (("ML-KEM-512 keygen", 0.002, 0.3), ("HQC-128 decapsulate", 0.05, 0.4)):
        one = results[name]
        truth_j = RAIL_V * extra_a * seconds
        got, u = one.once.per_operation_j, one.once.u_per_operation_j
        assert got is not None and u is not None
        assert abs(got - truth_j) <= u <= 0.03 * truth_j, name
        assert one.additivity is not None and one.additivity[0]
        assert one.blocks == 10 and one.time_ms == pytest.approx(seconds * 1e3)
        assert one.voltage_v == pytest.approx(RAIL_V, rel=0.01)
        assert one.current_a == pytest.approx(0.6 + extra_a, rel=0.01)


def test_least_energy_counts_the_blocks_that_gave_it(folder: Path) -> None:
    """Ten blocks were made, five of N operations and five of 2 N for additivity."""
    less, more = (one for one in load(folder).results if one.name != "nothing move")
    both = [replace(one, operation="keygen") for one in sorted((less, more), key=lambda one: one.time_ms)]
    (verdict,) = _least_energy("any", both, {"keygen"})
    assert (verdict.n, both[0].blocks) == (5, 10)


def test_the_median_of_a_level_with_an_even_number_of_values_lies_between() -> None:
    rows: list[Row] = [
        {"algorithm": name, "operation": "keygen", "energy_j": joules}
        for name, joules in (("ML-KEM-512", 1.0), ("HQC-128", 3.0))
    ]
    drawn = _levels(rows, "synthetic")
    assert drawn is not None and re.findall(r"class=\"value\"[^>]*>([^<]*)<", drawn.svg) == ["2.00"]


def test_the_quantum_of_power_has_both_of_the_chips_steps(folder: Path) -> None:
    limits = limits_of(read_samples(folder / "power.bin"))
    # at the middle reading, 5.1 V and about 0.6 A (idle is the most of it): 10 µV / 0.1 Ω × 5.1 V = 0.51 mW
    # and 4 mV × 0.6 A = 2.4 mW; √(0.51² + 2.4²) = 2.4536 mW
    assert limits.quantum_w == pytest.approx(2.4536e-3, rel=0.01)


def test_an_operation_of_a_microsecond_is_not_resolvable(folder: Path) -> None:
    one = {result.name: result for result in load(folder).results}["nothing move"]
    assert one.time_ms == pytest.approx(1e-3)
    assert one.once.per_operation_j is None and one.once.u_per_operation_j is None
    assert one.once.resolvable is False and "not resolvable" in (one.reason or "")
    assert "not resolvable" in one.alone


def test_what_a_model_gives_is_synthetic(folder: Path) -> None:
    run = load(folder)
    assert run.synthetic and run.ring == "synthetic" and run.lost_reason is None


def test_a_sensor_that_dies_leaves_reasons_and_no_zero(tmp_path: Path) -> None:
    world = World()
    root = tmp_path / "run"
    energy_folder(root, world, [world.operation("ML-KEM-512 keygen", 5_000_000, 0.3)], dies_at=0.2)
    run = load(root)
    assert run.lost_reason is not None and "Remote I/O error" in run.lost_reason
    (one,) = run.results
    numbers = (one.once.net_j, one.once.gross_j, one.once.per_operation_j, one.twice.net_j)
    assert numbers == (None, None, None, None)
    assert one.additivity is None and "blocks have an energy" in (one.reason or "")


SEGMENT_BYTES = 24 * 8


def in_segments(root: Path, per_segment: int, dies_at: float | None = None) -> Path:
    """One operation of 5 ms, about 31 s: so many samples a segment, eight segments at most."""
    world = World()
    work = [world.operation("ML-KEM-512 keygen", 5_000_000, 0.3)]
    energy_folder(root, world, work, dies_at=dies_at, max_bytes=per_segment * SEGMENT_BYTES)
    return root


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_segments(tmp_path_factory.mktemp("segments") / "whole", 10**6)


def test_a_run_longer_than_one_segment_has_all_its_energies(whole: Path, tmp_path: Path) -> None:
    parts = in_segments(tmp_path / "parts", 4500)
    assert not (whole / "power.bin.1").exists() and (parts / "power.bin.6").exists()
    one, other = load(whole), load(parts)
    assert other.results == one.results and one.results[0].once.per_operation_j is not None
    assert other.samples == one.samples and other.lost_reason is None is one.lost_reason


def test_a_run_that_outgrew_its_files_says_which_energies_are_gone(tmp_path: Path) -> None:
    root = in_segments(tmp_path / "run", 1500)
    run = load(root)
    (one,) = run.results
    told = run.lost_reason
    assert told is not None and "its oldest samples were dropped: those of the first" in told
    assert one.once.net_j is None and one.once.per_operation_j is None
    assert one.reason is not None and "files were full and its oldest samples were dropped" in one.reason


def test_what_another_sampler_left_in_the_folder_is_no_part_of_the_run(whole: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(whole, root)
    before = load(root)
    head, body = (root / "power.bin").read_bytes().split(b"\n", 1)
    (root / "power.bin.1").write_bytes(head + b"\n" + body[240:480])  # of a boot that was up for longer
    assert load(root).samples == before.samples and load(root).results == before.results
    (root / "power.bin.1").write_bytes(head.replace(b"9bit", b"11bit") + b"\n" + body[:240])
    (root / "power.bin").write_bytes(head + b"\n" + body[240:])
    assert load(root).samples == before.samples - 10


def test_a_gap_that_began_segments_ago_keeps_its_reason(tmp_path: Path) -> None:
    root = in_segments(tmp_path / "run", 10**4, dies_at=0.7)
    newest = root / "power.bin.gaps.ndjson"
    assert "Remote I/O error" in newest.read_text()
    newest.write_text("")
    told = load(root).lost_reason
    assert told is not None and "Remote I/O error" in told


def test_blocks_come_in_random_order_between_idle_spans(folder: Path) -> None:
    header, rows = read_blocks(folder / "blocks.ndjson")
    works = [row for row in rows if row["kind"] == "work"]
    assert len(works) == 3 * 2 * 5 and len(rows) == 2 * len(works) + 1
    assert [row["kind"] for row in rows] == ["idle", "work"] * len(works) + ["idle"]
    assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(rows))
    orders = [[(w["name"], w["multiple"]) for w in works if w["repetition"] == r] for r in range(5)]
    assert all(sorted(one) == sorted(orders[0]) for one in orders)
    assert len({tuple(one) for one in orders}) > 1, "each repetition has its own order"
    counts = {(w["name"], w["multiple"]): w["operations"] for w in works}
    assert all(counts[name, 2] == 2 * n for (name, multiple), n in counts.items() if multiple == 1)
    assert all(w["end_ns"] - w["start_ns"] >= 1e9 for w in works)
    assert header["sensor_class"] == "model"


def test_the_order_follows_from_the_seed() -> None:
    world = World()
    benchmarks = [world.operation(f"A{k} keygen", 1_000_000, 0.1) for k in range(6)]

    def names(seed: int) -> list[tuple[str, int]]:
        turns = energy.order(benchmarks, energy.Plan(seed=seed))
        return [(turn.benchmark.name, turn.multiple) for turn in turns]

    assert names(3) == names(3) != names(4)


def test_a_cut_off_block_file_is_read_to_its_last_whole_row(folder: Path, tmp_path: Path) -> None:
    text = (folder / "blocks.ndjson").read_text()
    path = tmp_path / "blocks.ndjson"
    path.write_text(text[:-10])
    assert len(read_blocks(path)[1]) == len(read_blocks(folder / "blocks.ndjson")[1]) - 1
    lines = text.splitlines()
    path.write_text("\n".join([lines[0], lines[1][:20], *lines[2:]]) + "\n")
    with pytest.raises(BenchTreeError, match="line 2 is damaged"):
        read_blocks(path)
    path.write_text(json.dumps({"schema": "other"}) + "\n")
    with pytest.raises(BenchTreeError, match="is no"):
        read_blocks(path)


def test_a_performance_folder_has_no_energy(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text('{"mode": "performance"}')
    with pytest.raises(BenchTreeError, match="holds no energy run"):
        load(tmp_path)
