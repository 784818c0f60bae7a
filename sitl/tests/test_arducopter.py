"""The ArduPilot launcher against a stand-in that obeys the binary's command line, ports and timing."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import arducopter
from pqsitl.arducopter import (
    ArduCopter,
    ArduCopterSource,
    asked_rates_hz,
    changed_parameters,
    command_line,
    find_binary,
)
from pqsitl.director import FlightDirector
from pqsitl.errors import NotReadyError, ProcessError, SourceUnavailableError
from pqsitl.net import UdpLink
from pqsitl.profile import load_profile
from pqsitl.spec import TrafficSpec
from waiting import LIMIT_S, wait_for

SPEEDUP = 60
SETTLE_S = 60.0 / SPEEDUP
STANDIN = Path(__file__).with_name("standin_arducopter.py")


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "arducopter"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def far_end() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        end.settimeout(LIMIT_S)
        yield end


@pytest.fixture
def launch(binary: Path, far_end: socket.socket) -> Iterator[Callable[..., ArduCopter]]:
    started: list[ArduCopter] = []

    def start(
        settle_s: float = SETTLE_S, limit_s: float = LIMIT_S, defaults: Path | None = None
    ) -> ArduCopter:
        link = UdpLink(far_end.getsockname())
        copter = ArduCopter(binary, defaults, link, settle_s=settle_s, limit_s=limit_s, speedup=SPEEDUP)
        started.append(copter)
        copter.start()
        return copter

    yield start
    for copter in started:
        copter.close()


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_it_takes_off_and_sends_its_profile(
    launch: Callable[..., ArduCopter], far_end: socket.socket
) -> None:
    with pytest.raises(NotReadyError) as early:
        launch(settle_s=LIMIT_S).require_ready()
    copter = launch()
    assert early.value.retry_after_s > 0
    assert early.value.as_answer()["code"] == "not_ready"
    wait_for(lambda: copter.ready)
    facts = copter.facts()
    assert (facts["version"], facts["phase"], facts["restart_count"]) == ("4.7.1", "ready", 0)

    far_end.setblocking(False)
    with pytest.raises(BlockingIOError):
        far_end.recv(2048)  # silent until a window opens
    far_end.settimeout(LIMIT_S)

    source = ArduCopterSource(copter, copter._link, TrafficSpec(rate_hz=320.0))
    assert source.start()["ardupilot"] is True
    begin_s = time.monotonic()
    parser = mav.MAVLink(None)
    kinds = [m.get_type() for m in parser.parse_buffer(far_end.recv(2048))]
    assert len(kinds) == 1, "one frame a datagram, unchanged"
    wait_for(lambda: source.account.count >= 320)
    report = source.stop()
    sent = report["sent"]
    assert isinstance(sent, dict)
    assert report["error"] is None
    assert sent["count"] <= 1.35 * 320 * (time.monotonic() - begin_s) + 32, "no faster than it was asked to"
    assert set(sent["sizes"]) == {"40", "24", "41", "21", "31"}, "no acknowledgement of ours among them"

    time.sleep(0.3)
    far_end.setblocking(False)
    while True:
        try:
            far_end.recv(2048)
        except BlockingIOError:
            break
    time.sleep(0.4)
    with pytest.raises(BlockingIOError):
        far_end.recv(2048)


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_refused_arming_is_tried_again(launch: Callable[..., ArduCopter]) -> None:
    copter = launch(settle_s=0.05)
    wait_for(lambda: copter.ready)
    assert copter._director.refusals >= 1


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_what_cannot_arm_fails_with_the_autopilots_words(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "never-arm")
    copter = launch(settle_s=0.1, limit_s=1.5)
    wait_for(lambda: copter.failure is not None)
    assert "PreArm: EKF attitude is bad" in str(copter.failure)
    with pytest.raises(ProcessError):
        copter.require_ready()


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_death_is_seen_in_the_window_and_the_binary_launched_again(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arducopter, "RESTART_PAUSE_S", 0.05)
    monkeypatch.setenv("STANDIN_FAULT", "die")
    copter = launch(settle_s=0.75)
    first = copter.pid
    monkeypatch.delenv("STANDIN_FAULT")
    wait_for(lambda: copter.restart_count >= 1)
    assert copter.pid != first
    wait_for(lambda: copter.ready)
    assert copter.failure is None


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_source_whose_autopilot_dies_reports_it(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arducopter, "RESTART_PAUSE_S", 0.05)
    copter = launch()
    wait_for(lambda: copter.ready)
    source = ArduCopterSource(copter, copter._link, TrafficSpec())
    source.start()
    pid = copter.pid
    assert pid is not None
    os.kill(pid, 9)
    wait_for(lambda: not source.running)
    assert "left its hover: arducopter ended with status -9" in str(source.stop()["error"])


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_failsafe_landing_is_flown_again(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "land-once")
    copter = launch(settle_s=0.75)
    wait_for(lambda: copter.facts()["refly_count"] == 1)
    wait_for(lambda: copter.ready)
    assert (copter.restart_count, copter.failure) == (0, None)


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_failsafe_that_flies_home_is_no_hover(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Armed and still in the air, but in RTL: what it sends now is no hover's traffic."""
    monkeypatch.setenv("STANDIN_FAULT", "rtl-once")
    copter = launch(settle_s=0.75)
    wait_for(lambda: copter.facts()["refly_count"] == 1)
    assert str(copter.facts()["lost"]).startswith("it is in mode RTL; its last words: ")
    assert "GCS failsafe" in str(copter.lost)
    wait_for(lambda: copter.ready)
    assert (copter.restart_count, copter.failure) == (0, None)


