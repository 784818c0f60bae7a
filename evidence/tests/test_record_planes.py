"""Which data plane carried a cell's packets: on record, and no result where it was not the one due."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
import report_bundle

from pqevidence.pages import render
from pqevidence.record.planes import EndPlane
from pqevidence.records import build_record, load_context
from pqevidence.verify import verify_bundle

Json = dict[str, Any]


def end(**facts: str | None) -> EndPlane:
    told: Json = {"began": "native", "ran": "native", "asked": "auto", "core": "0.1.0", **facts}
    return EndPlane("drone", **told)


@pytest.mark.parametrize(
    "good",
    [
        end(),
        end(asked="native"),
        end(began="python", ran="python", asked="python"),
        end(began="python", ran="python", asked="python", core=None),
        end(began=None, ran=None, asked=None, core=None),
        end(began="python", ran="python", asked=None),  # an agent that did not tell what it was asked for
    ],
)
def test_the_plane_that_was_due(good: EndPlane) -> None:
    assert good.problem is None


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            end(began="python", ran="python"),
            "drone: native was expected (PQ_DATAPLANE asks for nothing else; pq_core 0.1.0 is installed), "
            "python ran",
        ),
        (
            end(began="python", ran="python", core=None),
            "drone: native was expected (PQ_DATAPLANE asks for nothing else; pq_core is not installed), "
            "python ran",
        ),
        (
            end(began="python", ran="python", asked="native", core=None),
            "drone: native was expected (PQ_DATAPLANE asks for it; pq_core is not installed), python ran",
        ),
        (end(ran="python"), "drone: native when the run began, python in this cell"),
        (end(began="python", asked="python"), "drone: python when the run began, native in this cell"),
        (end(asked="python"), "drone: python was asked for, native ran"),
    ],
)
def test_another_than_was_due(bad: EndPlane, words: str) -> None:
    assert bad.problem == words


def through(work: Path, role: str, plane: str | None, **host: str | None) -> None:
    """Let an end of a synthetic run name another plane, in its host facts and in every cell."""
    edit_json(work / "data" / "hosts" / f"{role}.json", {"dataplane": plane, **host})
    for events in work.glob("data/cells/*/events.ndjson"):
        rows = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            if (row["host"], row["event"]) == (role, "prepare"):
                row["dataplane"] = plane
        events.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def edit_json(path: Path, change: Json) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, **change}), encoding="utf-8")


def record_of(work: Path) -> Json:
    context = load_context(work / "data")
    row = context.plan["cells"][0]
    return build_record(work / "data" / "cells" / row["cell_id"], row, context)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    suites = ("cs-mlkem768-aesgcm-mldsa65",)
    return fixtures_make.make_work_dir(tmp_path / "run", suites=suites, bulk=False)


def test_both_planes_are_on_record(work: Path) -> None:
    told = record_of(work)
    fields = told["categories"]["A"]
    assert (fields["dataplane_drone"]["value"], fields["dataplane_gcs"]["value"]) == ("native", "native")
    assert told["verdict"] == "pass"


def test_a_silent_fallback_makes_the_cell_invalid(work: Path) -> None:
    through(work, "gcs", "python")
    told = record_of(work)
    asked = "PQ_DATAPLANE asks for nothing else; pq_core 0.1.0 is installed"
    words = f"gcs: native was expected ({asked}), python ran"
    assert (told["verdict"], told["reason"]) == ("invalid", f"dataplane: {words}")
    assert told["categories"]["R"]["verdict_findings"]["value"] == {"dataplane": words}
    assert told["categories"]["A"]["dataplane_gcs"]["value"] == "python"


def test_python_that_was_asked_for_is_a_result(work: Path) -> None:
    through(work, "gcs", "python", dataplane_asked="python")
    assert record_of(work)["verdict"] == "pass"


def test_an_end_that_came_back_with_another_plane_is_noticed(work: Path) -> None:
    through(work, "gcs", "python")
    edit_json(work / "data" / "hosts" / "gcs.json", {"dataplane": "native"})
    assert record_of(work)["reason"] == "dataplane: gcs: native when the run began, python in this cell"


def test_an_agent_that_does_not_tell_leaves_null_and_no_finding(work: Path) -> None:
    through(work, "drone", None, dataplane_asked=None)
    told = record_of(work)
    field = told["categories"]["A"]["dataplane_drone"]
    assert (told["verdict"], field["value"]) == ("pass", None)
    assert field["reason"] == "the agent did not say"


# ---------------------------------------------------------------------- what a reader is shown


@pytest.mark.parametrize(
    ("ground", "shown"),
    [
        (None, "native at both ends"),
        (("python", {"dataplane_asked": "python"}), "drone native, ground python (as asked for)"),
        (("python", {}), "drone native, ground python (not asked for)"),
        ((None, {"dataplane_asked": None}), "drone native, ground not reported"),
    ],
)
def test_the_first_screen_names_it(
    ground: tuple[str | None, dict[str, str | None]] | None, shown: str, tmp_path: Path
) -> None:
    def edit(root: Path) -> None:
        if ground is not None:
            through(root, "gcs", ground[0], **ground[1])

    suites = ("cs-mlkem768-aesgcm-mldsa65",)
    root = report_bundle.make_bundle(tmp_path / "run", edit=edit, suites=suites, bulk=False)
    render(root)
    assert f"- data plane: {shown}\n" in (root / "data" / "report.md").read_text(encoding="utf-8")
    html = (root / "data" / "report.html").read_text(encoding="utf-8")
    assert re.search(rf'<dt>data plane</dt><dd class="[^"]*">{re.escape(shown)}</dd>', html)


def test_ends_that_differ_as_asked_are_a_warning(tmp_path: Path) -> None:
    def edit(root: Path) -> None:
        through(root, "gcs", "python", dataplane_asked="python")

    suites = ("cs-mlkem768-aesgcm-mldsa65",)
    root = report_bundle.make_bundle(tmp_path / ".work" / "run", edit=edit, suites=suites, bulk=False)
    told = {result.name: result for result in verify_bundle(root)}["dataplane"]
    assert told.status == "warn"
    assert told.observed.endswith("native at the drone, python at the ground")
