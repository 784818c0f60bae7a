"""`pqlab merge`: what becomes one bundle, what is refused and how; verify, report and compare of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rack_kit import OTHER_KEM, SUITES, copied, edit_json, rebag, run_share

from pqevidence.analysis.merged import MergedData, Part, is_merged
from pqevidence.analysis.table import read_rows
from pqevidence.bundle import bag
from pqevidence.bundle.flown import MARK
from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, EXIT_USAGE, EXIT_WARNING, LabError
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.merge.rules import require_mergeable
from pqevidence.paths import project_root
from pqevidence.verify import verify_bundle
from pqevidence.verify.checks_share import share
from pqevidence.verify.merged import MERGED_CHECKS
from pqlab.cli.main import main


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four shares of one campaign on four pairs."""
    base = tmp_path_factory.mktemp("parts")
    suites = (*SUITES, *OTHER_KEM)
    return [run_share(base / str(n), f"{n}/4", repetitions=4, suites=suites) for n in range(1, 5)]


@pytest.fixture(scope="module")
def merged(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("merged")
    assert main(["merge", *map(str, parts), "--out", str(out)]) == 0
    (made,) = out.glob("2*")
    return made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shares of a campaign of one suite."""
    base = tmp_path_factory.mktemp("small")
    return [run_share(base / str(number), f"{number}/2") for number in (1, 2)]


def ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and the last line's document."""
    code = main([*words, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return code, document


def merge(roots: list[Path], out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    return ended(["merge", *map(str, roots), "--out", str(out)], capsys)


# ------------------------------------------------------------------ what it is


def test_a_merge_holds_its_parts_whole_and_verifies_alone(
    merged: Path, parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = copied(merged, tmp_path)
    code, document = ended(["verify", str(alone)], capsys)
    assert (code, {check["status"] for check in document["checks"]}) == (0, {"ok"})
    assert [check["name"] for check in document["checks"]] == list(MERGED_CHECKS)
    for part in parts:
        inside = merged / "data" / "parts" / part.name
        files = {p.relative_to(part).as_posix(): p.read_bytes() for p in part.rglob("*") if p.is_file()}
        assert files == {
            p.relative_to(inside).as_posix(): p.read_bytes() for p in inside.rglob("*") if p.is_file()
        }
    lineage = json.loads((merged / "data" / "merge.json").read_text(encoding="utf-8"))
    assert [part["run_id"] for part in lineage["parts"]] == [path.name for path in parts]
    assert [part["tagmanifest_sha512"] for part in lineage["parts"]] == [
        bag.sha512_file(path / bag.TAGMANIFEST) for path in parts
    ]
    assert [part["pair"] for part in lineage["parts"]] == [f"bench-{n}" for n in range(1, 5)]
    assert all(part["attestation"] is None for part in lineage["parts"]), "ring sim swears to nothing"
    assert lineage["missing_repetitions"] == [] and lineage["run_id"] == merged.name
    assert {told["counts_as_host"] for told in lineage["pairs"].values()} == set(lineage["pairs"])


def test_the_order_of_the_parts_does_not_matter(
    merged: Path, parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge(parts[::-1], tmp_path, capsys)[0] == 0
    again = tmp_path / merged.name
    assert (again / bag.TAGMANIFEST).read_bytes() == (merged / bag.TAGMANIFEST).read_bytes()
    assert not (tmp_path / "latest").exists() and len(list(tmp_path.iterdir())) == 1
    code, document = merge(parts, tmp_path, capsys)
    assert (code, document["error"]["code"]) == (EXIT_ENVIRONMENT, "exists")


def test_missing_blocks_stay_missing_and_it_is_said(
    small: list[Path], parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = merge(parts[:2], tmp_path, capsys)
    assert code == EXIT_WARNING and document["missing_repetitions"] == [3, 4]
    (made,) = tmp_path.glob("2*")
    code, told = ended(["verify", str(made)], capsys)
    assert code == EXIT_WARNING
    assert [c["name"] for c in told["checks"] if c["status"] == "warn"] == ["blocks_told"]
    page = (made / "data" / "report.md").read_text(encoding="utf-8")
    assert "2 of 4 blocks are missing (repetition 3, 4)" in page
    assert "an interval over hosts needs 3 hosts" in page
    rows = read_rows(made / "data" / "analysis" / "blocks.csv")
    assert [row["missing"] for row in rows] == ["false"] * 2 + ["true"] * 2
    assert {row["pair"] for row in rows[2:]} == {""}
    over = read_rows(made / "data" / "analysis" / "effects_over_hosts.csv")
    assert over and {(row["n_hosts"], row["low_effect"], row["verdict"]) for row in over} == {
        ("2", "", "insufficient")
    }
    assert {row["reason"] for row in over} == {"2 hosts: an interval over hosts needs 3"}
    assert read_rows(made / "data" / "analysis" / "condition_effects.csv"), "these boards have their blocks"


# ------------------------------------------------------------------ effects


def test_effects_are_made_within_a_pair_and_times_stay_by_host(merged: Path, parts: list[Path]) -> None:
    folder = merged / "data" / "analysis"
    over = read_rows(folder / "effects_over_hosts.csv")
    kem = next(row for row in over if row["contrast"] == "kem HQC")
    assert (kem["n_hosts"], kem["df"], kem["method"], kem["unit_of_inference"]) == (
        "4",
        "3",
        "Student t over hosts",
        "host",
    )
    by_host = [row for row in read_rows(folder / "effects_by_host.csv") if row["contrast"] == "kem HQC"]
    effects = [float(row["mean_effect"]) for row in by_host]
    assert [row["host"] for row in by_host] == [f"bench-{n}" for n in range(1, 5)]
    assert (float(kem["least_host_effect"]), float(kem["most_host_effect"])) == (min(effects), max(effects))
    # each host's effect is that of its own bundle, whatever the other hosts are
    for part, effect in zip(parts, effects, strict=True):
        own = read_rows(part / "data" / "analysis" / "effects.csv")
        assert float(own[0]["ratio"]) == pytest.approx(effect, rel=1e-8)
    left = [row for row in read_rows(folder / "leave_one_host_out.csv") if row["contrast"] == "kem HQC"]
    assert [row["n_hosts"] for row in left] == ["3"] * 4
    means = [float(row["mean_effect"]) for row in left]
    assert float(kem["least_left_out_effect"]) == min(means) < max(means)
    times = read_rows(folder / "times_by_host.csv")
    own = read_rows(parts[2] / "data" / "analysis" / "by_suite.csv")
    mine = [row for row in times if row["pair"] == "bench-3"]
    assert [row["median_ms"] for row in mine] == [row["median_ms"] for row in own]
    assert len(times) == 4 * len(own)
    assert not (folder / "by_suite.csv").exists(), "no time is pooled over hosts"
    these = next(
        row
        for row in read_rows(folder / "condition_effects.csv")
        if row["scope"] == "all suites" and row["metric"] == "handshake_total_ms"
    )
    assert (these["n_pairs"], these["unit_of_inference"]) == ("4", "block")


def test_the_page_says_what_every_interval_is_about(merged: Path) -> None:
    text = (merged / "data" / "report.md").read_text(encoding="utf-8")
    for said in (
        "The unit is the host: n counts hosts",
        "The unit is the block: n counts blocks",
        "The unit is the suite: n counts suites",
        "Each interval is of one host",
        "The unit is the repetition",
        "never pooled",
        "Blocks of all pairs are taken together",
    ):
        assert said in text, said


def test_pairs_on_one_machine_count_as_one_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roots = [
        run_share(tmp_path / f"p{n}", f"{n}/3", host=host, repetitions=3)
        for n, host in ((1, 7), (2, 7), (3, 8))
    ]
    code, document = merge(roots, tmp_path / "out", capsys)
    assert code == 0 and document["hosts"] == ["bench-1+bench-2", "bench-3"]
    (made,) = (tmp_path / "out").glob("2*")
    page = (made / "data" / "report.md").read_text(encoding="utf-8")
    assert "pairs share machines, so they count as 2 hosts" in page


def test_parts_of_one_pair_are_one_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roots = [run_share(tmp_path / f"p{n}", f"{n}/3", pair="bench", host=7, repetitions=3) for n in (1, 2)]
    code, document = merge(roots, tmp_path / "out", capsys)
    assert (code, document["pairs"]) == (EXIT_WARNING, ["bench"])
    (made,) = (tmp_path / "out").glob("2*")
    rows = read_rows(made / "data" / "analysis" / "times_by_host.csv")
    assert {(row["pair"], row["n_cells"]) for row in rows} == {("bench", "2")}


# ------------------------------------------------------------------ what is refused


Given = tuple[list[Path], int, str]
Make = Callable[[list[Path], Path], Given]


def one_bundle_twice(small: list[Path], _: Path) -> Given:
    return [small[0], small[1], small[0]], EXIT_USAGE, "same-bundle"


def one_bundle_copied(small: list[Path], here: Path) -> Given:
    return [small[0], small[1], copied(small[0], here)], EXIT_USAGE, "same-bundle"


def one_bundle_alone(small: list[Path], _: Path) -> Given:
    return [small[0]], EXIT_USAGE, "one-part"


def cell_from_two_hosts(small: list[Path], here: Path) -> Given:
    return [*small, run_share(here / "twin", "1/2", pair="bench-9", host=9)], EXIT_USAGE, "cell-of-two-hosts"


def two_owners(small: list[Path], here: Path) -> Given:
    return [*small, run_share(here / "again", "1/2", pair="bench-1", host=1)], EXIT_USAGE, "two-owners"


def unlike_campaigns(small: list[Path], here: Path) -> Given:
    return [small[0], run_share(here / "other", "2/2", seed=6)], EXIT_USAGE, "unlike-campaigns"


def unlike_shares(small: list[Path], here: Path) -> Given:
    return [small[0], run_share(here / "third", "3/3")], EXIT_USAGE, "unlike-shares"


def no_share(small: list[Path], here: Path) -> Given:
    sim = str(project_root() / "ansible" / "inventories" / "sim.ini")
    words = ["run", "smoke", "--inventory", sim, "--suites", SUITES[0], "--reps", "1", "--session-s", "1"]
    assert main([*words, "--out", str(here / "whole")]) == 0
    return [small[0], (here / "whole" / "latest").resolve()], EXIT_USAGE, "no-share"


def pair_of_two_hosts(small: list[Path], here: Path) -> Given:
    root = copied(run_share(here / "as", "2/2", pair="bench-1"), here)
    for role in ("drone", "gcs", "controller"):
        edit_json(root / "data" / "hosts" / f"{role}.json", lambda d: d["host"].update(cpu_model="another"))
    edit_json(root / "data" / "run.json", lambda d: d["controller"]["host"].update(cpu_model="another"))
    finish(root)
    return [small[0], root], EXIT_USAGE, "pair-of-two-hosts"


def forged_share(small: list[Path], here: Path) -> Given:
    root = copied(small[1], here)
    edit_json(root / "data" / "plan.json", lambda plan: plan.update(share={"number": 1, "of": 2}))
    finish(root)
    return [small[0], root], EXIT_CHECK, "forged-share"


def forged_campaign(small: list[Path], here: Path) -> Given:
    root = copied(small[1], here)
    edit_json(root / "data" / "plan.json", lambda plan: plan.update(campaign="0" * 64))
    finish(root)
    return [small[0], root], EXIT_CHECK, "forged-share"


def share_before_shares(small: list[Path], here: Path) -> Given:
    """Of 0.2.0 verify makes no table and no page again, and it had no shares."""
    root = copied(small[1], here)
    edit_json(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.2.0"))
    finish(root)
    return [small[0], root], EXIT_CHECK, "forged-share"


def part_that_fails_verify(small: list[Path], here: Path) -> Given:
    root = copied(small[1], here)
    next(root.glob("data/cells/*/spans.ndjson")).write_text("", encoding="utf-8")
    return [small[0], root], EXIT_CHECK, "part-unverified"


def flown(small: list[Path], here: Path) -> Given:
    (here / "flown").mkdir()
    (here / "flown" / MARK).write_text("{}", encoding="utf-8")
    return [small[0], here / "flown"], EXIT_CHECK, "flown"


def no_bundle(small: list[Path], here: Path) -> Given:
    return [small[0], here / "none"], EXIT_ENVIRONMENT, "no-bundle"


def finish(root: Path) -> None:
    """Tables, pages, crate and tag files for what lies there now."""
    from pqevidence.pages import render
    from pqevidence.tables import analyse

    shutil.rmtree(root / "data" / "analysis")
    analyse(root)
    render(root)
    rebag(root)


@pytest.mark.parametrize(
    "make",
    [
        one_bundle_twice, one_bundle_copied, one_bundle_alone, cell_from_two_hosts, two_owners,
        unlike_campaigns, unlike_shares, no_share, pair_of_two_hosts, forged_share, forged_campaign,
        share_before_shares, part_that_fails_verify, flown, no_bundle,
    ],
)  # fmt: skip
def test_refused_by_name_in_one_sentence(
    make: Make, small: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roots, code, name = make(small, tmp_path)
    capsys.readouterr()
    out = tmp_path / "out"
    found, document = merge(roots, out, capsys)
    assert (found, document["error"]["code"]) == (code, name), document
    error = document["error"]
    assert error["what"] and "\n" not in error["what"] and not error["what"].endswith(".")
    assert error["why"] and error["next"] if "next" in error else error["why"]
    assert not out.exists() or not list(out.iterdir()), "nothing is left behind"


def test_a_merge_is_no_part(
    merged: Path, small: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = merge([merged, small[0]], tmp_path / "out", capsys)
    assert (code, document["error"]["code"]) == (EXIT_USAGE, "merged-part")


def refused(parts: list[Part]) -> str:
    with pytest.raises(LabError) as error:
        require_mergeable(parts)
    assert error.value.exit_code == EXIT_USAGE
    return error.value.code


def test_what_only_a_lab_can_have_is_refused_too(small: list[Path]) -> None:
    """Rings, builds and places with other ids, on parts as read: no simulation makes them."""
    one, other = (Part(path) for path in small)
    for cell in other.bundle.cells:
        cell.record = {**cell.record, "ring": "lab"}
    assert refused([one, other]) == "unlike-rings"
    one, other = (Part(path) for path in small)
    other.bundle.providers["drone"]["liboqs"] = {"version": "another"}
    assert refused([one, other]) == "other-builds"
    other.bundle.hosts["drone"]["host"]["machine"] = "aarch64"
    require_mergeable([one, other])  # another architecture has a build of its own
    again = Part(small[0])
    again.run_id, again.share = "20000101T000000Z-ffffff", one.share
    for cell in again.bundle.cells:
        cell.cell_id = cell.cell_id[::-1]  # another build's: no id that a prefix could leave as it is
    assert refused([one, again]) == "overlapping-cells"


# ------------------------------------------------------------------ forgeries of the merge itself


def spoiled(merged: Path, here: Path, change: Callable[[Path], None]) -> list[str]:
    """Checks that fail once something was changed and everything was bagged again."""
    root = copied(merged, here)
    change(root)
    bag.write_tags(root)
    return [result.name for result in verify_bundle(root) if result.status == "fail"]


def drop_a_part(root: Path) -> None:
    shutil.rmtree(next((root / "data" / "parts").iterdir()))


def spoil_a_part(root: Path) -> None:
    next(root.glob("data/parts/*/data/cells/*/spans.ndjson")).write_text("", encoding="utf-8")


def a_number(root: Path) -> None:
    path = root / "data" / "analysis" / "effects_over_hosts.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",host,", ",hosts,"), encoding="utf-8")


def the_page(root: Path) -> None:
    path = root / "data" / "report.html"
    path.write_text(path.read_text(encoding="utf-8").replace("bench-1", "bench-5"), encoding="utf-8")


def the_lineage(root: Path) -> None:
    edit_json(root / "data" / "merge.json", lambda d: d["parts"][0].update(pair="elsewhere"))


def a_stranger(root: Path) -> None:
    (root / "data" / "notes.txt").write_text("read me", encoding="utf-8")


def another_version(root: Path) -> None:
    """Of a version that is not today's nothing is made again: then anything may lie there."""
    edit_json(root / "data" / "merge.json", lambda d: d.update(pqlab_version="0.2.0"))
    a_stranger(root)


def more_blocks(root: Path) -> None:
    path = next(root.glob("data/parts/*/data/scenario.effective.yml"))
    text = path.read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^repetitions:.*$", "repetitions: 400000000000", text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


def another_name(root: Path) -> None:
    part = next((root / "data" / "parts").iterdir())
    part.rename(part.with_name("20000101T000000Z-ffffff"))


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (spoil_a_part, "parts_verified"), (a_number, "merge_rebuild"), (the_page, "merge_rebuild"),
        (the_lineage, "lineage_told"), (a_stranger, "merge_rebuild"), (another_name, "merge_allowed"),
        (drop_a_part, "lineage_told"), (another_version, "merge_rebuild"), (more_blocks, "merge_rebuild"),
    ],
)  # fmt: skip
def test_a_forged_merge_fails(
    change: Callable[[Path], None], check: str, merged: Path, tmp_path: Path
) -> None:
    assert check in spoiled(merged, tmp_path, change)


def test_parts_that_may_not_be_merged_fail_verify(merged: Path, tmp_path: Path, small: list[Path]) -> None:
    def take_in(root: Path) -> None:
        shutil.copytree(small[0], root / "data" / "parts" / small[0].name)

    failed = spoiled(merged, tmp_path, take_in)
    assert "merge_allowed" in failed and "parts_verified" not in failed


def test_a_share_from_which_only_takes_cells_is_none(small: list[Path]) -> None:
    view, tally = BundleView(small[0]), Tally()
    view.raw.scenario["only"] = ["ab"]
    share(view, tally)
    assert any("`only`" in problem for problem in tally.problems)


def test_a_merge_within_a_merge_is_no_bundle(merged: Path, tmp_path: Path) -> None:
    def nest(root: Path) -> None:
        shutil.copytree(merged, root / "data" / "parts" / "20000101T000000Z-eeeeee")

    assert "parts_verified" in spoiled(merged, tmp_path, nest)


def test_fixity_is_asked_of_the_whole(merged: Path, tmp_path: Path) -> None:
    root = copied(merged, tmp_path)
    a_stranger(root)
    failed = {result.name for result in verify_bundle(root) if result.status == "fail"}
    assert "manifest_fixity" in failed
    (root / "data" / "merge.json").write_text("{", encoding="utf-8")
    failed = {result.name for result in verify_bundle(root) if result.status == "fail"}
    assert {"manifest_fixity", "lineage_told", "merge_rebuild"} <= failed


# ------------------------------------------------------------------ its readers


def test_report_writes_the_same_page_again(
    merged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = ended(["report", str(merged), "--out", str(tmp_path / "again")], capsys)
    assert (code, document["same_as_sealed"]) == (0, True)


def test_compare_reads_it_and_pairs_cells_of_one_pair_of_hosts(
    merged: Path, parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = ended(["compare", str(merged), str(merged)], capsys)
    assert (code, document["pairs_count"]) == (0, 48) and document["unpaired"] == []
    assert {row["a_median"] for row in document["effects"] if row["scope"] == "all suites"} == {None}
    code, document = ended(["compare", str(merged), str(parts[1])], capsys)
    assert (code, document["pairs_count"], len(document["unpaired"])) == (0, 12, 36)
    assert {cell["why"] for cell in document["unpaired"]} == {"only in A"}
    # another run of the campaign, in which another pair took the first share
    suites = (*SUITES, *OTHER_KEM)
    other = run_share(tmp_path / "o", "1/4", pair="bench-7", host=7, repetitions=4, suites=suites)
    code, document = ended(["compare", str(merged), str(other)], capsys)
    assert document["pairs_count"] == 0
    whys = [cell["why"] for cell in document["unpaired"] if cell["repetition"] == 1]
    assert set(whys) == {"measured on pair bench-1 and on pair bench-7"}


def test_a_merged_bundle_is_known_by_its_lineage_file(merged: Path, small: list[Path]) -> None:
    assert is_merged(merged) and not is_merged(small[0])
    data = MergedData(merged)
    assert len(data.cells) == 48 and data.blocks_count == 4 and data.missing == []
    assert len({cell.cell_id for cell in data.cells}) == 48


def test_the_page_of_the_format_lists_the_checks_in_their_order() -> None:
    page = (project_root() / "docs" / "BUNDLE.md").read_text(encoding="utf-8")
    part = page.partition("## Merged bundles")[2].partition("\n## ")[0]
    told = [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
    expected = [
        line.rpartition(" | ")[2].removesuffix(" |") for line in part.splitlines() if line.startswith("| `")
    ]
    assert told == list(MERGED_CHECKS)
    assert expected == [check[1] for check in MERGED_CHECKS.values()]


def test_every_refusal_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    page = (project_root() / "docs" / "RACK.md").read_text(encoding="utf-8")
    told = set(
        re.findall(r"`([a-z]+-[a-z-]+|flown|exists)`", page.partition("| refused as")[2].partition("\n\n")[0])
    )
    sources = [
        *(project_root() / "evidence/src/pqevidence/merge").glob("*.py"),
        project_root() / "evidence/src/pqevidence/analysis/merged.py",
        project_root() / "conduct/src/pqlab/cli/merge.py",
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    raising = r'(?:LabError|_refuse|super\(\).__init__)\(\s*"([a-z-]+)"'
    raised = set(re.findall(raising, text)) - {"not-a-bundle"}
    assert told == {*raised, "flown"}