def test_the_director_lets_a_failsafe_land_before_it_flies_again() -> None:
    director = FlightDirector(0)
    director.phase, director._mode, director._armed = "ready", 4, True
    second = 1_000_000_000

    def heartbeat(base: int, mode: int, at_s: int) -> list[str]:
        director.receive(mav.MAVLink_heartbeat_message(2, 3, base, mode, 3, 3), at_s * second)
        return [m.get_type() for m in director.poll(at_s * second)]

    assert heartbeat(129, 9, 10) == ["HEARTBEAT"]
    assert (director.phase, director.refly_count) == ("landing", 1)
    assert heartbeat(129, 9, 20) == ["HEARTBEAT"], "nothing is asked of a vehicle that lands"
    assert "COMMAND_LONG" in heartbeat(1, 9, 30)
    assert director.phase == "guided"


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
@pytest.mark.parametrize("mode", [5, 6], ids=["LOITER", "RTL"])
def test_what_a_pilot_does_ends_no_session_and_it_comes_home_afterwards(
    launch: Callable[..., ArduCopter], far_end: socket.socket, mode: int
) -> None:
    copter = launch()
    wait_for(lambda: copter.ready)
    source = ArduCopterSource(copter, copter._link, TrafficSpec(piloted=True))
    source.start()
    wait_for(lambda: copter._director.piloted)
    _, vehicle = far_end.recvfrom(2048)
    order = mav.MAVLink_command_long_message(1, 1, mav.MAV_CMD_DO_SET_MODE, 0, 1, mode, 0, 0, 0, 0, 0)
    far_end.sendto(order.pack(mav.MAVLink(None, srcSystem=255, srcComponent=190)), vehicle)
    wait_for(lambda: copter._director._mode == mode)
    if mode == 6:
        wait_for(lambda: not copter._director._armed)  # it has landed
    before = source.report()["sent"]
    wait_for(lambda: source.report()["sent"] != before)
    assert source.running and not copter.ready, "flown, not in a measured hover"
    assert copter.facts()["refly_count"] == 0, "nobody but the pilot flew it"
    assert source.stop()["error"] is None
    wait_for(lambda: copter.ready)
    assert (copter.restart_count, copter.failure) == (0, None)


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_pilots_vehicle_that_dies_speaks_again(
    launch: Callable[..., ArduCopter], far_end: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arducopter, "RESTART_PAUSE_S", 0.05)
    copter = launch()
    wait_for(lambda: copter.ready)
    source = ArduCopterSource(copter, copter._link, TrafficSpec(piloted=True))
    source.start()
    assert copter.pid is not None
    os.kill(copter.pid, 9)
    wait_for(lambda: copter.restart_count == 1 and copter.speaks)
    far_end.setblocking(False)
    while True:  # what it sent before
        try:
            far_end.recv(2048)
        except BlockingIOError:
            break
    far_end.settimeout(LIMIT_S)
    parser = mav.MAVLink(None)
    wait_for(
        lambda: any(m.get_msgId() == 30 for m in parser.parse_buffer(far_end.recv(2048)) or [])
    )  # ATTITUDE: asked for again
    assert copter._director.phase in ("settle", "boot"), "it waits on the ground for its pilot"
    assert source.running
    source.stop()
    wait_for(lambda: copter.ready)


