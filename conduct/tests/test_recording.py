"""A bundle's cells as recordings: what the drone saw, and the truth from attacker and ledgers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bundle_kit import make_sealed
from drone_bins import write_bins
from measures.attack.bad_bundles import ATTACK, SENT, attack_all

from pqevidence.errors import LabError
from pqevidence.record.raw import RawDataError
from pqevidence.recording import WINDOW_NS, read_seen, write_recordings
from pqevidence.verify import verify_bundle
from pqlab.cli.main import main

Json = dict[str, Any]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed synthetic bundle whose drones were attacked and wrote down what they saw."""
    made = make_sealed(tmp_path_factory.mktemp("sealed"))
    root = tmp_path_factory.mktemp("attacked") / made.name
    shutil.copytree(made, root)
    attack_all(root, lambda rows: None)
    for cell in (root / "data" / "cells").iterdir():
        write_bins(cell)
    return root


def test_an_attack_as_it_was_told_is_no_fault(attacked: Path) -> None:
    """What the bad bundles of `attacks` were before they were spoiled: only the rest was made anew."""
    for name in ("attack_bounded", "attack_counted", "nothing_foreign"):
        result = next(r for r in verify_bundle(attacked) if r.name == name)
        assert result.status == "ok", result


def test_truth_is_the_attackers_and_the_ledgers(attacked: Path, tmp_path: Path) -> None:
    written, left_out = write_recordings(attacked, tmp_path)
    assert len(written) == len(list((attacked / "data" / "cells").iterdir())) and left_out == []
    truth = json.loads((written[0] / "truth.json").read_text())
    assert (truth["schema"], truth["source"], truth["kind"]) == ("pqdetect/truth/v1", "lab", "forged")
    episode = truth["episodes"][0]
    assert (episode["visible"], episode["sent_count"], episode["rate_pps"]) == (
        True,
        SENT,
        ATTACK["rate_pps"],
    )
    loss = truth["loss"]
    windows = (truth["t1_ns"] - truth["t0_ns"]) // WINDOW_NS
    assert {len(column) for column in loss.values()} == {windows}
    assert sum(loss["sent_in"]) == sum(loss["received_in"]) > 0, "on the direct path nothing was lost"
    assert sum(loss["sent_out"]) == sum(loss["received_out"]) > 100


def test_what_did_not_arrive_is_a_loss_of_its_window(attacked: Path, tmp_path: Path) -> None:
    root = tmp_path / attacked.name
    shutil.copytree(attacked, root)
    cell = min((root / "data" / "cells").iterdir())
    path = cell / "ledger.drone.csv"
    lines = path.read_text().splitlines(keepends=True)
    received = [line for line in lines if line.startswith("rx,")]
    path.write_text("".join(line for line in lines if line != received[0]))
    written, _ = write_recordings(root, tmp_path / "out")
    truth = json.loads(
        next(w for w in written if w.name.endswith(cell.name)).joinpath("truth.json").read_text()
    )
    lost = [s - r for s, r in zip(truth["loss"]["sent_in"], truth["loss"]["received_in"], strict=True)]
    assert sum(lost) == 1 and sum(truth["loss"]["received_out"]) == sum(truth["loss"]["sent_out"])


def test_what_is_benign_is_no_episode(attacked: Path, tmp_path: Path) -> None:
    root = tmp_path / attacked.name
    shutil.copytree(attacked, root)
    for cell in (root / "data" / "cells").iterdir():
        file = cell / "attack.ndjson"
        text = (
            file.read_text()
            .replace('"kind":"forged"', '"kind":"stray"')
            .replace('"rate_pps":1000', '"rate_pps":20')
        )
        file.write_text(text)
    written, _ = write_recordings(root, tmp_path / "out")
    truth = json.loads((written[0] / "truth.json").read_text())
    assert (truth["kind"], truth["episodes"]) == ("stray", [])


def test_an_attack_that_never_reached_the_drone_is_not_visible_there(attacked: Path, tmp_path: Path) -> None:
    root = tmp_path / attacked.name
    shutil.copytree(attacked, root)
    for cell in (root / "data" / "cells").iterdir():
        rows = (cell / "bins.ndjson").read_text().splitlines()
        (cell / "bins.ndjson").write_text("\n".join(row for row in rows if not row.startswith("[")) + "\n")
    written, _ = write_recordings(root, tmp_path / "out")
    assert json.loads((written[0] / "truth.json").read_text())["episodes"][0]["visible"] is False


def test_a_recording_ends_where_the_canary_begins(attacked: Path, tmp_path: Path) -> None:
    root = tmp_path / attacked.name
    shutil.copytree(attacked, root)
    cell = min((root / "data" / "cells").iterdir())
    traffic = json.loads((cell / "traffic.json").read_text())
    gate = traffic["windows"]["traffic"]["drone"]
    end_k = gate["close_ns"] // WINDOW_NS + 2
    (cell / "canary").mkdir()
    (cell / "canary" / "attack.ndjson").write_text(json.dumps({"t_on_ns": end_k * WINDOW_NS + 5}) + "\n")
    with (cell / "bins.ndjson").open("a") as file:
        for k in range(end_k - 1, end_k + 3):
            file.write(json.dumps([k * 30 + 3, [9, 0, 0, 9, 0, 0, 0]]) + "\n")
            file.write(json.dumps({"k": k, "interface": None, "udp": None}) + "\n")
    written, _ = write_recordings(root, tmp_path / "out")
    mine = next(w for w in written if w.name.endswith(cell.name))
    assert json.loads((mine / "truth.json").read_text())["t1_ns"] == end_k * WINDOW_NS
    rows = [json.loads(line) for line in (mine / "bins.ndjson").read_text().splitlines()[1:]]
    told = {row[0] // 30 if isinstance(row, list) else row["k"] for row in rows}
    assert told == {*range(gate["open_ns"] // WINDOW_NS, gate["close_ns"] // WINDOW_NS + 1), end_k - 1}


def test_cells_without_bins_are_left_out_with_their_reason(attacked: Path, tmp_path: Path) -> None:
    root = tmp_path / attacked.name
    shutil.copytree(attacked, root)
    first, *others = sorted((root / "data" / "cells").iterdir())
    (first / "bins.ndjson").unlink()
    written, left_out = write_recordings(root, tmp_path / "out")
    assert len(written) == len(others)
    assert left_out == [f"{first.name}: no bins.ndjson"]
    for cell in others:
        (cell / "bins.ndjson").unlink()
    with pytest.raises(LabError, match="holds what its drone saw"):
        write_recordings(root, tmp_path / "none")


def test_the_command_writes_them(attacked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recording", str(attacked), "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["recordings"]) == len(list((tmp_path / "out").iterdir()))


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"schema":"other","bin_ns":20000000,"fields":[]}\n', "not json\n",
             '{"schema":"pqtunnel/feed/v1","bin_ns":20000000,"fields":["replay"]}\n[1,[]]\n'],
)  # fmt: skip
def test_damage_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bins.ndjson").write_text(text)
    with pytest.raises(RawDataError):
        read_seen(tmp_path / "bins.ndjson")
