"""Detectors in a campaign: awake in their own cells alone, fed, read, proved by a canary; containers."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_agent import FakeLab

from pqdetect.service.verdict import WINDOW_NS
from pqevidence.bundle import seal
from pqevidence.errors import LabError
from pqevidence.scenario import Scenario
from pqlab.campaign import detectors
from pqlab.campaign.canary import ALARM_ENDS_S, canary_condition, canary_s, fed_roles
from pqlab.campaign.cgroup import cpu_ns, group_files, resident_bytes
from pqlab.campaign.detectors import ComposeDetector
from pqlab.campaign.engine import Campaign
from pqlab.campaign.residents import Residents
from pqlab.campaign.settle import same_detectors

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]


class FakeDetector:
    """Remembers what it was told; uses CPU only while it is awake."""

    def __init__(self, name: str = "x") -> None:
        self.name = name
        self.calls: list[str] = []
        self.awake = False
        self.cpu_ns = 0

    def start(self) -> None:
        self.calls.append("start")
        self.awake = True

    def freeze(self) -> None:
        self.calls.append("freeze")
        self.awake = False

    def thaw(self) -> None:
        self.calls.append("thaw")
        self.awake = True

    def forget(self) -> None:
        assert self.awake, "nobody hears a signal while frozen"
        self.calls.append("forget")

    def mark(self) -> None:
        assert self.awake, "nobody hears a signal while frozen"
        self.calls.append("mark")

    def stop(self) -> None:
        self.calls.append("stop")

    def facts(self) -> Json:
        return {"image": "i", "image_id": "sha256:1", "model": self.name, "sha256": "ab", "card": {}}

    def usage(self) -> Json:
        self.cpu_ns += 7 * self.awake
        return {"t_ns": 1, "cpu_ns": self.cpu_ns, "rss_bytes": 9, "frozen": not self.awake, "reason": None}


def test_detectors_sleep_outside_their_cells() -> None:
    xgboost, tst, idle = FakeDetector(), FakeDetector(), FakeDetector()
    conditions = [{"detector": "none"}, {"detector": "xgboost"}, {"detector": "tst"}]
    residents = Residents(conditions, {"xgboost": xgboost, "tst": tst, "other": idle})
    residents.start()
    for name in ("none", "xgboost", "xgboost", "tst", "none"):
        residents.enter({"detector": name, "detector_history": "warm" if name == "tst" else "cold"})
    residents.stop()
    assert xgboost.calls == ["start", "freeze", "thaw", "forget", "forget", "freeze", "stop"]
    assert tst.calls == ["start", "freeze", "thaw", "freeze", "stop"]
    assert idle.calls == ["stop"]  # left by an earlier campaign, it would use CPU in this one's cells


def test_a_detector_that_changed_ends_the_resumption() -> None:
    now = {"xgboost": FakeDetector("xgboost").facts()}
    same_detectors({"detectors": now}, now, "r1")
    with pytest.raises(LabError) as caught:
        same_detectors({"detectors": {"xgboost": {**now["xgboost"], "sha256": "cd"}}}, now, "r1")
    assert caught.value.code == "builds-changed"


# ---------------------------------------------------------------------- a campaign in memory


class Noted:
    """A timeline that keeps what it was made for."""

    def __init__(self, log: list[str], condition: Json, folder: Path) -> None:
        self.log, self.name = log, folder.name if folder.name == "canary" else "cell"
        self.events = condition["events"]
        self.killed: dict[str, Any] = {}

    def before(self, orders: dict[str, Any] | None = None) -> None:
        self.log.append(f"{self.name}: before")

    def during(self) -> AbstractContextManager[None]:
        self.log.append(f"{self.name}: during")
        return nullcontext()

    def heal(self) -> list[Json]:
        self.log.append(f"{self.name}: heal")
        return []


def watched(
    lab: FakeLab, conditions: str = "{name: baseline}, {name: xgboost, detector: xgboost}"
) -> Scenario:
    return lab.asked(f"conditions: [{conditions}]\ntraffic: {{session_s: 5}}\norder: {{method: fixed}}\n")


def test_a_watched_cell_is_fed_read_and_proved(tmp_path: Path) -> None:
    lab, detector, log = FakeLab(tmp_path), FakeDetector("xgboost"), []  # type: ignore[var-annotated]
    made: list[Noted] = []

    def timeline(condition: Json, *rest: Any) -> Noted:
        made.append(Noted(log, condition, rest[-1]))
        return made[-1]

    around = replace(lab.around(), residents={"xgboost": detector}, timeline=timeline)  # type: ignore[arg-type]
    result = Campaign.begin(around, watched(lab)).carry_out()
    assert result.verdict_counts == {"pass": 2}
    assert detector.calls == ["start", "freeze", "thaw", "forget", "mark", "stop"]
    data = result.bundle / "data"
    assert json.loads((data / "providers.json").read_text())["detectors"]["xgboost"]["image_id"] == "sha256:1"
    plan = json.loads((data / "plan.json").read_text())["cells"]
    bare, own = (data / "cells" / row["cell_id"] for row in plan)

    feeds = [params.get("feed") for method, params in lab.drone.calls if method == "prepare"]
    assert feeds == [None, True]
    assert all("feed" not in params for method, params in lab.gcs.calls if method == "prepare")
    assert not (bare / "detector.ndjson").exists()
    assert (own / "detector.ndjson").read_text().splitlines() == ["detector 0", "detector 1", "detector 2"]
    assert (own / "bins.ndjson").is_file()

    def used(cell: Path) -> int:
        document = json.loads((cell / "detectors.json").read_text())
        return int(document["after"]["xgboost"]["cpu_ns"] - document["before"]["xgboost"]["cpu_ns"])

    assert used(bare) == 0
    assert used(own) == 7
    events = [json.loads(line) for line in (own / "events.ndjson").read_text().splitlines()]
    marks = [e["window"] for e in events if e.get("event") == "window_start" and e["host"] == "controller"]
    assert marks == ["handshake_cold", "traffic", "canary"]
    assert log == [
        "cell: before",
        "cell: during",
        "cell: heal",
        "cell: before",
        "cell: during",
        "cell: heal",
        "canary: before",
        "canary: during",
        "canary: heal",
        "canary: heal",
        "cell: heal",
    ]
    (event,) = made[-1].events
    assert (event["kind"], event["attack"]["kind"], event["attack"]["target"]) == (
        "attack",
        "forged",
        "drone",
    )


def test_cells_of_another_detector_are_not_added(tmp_path: Path) -> None:
    """One that no cell of the sealed bundle had is no change of it."""
    lab = FakeLab(tmp_path)
    lab.outputs = replace(lab.outputs, seal=seal)

    def carry_out(conditions: str, token: str, into: Path | None, xgboost: str) -> Path:
        one, two = FakeDetector("xgboost"), FakeDetector("tst")
        one.facts = lambda: {**FakeDetector("xgboost").facts(), "sha256": xgboost}  # type: ignore[method-assign]
        around = replace(
            lab.around(token=token),
            into=into,
            residents={"xgboost": one, "tst": two},
            timeline=lambda condition, *rest: Noted([], condition, rest[-1]),
        )
        return Campaign.begin(around, watched(lab, conditions)).carry_out().bundle

    few = "{name: b}, {name: x, detector: xgboost}"
    more = f"{few}, {{name: y, detector: tst}}"
    first = carry_out(few, "aaaaa1", None, "ab")
    with pytest.raises(LabError) as caught:
        carry_out(more, "aaaaa2", first, "cd")
    assert (caught.value.code, caught.value.exit_code) == ("builds-changed", 4)
    assert "detector xgboost" in caught.value.what
    second = carry_out(more, "aaaaa3", first, "ab")
    assert len(list((second / "data" / "cells").iterdir())) == 3


def steps_of(root: Path, conditions: str) -> list[str]:
    """What a campaign of these conditions asks of detector `tst`, and when, in one list."""
    lab, detector, log = FakeLab(root), FakeDetector("tst"), []  # type: ignore[var-annotated]
    detector.calls = log

    def timeline(condition: Json, *rest: Any) -> Noted:
        return Noted(log, condition, rest[-1])

    around = replace(lab.around(), residents={"tst": detector}, timeline=timeline)  # type: ignore[arg-type]
    Campaign.begin(around, watched(lab, conditions)).carry_out()
    return log


def test_what_we_do_to_a_cell_is_not_carried_into_the_next(tmp_path: Path) -> None:
    """A detector is marked once a cell: before the cell's own attack, else before its canary."""
    warm = "detector: tst, detector_history: warm"
    hit = f"{warm}, attack: {{kind: flood, start_s: 1, for_s: 1}}"
    log = steps_of(tmp_path, f"{{name: calm, {warm}}}, {{name: hit, {hit}}}")
    steps = [step for step in log if step == "mark" or step.endswith("during")]
    assert steps == ["cell: during", "mark", "canary: during", "mark", "cell: during", "canary: during"]
    assert "forget" not in log


