"""`pqtunnel bench`: the published 98 files by name, strict raw files, summaries and checks from raw."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pqtunnel.bench import folder, runner, summary, timing
from pqtunnel.bench.ladder import ladder_benchmarks
from pqtunnel.bench.operations import PUBLISHED_SUITES, Benchmark, all_benchmarks
from pqtunnel.bench.progress import Progress, clock_text
from pqtunnel.bench.rawfiles import BenchError, Iteration, document_of, read, write_whole
from pqtunnel.errors import PrimitiveFailed, ProviderMissing
from pqtunnel.primitives import load

HEAD: dict[str, Any] = {
    "category": "kem", "algorithm": "X", "operation": "keygen", "name": "X_keygen", "published": True,
    "mode": "performance", "host": "h", "build": "b", "timer_overhead_ns": 40, "sizes_bytes": {},
}  # fmt: skip


def rows(times_us: list[int], warmups: int = 1) -> list[Iteration]:
    return [
        Iteration(index, index < warmups, 10_000 * index, 1000 * t, 1000 * t, True)
        for index, t in enumerate(times_us)
    ]


def tree(root: Path, **changes: list[Iteration]) -> set[str]:
    names = set()
    for name in ("a", "b", "c"):
        iterations = changes.get(name, rows([9, 1, 2, 3, 4]))
        write_whole(root / "raw/kem" / f"{name}.json", document_of({**HEAD, "name": name}, iterations))
        names.add(f"kem/{name}.json")
    return names


@pytest.mark.native
def test_the_published_set_is_ninety_eight_files_under_their_published_names() -> None:
    try:
        benchmarks = all_benchmarks(load())
    except ProviderMissing as error:
        pytest.skip(str(error))
    published = {b.path for b in benchmarks if b.published}
    by_category = {c: sum(p.startswith(c + "/") for p in published) for c in ("kem", "sig", "aead", "suites")}
    assert by_category == {"kem": 27, "sig": 24, "aead": 24, "suites": 23} and len(published) == 98
    assert {
        "kem/ML_KEM_512_keygen.json",
        "sig/ML_DSA_44_sign.json",
        "aead/AES_256_GCM_encrypt_64B.json",
        "suites/cs_classicmceliece348864_aesgcm_falcon512_full_handshake.json",
    } <= published
    assert len({b.path for b in benchmarks}) == len(benchmarks) == 27 + 24 + 24 + 72
    assert len(PUBLISHED_SUITES) == 23


@pytest.mark.linux("a run is kept on one core by sched_setaffinity(2)")
def test_the_core_of_a_run_is_given_back_whatever_happens() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(KeyError), runner.pinned(None) as core:
        assert os.sched_getaffinity(0) == {core} == {max(before)}
        raise KeyError
    assert os.sched_getaffinity(0) == before
    with pytest.raises(BenchError, match="core 4095 is not one of this process's"), runner.pinned(4095):
        pass
    assert os.sched_getaffinity(0) == before


@pytest.mark.native
def test_each_kind_of_operation_really_runs(tmp_path: Path) -> None:
    try:
        benchmarks = [
            b
            for b in all_benchmarks(load())
            if b.algorithm in ("ML-KEM-512", "Falcon-512", "Ascon-128a", "cs-mlkem512-aesgcm-mldsa44")
        ]
    except ProviderMissing as error:
        pytest.skip(str(error))
    result = runner.run(tmp_path, benchmarks, 6, None, Progress(io.StringIO()))
    assert result["ok"], [check for check in result["checks"] if not check["passed"]]
    assert len(result["rows"]) == 3 + 3 + 8 + 1
    assert all(row["n"] == 6 and row["min_ms"] > 0 for row in result["rows"])
    before = {path: path.read_bytes() for path in summary.raw_files(tmp_path)}
    (tmp_path / "raw/kem/ML_KEM_512_keygen.json").unlink()
    log = io.StringIO()
    assert runner.run(tmp_path, benchmarks, 6, None, Progress(log))["ok"]
    said = log.getvalue().splitlines()
    assert len(said) == 1 and "ML-KEM-512 keygen" in said[0], "only what was missing is done again"
    after = {path: path.read_bytes() for path in summary.raw_files(tmp_path)}
    assert {p for p in before if before[p] != after[p]} == {tmp_path / "raw/kem/ML_KEM_512_keygen.json"}


@pytest.mark.linux("times under wine say nothing")
def test_the_ladder_does_its_work_inside_the_timer() -> None:
    rungs = {benchmark.name: benchmark for benchmark in ladder_benchmarks()}
    assert len(rungs) == 23

    def best_ns(*names: str) -> list[int]:
        """Least of ten looks at each, in turn: thirty short steps pass within one busy moment."""
        best: dict[str, int] = {}
        for name in names * 10:
            look_ns = min(one.perf_time_ns for one in timing.run(rungs[name], 30))
            best[name] = min(look_ns, best.get(name, look_ns))
        return list(best.values())

    # 512 times the data: a timer that misses the work would read the same, as the published board does
    most, least = best_ns("SHA_256_32768B", "SHA_256_64B")
    assert most > 5 * least
    most, least = best_ns("AES_256_CTR_32768B", "AES_256_CTR_64B")
    assert most > least
    most, least = best_ns("RSA_2048_modexp_e2048bit", "RSA_2048_modexp_e17bit")
    assert most > 20 * least


def test_warm_ups_are_kept_and_marked_and_stamps_are_distinct() -> None:
    benchmark = Benchmark("kem", "n", "A", "o", lambda: lambda: None, False)
    iterations = timing.run(benchmark, 300, warmups=7)
    assert [one.warmup for one in iterations] == [True] * 7 + [False] * 300
    assert len({one.started_ns for one in iterations}) == 307


def test_a_failing_step_is_an_iteration_without_success() -> None:
    def fails() -> object:
        raise PrimitiveFailed("no")

    iterations = timing.run(Benchmark("kem", "n", "A", "o", lambda: fails, False), 3, warmups=0)
    assert [one.success for one in iterations] == [False] * 3
    row = summary.row_of(HEAD, iterations)
    assert (row["n"], row["failed"], row["mean_ms"], row["median_ms"]) == (0, 3, None, None)


def test_a_summary_leaves_warm_ups_out() -> None:
    row = summary.row_of(HEAD, rows([1000, 1, 2, 3, 4]))
    assert (row["n"], row["min_ms"], row["max_ms"]) == (4, 0.001, 0.004)
    assert row["median_ms"] == pytest.approx(0.0025) and row["mean_ms"] == pytest.approx(0.0025)
    assert row["stdev_ms"] == pytest.approx(0.00129099, rel=1e-5)


def failing(root: Path, names: set[str]) -> list[str]:
    return [check.name for check in summary.integrity(root, names, 4) if not check.passed]


def test_a_sound_tree_passes_and_each_damage_fails_its_own_check(tmp_path: Path) -> None:
    names = tree(tmp_path)
    assert failing(tmp_path, names) == []
    good = rows([9, 1, 2, 3, 4])
    damages = {
        "4 iterations each": good[:-1],
        "every iteration succeeded": [*good[:-1], replace(good[-1], success=False)],
        "time stamps distinct and rising": [*good[:-1], replace(good[-1], started_ns=good[-2].started_ns)],
        "both clocks tell the same time": [
            replace(one, wall_time_ns=one.wall_time_ns + 10**6) for one in good
        ],
    }
    for name, damaged in damages.items():
        tree(tmp_path, b=damaged)
        assert failing(tmp_path, names) == [name]
    tree(tmp_path)
    (tmp_path / "raw/kem/c.json").write_text('{"schema": "pqtunnel/bench-raw/v1", "iterations": [')
    assert failing(tmp_path, names) == ["every file is whole JSON"]
    (tmp_path / "raw/kem/c.json").unlink()
    assert failing(tmp_path, names) == ["3 raw files"]
    write_whole(tmp_path / "raw/kem/c.json", document_of({**HEAD, "build": "other"}, good))
    assert failing(tmp_path, names) == ["all files name the same build"]


def test_files_of_another_build_are_not_mixed_in(tmp_path: Path) -> None:
    tree(tmp_path)
    with pytest.raises(BenchError, match="another build"):
        runner._same_build(tmp_path, {"build": "new", "host": "h"})


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text in ("", "[]", '{"schema": "other", "iterations": []}', json.dumps({"iterations": [{}]})):
        file.write_text(text)
        with pytest.raises(BenchError, match=r"x\.json"):
            read(file)


def test_a_file_that_no_summary_can_be_made_of_is_refused(tmp_path: Path) -> None:
    head = {name: value for name, value in HEAD.items() if name != "published"}
    write_whole(tmp_path / "x.json", document_of(head, rows([1, 2])))
    with pytest.raises(BenchError, match=r"x\.json.* lacks published"):
        read(tmp_path / "x.json")


@pytest.mark.linux("looks for the lock with flock")
def test_a_folder_is_one_process_and_one_mode(tmp_path: Path) -> None:
    import fcntl

    with folder.held(tmp_path, "performance"), (tmp_path / ".lock").open("r+") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BenchError, match="another bench"), folder.held(tmp_path, "performance"):
            pass
    write_whole(tmp_path / "environment.json", {"mode": "performance"})
    with folder.held(tmp_path, "performance"):
        pass
    with pytest.raises(BenchError, match="performance mode, not of energy"), folder.held(tmp_path, "energy"):
        pass


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_rewritten_line_and_a_log_plain_lines() -> None:
    now = [0.0]
    for stream, lines, returns in ((Terminal(), 0, 4), (io.StringIO(), 2, 0)):
        now[0] = 0.0
        progress = Progress(stream, lambda: now[0])
        progress.begin(3, 98, "HQC-256 keygen", 65_000)
        for done in range(1, 101):
            now[0] += 0.011
            progress.step(done, 100)
        now[0] += 60.0
        progress.step(100, 100)
        text = stream.getvalue()
        assert text.startswith(("\r[3/98]", "[3/98]")) and "about 1 min 05 s left" in text
        assert text.count("\n") == lines and text.count("\r") == returns, repr(text)
    assert [clock_text(ms) for ms in (4_000, 725_000, 11_220_000)] == ["4 s", "12 min 05 s", "3 h 07 min"]


@pytest.mark.native
@pytest.mark.linux("runs the whole ladder, which takes minutes under wine")
def test_killed_without_a_word_and_started_again_it_does_only_what_is_missing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pqtunnel",
        "bench",
        "--out",
        str(tmp_path),
        "--set",
        "ladder",
        "--count",
        "300",
    ]
    begun = 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "provider_missing" in line:
                pytest.skip(line)
            begun += line.startswith("[")
            if begun == 6:
                break
        first.kill()
    before = {path: path.read_bytes() for path in summary.raw_files(tmp_path)}
    assert 5 <= len(before) < 23
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert again.returncode == 0, again.stderr
    after = {path: path.read_bytes() for path in summary.raw_files(tmp_path)}
    assert len(after) == 23 and all(after[path] == data for path, data in before.items())
    # a benchmark that takes seconds is named more than once
    named = {line.split("]")[0] for line in again.stderr.splitlines() if line.startswith("[")}
    assert len(named) == 23 - len(before)
