"""Two bundles compared: pairs, claims both ways, nothing out of nothing, and how far a claim goes."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import report_bundle
from bundle_kit import make_sealed
from compare_edits import edited_json, of_run
from printed_numbers import Printed, numbers_of
from report_page import Page

from pqevidence.analysis.between import SAME_CELLS, Between, compare_bundles, overall
from pqevidence.analysis.claims import ALL_SUITES, IMPROVED, NOT_DISTINGUISHABLE, REGRESSED
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.metrics import HANDSHAKE
from pqevidence.analysis.origin import differing, reach, require_comparable
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.errors import EXIT_CHECK, EXIT_USAGE, LabError
from pqevidence.paths import project_root
from pqlab.cli.main import main

REFERENCE = project_root() / "results" / "reference"
OPTIONS: dict[str, Any] = {"repetitions": 4, "bulk": False, "session_s": 0.5, "handshakes": 5}


@pytest.fixture(scope="module")
def run_a(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_bundle.make_bundle(tmp_path_factory.mktemp("a") / "a", **OPTIONS)


@pytest.fixture(scope="module")
def run_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_bundle.make_bundle(tmp_path_factory.mktemp("b") / "b", **OPTIONS, seed=2)


@pytest.fixture(scope="module")
def run_slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = report_bundle.make_bundle(
        tmp_path_factory.mktemp("s") / "s", **OPTIONS, seed=3, edit=report_bundle.stretched(3.0)
    )
    of_run(run_id="20260303T120000Z-ab12cd")(root)
    return root


def compared(a: Path, b: Path) -> Between:
    return compare_bundles(BundleData(a), BundleData(b), REFERENCE)


def handshakes(found: Between) -> list[dict[str, Any]]:
    return [row for row in found.table.rows if row["metric"] == HANDSHAKE]


def test_a_bundle_beside_itself_is_not_distinguishable_everywhere(run_a: Path, tmp_path: Path) -> None:
    one_repetition = report_bundle.make_bundle(tmp_path / "one", bulk=False, session_s=0.5)
    for root in (run_a, one_repetition):
        found = compared(root, root)
        assert found.one_run and not found.unpaired and found.pairs_count > 0
        assert len({row["metric"] for row in found.table.rows}) > 10
        assert {(row["verdict"], row["reason"]) for row in found.table.rows} == {
            (NOT_DISTINGUISHABLE, SAME_CELLS)
        }
        assert reach(differing(BundleData(root), BundleData(root)), found.one_run).startswith("one run")


def test_two_equal_runs_claim_nothing(run_a: Path, run_b: Path) -> None:
    found = compared(run_a, run_b)
    assert not found.one_run and found.shared_count == 0
    assert {row["verdict"] for row in found.table.rows} <= {NOT_DISTINGUISHABLE, INSUFFICIENT}
    assert {row["n_pairs"] for row in overall(found.table)} == {OPTIONS["repetitions"]}
    assert all(row["p_holm"] is not None for row in handshakes(found))
    assert reach(differing(BundleData(run_a), BundleData(run_b)), False).startswith("builds, hosts and")


def test_a_slower_run_regresses_and_the_other_way_round_improves(run_a: Path, run_slow: Path) -> None:
    there, back = handshakes(compared(run_a, run_slow)), handshakes(compared(run_slow, run_a))
    assert {row["verdict"] for row in there} == {REGRESSED}
    assert {row["verdict"] for row in back} == {IMPROVED}
    for one, other in zip(there, back, strict=True):
        assert one["scope"] == other["scope"]
        assert one["mean_effect"] == pytest.approx(1 / other["mean_effect"])
        assert one["mean_effect"] == pytest.approx(3.0, rel=0.2)
        assert one["b_median"] / one["a_median"] == pytest.approx(3.0, rel=0.2)
        assert (one["a_median"], one["cells_a"]) == (other["b_median"], other["cells_b"])


def test_the_floor_comes_from_repetitions_and_is_the_larger(tmp_path: Path) -> None:
    options = {**OPTIONS, "repetitions": 5}
    a = report_bundle.make_bundle(tmp_path / "a", **options)
    b = report_bundle.make_bundle(tmp_path / "b", **options, seed=2)
    suites = len({cell.suite_id for cell in BundleData(a).cells})
    there, back = handshakes(compared(a, b))[0], handshakes(compared(b, a))[0]
    assert str(there["floor_method"]).startswith("measured") and 10 <= there["floor_pairs"] <= 4 * suites
    assert there["floor_effect"] == back["floor_effect"]
    assert {there["floor_from"], back["floor_from"]} == {"repetitions of A", "repetitions of B"}


def test_twins_give_the_floor_before_repetitions_do(tmp_path: Path) -> None:
    plain = {"name": "baseline", "detector": "none", "link": "none"}
    conditions = (plain, {**plain, "name": "twin", "aa_of": "baseline"})
    a = report_bundle.make_bundle(tmp_path / "a", **OPTIONS, conditions=conditions)
    b = report_bundle.make_bundle(tmp_path / "b", **{**OPTIONS, "repetitions": 1}, seed=2)
    row = handshakes(compared(a, b))[0]
    suites = len({cell.suite_id for cell in BundleData(a).cells})
    assert row["floor_from"] == "A/A twins of A" and 10 <= row["floor_pairs"] <= 4 * suites


def test_the_floor_is_assumed_without_repetitions(tmp_path: Path) -> None:
    options = {**OPTIONS, "repetitions": 1}
    a = report_bundle.make_bundle(tmp_path / "a", **options)
    b = report_bundle.make_bundle(tmp_path / "b", **options, seed=2, edit=report_bundle.stretched(3.0))
    rows = handshakes(compared(a, b))
    assert {row["floor_from"] for row in rows} == {"assumed"}
    assert {row["verdict"] for row in rows} == {INSUFFICIENT}


def test_cells_that_both_hold_are_no_second_measurement(run_slow: Path, tmp_path: Path) -> None:
    """As after `run --into`: B holds all of A's cells and one repetition more."""
    a = tmp_path / "a"
    shutil.copytree(run_slow, a)
    edited_json(
        a / "data" / "plan.json", lambda p: p.update(cells=[c for c in p["cells"] if c["repetition"] < 3])
    )
    found = compared(a, run_slow)
    assert found.one_run and {u.why for u in found.unpaired} == {"only in B"}
    assert {u.repetition for u in found.unpaired} == {3}
    # one repetition measured anew: only that one counts
    for cell in BundleData(a).cells:
        if cell.repetition == 0:
            with (cell.directory / "events.ndjson").open("a", encoding="utf-8") as file:
                file.write("\n")
    found = compared(a, run_slow)
    assert not found.one_run and found.shared_count == 2 * found.pairs_count
    assert {row["n_pairs"] for row in handshakes(found)} == {1}
    assert {row["shared_pairs"] for row in found.table.rows} == {0}