def test_a_cold_cell_s_attack_and_canary_are_not_carried_into_a_warm_cell(tmp_path: Path) -> None:
    """Conditions of both kinds may share a detector: the warm one's history holds the cold cells, too."""
    hit = "detector: tst, attack: {kind: flood, start_s: 1, for_s: 1}"
    warm = "{name: warm, detector: tst, detector_history: warm}"
    log = steps_of(tmp_path, f"{{name: calm, detector: tst}}, {{name: hit, {hit}}}, {warm}")
    steps = [step for step in log if step in ("mark", "forget") or step.endswith("during")]
    assert steps == [
        "forget",
        "cell: during",
        "mark",
        "canary: during",
        "forget",
        "mark",
        "cell: during",
        "canary: during",
        "cell: during",
        "mark",
        "canary: during",
    ]


def test_a_detector_that_sleeps_is_not_marked() -> None:
    detector = FakeDetector()
    residents = Residents([{"detector": "x"}], {"x": detector})
    residents.start()
    residents.mark()
    assert "mark" not in detector.calls


def test_the_lab_runs_the_models_that_are_named() -> None:
    """What compose starts is what providers.json describes, and `xgboost` is the one that won."""
    services = yaml.safe_load((ROOT / "compose" / "lab.yml").read_text())["services"]
    for name, model in detectors.MODELS.items():
        assert services[f"detector-{name}"]["command"] == ["serve", "--model", model, "--name", name]
        card = json.loads((ROOT / "detectors" / "models" / model / "card.json").read_text())
        assert card["name"] == model
    won = json.loads((ROOT / "detectors" / "models" / "default.json").read_text())["default"]
    assert won in detectors.MODELS.values()
    assert detectors.MODELS["xgboost"] == won


