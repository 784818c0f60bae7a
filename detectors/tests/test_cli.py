"""The dispatcher: every verb is found, helps, and errors say what to do next."""

from __future__ import annotations

import importlib

import pytest

from pqdetect import cli
from pqdetect.errors import FeedError, UsageError


def test_every_verb_has_what_the_dispatcher_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, name in cli.verbs().items():
        module = importlib.import_module(name)
        assert module.HELP and "\n" not in module.HELP
        with pytest.raises(SystemExit) as ended:
            cli.main([verb, "--help"])
        assert ended.value.code == 0
        assert f"pqdetect {verb}" in capsys.readouterr().out


def test_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == cli.EXIT_OK
    told = capsys.readouterr().out
    assert all(f"\n  {verb} " in told for verb in cli.verbs())
    assert cli.main([]) == cli.EXIT_USAGE


def test_an_unknown_verb_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sreve"]) == cli.EXIT_USAGE
    told = capsys.readouterr().err
    assert "'sreve'" in told and "features" in told


@pytest.mark.parametrize(("error", "code"), [(UsageError("x"), 2), (FeedError("y"), 4)])
def test_errors_become_codes_and_hints(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(importlib.import_module("pqdetect.commands.features"), "run", fail)
    assert cli.main(["features"]) == code
    assert "next: " in capsys.readouterr().err


def test_features_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from pqdetect.features import FEATURE_NAMES

    assert cli.main(["features"]) == 0
    assert capsys.readouterr().out.split() == list(FEATURE_NAMES)