def test_only_cells_that_passed_are_paired(run_a: Path, run_b: Path, tmp_path: Path) -> None:
    b = tmp_path / "b"
    shutil.copytree(run_b, b)
    cell = BundleData(b).cells[0]
    edited_json(
        cell.directory / "record.json", lambda r: r.update(verdict="fail", reason="made for this test")
    )
    found = compared(run_a, b)
    assert [(u.suite_id, u.repetition, u.why) for u in found.unpaired] == [
        (cell.suite_id, cell.repetition, "A pass, B fail")
    ]
    ns = {row["scope"]: row["n_pairs"] for row in handshakes(found)}
    assert ns[cell.suite_id] == 3 and ns[ALL_SUITES] == 4


def test_runs_without_a_common_cell_say_that_nothing_was_compared(run_a: Path, tmp_path: Path) -> None:
    other = report_bundle.make_bundle(tmp_path / "b", **OPTIONS, suites=("xs-x25519-aesgcm-ed25519",))
    of_run(run_id="20260304T120000Z-ab12cd")(other)
    page = tmp_path / "page.html"
    assert main(["compare", str(run_a), str(other), "--unverified", "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Nothing was compared" in text and "Nothing is claimed" not in text


def test_published_values_stand_beside(run_a: Path, run_b: Path) -> None:
    with (REFERENCE / "published-72-suites.csv").open(encoding="utf-8", newline="") as file:
        walls = {row["suite_id"]: float(row["base_handshake_ms"]) for row in csv.DictReader(file)}
    rows = [row for row in handshakes(compared(run_a, run_b)) if row["scope"] in walls]
    assert rows
    for row in rows:
        assert row["published"] == walls[row["scope"]]
        assert row["published_source"] and row["published_known_wrong"]
    bare = compare_bundles(BundleData(run_a), BundleData(run_b))
    assert {row["published"] for row in bare.table.rows} == {None}


def of_host(**facts: object) -> report_bundle.Edit:
    return lambda root: edited_json(root / "data" / "hosts" / "drone.json", lambda d: d["host"].update(facts))


def of_build(root: Path) -> None:
    edited_json(root / "data" / "providers.json", lambda d: d["gcs"].update(openssl="OpenSSL 9"))


def of_settings(root: Path) -> None:
    edited_json(root / "data" / "scenario.effective.yml", lambda d: d["handshake"].update(count=50))


@pytest.mark.parametrize(
    ("edits", "kinds", "said"),
    [
        ([of_host(cpu_model="another")], {"host"}, "hosts differ: no claim about the change alone"),
        ([of_host(hostname="x", boot_id="y")], set(), "builds, hosts and settings are equal"),
        ([of_build], {"build"}, "builds differ: an effect is that of the builds"),
        ([of_settings], {"setting"}, "settings differ: an effect is that of settings, and"),
        ([of_build, of_settings], {"build", "setting"}, "settings differ: an effect is that of settings a"),
        ([of_build, of_host(kernel="7")], {"build", "host"}, "hosts differ: no claim about the change"),
    ],
)  # fmt: skip
def test_how_far_a_claim_goes(
    edits: list[report_bundle.Edit], kinds: set[str], said: str, run_a: Path, tmp_path: Path
) -> None:
    b = tmp_path / "b"
    shutil.copytree(run_a, b)
    for edit in edits:
        edit(b)
    found = differing(BundleData(run_a), BundleData(b))
    assert {fact.kind for fact in found} == kinds
    assert reach(found, False).startswith(said)
    mirrored = differing(BundleData(b), BundleData(run_a))
    assert [(fact.what, fact.a, fact.b) for fact in found] == [
        (fact.what, fact.b, fact.a) for fact in mirrored
    ]


def in_ring(ring: str) -> report_bundle.Edit:
    def edit(root: Path) -> None:
        for path in root.glob("data/cells/*/record.json"):
            edited_json(path, lambda record: record.update(ring=ring))

    return edit


def of_end(**facts: object) -> report_bundle.Edit:
    return lambda root: edited_json(root / "data" / "hosts" / "gcs.json", lambda d: d.update(facts))


def beside(root: Path, to: Path, *edits: report_bundle.Edit) -> BundleData:
    shutil.copytree(root, to)
    for edit in edits:
        edit(to)
    return BundleData(to)


def test_unlike_rings_are_refused(run_a: Path, tmp_path: Path) -> None:
    a, b = BundleData(run_a), beside(run_a, tmp_path / "b", in_ring("sim"), of_run(run_id="another"))
    with pytest.raises(LabError, match="ring") as caught:
        require_comparable(a, b)
    assert (caught.value.code, caught.value.exit_code) == ("unlike-rings", EXIT_USAGE)
    require_comparable(a, a)


def test_one_run_id_on_two_runs_is_refused(run_a: Path, run_slow: Path, tmp_path: Path) -> None:
    a = BundleData(run_a)
    same = beside(run_slow, tmp_path / "b", of_run(run_id=a.run["run_id"]))
    with pytest.raises(LabError, match="both bundles call themselves") as caught:
        require_comparable(a, same)
    assert (caught.value.code, caught.value.exit_code) == ("one-run-id", EXIT_USAGE)
    require_comparable(a, beside(run_slow, tmp_path / "c", of_run(run_id="another")))


@pytest.mark.parametrize(
    ("edit", "kind", "said"),
    [
        (of_end(dataplane="python"), "data plane", "data planes differ: an effect is that of the data plane"),
        (of_run(loadavg_start=[28.0, 28.0, 28.0]), "load", "load differs"),
        (of_host(emulated="qemu-user"), "host", "hosts differ"),
    ],
)
def test_what_moves_times_is_named(
    edit: report_bundle.Edit, kind: str, said: str, run_a: Path, tmp_path: Path
) -> None:
    a, b = BundleData(run_a), beside(run_a, tmp_path / "b", edit)
    found = differing(a, b)
    assert {fact.kind for fact in found} == {kind}
    assert reach(found, False).startswith(said)


def test_another_data_plane_is_named_before_all_else(
    run_a: Path, run_b: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = [of_end(dataplane="python"), of_build, of_settings, of_host(cpu_model="another")]
    edits.append(of_run(run_id="20260302T120000Z-ab12cd"))
    b = beside(run_b, tmp_path / "b", *edits)
    found = differing(BundleData(run_a), b)
    assert (found[0].kind, found[0].what, found[0].b) == ("data plane", "gcs dataplane", "python")
    assert reach(found, False) == "data planes and hosts differ: no claim about the change alone"
    assert main(["compare", str(run_a), str(tmp_path / "b"), "--unverified"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "  data plane: gcs dataplane: native → python"


@pytest.mark.parametrize(
    ("fact", "value"),
    [("emulated", "qemu-user"), ("wine", "10.0"), ("cpu_model", "QEMU TCG CPU version 2.5+")],
)
def test_an_imitated_end_enters_no_time_comparison(
    fact: str, value: str, run_a: Path, run_slow: Path, tmp_path: Path
) -> None:
    b = beside(run_slow, tmp_path / "b", of_host(**{fact: value}))
    found = compare_bundles(BundleData(run_a), b, REFERENCE)
    assert {row["unit"] for row in found.table.rows} == {"points"}
    assert found.left_out is not None and found.left_out.startswith("In B the drone")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("sealed"), bulk=False)


def test_the_command_says_it_four_ways(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, page = tmp_path / "effects.csv", tmp_path / "page.html"
    files = ["--csv", str(table), "--html", str(page)]
    assert main(["compare", str(sealed), str(sealed), *files]) == 0
    text = capsys.readouterr().out
    assert "one run beside itself: nothing can differ" in text and "NOT VERIFIED" not in text
    assert "in every row: " in text and "ring lab" in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
    assert main(["compare", str(sealed), str(sealed), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(told["effects"]) > 20
    assert {row["verdict"] for row in rows} == {NOT_DISTINGUISHABLE}
    assert told["verdicts"] == {IMPROVED: 0, REGRESSED: 0, NOT_DISTINGUISHABLE: len(rows), INSUFFICIENT: 0}
    html = page.read_text(encoding="utf-8")
    assert "http" not in html and "src=" not in html.replace('class="src"', "")
    assert "Nothing is claimed" in html
    parsed = Page(html)  # tags nest
    assert len(parsed.rows["effects-all"]) + len(parsed.rows["effects-suites"]) == len(rows) + 2
    with (REFERENCE / "coverage.csv").open(encoding="utf-8", newline="") as file:
        here = [row["element"] for row in csv.DictReader(file) if row["bundle"] == "compare"]
    assert here and [parsed.why_empty(element) for element in here] == [None] * len(here)
    before = page.read_bytes()
    assert main(["compare", str(sealed), str(sealed), *files]) == 0
    assert page.read_bytes() == before


def test_every_number_of_the_page_is_in_the_table_it_writes(
    run_a: Path, run_slow: Path, tmp_path: Path
) -> None:
    table, page = tmp_path / "effects.csv", tmp_path / "page.html"
    files = ["--csv", str(table), "--html", str(page)]
    assert main(["compare", str(run_a), str(run_slow), "--unverified", *files]) == 0
    printed = Printed(page.read_text(encoding="utf-8"))
    known = numbers_of(table.read_text(encoding="utf-8"))
    cells = [cell for name in ("effects-all", "effects-suites") for cell in printed.numbers[name]]
    assert len(cells) > 200
    assert [text for text, key in cells if key not in known] == []


def test_a_bundle_that_verify_rejects_is_refused(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / sealed.name
    shutil.copytree(sealed, bad)
    (bad / "data" / "report.md").write_text("better")
    for pair in ((sealed, bad), (bad, sealed)):
        assert main(["compare", *map(str, pair), "--json"]) == EXIT_CHECK
        caught = capsys.readouterr()
        assert json.loads(caught.out.splitlines()[-1])["error"]["code"] == "unverified"
        assert "manifest_fixity" in caught.err and "--unverified" in caught.err
    page = tmp_path / "page.html"
    assert main(["compare", str(sealed), str(bad), "--unverified", "--html", str(page)]) == 0
    assert capsys.readouterr().out.count("NOT VERIFIED") == 2
    assert page.read_text(encoding="utf-8").count("NOT VERIFIED") == 2
