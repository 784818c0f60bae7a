"""`pqlab fly` with agents, router and attacker in memory: commands, what is undone, what is left behind."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_kit import last_json
from fake_agent import FakeAgent, FakeConnection, FakeLab

from pqattack.settings import Episode
from pqevidence.errors import UsageError
from pqlab.campaign.agents import Connect
from pqlab.cli import fly
from pqlab.cli.main import main
from pqlab.fly.commands import attack_of, help_lines, link_of, link_profiles, parse, suite_of
from pqlab.fly.lines import Lines
from pqlab.inventory import AgentAddress
from pqlink.settings import Side

Json = dict[str, Any]
FIRST, SECOND = "cs-mlkem768-aesgcm-mldsa65", "cs-mlkem512-chacha20poly1305-falcon512"


class FlyAgent(FakeAgent):
    """An agent that rekeys, opens a station's port and tells of its handshakes."""

    station_port = 0

    def do_hello(self) -> Json:
        return {**super().do_hello(), "traffic": {"available": True, "ready": True}}

    def do_counters(self) -> Json:
        return {**super().do_counters(), "counters": {"tx_data": 7, "rx_ok": 5}}

    def do_event(self, cell_id: str, kind: str, **params: Any) -> Json:
        if kind == "rekey":
            self._require("running")
            return {"suite_id": params.get("suite_id") or FIRST, "duration_ns": 2_500_000, "epoch": 2}
        answer = super().do_event(cell_id, kind, **params)
        if kind == "traffic_open" and params["spec"]["source"] == "station":
            return {**answer, "source": "station", "detail": {"port": self.station_port}}
        return answer

    def do_fetch(self, cell_id: str, stream: str, since: int, limit: int) -> Json:
        row = {"step": "handshake", "host": "drone", "start_ns": 0, "end_ns": 1_250_000}
        return {"lines": [json.dumps(row)], "next": 1, "end": True}


class FakeRouter:
    """Keeps what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lapsed: str | None = None

    def hello(self) -> Json:
        return {}

    def take(self, owner: str, up: Side, down: Side, seed: int) -> Json:
        self.asked.append(f"take {up.rate_kbps:g}")
        return {}

    def release(self) -> bool:
        self.asked.append("release")
        return True

    def close(self) -> None:
        self.asked.append("close")


class FakeAttacker:
    """The same."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lapsed: str | None = None

    def hello(self) -> Json:
        return {}

    def take(self, owner: str) -> Json:
        self.asked.append("take")
        return {}

    def start(self, episode: Episode) -> Json:
        self.asked.append(f"start {episode.kind} {episode.target} {episode.path} {episode.rate_pps:g}")
        return {"episode": 1}

    def stop(self) -> None:
        self.asked.append("stop")

    def truth(self, number: int) -> Json:
        return {"ended": None, "sent_count": 9}

    def release(self) -> bool:
        self.asked.append("release")
        return True

    def close(self) -> None:
        self.asked.append("close")


class Flying:
    """A lab in memory behind `pqlab fly`, whose ground container is a socket."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = FakeLab(root)
        self.lab.drone, self.lab.gcs = (FlyAgent(role, self.lab.clock) for role in ("drone", "gcs"))
        self.out = root / "results"
        self.router, self.attacker = FakeRouter(), FakeAttacker()
        self.server = socket.create_server(("127.0.0.1", 0))
        FlyAgent.station_port = self.server.getsockname()[1]

        def connect(address: AgentAddress) -> FakeConnection:
            return self.lab.connect(address)

        def connector(_inventory: object) -> Connect:
            return connect

        monkeypatch.setattr(fly, "load_inventory", lambda _file: self.lab.inventory())
        monkeypatch.setattr(fly, "tls_connector", connector)
        monkeypatch.setattr(fly, "_address", lambda _project: "127.0.0.1")
        monkeypatch.setattr(fly, "SystemClock", lambda: self.lab.clock)
        monkeypatch.setattr(fly, "LinkControl", lambda: self.router)
        monkeypatch.setattr(fly, "AttackControl", lambda: self.attacker)
        self._monkeypatch = monkeypatch

    def fly(self, typed: str | None, *options: str) -> int:
        """Exit code. typed: what the pilot's input holds; None: there is none."""
        self._monkeypatch.setattr("sys.stdin", None if typed is None else io.StringIO(typed))
        return main(["fly", "--udp-port", "0", "--tcp-port", "0", "--out", str(self.out), *options])

    @property
    def folder(self) -> Path:
        (found,) = (self.out / "flown").iterdir()
        return found

    def events(self) -> list[Json]:
        return [json.loads(line) for line in (self.folder / "events.ndjson").read_text().splitlines()]


