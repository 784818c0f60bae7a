"""The audit: claims that follow stay, an altered or omitted one is found, every published check can fail."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import report_bundle
from test_analysis_conditions import compared

from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import read_rows
from pqevidence.audit import levels
from pqevidence.audit.claim import Claim
from pqevidence.audit.levels import level_claims
from pqevidence.audit.own import audit, printed_claims
from pqevidence.audit.published import CHECKS, CLAIMS_FILE, FAILS, FOLLOWS, OPEN, judge
from pqevidence.errors import EXIT_CHECK
from pqevidence.pages import render
from pqevidence.paths import project_root
from pqevidence.report.sections import front
from pqlab.cli.main import main

REFERENCE = project_root() / "results" / "reference"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = compared(tmp_path_factory.mktemp("audit") / "run")
    render(root)
    return root


@pytest.fixture
def copied(honest: Path, tmp_path: Path) -> Path:
    root = tmp_path / "run"
    shutil.copytree(honest, root)
    return root


def test_an_honest_report_follows(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(honest)
    assert len(found.printed) >= 2 and not found.unfounded and not found.unsaid
    assert any("handshake_total_ms regressed" in claim.statement for claim in found.printed)
    assert all(claim.effect and "n = " in claim.basis for claim in found.printed)
    assert main(["audit", str(honest)]) == 0
    assert "0 do not follow, 0 left out" in capsys.readouterr().out


def test_an_altered_number_does_not_follow(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = copied / "data" / "report.html"
    text = page.read_text(encoding="utf-8")
    claim = next(c for c in printed_claims(page) if "handshake_total_ms regressed" in c.statement)
    better = re.sub(r"^ratio [0-9.]+", "ratio 1.01", claim.effect)
    assert better != claim.effect and claim.effect in text
    page.write_text(text.replace(claim.effect, better, 1), encoding="utf-8")
    found = audit(copied)
    assert [(c.effect, given) for c, given in found.unfounded] == [(better, claim)] and not found.unsaid
    assert main(["audit", str(copied), "--json"]) == EXIT_CHECK
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["unfounded"][0]["given"]["effect"] == claim.effect


def test_a_page_of_forged_tables_does_not_follow(copied: Path) -> None:
    """Table and page agree with each other; only the raw files know better."""
    table = copied / "data" / "analysis" / "condition_effects.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("regressed", "improved"), encoding="utf-8")
    render(copied)
    found = audit(copied)
    assert found.unfounded and all("improved" in claim.statement for claim, _ in found.unfounded)
    assert found.unsaid and all("regressed" in claim.statement for claim in found.unsaid)


def test_a_claim_left_out_is_found(copied: Path) -> None:
    page = copied / "data" / "report.html"
    text = page.read_text(encoding="utf-8")
    before = printed_claims(page)
    page.write_text(re.sub(r'<li class="t-regressed">.*?</li>', "", text, flags=re.S), encoding="utf-8")
    found = audit(copied)
    assert len(found.printed) < len(before)
    assert not found.unfounded and len(found.unsaid) == len(before) - len(found.printed)


# --- recommendations of a NIST level ---


def of_levels(claims: list[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.statement.startswith("For NIST level ")]


def rewrite(path: Path, pattern: str, by: str, count: int = 0) -> None:
    """Replace in a file of a bundle; a pattern that is not there would test nothing."""
    text, changed = re.subn(pattern, by, path.read_text(encoding="utf-8"), count=count, flags=re.S)
    assert changed
    path.write_text(text, encoding="utf-8")


def test_honest_recommendations_follow(honest: Path) -> None:
    printed = of_levels(audit(honest).printed)
    assert {claim.statement.split(":")[0] for claim in printed} == {
        f"For NIST level 1 or more, under {name}" for name in ("baseline", "twin", "slow")
    }
    assert printed == level_claims(BundleData(honest))
    assert all(re.search(r"^handshake [0-9.]+ to [0-9.]+ ms, others ", claim.effect) for claim in printed)


def test_a_recommendation_of_one_condition_and_resampled_intervals_follows(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", repetitions=11, bulk=False, session_s=0.5)
    render(root)
    found = audit(root)
    assert not found.unfounded and not found.unsaid
    (claim,) = of_levels(found.printed)
    assert claim.statement.startswith("For NIST level 1 or more: ") and claim.basis.startswith("n = 11 cells")


def test_many_equals_are_counted_and_numbers_keep_three_digits() -> None:
    fast = [levels._Timed(f"s{i}", 1, 5, 0.99949 + i / 10, 0.9, 2.0) for i in range(6)]
    slow = [levels._Timed("z", 5, 3, 12345.6, 9.0, 20_000.0), levels._Timed("y", 3, 4, 99.96, 9.0, 200.0)]
    claim = levels._claim("For", fast, slow)
    assert claim.statement.startswith("For: s0, s1, s2, s3 and 2 more. The other 2 suites")
    assert claim.effect == "handshake 0.999 to 1.50 ms, others 100 to 12,346 ms"
    assert claim.basis.startswith("n = 3 cells")


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"(<span>handshake )[0-9.]+", r"\g<1>0.111"),
        (r"( ms, others )[0-9.]+", r"\g<1>9.99"),
        (r"( to )[0-9.]+( ms</span>)", r"\g<1>999\2"),
        (r"n = 4( cells a suite)", r"n = 40\1"),
        (r"The other 2( suites of at least)", r"The other 71\1"),
        (r"(For NIST level )1( or more)", r"\g<1>5\2"),
        (r"(or more, under baseline: )cs-mlkem768-aesgcm-mldsa65", r"\g<1>cs-mlkem512-aesgcm-mldsa44"),
    ],
)
def test_an_altered_recommendation_does_not_follow(copied: Path, pattern: str, by: str) -> None:
    page = copied / "data" / "report.html"
    before = of_levels(printed_claims(page))
    rewrite(page, pattern, by, count=1)
    found = audit(copied)
    ((altered, given),) = found.unfounded
    assert altered not in before and altered in of_levels(found.printed)
    # an altered sentence is a claim of its own, and the honest one is then missing
    assert [given or found.unsaid[0]] == [claim for claim in before if claim not in found.printed]
    assert bool(given) != bool(found.unsaid)


def test_recommendations_of_a_forged_front_do_not_follow(copied: Path) -> None:
    """Table and page agree that the slowest suite is the fastest; only the spans know better."""
    table = copied / "data" / "analysis" / "pareto.csv"
    rows = read_rows(table)
    slowest = max(rows, key=lambda row: float(row["median_ms"]))["suite_id"]
    forged = {"median_ms": "0.1", "interval_low_ms": "0.09", "interval_high_ms": "0.11"}
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, **(forged if row["suite_id"] == slowest else {})} for row in rows)
    honest_ones = of_levels(audit(copied).printed)
    render(copied)
    found = audit(copied)
    lies = [claim for claim, _ in found.unfounded]
    assert len(lies) == len(of_levels(lies)) >= 3 and all(f": {slowest}." in c.statement for c in lies)
    assert found.unsaid == honest_ones


def test_a_recommendation_left_out_is_found(copied: Path) -> None:
    page = copied / "data" / "report.html"
    (gone,) = (claim for claim in of_levels(printed_claims(page)) if "under slow:" in claim.statement)
    rewrite(page, r"<li(?:(?!<li).)*?or more, under slow:.*?</li>", "")
    found = audit(copied)
    assert (found.unfounded, found.unsaid) == ([], [gone])


def test_recommendations_follow_the_spans_and_the_verdicts(copied: Path) -> None:
    """The page stays as it was; the raw files under it change."""
    fast = next(c for c in BundleData(copied).cells if "mlkem768" in c.suite_id and c.condition == "baseline")
    path = fast.directory / "record.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, "verdict": "fail"}), encoding="utf-8")
    (given,) = (claim for claim in level_claims(BundleData(copied)) if "under baseline:" in claim.statement)
    assert given.basis.startswith("n = 3 cells")
    assert given in [right for _, right in audit(copied).unfounded]
    path.write_text(json.dumps(record), encoding="utf-8")
    for cell in BundleData(copied).cells:
        if cell.suite_id == fast.suite_id:
            slowed = [
                {**span, "end_ns": span["start_ns"] + 1000 * (span["end_ns"] - span["start_ns"])}
                for span in map(json.loads, (cell.directory / "spans.ndjson").read_text("utf-8").splitlines())
            ]
            text = "".join(json.dumps(span) + "\n" for span in slowed)
            (cell.directory / "spans.ndjson").write_text(text, encoding="utf-8")
    claims = level_claims(BundleData(copied))
    assert claims and not any(fast.suite_id in claim.statement for claim in claims)


def test_a_mistake_of_the_report_does_not_vouch_for_itself(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "significant", lambda value: "0.5")
    render(copied)
    found = audit(copied)
    wrong = "handshake 0.5 to 0.5 ms, others 0.5 to 0.5 ms"
    assert len(found.unfounded) == 3 and {claim.effect for claim, _ in found.unfounded} == {wrong}
    assert not any(given is None or given.effect == wrong for _, given in found.unfounded)


def test_an_earlier_version_owes_no_recommendation(copied: Path) -> None:
    (copied / "data" / "analysis" / "pareto.csv").unlink()
    path = copied / "data" / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**run, "pqlab_version": "0.1.0"}), encoding="utf-8")
    render(copied)
    found = audit(copied)
    # the page says that there is no recommendation, which is no part of the finding before it
    assert "No recommendation: " in (copied / "data" / "report.html").read_text(encoding="utf-8")
    assert found.printed and not of_levels(found.printed) and not found.unfounded and not found.unsaid
    assert of_levels(level_claims(BundleData(copied)))


# --- published ---


def verdicts(folder: Path) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in judge(folder)}


def test_the_published_claims() -> None:
    found = verdicts(REFERENCE)
    assert set(found) == set(CHECKS)
    assert {name for name, verdict in found.items() if verdict == FAILS} == {
        "session-packets",
        "session-wall",
        "max-handshake",
        "aead-cpu",
        "aead-difference",
        "phi-1024",
        "detector-window",
        "power-sensor",
        "suite-energy",
        "suite-network",
        "suite-samples",
        "kem-energy",
        "mceliece-energy",
        "power-range",
    }
    assert {name for name, verdict in found.items() if verdict == OPEN} == {"loss", "xgb-overhead"}
    observed = {claim.id: claim.observed for claim in judge(REFERENCE)}
    assert "36.5 s a suite" in observed["session-wall"] and "median 865" in observed["session-packets"]
    assert "72 of 72" in observed["power-sensor"] and "72.3 J" in observed["suite-energy"]


def with_printed(folder: Path, change: dict[str, str]) -> Path:
    """The reference tables with other printed values."""
    shutil.copytree(REFERENCE, folder)
    path = folder / CLAIMS_FILE
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "printed": change.get(row["id"], row["printed"])} for row in rows)
    return folder


def test_a_claim_that_follows_fails_with_another_number(tmp_path: Path) -> None:
    follow = {claim.id: claim.printed for claim in judge(REFERENCE) if claim.verdict == FOLLOWS}
    del follow["energy-product"]  # it prints no number; its data are spoiled below
    digits = {name: len(text.partition(".")[2]) for name, text in follow.items()}
    wrong = {name: f"{float(text) * 1.5:.{digits[name]}f}" for name, text in follow.items()}
    wrong["suite-packets"] = "1200"  # 12 kB a packet
    found = verdicts(with_printed(tmp_path / "wrong", wrong))
    assert {found[name] for name in wrong} == {FAILS}


def test_a_claim_that_fails_follows_from_what_would_carry_it(tmp_path: Path) -> None:
    right = {
        "session-packets": "865",
        "session-wall": "2626",
        "aead-cpu": "7.306",
        "aead-difference": "5.824",
        "phi-1024": "0.0212",
        "detector-window": "192",
        "suite-energy": "72.4",
        "suite-network": "1",
        "suite-samples": "20000",
        "kem-energy": "1600",
        "mceliece-energy": "40000000",
        "power-range": "4.5",
    }
    found = verdicts(with_printed(tmp_path / "right", right))
    assert {found[name] for name in right} == {FOLLOWS}


def test_the_data_decide_and_not_the_name(tmp_path: Path) -> None:
    folder = with_printed(tmp_path / "data", {})
    suites = folder / "published-72-suites.csv"
    with suites.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.update(base_power_avg_w="5.1", base_handshake_ok="True")
    with suites.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    energy = folder / "power-2026-01.csv"
    energy.write_text(energy.read_text(encoding="utf-8").replace("57.429", "5.7429"), encoding="utf-8")
    found = verdicts(folder)
    assert (found["power-sensor"], found["max-handshake"]) == (FOLLOWS, FOLLOWS)
    assert (found["suites-passed-baseline"], found["energy-product"]) == (FAILS, FAILS)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--published"]) == 0
    text = capsys.readouterr().out
    assert "17 follows, 14 does not follow, 2 open" in text and text.count("[ ]") == 14
    assert main(["audit", "--published", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]) == len(CHECKS)