def test_only_ends_that_something_looks_at_are_fed() -> None:
    quiet = {"detector": "none", "attack": "none", "events": []}
    assert fed_roles(quiet) == frozenset()
    assert fed_roles({**quiet, "detector": "tst"}) == {"drone"}
    assert fed_roles({**quiet, "attack": {"kind": "flood", "for_s": 1, "target": "gcs"}}) == {"drone", "gcs"}
    assert fed_roles({**quiet, "events": [{"kind": "attack", "at_s": 0, "attack": {"target": "drone"}}]}) == {
        "drone"
    }


def test_the_canary_leaves_link_keys_and_policy_alone() -> None:
    busy = {
        "name": "c",
        "detector": "xgboost",
        "link": {"up": {}},
        "rekey": {"every_s": 1},
        "policy": {"x": 1},
        "attack": {"kind": "flood", "for_s": 1},
        "events": [{"kind": "partition"}],
    }
    canary = canary_condition(busy)
    assert {canary[key] for key in ("link", "rekey", "policy", "attack")} == {"none"}
    assert [event["kind"] for event in canary["events"]] == ["attack"]


def test_the_canary_waits_until_no_alarm_of_the_cell_s_own_attack_stands(tmp_path: Path) -> None:
    """In traffic: windows without a datagram are not judged, so that an alarm would stand through them."""
    lab, detector = FakeLab(tmp_path), FakeDetector("tst")
    made: dict[str, float] = {}

    def timeline(condition: Json, *rest: Any) -> Noted:
        if rest[-1].name == "canary":
            made[condition["name"]] = condition["events"][0]["at_s"]
        return Noted([], condition, rest[-1])

    attack = "attack: {kind: flood, start_s: 1, for_s: 1}"
    scenario = watched(
        lab, f"{{name: calm, detector: tst}}, {{name: hit, detector: tst, {attack}}}, {{name: b, {attack}}}"
    )
    around = replace(lab.around(), residents={"tst": detector}, timeline=timeline)  # type: ignore[arg-type]
    Campaign.begin(around, scenario).carry_out()
    assert made == {"calm": 0.5, "hit": 6.5}
    runs = [p["duration_s"] for m, p in lab.drone.calls if m == "event" and p["kind"] == "traffic_run"]
    assert runs == [5, 4.0, 5, 10.0, 5]
    assert [canary_s(scenario.condition(name)) for name in ("calm", "hit", "b")] == [4.0, 10.0, 0.0]


def test_an_alarm_s_hold_and_what_features_reach_back_fit_before_the_canary() -> None:
    for model in detectors.MODELS.values():
        card = json.loads((ROOT / "detectors" / "models" / model / "card.json").read_text())
        rule = card["rules"]["attack"]
        assert (rule["hold"] + 5) * WINDOW_NS <= ALARM_ENDS_S * 1e9
        assert rule["among"] <= 5


