"""Verify over good bundles, unfinished runs and rubbish; its lines, exit codes and checklist."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fixtures_make
import jsonschema
import pytest
from bad_bundles.forge import edit, finish, rebag
from bundle_kit import finish_work, make_ready, make_sealed
from fixture_cell import log_of
from hypothesis import given
from hypothesis import strategies as st

from pqevidence import bundle
from pqevidence.bundle.crate import write_crate
from pqevidence.errors import EXIT_CHECK, EXIT_OK, EXIT_WARNING
from pqevidence.record import record_schema
from pqevidence.verify import CHECKS, CheckResult, checklist, exit_code, format_lines, verify_bundle
from pqevidence.verify.checks_record import field_problem
from pqevidence.verify.checks_text import FORBIDDEN, find_forbidden, possible


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("verify"), repetitions=2)


def test_a_good_bundle_passes_every_check(sealed: Path) -> None:
    results = verify_bundle(sealed)
    assert [result.name for result in results] == [check.name for check in CHECKS]
    assert [result for result in results if result.status != "ok"] == []
    assert exit_code(results) == EXIT_OK
    lines = format_lines(results)
    assert all(line.startswith("[x] ") and "; expected " in line for line in lines[:-1])
    assert lines[-1] == f"{len(CHECKS)} checks: {len(CHECKS)} ok, 0 warnings, 0 failed"


def test_through_the_latest_link(sealed: Path) -> None:
    assert exit_code(verify_bundle(sealed.parent / "latest")) == EXIT_OK


def test_verify_changes_nothing(sealed: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        return [(str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(sealed.rglob("*"))]

    before = state()
    verify_bundle(sealed)
    assert state() == before


def test_an_emulated_drone_is_of_the_labs_machine_wherever_files_lie(sealed: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sealed, tmp_path / sealed.name)

    def told(cpu_model: str) -> dict[str, str]:
        other = {"boot_id": "99999999-1111-4222-8333-444444444444", "cpu_model": cpu_model}
        edit(root / "data/hosts/drone.json", lambda facts: facts["host"].update(other))
        return {result.name: result.status for result in verify_bundle(root)}

    elsewhere = "/opt/pqlab/tunnel-aa/opt/liboqs/lib/liboqs.so"
    edit(root / "data/providers.json", lambda both: both["drone"]["liboqs"].update(path=elsewhere))
    emulated = told("QEMU TCG CPU version 2.5+")
    assert (emulated["providers_equal"], emulated["host_identity"]) == ("ok", "ok")
    assert told("Cortex-A76")["host_identity"] == "fail"


def test_windows_may_leave_a_fact_out_with_its_reason_and_linux_may_not(sealed: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sealed, tmp_path / sealed.name)

    def told(**facts: Any) -> str:
        edit(root / "data/hosts/gcs.json", lambda gcs: gcs["host"].update(facts))
        return {result.name: result.status for result in verify_bundle(root)}["host_identity"]

    why = {"cpu_model": "the registry has no ProcessorNameString"}
    assert told(cpu_model=None) == "fail"
    assert told(os="windows") == "fail"
    assert told(reasons=why) == "ok"
    assert told(os="linux") == "fail"
    assert told(os="windows", reasons={"cpu_model": ""}) == "fail"
    # a kernel that nobody knows is not the one that ring lab has, whatever the reason
    assert told(reasons={**why, "boot_id": "no MachineGuid"}, boot_id=None) == "fail"


def test_python_counts_by_its_minor_version(sealed: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sealed, tmp_path / sealed.name)

    def told(python: str) -> str:
        edit(root / "data/providers.json", lambda both: both["gcs"].update(python=python))
        return {result.name: result.status for result in verify_bundle(root)}["providers_equal"]

    ours = str(json.loads((root / "data/providers.json").read_text(encoding="utf-8"))["drone"]["python"])
    minor = ".".join(ours.split(".")[:2])
    assert told(f"{minor}.99") == "ok"
    assert told("2.7.18") == "fail"


def test_ring_hardware_on_a_played_machine_fails(sealed: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sealed, tmp_path / sealed.name)
    for path in sorted((root / "data/cells").glob("*/record.json")):
        edit(path, lambda record: record.update(ring="hardware"))
    for role in ("drone", "gcs"):
        edit(root / f"data/hosts/{role}.json", lambda facts: facts.update(ring="hardware"))
    edit(root / "data/hosts/drone.json", lambda facts: facts["host"].update(board_revision="c03115"))

    def told() -> str:
        (result,) = [result for result in verify_bundle(root) if result.name == "ring_claims"]
        return f"{result.observed} {result.detail}"

    assert "wine 10.0" not in told()
    edit(root / "data/hosts/gcs.json", lambda facts: facts["host"].update(wine="10.0"))
    assert "the gcs is wine 10.0" in told()


def test_an_unsealed_run_warns(tmp_path: Path) -> None:
    results = verify_bundle(make_ready(tmp_path))
    assert results[0].name == "sealed" and results[0].status == "warn"
    assert exit_code(results) == EXIT_WARNING
    assert format_lines(results)[0].startswith("[ ] sealed: warning: ")


def test_a_half_written_bundle_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """A work folder that somebody moved by hand has no tag files."""
    moved = tmp_path / "results" / fixtures_make.RUN_ID
    moved.parent.mkdir()
    make_ready(tmp_path).rename(moved)
    results = {result.name: result for result in verify_bundle(moved)}
    assert results["bagit_structure"].status == "fail"
    assert results["manifest_fixity"].status == "fail"


@pytest.mark.parametrize(
    "name", ["plan.json", "run.json", "providers.json", "scenario.effective.yml", "hosts"]
)
def test_missing_run_level_files_fail_and_do_not_raise(sealed: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    target = root / "data" / name
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    results = verify_bundle(root)
    assert len(results) == len(CHECKS)
    assert exit_code(results) == EXIT_CHECK
    assert str(tmp_path) not in "\n".join(format_lines(results))


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"null", b'{"categories": []}'])
def test_rubbish_in_a_record_fails_and_does_not_raise(sealed: Path, tmp_path: Path, content: bytes) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    next((root / "data" / "cells").glob("*/record.json")).write_bytes(content)
    finish(root)
    results = {result.name: result for result in verify_bundle(root)}
    assert results["record_schema"].status == "fail"


def test_no_folder_and_no_bundle(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        results = verify_bundle(path)
        assert exit_code(results) == EXIT_CHECK and results[0].name == "bagit_structure"
    assert exit_code([]) == EXIT_CHECK


def test_an_honest_failure_is_a_good_bundle(tmp_path: Path) -> None:
    """A cell that failed, with its files gone, says so; nothing about the bundle is wrong."""
    work = fixtures_make.make_work_dir(tmp_path / ".work" / fixtures_make.RUN_ID)
    folder = sorted((work / "data" / "cells").iterdir())[0]
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    events.insert(
        -1, {"t_ns": events[-1]["t_ns"], "host": "controller", "event": "error", "reason": "drone gone"}
    )
    (folder / "events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "logs" / "controller.log").write_text(log_of(events), encoding="utf-8")
    for name in ("ledger.drone.csv", "ledger.gcs.csv", "counters.json", "spans.ndjson"):
        (folder / name).unlink()
    finish_work(work)
    results = verify_bundle(bundle.seal(work, tmp_path, []))
    assert [f"{r.name}: {r.observed}" for r in results if r.status != "ok"] == []


def test_a_bundle_of_a_version_that_there_is_not_is_held_to_what_this_one_makes(
    sealed: Path, tmp_path: Path
) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="9.9.9"))
    finish(root)
    results = {result.name: result for result in verify_bundle(root)}
    assert results["versions_known"].status == "fail" and "9.9.9" in results["versions_known"].observed
    assert results["record_rebuild"].status == "warn" and results["report_rebuild"].status == "ok"
    page = root / "data" / "report.md"
    page.write_text(page.read_text() + "\nanother build's words\n")
    finish(root)
    results = {result.name: result for result in verify_bundle(root)}
    assert "report.md is not what" in results["report_rebuild"].observed


def test_refusals_that_nobody_counted_are_not_none(sealed: Path, tmp_path: Path) -> None:
    """A window without its refusal counters is damage; it used to read as nothing refused."""
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    counters = next((root / "data" / "cells").glob("*/counters.json"))
    edit(counters, lambda both: both["gcs"]["windows"]["traffic"].pop("auth_failed"))
    finish(root)
    results = {result.name: result for result in verify_bundle(root)}
    assert results["refused_datagrams"].status == "fail"
    assert "auth_failed" in results["refused_datagrams"].observed


def test_an_absent_view_is_a_warning(sealed: Path, tmp_path: Path) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    away = {"available": False, "reason": "connection refused", "cells": []}
    edit(root / "data" / "run.json", lambda run: run.update(influx=away))
    finish(root)
    write_crate(root / "data")
    rebag(root)
    results = verify_bundle(root)
    assert [(r.name, r.observed) for r in results if r.status != "ok"] == [
        ("influx_reconcile", "the view was not reconciled: connection refused")
    ]
    assert exit_code(results) == EXIT_WARNING


def test_checklist_has_the_eight_published_rows(sealed: Path) -> None:
    rows = checklist(sealed)
    assert [row.name for row in rows] == [
        "GCS repository synced",
        "Drone repository synced",
        "Drone benchmark server running",
        "Suite keys present",
        "Handshake measured",
        "Traffic flow verified",
        "Power sampling at 1kHz",
        "Results JSON saved",
    ]
    by_name = {row.name: row for row in rows}
    assert by_name["Power sampling at 1kHz"].status == "not measured"
    assert by_name["Power sampling at 1kHz"].evidence.startswith("not measured: no power sensor")
    assert {row.status for row in rows} == {"ok", "not measured"}
    assert "3/3 suites" in by_name["Suite keys present"].evidence
    assert "48 handshakes in 6 cells" in by_name["Handshake measured"].evidence
    assert "922 packets per iteration, 0 lost, byte-identical" in by_name["Traffic flow verified"].evidence


def test_checklist_of_an_unsealed_run_and_of_a_broken_one(tmp_path: Path) -> None:
    work = make_ready(tmp_path)
    assert [row.status for row in checklist(work)].count("ok") == 7
    edit(work / "data" / "providers.json", lambda both: both["gcs"]["pqtunnel"].update(tree_sha256="ff" * 32))
    rows = {row.name: row for row in checklist(work)}
    assert rows["GCS repository synced"].status == rows["Drone repository synced"].status == "fail"


def test_a_record_without_a_field_is_no_record_of_an_earlier_version(sealed: Path, tmp_path: Path) -> None:
    """Who takes a field out is not helped by the number of an earlier version."""
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    for file in (root / "data" / "cells").glob("*/record.json"):
        edit(file, lambda record: record["categories"]["D"].pop("pooled_handshake_duration_ms"))
    finish(root)
    failed = {r.name for r in verify_bundle(root) if r.status == "fail"}
    assert {"record_schema", "record_medians"} <= failed
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.1.0"))
    (root / "data" / "analysis" / "fingerprints.csv").unlink()
    finish(root)
    results = {r.name: r for r in verify_bundle(root)}
    assert results["record_schema"].status == "fail"  # fields that came later, and none that is gone
    assert results["versions_known"].status == "fail"  # files that came later


FIELD = {"value": 1.5, "unit": "ms", "source": "spans.ndjson", "validity": "ok", "reason": None, "n": 30}
ODD = st.sampled_from([None, "", "x", 0, 1, -1, 2.0, 2.5, True, [], {}, "ok", "null", "invalid", "model"])


@given(
    st.dictionaries(st.sampled_from([*FIELD, "more"]), ODD, max_size=4),
    st.sets(st.sampled_from(list(FIELD)), max_size=1),
)
def test_the_fast_field_check_is_the_schemas(changes: dict[str, Any], dropped: set[str]) -> None:
    field = {key: value for key, value in {**FIELD, **changes}.items() if key not in dropped}
    schema = {**record_schema()["$defs"]["field"]}
    valid = jsonschema.Draft202012Validator(schema).is_valid(field)
    assert (field_problem(field) is None) == valid


#: what patterns are made of, whole ones and their literals, so that some of what is joined holds one
PIECES = st.one_of(
    *(st.from_regex(rule.pattern, fullmatch=True) for rule in FORBIDDEN),
    st.sampled_from(sorted(literal for rule in FORBIDDEN for literal in rule.literals)),
    st.from_regex(rb"[0-9.]{1,9}|[A-Za-z0-9_-]{1,24}|/[a-z]{1,5}/[a-z]|[ \t\n\":\\\\]{1,4}", fullmatch=True),
    st.binary(max_size=6),
)


@given(st.lists(PIECES, max_size=6))
def test_nothing_that_is_forbidden_is_overlooked(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    held = [rule for rule in FORBIDDEN if find_forbidden(content, rule) is not None]
    assert all(rule in possible(content) for rule in held)


def test_what_holds_no_sign_is_not_searched() -> None:
    assert possible(b'0123456789,{"step":"sign","start_ns":1.5,"a":"b.c/d"}') == []


def forbidden(text: str) -> set[str]:
    return {rule.what for rule in FORBIDDEN if find_forbidden(text.encode(), rule) is not None}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x -----BEGIN EC " + "PRIVATE KEY-----", "a private key block"),
        ("Authorization: ghp_" + "a" * 36, "an access token"),
        ('{"psk": "0123456789ab"}', "a named secret"),
        ("peer 10.1" + ".2.3 up", "a private address"),
        ("peer=192.168" + ".0.7:46000", "a private address"),
        ("via 100.64" + ".0.9", "a private address"),
        ("172.31" + ".9.9", "a private address"),
        ("open /home" + "/alice/x", "a machine path"),
        ('"/root' + '/lab"', "a machine path"),
        ("C:" + "\\Users\\bob", "a machine path"),
    ],
)
def test_forbidden_text(text: str, what: str) -> None:
    assert forbidden(text) == {what}


@pytest.mark.parametrize(
    "text",
    [
        "198.18.2.30:46000",
        "172.15.0.1 172.32.0.1 100.63.1.1 100.128.1.1",
        "110.1.2.3 and 1.10.1.2.3",
        "system_pct=10.25,process_pct=100.0 1772366402674092218",
        "version 10.2.1",
        "https://example.org/home/page",
        "-----BEGIN CERTIFICATE-----",
        "monkey-patched eyJust a word",
        "/keys/tls.key.pem /run/pqtunnel",
    ],
)
def test_allowed_text(text: str) -> None:
    assert forbidden(text) == set()


def test_result_lines_name_what_was_seen_and_what_is_due() -> None:
    results = [
        CheckResult("a", "ok", "3 cells", "three"),
        CheckResult("b", "fail", "2 of 3", "all", "c; d"),
        CheckResult("e", "warn", "away", "there"),
    ]
    assert format_lines(results) == [
        "[x] a: 3 cells; expected three",
        "[ ] b: 2 of 3; expected all",
        "      also: c; d",
        "[ ] e: warning: away; expected there",
        "3 checks: 1 ok, 1 warnings, 1 failed",
    ]
    assert exit_code(results) == EXIT_CHECK


def test_the_documentation_lists_every_check_in_order() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "VERIFY.md").read_text(encoding="utf-8")
    listed = [
        line.split("`")[1] for line in text.partition("| check |")[2].splitlines() if line.startswith("| `")
    ]
    assert listed[: len(CHECKS)] == [check.name for check in CHECKS]
    assert all(f"| {check.expected} |" in text for check in CHECKS)
