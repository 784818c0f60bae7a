"""`pqlab export`: what was recorded, whole and for other readers; what was not is never made up."""

from __future__ import annotations

import base64
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sim_kit
from fake_agent import FakeAgent, FakeLab, QuietReporter
from pcapng_reader import CaptureFile, read_capture
from pymavlink import mavutil

from pqevidence.errors import ScenarioError, UsageError
from pqevidence.exchange import datagrams, flightlog
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.paths import project_root
from pqevidence.record.ledger import Column, Ledger, read_ledger
from pqevidence.scenario import load_scenario
from pqevidence.verify.checks_flightlog import flight_log
from pqlab import sim
from pqlab.campaign.engine import Campaign
from pqlab.cli.main import main
from pqlab.inventory import load_inventory
from pqsitl.profile import load_profile
from pqsitl.tlog import TlogFrame, write_frames
from pqsitl.vehicle import EmbeddedVehicle
from pqtunnel.blackout import EPOCH_SHIFT
from tools import needed

Json = dict[str, Any]
SUITE = "cs-mlkem768-aesgcm-mldsa65"
TEXT = f"""\
schema: pqlab/scenario/v1
name: export-test
suites: [{SUITE}, cs-hqc256-ascon128a-falcon1024]
handshake: {{count: 5, min_count: 5, max_s: 20}}
traffic: {{session_s: 1}}
conditions: [{{name: rekeys, rekey: {{every_s: 0.4, start_s: 0.2}}}}]
"""
START_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed bundle of ring sim, with rekeys in its sessions."""
    return sim_kit.simulated(tmp_path_factory.mktemp("sim"), TEXT)


def exported(bundle: Path, out: Path, *more: str) -> dict[str, CaptureFile]:
    assert main(["export", "pcapng", str(bundle), "--out", str(out), *more]) == 0
    return {path.stem: read_capture(path) for path in sorted(out.iterdir())}


# ---------------------------------------------------------------------- pcapng


def test_a_capture_has_every_ledger_row_and_nothing_else(simulated: Path, tmp_path: Path) -> None:
    captures = exported(simulated, tmp_path / "out")
    assert len(captures) == 2
    for cell_id, capture in captures.items():
        folder = simulated / "data" / "cells" / cell_id
        assert [one.name for one in capture.interfaces] == ["drone", "gcs"]
        assert {one.link_type for one in capture.interfaces} == {147}
        assert cell_id in capture.comment and "rekeys" in capture.comment
        due: Counter[tuple[str, bool, int, int]] = Counter()
        for role in ("drone", "gcs"):
            ledger = read_ledger(folder / f"ledger.{role}.csv")
            for sent, column in ((True, ledger.tx), (False, ledger.rx)):
                times = column.t_out_ns if sent else column.t_in_ns
                due.update(
                    (role, sent, t_ns, size) for t_ns, size in zip(times, column.size_bytes, strict=True)
                )
        seen = Counter(
            (capture.interfaces[one.interface].name, bool(one.outbound), one.t_ns, one.original_bytes)
            for one in capture.packets
        )
        assert seen == due and sum(due.values()) > 600
        assert [one.t_ns for one in capture.packets] == sorted(one.t_ns for one in capture.packets)


def test_no_byte_of_a_datagram_is_made_up(simulated: Path, tmp_path: Path) -> None:
    for capture in exported(simulated, tmp_path / "out").values():
        assert {one.data for one in capture.packets} == {b""}
        assert all(one.original_bytes > 24 for one in capture.packets)


def test_one_packet_id_is_one_datagram_at_both_ends(simulated: Path, tmp_path: Path) -> None:
    for capture in exported(simulated, tmp_path / "out").values():
        ids = Counter(one.packet_id for one in capture.packets)
        assert None not in ids and set(ids.values()) == {2}, "nothing was lost, so each was seen twice"
        epochs = {one.comment.split(" sequence ")[0] for one in capture.packets}
        assert len(epochs) > 1, "a rekey begins another epoch"
        by_id: dict[int | None, set[str]] = {}
        for one in capture.packets:
            by_id.setdefault(one.packet_id, set()).add(one.comment.partition(" ")[2])
        assert {len(comments) for comments in by_id.values()} == {1}


def test_wireshark_reads_the_same(simulated: Path, tmp_path: Path) -> None:
    tshark = needed("tshark")
    names = ("frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name", "frame.packet_id")
    fields = [word for name in names for word in ("-e", name)]
    for cell_id, capture in exported(simulated, tmp_path / "out").items():
        line = [tshark, "-r", str(tmp_path / "out" / f"{cell_id}.pcapng"), "-T", "fields", *fields]
        told = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
        due = [
            (
                f"{one.t_ns // 10**9}.{one.t_ns % 10**9:09d}",
                str(one.original_bytes),
                "0",
                capture.interfaces[one.interface].name,
                str(one.packet_id),
            )
            for one in capture.packets
        ]
        assert [tuple(row.split("\t")) for row in told] == due


def test_equal_bundles_give_equal_bytes_and_a_prefix_chooses(
    simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = sorted((simulated / "data" / "cells").iterdir())[0].name
    exported(simulated, tmp_path / "one")
    assert len(exported(simulated, tmp_path / "two", "--cell", chosen[:8])) == 1
    name = f"{chosen}.pcapng"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    capsys.readouterr()
    assert main(["export", "pcapng", str(simulated), "--cell", "none"]) == 2
    assert "no cell of this bundle begins with none" in capsys.readouterr().err


def test_a_sealed_bundle_is_never_written_to(simulated: Path) -> None:
    assert main(["export", "pcapng", str(simulated), "--out", str(simulated / "data")]) == 2


def test_rows_out_of_order_and_beyond_the_bits_of_an_id() -> None:
    column = Column()
    for sequence, t_ns in ((1, 300), (2, 100), (1 << 50, 200)):
        column.key.append(3 << EPOCH_SHIFT | sequence)
        column.size_bytes.append(60)
        column.t_in_ns.append(t_ns - 5)
        column.t_out_ns.append(t_ns)
        column.window.append("traffic")
    rows = list(datagrams.seen({"gcs": Ledger(tx=column)}))
    assert [(row.t_ns, row.sequence, row.up) for row in rows] == [
        (100, 2, True),
        (200, 1 << 50, True),
        (300, 1, True),
    ]
    assert [row.packet_id for row in rows] == [1 << 63 | 3 << 48 | 2, None, 1 << 63 | 3 << 48 | 1]


# ---------------------------------------------------------------------- telemetry logs


def flown() -> list[TlogFrame]:
    """Frames of the embedded vehicle in one second."""
    vehicle = EmbeddedVehicle(load_profile(), 320.0, 1, 0)
    found: list[TlogFrame] = []
    while (now_ns := vehicle.next_ns) < 1_000_000_000:
        found += [TlogFrame(START_US + now_ns // 1000, frame) for frame in vehicle.poll(now_ns)]
    return found


def log_bytes(tmp_path: Path, frames: list[TlogFrame]) -> bytes:
    path = tmp_path / "made.tlog"
    write_frames(path, frames)
    return path.read_bytes()


def recorded(tmp_path: Path, tlog: bool, pieces: list[str]) -> tuple[Path, FakeLab]:
    """A bundle of a campaign on agents in memory whose ground gives these pieces."""
    lab = FakeLab(tmp_path)
    fetch = lab.gcs.do_fetch

    def with_log(cell_id: str, stream: str, since: int, limit: int) -> Json:
        if stream != "tlog":
            return fetch(cell_id, stream, since, limit)
        page = pieces[since : since + 2]
        reached = since + len(page)
        return {"lines": page, "next": reached, "end": reached >= len(pieces)}

    lab.gcs.do_fetch = with_log  # type: ignore[method-assign]
    scenario = lab.asked(f"traffic: {{session_s: 5{', tlog: true' if tlog else ''}}}\n")
    result = Campaign.begin(lab.around(), scenario).carry_out()
    assert result.exit_code == 0
    return result.bundle, lab


def specs(agent: FakeAgent) -> list[Json]:
    """What the agent was asked to start, window by window."""
    return [params["spec"] for _, params in agent.calls if params.get("kind") == "traffic_open"]


def test_a_recorded_session_opens_in_pymavlink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log_bytes(tmp_path, flown())
    pieces = [base64.b64encode(data[at : at + 4_000]).decode() for at in range(0, len(data), 4_000)]
    bundle, lab = recorded(tmp_path, True, pieces)
    (ground,), (vehicle,) = specs(lab.gcs), specs(lab.drone)
    assert ground == {"source": "uplink", "seed": vehicle["seed"], "duration_s": None, "record": True}
    assert "record" not in vehicle, "the vehicle records nothing"
    assert main(["export", "tlog", str(bundle), "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    (file,) = (tmp_path / "out").iterdir()
    assert file.read_bytes() == data, "byte for byte what the ground kept"

    log = mavutil.mavlink_connection(str(file))
    by_type: Counter[str] = Counter()
    by_id: Counter[str] = Counter()
    while (message := log.recv_msg()) is not None:
        by_type[message.get_type()] += 1
        by_id[str(message.get_msgId())] += 1
    assert by_type["ATTITUDE"] > 1 and by_type["HEARTBEAT"] >= 1
    assert told["files"][0]["by_message_id"] == dict(sorted(by_id.items(), key=lambda item: int(item[0])))
    assert told["files"][0]["frames_count"] == len(flown()) == sum(by_type.values())


def test_who_asks_for_no_log_gets_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, lab = recorded(tmp_path, False, ["AAAA"])
    assert "record" not in specs(lab.gcs)[0]
    assert not any(params.get("stream") == "tlog" for _, params in lab.gcs.calls)
    assert list(bundle.glob("data/cells/*/*.tlog")) == []
    assert main(["export", "tlog", str(bundle), "--out", str(tmp_path / "out")]) == 4
    assert "traffic: {tlog: true}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_log_that_was_cut_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log_bytes(tmp_path, flown())[:-3]
    bundle, _ = recorded(tmp_path, True, [base64.b64encode(data).decode()])
    assert main(["export", "tlog", str(bundle), "--out", str(tmp_path / "out")]) == 5
    assert "cut off" in capsys.readouterr().err


def test_a_log_changes_the_cell_and_no_log_changes_nothing(tmp_path: Path) -> None:
    def settings(traffic: str) -> Json:
        file = tmp_path / "s.yml"
        file.write_text(f"schema: pqlab/scenario/v1\nname: s\nsuites: [{SUITE}]\ntraffic: {traffic}\n")
        return load_scenario(str(file)).cell_settings("baseline")

    assert "tlog" not in settings("{session_s: 5}")["traffic"], "ids of all other cells stay as they were"
    assert settings("{session_s: 5, tlog: true}")["traffic"]["tlog"] is True


def test_a_log_needs_a_way_to_come(tmp_path: Path) -> None:
    file = tmp_path / "s.yml"
    head = f"schema: pqlab/scenario/v1\nname: s\nsuites: [{SUITE}]\n"
    text = head + "traffic: {session_s: 5, tlog: true, ROUTE}\n"
    file.write_text(text.replace("ROUTE", "route: direct"))
    with pytest.raises(ScenarioError, match="nothing to keep on route direct"):
        load_scenario(str(file))
    file.write_text(text.replace("ROUTE", "route: mavproxy"))
    inventory = load_inventory(str(project_root() / "ansible" / "inventories" / "sim.ini"))
    with pytest.raises(UsageError, match="telemetry logs"):
        sim.carry_out(
            load_scenario(str(file)),
            inventory,
            results=tmp_path,
            reporter=QuietReporter(),
            token=lambda: "abc123",
            command=[],
        )


# ---------------------------------------------------------------------- the check


def checked(
    tmp_path: Path, data: bytes | None, *, asked: bool = True, verdict: str = "pass", **told: int
) -> Tally:
    """What the check says of a cell with this log, whose source reports what is told."""
    folder = tmp_path / "cell"
    folder.mkdir(exist_ok=True)
    path = folder / flightlog.FILE
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)
    account = {
        "frame_count": len(flown()),
        "bytes": len(data or b""),
        "unframed_count": 0,
        "left_out_count": 0,
    }
    events = [
        {"host": "gcs", "event": "prepare", "t_ns": START_US * 1000 - 1},
        {"host": "gcs", "event": "stop", "t_ns": (START_US + 1_000_000) * 1000},
    ]
    traffic = {"traffic": {"gcs": {"source_report": {"recording": {**account, **told}}}}}
    cell = SimpleNamespace(
        folder=folder,
        label="cell",
        verdict=verdict,
        run=SimpleNamespace(scenario={"traffic": {"tlog": asked}}),
        raw=SimpleNamespace(events=events, traffic=traffic),
        stopped_ns=lambda role: events[1]["t_ns"],
    )
    tally = Tally()
    flight_log(cast(CellView, cell), tally)
    return tally


def test_a_good_log_is_good(tmp_path: Path) -> None:
    tally = checked(tmp_path, log_bytes(tmp_path, flown()))
    assert (tally.problems, tally.warnings, tally.looked) == ([], [], 1)
    assert checked(tmp_path, None, asked=False).problems == []
    assert checked(tmp_path, None, verdict="fail", frame_count=0).problems == [], "it never came to a session"


def stamped(shift_us: int) -> Callable[[list[TlogFrame]], list[TlogFrame]]:
    return lambda frames: [TlogFrame(one.time_us + shift_us, one.frame) for one in frames]


@pytest.mark.parametrize(
    ("spoil", "told", "why"),
    [
        (lambda frames: frames[:-1], {}, "the source kept"),
        (lambda frames: [*frames, frames[-1]], {}, "the source kept"),
        (lambda frames: frames, {"bytes": 1}, "the source kept"),
        (stamped(-1_000_000), {}, "the cell lasted"),
        (stamped(3_600_000_000), {}, "the cell lasted"),
    ],
)
def test_a_log_that_does_not_fit_its_cell_fails(
    spoil: Callable[[list[TlogFrame]], list[TlogFrame]], told: dict[str, int], why: str, tmp_path: Path
) -> None:
    data = log_bytes(tmp_path, spoil(flown()))
    (problem,) = checked(tmp_path, data, **told).problems
    assert why in problem


def test_missing_cut_foreign_and_unasked_logs_fail(tmp_path: Path) -> None:
    data = log_bytes(tmp_path, flown())
    assert "missing" in checked(tmp_path, None).problems[0]
    assert "missing" in checked(tmp_path, None, verdict="invalid").problems[0]
    assert "cut off" in checked(tmp_path, data[:-1]).problems[0]
    assert "no MAVLink frame" in checked(tmp_path, b"x" * 100).problems[0]
    assert "nobody asked for" in checked(tmp_path, data, asked=False).problems[0]


def test_what_a_reader_must_know_of_a_log_is_a_warning(tmp_path: Path) -> None:
    data = log_bytes(tmp_path, flown())
    assert "did not fit" in checked(tmp_path, data, left_out_count=3).warnings[0]
    assert "no frames" in checked(tmp_path, data, unframed_count=1).warnings[0]
    frames = flown()
    turned = [*frames[:-1], TlogFrame(START_US, frames[-1].frame)]
    assert "stepped back" in checked(tmp_path, log_bytes(tmp_path, turned)).warnings[0]
