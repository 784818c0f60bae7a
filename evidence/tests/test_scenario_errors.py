"""Golden errors: what a user reads for each mistake in a scenario, word for word where it matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.errors import EXIT_USAGE, LabError
from pqevidence.scenario import Overrides, load_scenario

GOOD = """\
schema: pqlab/scenario/v1
name: golden
suites:
  - cs-mlkem768-aesgcm-mldsa65
repetitions: 3
handshake:
  count: 30
traffic:
  session_s: 5
bulk:
  rates_pps: [600]
"""


def error(tmp_path: Path, text: str, overrides: Overrides | None = None) -> LabError:
    file = tmp_path / "bad.yml"
    file.write_text(text)
    with pytest.raises(LabError) as caught:
        load_scenario(str(file), overrides)
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("key", ["rekey: {every_s: 1}", "drone_auth: signature"])
def test_plain_takes_nothing_that_needs_a_handshake(tmp_path: Path, key: str) -> None:
    text = GOOD.replace("suites:\n", "suites:\n  - plain\n")
    found = error(tmp_path, text + f"conditions:\n  - name: odd\n    {key}\n")
    assert found.code == "plain-without-handshake" and "bad.yml:15" in found.what
    scoped = f"conditions:\n  - name: odd\n    {key}\n    suites: [cs-*]\n"
    file = tmp_path / "scoped.yml"
    file.write_text(text + scoped)
    assert "plain" in load_scenario(str(file)).suites


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("", "`peer_kill` in a scenario with `bulk`"),
        ("    detector: xgboost\n", "`peer_kill` and a detector"),
        ("    link: {up: {loss_pct: 1}}\n", "`peer_kill` and a link"),
        ("    attack: {kind: flood, start_s: 1, for_s: 1}\n", "`peer_kill` and an attack"),
        ("      - {at_s: 2, kind: peer_kill, role: gcs}\n", "two kills"),
    ],
)
def test_a_killed_end_is_alone_in_its_condition(tmp_path: Path, beside: str, said: str) -> None:
    """What it counted is gone with it, and so is what link and attacker set up in its network."""
    events = "    events:\n      - {at_s: 1, kind: peer_kill, role: drone}\n"
    text = GOOD if not beside else GOOD.split("bulk:")[0]
    found = error(tmp_path, f"{text}conditions:\n  - name: dead\n{events}{beside}")
    assert f"condition `dead` has {said}" in found.what
    alone = tmp_path / "alone.yml"
    alone.write_text(f"{GOOD.split('bulk:')[0]}conditions:\n  - name: dead\n{events}")
    assert load_scenario(str(alone)).cell_count == 3


def test_the_good_one_loads(tmp_path: Path) -> None:
    file = tmp_path / "good.yml"
    file.write_text(GOOD)
    assert load_scenario(str(file)).repetitions == 3


#: (in the good text, instead of it, where, what is said, what to do)
MISTAKES = [
    (
        "repetitions:",
        "repetitons:",
        "bad.yml:5",
        "unknown key `repetitons`",
        "did you mean `repetitions`?",
    ),
    (
        "  count: 30",
        "  cuont: 30",
        "bad.yml:7",
        "unknown key `cuont` under `handshake`",
        "did you mean `count`?",
    ),
    (
        "  session_s: 5",
        "  sesion: 5",
        "bad.yml:9",
        "unknown key `sesion` under `traffic`",
        "`session_s`?",
    ),
    (
        "  count: 30",
        "  zzz: 30",
        "bad.yml:7",
        "unknown key `zzz` under `handshake`",
        "remove `zzz`",
    ),
    (
        "  count: 30",
        "  pooled: {count: 300}",
        "bad.yml:7",
        "300 is above the greatest value 256",
        "`handshake.pooled.count`",
    ),
    (
        "  count: 30",
        "  pooled: {cuont: 3}",
        "bad.yml:7",
        "unknown key `cuont` under `handshake.pooled`",
        "did you mean `count`?",
    ),
    (
        "repetitions: 3",
        "conditions: [{name: a, drone_auth: sgnature}]",
        "bad.yml:5",
        "cannot be 'sgnature'",
        "did you mean `signature`?",
    ),
    (
        "  session_s: 5",
        "  rate_hz: 320",
        "bad.yml:8",
        "key `session_s` is missing under `traffic`",
        "`session_s:`",
    ),
    (
        "repetitions: 3",
        "repetitions: three",
        "bad.yml:5",
        "`repetitions` must be a whole number",
        "repetitions",
    ),
    (
        "repetitions: 3",
        "repetitions: 0",
        "bad.yml:5",
        "0 is below the least value 1",
        "`repetitions`",
    ),
    (
        "repetitions: 3",
        "repetitions: true",
        "bad.yml:5",
        "must be a whole number, not True",
        "repetitions",
    ),
    (  # no comparison with NaN holds, so no limit would stop it
        "  session_s: 5",
        "  session_s: .nan",
        "bad.yml:9",
        "`traffic.session_s` must be a number, not nan",
        "`traffic.session_s`. Correct line 9",
    ),
    (  # which YAML takes for text
        "  session_s: 5",
        "  session_s: 2e1",
        "bad.yml:9",
        "must be a number, not '2e1'",
        "a plain number: 20.",
    ),
    (
        "  session_s: 5",
        "  session_s: 5\n  source: embeded",
        "bad.yml:10",
        "cannot be 'embeded'",
        "`embedded`",
    ),
    (
        "[600]",
        "[600, 600]",
        "bad.yml:11",
        "holds the same item twice",
        "bulk.rates_pps",
    ),
    (
        "[600]",
        "[]",
        "bad.yml:11",
        "needs at least 1 item",
        "bulk.rates_pps",
    ),
    (
        "name: golden",
        "name: Golden Run",
        "bad.yml:2",
        "lower-case letters",
        "`name`",
    ),
    (
        "name: golden",
        "name: golden\nname: twice",
        "bad.yml:3",
        "`name` is written twice",
        "remove one",
    ),
    (
        "suites:",
        "suites: [",
        "bad.yml:",
        "not YAML",
        "correct line",
    ),
    (
        "  - cs-mlkem768",
        "  - cs-mlkem786",
        "bad.yml:4",
        "no suite `cs-mlkem786-",
        "`cs-mlkem768-aesgcm-mldsa65`",
    ),
    (
        "  - cs-mlkem768-aesgcm-mldsa65",
        "  - cs-nokem*",
        "bad.yml:4",
        "no suite `cs-nokem*`",
        "pqtunnel suites",
    ),
    (
        "  count: 30",
        "  count: 3\n  min_count: 5",
        "bad.yml:8",
        "is above `handshake.count` 3",
        "lower min_count",
    ),
    (
        "  session_s: 5",
        "  session_s: 5\n  source: tlog",
        "bad.yml:10",
        "`traffic.path` is missing",
        "`path:`",
    ),
    (
        "v1",
        "v9",
        "bad.yml:1",
        "`schema` cannot be 'pqlab/scenario/v9'",
        "did you mean `pqlab/scenario/v1`?",
    ),
]


@pytest.mark.parametrize(("old", "new", "where", "said", "next_step"), MISTAKES)
def test_golden(tmp_path: Path, old: str, new: str, where: str, said: str, next_step: str) -> None:
    assert old in GOOD
    found = error(tmp_path, GOOD.replace(old, new, 1))
    assert where in found.what
    assert said in found.what
    assert next_step in found.hint


def test_every_problem_is_listed_in_line_order(tmp_path: Path) -> None:
    text = GOOD.replace("repetitions: 3", "repetitions: no").replace("count: 30", "count: 0")
    lines = error(tmp_path, text).what.splitlines()
    assert [line.rsplit("bad.yml:", 1)[1].split(":")[0] for line in lines] == ["5", "7"]


def test_the_three_lines_of_an_error(tmp_path: Path) -> None:
    text = error(tmp_path, GOOD.replace("repetitions:", "repetitons:")).text()
    first, why, hint = text.splitlines()
    assert first.startswith("error: ")
    assert why.startswith("  why:  keys allowed here: ")
    assert hint.startswith("  next: did you mean `repetitions`? Correct line 5, then: ./pqlab validate ")


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a list\n", "just words\n"])
def test_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    assert "bad.yml:" in error(tmp_path, text).what


def test_not_text(tmp_path: Path) -> None:
    file = tmp_path / "binary.yml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabError) as caught:
        load_scenario(str(file))
    assert "UTF-8" in caught.value.why


def test_a_missing_file_and_a_misspelt_name(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        load_scenario(str(tmp_path / "nowhere.yml"))
    assert "nowhere.yml" in caught.value.what
    with pytest.raises(LabError) as caught:
        load_scenario("smok")
    assert "did you mean `smoke`?" in caught.value.hint


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (Overrides(session_s=0.1), "--session-s 0.1"),
        (Overrides(repetitions=0), "--reps 0"),
        (Overrides(suites=("cs-mlkem786-aesgcm-mldsa65",)), "--suites: no suite"),
    ],
)
def test_options_out_of_range(tmp_path: Path, overrides: Overrides, said: str) -> None:
    assert said in error(tmp_path, GOOD, overrides).what


def test_a_session_for_a_scenario_without_one(tmp_path: Path) -> None:
    text = GOOD.replace("traffic:\n  session_s: 5\n", "")
    assert "--session-s" in error(tmp_path, text, Overrides(session_s=5)).what


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "name: a\x00b\n", "name: a\x1bb\n"])
def test_text_that_yaml_cannot_take_at_all(text: str, tmp_path: Path) -> None:
    """No line can be named for these; they are still an error with what, why and next."""
    file = tmp_path / "odd.yml"
    file.write_text(text)
    with pytest.raises(LabError) as caught:
        load_scenario(str(file))
    assert caught.value.code == "yaml-syntax" and "odd.yml" in caught.value.what
    assert caught.value.why and "./pqlab validate" in caught.value.hint


def test_the_list_of_suites_is_named_once(tmp_path: Path) -> None:
    for pattern in ("zz*", "*", "cs-mlkem786-aesgcm-mldsa65"):
        hint = error(tmp_path, GOOD, Overrides(suites=(pattern,))).hint
        assert hint.count("./pqtunnel suites") == 1