def test_given_back_in_its_hover_it_is_ready_at_once_and_elsewhere_it_is_sent_home() -> None:
    second = 1_000_000_000

    def given_back(mode: int, alt_m: float) -> tuple[str, list[str]]:
        director = FlightDirector(0)
        director.phase = "ready"
        director.hand_to_pilot()
        director.receive(mav.MAVLink_heartbeat_message(2, 3, 129, mode, 4, 3), second)
        director.receive(
            mav.MAVLink_global_position_int_message(0, 0, 0, 0, round(alt_m * 1000), 0, 0, 0, 0), second
        )
        assert [m.get_type() for m in director.poll(2 * second)] == ["HEARTBEAT"]
        director.take_back(3 * second)
        asked = [m for m in director.poll(3 * second) if m.get_type() == "COMMAND_LONG"]
        return director.phase, [f"{m.command} {m.param2:.0f}" for m in asked]

    home = [f"{mav.MAV_CMD_DO_SET_MODE} 6"]
    assert given_back(4, 10.0) == ("ready", [])
    assert given_back(4, 80.0) == ("landing", home)
    assert given_back(5, 10.0) == ("landing", home)
    assert given_back(9, 3.0) == ("landing", []), "it lands already"


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_deaths_count_in_a_row_and_not_over_a_campaign(
    launch: Callable[..., ArduCopter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arducopter, "RESTART_PAUSE_S", 0.05)
    monkeypatch.setattr(arducopter, "MAX_RESTARTS", 1)
    copter = launch()
    for death in (1, 2, 3):
        wait_for(lambda: copter.ready)
        wait_for(lambda: copter._deaths_in_a_row == 0)  # the watch has seen it, too
        assert copter.pid is not None
        os.kill(copter.pid, 9)
        wait_for(lambda death=death: copter.restart_count == death)  # type: ignore[misc]
    wait_for(lambda: copter.ready)
    assert copter.failure is None
    assert "ended with status -9" in str(copter.lost)


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_close_leaves_no_process_and_no_folder(launch: Callable[..., ArduCopter]) -> None:
    copter = launch()
    folder, pid = Path(copter._folder.name), copter.pid
    assert pid is not None
    wait_for(lambda: (folder / "eeprom.bin").is_file())
    copter.close()
    assert gone(pid)
    assert not folder.exists()


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_own_defaults_come_first_and_the_labs_last(binary: Path, tmp_path: Path) -> None:
    line = command_line(binary, [tmp_path / "copter.parm", tmp_path / "lab-sitl.parm"], 14560)
    assert line[1:7] == ["--model", "+", "--speedup", "1", "-I0", "--home"]
    assert line[line.index("--defaults") + 1].endswith("copter.parm," + str(tmp_path / "lab-sitl.parm"))
    assert line[-2:] == ["--serial0", "udpclient:127.0.0.1:14560"]


def test_what_given_defaults_change_is_told(tmp_path: Path) -> None:
    assert changed_parameters(None) == {}
    given = tmp_path / "copter.parm"
    given.write_text(
        "# of the release\nFRAME_CLASS 1\nFRAME_TYPE,3\nBATT_MONITOR\t0   # none\n"
        "@include other\nSCHED_LOOP_RATE 400\n"
    )
    assert changed_parameters(given) == {"BATT_MONITOR": 0.0, "FRAME_TYPE": 3.0, "SCHED_LOOP_RATE": 400.0}


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_a_copter_parm_beside_the_binary_flies_with_it_and_is_named(
    binary: Path, far_end: socket.socket
) -> None:
    beside = binary.parent / "copter.parm"
    beside.write_text("FRAME_CLASS 1\nSCHED_LOOP_RATE 300\n")
    link = UdpLink(far_end.getsockname())
    copter = ArduCopter(binary, None, link, settle_s=SETTLE_S, limit_s=LIMIT_S, speedup=SPEEDUP)
    copter.start()
    try:
        wait_for(lambda: copter.ready)
        facts = copter.facts()
    finally:
        copter.close()
    assert facts["defaults"] == "copter.parm"
    assert facts["defaults_sha256"] == hashlib.sha256(beside.read_bytes()).hexdigest()
    assert facts["parameters"] == {"SCHED_LOOP_RATE": 300.0}
    with pytest.raises(SourceUnavailableError, match=r"SITL_DEFAULTS .* does not exist"):
        ArduCopter(binary, binary.parent / "no.parm", link)


@pytest.mark.linux("launches ArduPilot's stand-in, a script of sh; it flies at the drone's end")
def test_missing_and_unusable_binaries_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="does not exist"):
        find_binary(tmp_path / "no")
    (tmp_path / "plain").write_text("x")
    with pytest.raises(SourceUnavailableError, match="not executable"):
        find_binary(tmp_path / "plain")


def test_asked_rates_add_up() -> None:
    profile = load_profile()
    rates = asked_rates_hz(profile, 320.0)
    assert sum(rates.values()) + sum(profile.fixed_hz.values()) == pytest.approx(320.0)
    assert rates[mav.MAVLINK_MSG_ID_ATTITUDE] == pytest.approx(99.63, abs=0.05)


def test_the_director_waits_a_minute_before_arming() -> None:
    director = FlightDirector(0)
    heartbeat = mav.MAVLink_heartbeat_message(2, 3, 1, 0, 3, 3)
    director.receive(heartbeat, 1_000_000_000)
    for second in range(2, 61):
        asked = [m.get_type() for m in director.poll(second * 1_000_000_000)]
        assert asked == ["HEARTBEAT"]
    assert director.retry_after_s(31_000_000_000) == pytest.approx(45.0)
    assert director.poll(61_000_000_000)[1].command == mav.MAV_CMD_DO_SET_MODE
