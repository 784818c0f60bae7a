"""Bundles made to hurt the reader: whatever lies there, verify answers 5 with a line, and opens no trap."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_bundles.forge import edit, edit_field, finish

from pqevidence.bundle import BagError
from pqevidence.bundle.survey import MAX_FILE_BYTES, require_safe, unsafe
from pqevidence.errors import EXIT_CHECK
from pqevidence.kernel import view
from pqevidence.kernel.schema import schema_errors
from pqevidence.verify import exit_code, verify_bundle
from pqlab.cli.main import main
from tools import ended

DEEP = 100_000


def a_cell(root: Path) -> Path:
    return sorted((root / "data" / "cells").iterdir())[0]


def pipe_for_a_host(root: Path) -> str:
    os.mkfifo(root / "data" / "hosts" / "third.json")
    return "data/hosts/third.json"


def pipe_for_the_plan(root: Path) -> str:
    (root / "data" / "plan.json").unlink()
    os.mkfifo(root / "data" / "plan.json")
    return "data/plan.json"


def device_for_a_host(root: Path) -> str:
    (root / "data" / "hosts" / "third.json").symlink_to("/dev/zero")
    return "data/hosts/third.json"


def payload_elsewhere(root: Path) -> str:
    (root / "data").rename(root.parent / "elsewhere")
    (root / "data").symlink_to(root.parent / "elsewhere")
    return "data"


def manifest_elsewhere(root: Path) -> str:
    name = "manifest-sha512.txt"
    (root / name).rename(root.parent / name)
    (root / name).symlink_to(root.parent / name)
    return name


def file_of_six_gigabytes(root: Path) -> str:
    with (a_cell(root) / "counters.json").open("r+b") as handle:
        handle.truncate(6 << 30)  # sparse: it takes no space
    return f"{a_cell(root).relative_to(root)}/counters.json"


@pytest.mark.parametrize(
    "trap",
    [
        pipe_for_a_host,
        pipe_for_the_plan,
        device_for_a_host,
        payload_elsewhere,
        manifest_elsewhere,
        file_of_six_gigabytes,
    ],
)
def test_traps_are_named_and_not_opened(
    copied: Path, trap: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = trap(copied)
    results = verify_bundle(copied)
    assert [(result.name, result.status) for result in results] == [("bagit_structure", "fail")]
    assert results[0].observed.startswith(name)
    assert main(["report", str(copied), "--out", str(copied.parent / "out")]) == EXIT_CHECK
    assert name in capsys.readouterr().err
    assert not (copied.parent / "out").exists()


def test_a_plain_bundle_is_safe_also_through_latest(sealed: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(sealed)
    assert unsafe(sealed) == [] == unsafe(tmp_path / "latest")
    with (tmp_path / "big").open("wb") as handle:
        handle.truncate(MAX_FILE_BYTES)
    (tmp_path / "latest").unlink()
    require_safe(tmp_path)
    with (tmp_path / "big").open("ab") as handle:
        handle.write(b"x")
    with pytest.raises(BagError, match="big has"):
        require_safe(tmp_path)


def deep_plan(root: Path) -> None:
    (root / "data" / "plan.json").write_text("[" * DEEP)


def deep_record(root: Path) -> None:
    (a_cell(root) / "record.json").write_text('{"a":' * DEEP)


def deep_spans(root: Path) -> None:
    (a_cell(root) / "spans.ndjson").write_text("[" * DEEP + "\n")


def deep_scenario(root: Path) -> None:
    (root / "data" / "scenario.effective.yml").write_text("[" * DEEP)


def endless_run(root: Path) -> None:
    edit(root / "data" / "run.json", lambda run: run.update(started_ns=float("inf")))


def endless_position(root: Path) -> None:
    edit(root / "data" / "plan.json", lambda plan: plan["cells"][0].update(position=float("inf")))


def endless_span(root: Path) -> None:
    path = a_cell(root) / "spans.ndjson"
    first, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(first), "end_ns": float("inf")}) + "\n" + rest)


def spans_in_another_encoding(root: Path) -> None:
    (a_cell(root) / "spans.ndjson").write_bytes(b"\xff\xfe\n")


@pytest.mark.parametrize(
    "spoil",
    [
        deep_plan,
        deep_record,
        deep_spans,
        deep_scenario,
        endless_run,
        endless_position,
        endless_span,
        spans_in_another_encoding,
    ],
)
def test_values_beyond_reason_fail_and_do_not_raise(copied: Path, spoil: Callable[[Path], None]) -> None:
    spoil(copied)
    results = verify_bundle(copied)
    assert exit_code(results) == EXIT_CHECK
    beyond_fixity = {r.name for r in results if r.status == "fail"} - {"manifest_fixity", "ro_crate"}
    assert beyond_fixity, "only the digest told"


@pytest.mark.parametrize("reader", ["load_run", "load_cell"])
def test_what_cannot_be_read_is_read_once(copied: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file made to be slow to refuse must not be slow once a check."""
    (deep_scenario if reader == "load_run" else deep_spans)(copied)
    asked: list[Path] = []
    real = getattr(view, reader)

    def counting(path: Path) -> object:
        asked.append(path)
        return real(path)

    monkeypatch.setattr(view, reader, counting)
    assert exit_code(verify_bundle(copied)) == EXIT_CHECK
    assert asked and len(set(asked)) == len(asked)