# ---------------------------------------------------------------------- control groups


def test_cpu_and_memory_of_a_group_of_either_version(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "7").mkdir(parents=True)
    assert group_files(7, proc, root) is None
    (proc / "7" / "cgroup").write_text("4:memory:/d/x\n2:cpuacct:/d/x\n0::/d/x\n")
    for controller in ("cpuacct", "memory"):
        (root / controller / "d" / "x").mkdir(parents=True)
    (root / "cpuacct" / "d" / "x" / "cpuacct.usage").write_text("123456789\n")
    (root / "memory" / "d" / "x" / "memory.stat").write_text("cache 9\nrss 100\nmapped_file 20\n")
    first = group_files(7, proc, root)
    assert first is not None
    assert (first.version, cpu_ns(first), resident_bytes(first)) == (1, 123456789, 120)

    (proc / "7" / "cgroup").write_text("0::/s/docker-x.scope\n")
    (root / "s" / "docker-x.scope").mkdir(parents=True)
    (root / "s" / "docker-x.scope" / "cpu.stat").write_text("usage_usec 42\nuser_usec 40\n")
    second = group_files(7, proc, root)
    assert second is not None
    assert (second.version, cpu_ns(second), resident_bytes(second)) == (2, 42_000, None)


# ---------------------------------------------------------------------- containers

#: an engine of one container, whose state is a file; it writes down what it was asked
DOCKER = """#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/asked"
state=$(cat "$here/state" 2>/dev/null || echo gone)
case "$1 $*" in
    ps*status=running*) [ "$state" = running ] && echo box ;;
    ps*status=paused*) [ "$state" = paused ] && echo box ;;
    ps*) [ "$state" = gone ] || echo box ;;
    inspect*) echo 4242 ;;
    pause*) echo paused >"$here/state" ;;
    unpause*) echo running >"$here/state" ;;
    kill*) [ "$state" = running ] || exit 1 ;;
    stop*) [ "$state" != paused ] || exit 1 ;;
    rm*) echo gone >"$here/state" ;;
    images*) echo 1 ;;
    image*) echo sha256:77 ;;
    run*) echo '{"name": "xgboost", "sha256": "ab", "size_bytes": 5}' ;;
esac
exit 0
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    script = tmp_path / "compose" / "lab.sh"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\nif [ "$1" = image ]; then echo built; echo "pqlab/$2-of-the-overlay:dev"; '
        'else echo running >"${0%/*}/../bin/state"; fi\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    monkeypatch.setattr(detectors, "project_root", lambda: tmp_path)
    return docker.parent


def test_a_container_is_started_frozen_woken_told_and_removed(engine: Path) -> None:
    told: list[str] = []
    detector = ComposeDetector("xgboost", "pqlab", told.append)
    state = engine / "state"
    detector.start()
    detector.freeze()
    assert state.read_text() == "paused\n"
    assert detector.usage()["frozen"] is True
    detector.thaw()
    detector.forget()
    detector.mark()
    detector.freeze()
    detector.stop()
    assert state.read_text() == "gone\n"
    asked = [line.split()[0] for line in (engine / "asked").read_text().splitlines()]
    assert asked.count("pause") == 2 and asked.count("unpause") == 2
    assert "kill --signal USR1 box\nkill --signal USR2 box" in (engine / "asked").read_text()
    assert told == ["starting detector xgboost"]


def test_what_it_is_comes_from_the_image(engine: Path) -> None:
    facts = ComposeDetector("xgboost", "pqlab", lambda _: None).facts()
    assert (facts["image_id"], facts["sha256"], facts["card"]["size_bytes"]) == ("sha256:77", "ab", 5)
    # the image that compose would start, which an overlay may have replaced
    assert facts["image"] == "pqlab/detector-xgboost-of-the-overlay:dev"
    assert "pqlab/detector-xgboost-of-the-overlay:dev card" in (engine / "asked").read_text()


def test_nothing_there_is_nothing_to_stop(engine: Path) -> None:
    ComposeDetector("tst", "pqlab", lambda _: None).stop()
    assert [line.split()[0] for line in (engine / "asked").read_text().splitlines()] == ["ps"]


def test_usage_is_null_with_a_reason_where_no_group_is_read(engine: Path) -> None:
    usage = ComposeDetector("tst", "pqlab", lambda _: None).usage()
    assert usage["cpu_ns"] is None
    assert "control group" in usage["reason"]