@pytest.fixture
def flying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flying]:
    flight = Flying(tmp_path, monkeypatch)
    yield flight
    flight.server.close()


def test_a_session_switches_suites_and_ends_by_quit(
    flying: Flying, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flying.fly(f"suite {SECOND}\nrekey\nstatus\nhelp\nquit\nsuite {FIRST}\n") == 0
    said = capsys.readouterr().out
    assert f"keys agreed by {FIRST} (its agent says 1.25 ms)" in said
    assert f"epoch 2 by {SECOND}" in said
    assert "7 datagrams sent by the drone, 5 came to the ground" in said
    assert all(line in said for line in help_lines())
    assert said.rstrip().splitlines()[-1].startswith("ended by quit; flown, not measured: ")
    told = [(row["event"], row.get("suite_id")) for row in flying.events()]
    assert told[:3] == [("begin", FIRST), ("suite", FIRST), ("vehicle", None)]
    assert ("rekey_asked", SECOND) in told and ("suite", SECOND) in told
    assert told[-1][0] == "end"
    for agent in (flying.lab.drone, flying.lab.gcs):
        assert agent.state == "idle"
        prepare = next(params for method, params in agent.calls if method == "prepare")
        assert len(prepare["accepted_suites"]) == 72
        assert agent.methods()[-2:] == ["traffic_close", "stop"]


def test_a_slip_is_answered_and_the_session_goes_on(
    flying: Flying, capsys: pytest.CaptureFixture[str]
) -> None:
    slips = (
        "siute x\nsuite cs-mlkem786-aesgcm-mldsa65\nlink radio-sik-46k\nattack floood\nrekey now\n\nquit\n"
    )
    assert flying.fly(slips) == 0
    said = capsys.readouterr().out
    for near in ("`suite`", FIRST, "`radio-sik-64k`", "`flood`"):
        assert f"did you mean {near}" in said or f"did you mean `{near}`" in said, near
    assert "`rekey now` is not `rekey`" in said
    assert [row["event"] for row in flying.events()][-1] == "end"


def test_link_and_attack_are_taken_and_given_back(flying: Flying) -> None:
    typed = "attack handshake-flood\nattack stray\nlink off\nlink link-0\nattack pulsing\nquit\n"
    assert flying.fly(typed, "--link", "radio-sik-64k", "--attack", "flood") == 0
    assert flying.router.asked == ["take 32", "release", "take 0", "release", "close"]
    assert flying.attacker.asked == [
        "take",
        "start flood drone link 1000",
        "stop",
        "release",
        "take",
        "start handshake-flood gcs direct 200",
        "stop",
        "release",
        "take",
        "start stray drone link 20",
        "stop",
        "release",
        "take",
        "start pulsing drone link 1000",
        "stop",
        "release",
        "close",
    ]
    link = [row for row in flying.events() if row["event"] == "link"]
    assert [row["profile"] for row in link] == ["radio-sik-64k", None, "link-0", None]
    assert link[0]["up"]["rate_kbps"] == 32


def test_what_is_left_is_marked_and_no_reader_of_bundles_takes_it(
    flying: Flying, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flying.fly("quit\n", "--json") == 0
    document = last_json(capsys)
    assert (document["measured"], document["ended"]) == (False, "quit")
    flown = json.loads((flying.folder / "flown.json").read_text())
    assert (flown["schema"], flown["measured"], flown["ended"]) == ("pqlab/flown/v1", False, "quit")
    assert flown["notice"].startswith("Flown, not measured")
    assert set(flown["counters"]) >= {"drone", "gcs", "ground_port"}
    folder = str(flying.folder)
    for command in (
        ["verify", folder],
        ["report", folder],
        ["compare", folder, folder],
        ["audit", folder],
        ["archive", folder],
        ["export", "tlog", folder],
    ):
        assert main(command) == 5, command
        assert f"{flying.folder.name} was flown, not measured" in capsys.readouterr().err, command


def test_a_folder_of_a_session_that_was_killed_is_marked_already(
    flying: Flying, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pqlab.fly.book.FlightBook.close", lambda *_: None)
    assert flying.fly("quit\n") == 0
    assert json.loads((flying.folder / "flown.json").read_text())["ended"] is None
    assert main(["verify", str(flying.folder)]) == 5


def test_ctrl_c_undoes_everything_and_is_130(flying: Flying) -> None:
    def press(agent: FakeAgent, method: str, params: Json) -> None:
        if params.get("kind") == "traffic_open":
            os.kill(os.getpid(), signal.SIGINT)

    flying.lab.drone.hooks.append(press)
    assert flying.fly(None, "--link", "link-0") == 130
    assert flying.lab.drone.state == flying.lab.gcs.state == "idle"
    assert flying.router.asked == ["take 0", "release", "close"]
    assert flying.events()[-1]["why"].startswith("Ctrl-C")


def test_without_input_it_runs_until_its_time_is_over(flying: Flying) -> None:
    assert flying.fly("", "--for-s", "0.5") == 0
    assert flying.events()[-1]["why"] == "--for-s 0.5"
    assert flying.fly(None, "--for-s", "0.1") == 0


def test_the_end_of_an_input_that_held_something_ends_it(flying: Flying) -> None:
    assert flying.fly("status\n") == 0
    assert flying.events()[-1]["why"] == "the end of input"


def test_no_input_is_not_the_end_of_input() -> None:
    with Path(os.devnull).open() as nothing:
        lines = Lines(nothing)
        assert lines.next(0.2) is None
        assert not lines.ended
    assert Lines(None).next(0.01) is None


def test_a_refused_rekey_is_told_and_the_session_goes_on(
    flying: Flying, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(agent: FakeAgent, method: str, params: Json) -> None:
        if params.get("kind") == "rekey":
            agent._require("nothing")

    flying.lab.drone.hooks.append(refuse)
    assert flying.fly("rekey\nquit\n") == 0
    assert "the agent is running" in capsys.readouterr().out
    assert "rekey_failed" in [row["event"] for row in flying.events()]


def test_a_rekey_that_takes_long_leaves_the_pilot_his_terminal(
    flying: Flying, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over = threading.Event()

    def hold(agent: FakeAgent, method: str, params: Json) -> None:
        if params.get("kind") == "rekey":
            over.wait(60.0)
        elif params.get("kind") == "traffic_close":
            over.set()

    monkeypatch.setattr("pqlab.fly.session._REKEY_S", 0.01)
    flying.lab.drone.hooks.append(hold)
    assert flying.fly(f"suite {SECOND}\nrekey\nstatus\nquit\n") == 0
    said = capsys.readouterr().out
    assert f"agreeing keys by {SECOND} …" in said
    assert "keys are being agreed" in said
    assert f"suite  {FIRST}" in said


def test_an_agent_that_is_gone_ends_it_with_4(flying: Flying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqlab.fly.pulse.EVERY_S", 0.05)
    timer = threading.Timer(0.5, lambda: setattr(flying.lab.gcs, "down", True))
    timer.start()
    assert flying.fly(None) == 4
    timer.join()
    assert "not_undone" in [row["event"] for row in flying.events()]
    assert flying.lab.drone.state == "idle"


def test_an_agent_that_holds_a_cell_is_not_taken(flying: Flying, capsys: pytest.CaptureFixture[str]) -> None:
    flying.lab.gcs.state, flying.lab.gcs.cell_id = "running", "abc"
    assert flying.fly("quit\n") == 4
    assert "./pqlab heal" in capsys.readouterr().err
    assert flying.lab.drone.methods() == ["hello"]


def test_a_taken_port_begins_nothing(flying: Flying, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert flying.fly("quit\n", "--tcp-port", str(other.getsockname()[1])) == 4
    assert "is taken" in capsys.readouterr().err
    assert not (flying.out / "flown").exists()
    assert flying.lab.drone.calls == []


@pytest.mark.parametrize(
    ("options", "near"),
    [
        (["--suite", "cs-mlkem786-aesgcm-mldsa65"], FIRST), (["--link", "radio-sik46k"], "radio-sik-64k"),
        (["--attack", "repaly"], "replay"), (["--suite", "plain"], "./pqtunnel suites"),
        (["--tcp-port", "99999"], "--tcp-port 0"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_2_with_the_nearest_and_needs_no_lab(
    options: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fly", *options]) == 2
    assert near in capsys.readouterr().err


def test_names_of_commands() -> None:
    assert parse("  ") is None
    command = parse(" SUITE x\n")
    assert command is not None and (command.name, command.argument) == ("suite", "x")
    for wrong in ("suite", "suite a b", "quit now", "land"):
        with pytest.raises(UsageError):
            parse(wrong)
    assert suite_of("cs-mlkem768-ascon128-mldsa65") == "cs-mlkem768-ascon128a-mldsa65"
    assert {"radio-sik-64k", "link-0", "narrow-64k"} <= set(link_profiles())
    assert not {"benign-fade", "attack-flood-link", "rekey-1s"} & set(link_profiles())
    assert link_of("off") is None and attack_of("off") is None
