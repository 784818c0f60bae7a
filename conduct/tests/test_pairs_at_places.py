"""Pairs of an inventory at places of a real coordinator: each holds its own, or ends without a share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from places_kit import Rack, labgrid_python

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_USAGE
from pqlab.cli import side_by_side
from pqlab.cli.main import main
from pqlab.rack import hold
from pqlab.rack.hold import held
from waiting import free_port

SUITE = "cs-mlkem768-aesgcm-mldsa65"
INVENTORY = """\
[drone]
drone-1 pqlab_host_seed=1 pqlab_agent_port=1
drone-2 pqlab_host_seed=2 pqlab_agent_port=1
[gcs]
gcs-1 pqlab_agent_port=2
gcs-2 pqlab_agent_port=2
[pair_1]
drone-1
gcs-1
[pair_1:vars]
pqlab_place=rack-1
[pair_2]
drone-2
gcs-2
[pair_2:vars]
{second}
[all:vars]
pqlab_ring=sim
"""
CONTROLLER = """
import sys
from pathlib import Path
from pqlab.cli.main import main
from pqlab.rack import hold
hold.PYTHON = Path(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this tree, and with the labgrid that is here."""
    monkeypatch.setattr(hold, "PYTHON", labgrid_python())
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.delenv("LG_ENV", raising=False)
    start = [sys.executable, "-c", CONTROLLER, str(labgrid_python())]
    monkeypatch.setattr(side_by_side, "command", lambda words: [*start, *words])


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    rack = Rack(tmp_path, free_port())
    rack.write_places({"rack-1": {"board": "pi4"}, "rack-2": {"board": "pi5"}})
    rack.start()
    yield rack
    rack.stop()


def ordered(folder: Path, *more: str, second: str = "pqlab_place=rack-2") -> list[str]:
    file = folder / "rack.ini"
    file.write_text(INVENTORY.format(second=second))
    short = ["--reps", "2", "--suites", SUITE, "--session-s", "1"]
    return ["run", "smoke", *short, "--inventory", str(file), "--out", str(folder / "out"), "--json", *more]


def test_each_pair_holds_its_own_and_one_that_is_held_goes_on_later(
    rack: Rack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ordered(tmp_path, "--coordinator", rack.address)
    with held(rack.wanted("rack-2"), print):
        assert main(words) == EXIT_ENVIRONMENT
    out, err = capsys.readouterr()
    first = json.loads(out.splitlines()[-1])
    assert [row["died"] is not None for row in first["pairs"]] == [False, True]
    assert "pair_2 ended without its share: rack-2 is held by " in err
    assert "pair_1 │ rack-1 is held until this run ends" in err
    assert "Reservation" not in rack.client("reservations"), "every place is given back"

    assert main(words) == EXIT_OK
    out, err = capsys.readouterr()
    second = json.loads(out.splitlines()[-1])
    assert second["missing_repetitions"] == [] and second["folder"] == first["folder"]
    for row, place, board in zip(second["pairs"], ("rack-1", "rack-2"), ("pi4", "pi5"), strict=True):
        for role in ("drone", "gcs"):
            facts = json.loads((Path(row["bundle"]) / "data" / "hosts" / f"{role}.json").read_text())
            assert (facts["place"]["name"], facts["place"]["tags"]) == (place, {"board": board})
    assert main(["verify", second["bundle"]]) == EXIT_OK
    assert "Reservation" not in rack.client("reservations")


def test_drivers_of_one_place_are_not_those_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LG_ENV", "power.yml")
    assert main(ordered(tmp_path)) == EXIT_USAGE
    assert "LG_ENV does not go with all pairs" in capsys.readouterr().err
    monkeypatch.delenv("LG_ENV")
    without = ordered(tmp_path, "--coordinator", "127.0.0.1:1", second="")
    without_any = Path(tmp_path / "rack.ini")
    without_any.write_text(without_any.read_text().replace("pqlab_place=rack-1\n", ""))
    assert main(without) == EXIT_USAGE
    assert "no pair of the inventory has pqlab_place" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_place_is_for_one_simulated_machine_in_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sim.ini"
    ends = "[drone]\nd pqlab_agent_port=1\n[gcs]\ng pqlab_agent_port=2\n[all:vars]\npqlab_ring=sim\n"
    file.write_text(ends)
    run = ["run", "smoke", "--inventory", str(file), "--out", str(tmp_path / "out")]
    for several, what in (
        (["--host-seed", "1-2"], "several simulated machines"),
        (["--workers", "2"], "workers"),
    ):
        assert main([*run, *several, "--place", "rack-1"]) == EXIT_USAGE
        assert f"--place does not go with {what}" in capsys.readouterr().err
        file.write_text(ends + "pqlab_place=rack-1\n")
        assert main([*run, *several]) == EXIT_USAGE
        assert f"a place of a rack does not go with {what}" in capsys.readouterr().err
        of_each = [*run[:3], str(tmp_path / "{place}.ini"), *run[4:], "--place", "sim"]
        assert main([*of_each, *several]) == EXIT_USAGE
        assert f"a place of a rack does not go with {what}" in capsys.readouterr().err
        file.write_text(ends)
    assert not (tmp_path / "out").exists()