@pytest.mark.parametrize("name", ["data/../../../etc/passwd", "/etc/passwd", "elsewhere/x"])
def test_manifest_names_outside_the_bundle(copied: Path, name: str) -> None:
    with (copied / "manifest-sha512.txt").open("a") as handle:
        handle.write(f"{'0' * 128}  {name}\n")
    results = {result.name: result for result in verify_bundle(copied)}
    assert results["bagit_structure"].status == "fail" and name in results["bagit_structure"].observed


def test_a_manifest_line_twice(copied: Path) -> None:
    path = copied / "manifest-sha512.txt"
    path.write_text(path.read_text() + "0" * 128 + path.read_text().splitlines()[0][128:] + "\n")
    results = {result.name: result for result in verify_bundle(copied)}
    assert results["bagit_structure"].status == "fail" and "repeats" in results["bagit_structure"].observed


#: what a verify of the small bundle may take: it needs a tenth of either
CPU_S, MEMORY_BYTES = 60, 2 << 30


def bounded(root: Path) -> dict[str, dict[str, str]]:
    """Verify in a process of its own that is stopped beyond its share of time and memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    done = ended(
        [sys.executable, "-m", "pqlab", "verify", str(root), "--json"],
        4 * CPU_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=limit,
    )
    assert done.returncode == EXIT_CHECK, done.stderr[-500:]
    return {row["name"]: row for row in json.loads(done.stdout)["checks"]}


def another_scenario(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Scenario and its hash in the plan; sealed again, so that nothing else is found."""
    path = root / "data" / "scenario.effective.yml"
    edit(path, change)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    edit(root / "data" / "plan.json", lambda plan: plan.update(scenario_sha256=digest))
    finish(root)


@pytest.mark.parametrize("repetitions", [10**15, "10000000000", 1e300])
def test_more_repetitions_than_there_is_time_for(copied: Path, repetitions: object) -> None:
    another_scenario(copied, lambda scenario: scenario.update(repetitions=repetitions))
    results = bounded(copied)
    assert results["scenario_schema"]["status"] == "fail"
    for name in ("cells_accounted", "record_schema", "record_rebuild", "report_rebuild"):
        assert results[name]["observed"].startswith("not looked at: the scenario is not valid"), name
    assert results["manifest_fixity"]["status"] == results["no_secrets"]["status"] == "ok"


def test_a_plan_of_no_numbers_holds_the_others_back(copied: Path) -> None:
    edit(copied / "data" / "plan.json", lambda plan: plan["cells"][0].update(position="first"))
    finish(copied)
    results = bounded(copied)
    assert results["plan_schema"]["status"] == "fail"
    assert results["wall_clock"]["observed"] == "not looked at: the plan is not valid"


def test_a_valid_scenario_of_more_cells_than_there_is_time_for(copied: Path) -> None:
    conditions = [{"name": f"c{number}"} for number in range(1000)]
    suites = [f"cs-{number}" for number in range(1000)]
    another_scenario(copied, lambda s: s.update(repetitions=1000, conditions=conditions, suites=suites))
    results = bounded(copied)
    assert results["scenario_schema"]["status"] == "ok"
    assert "asks for 1000000000 cells" in results["cells_accounted"]["observed"]


def test_a_billion_laughs_are_not_read(copied: Path) -> None:
    path = copied / "data" / "scenario.effective.yml"
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path.write_text("\n".join(lines) + "\n")
    finish(copied)
    results = bounded(copied)
    assert "an alias near line" in results["scenario_schema"]["observed"]
    assert results["cells_accounted"]["status"] == results["cell_ids"]["status"] == "fail"


def test_a_scenario_longer_than_any_is_not_read(copied: Path) -> None:
    with (copied / "data" / "scenario.effective.yml").open("a") as handle:
        handle.write("# more\n" * 200_000)
    assert "longer than" in bounded(copied)["scenario_schema"]["observed"]


def test_a_long_list_is_compared_in_one_go() -> None:
    """Item against item it would take hours."""
    rule = {"uniqueItems": True}
    items: list[Any] = [*range(100_000), *({"name": str(number)} for number in range(100_000))]
    assert schema_errors(items, rule) == []
    for again in (7.0, {"name": "9"}):
        assert schema_errors([*items, again], rule) == ["top: holds the same item twice"]
    assert schema_errors([1, True, "1", [1], [True], {"a": 1}, {"a": True}, None], rule) == []


def test_no_table_is_made_of_a_gate_of_ages(copied: Path) -> None:
    def change(traffic: dict[str, Any]) -> None:
        traffic["windows"]["traffic"]["gcs"]["close_ns"] += 10**18

    edit(a_cell(copied) / "traffic.json", change)
    finish(copied)
    assert "not made again: " in (told := bounded(copied)["report_rebuild"]["observed"])
    assert "traffic: the gate of gcs was open for 10000000" in told


@pytest.mark.parametrize("name", ["detector_alarm_count", "detector_false_alarm_count"])
def test_no_table_is_made_of_alarms_that_no_line_tells(copied: Path, name: str) -> None:
    edit_field(a_cell(copied), "S", name, value=10**15, validity="ok", reason=None, n=1)
    finish(copied)
    told = bounded(copied)["report_rebuild"]["observed"]
    assert f"{name} 1000000000000000, the detector has 0 lines" in told


def test_the_forged_bundle_is_otherwise_whole(copied: Path) -> None:
    """What the tests above rest on: the copy itself passes."""
    finish(copied)
    assert exit_code(verify_bundle(copied)) == 0
