"""An adapter that is removed and comes back; what the observer's own cost is computed from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pqtelemetry.errors import UsageError
from pqtelemetry.ina219.bus import BusError, BusSetupError, LinuxBus
from pqtelemetry.power import cost
from pqtelemetry.power.realtime import be_punctual


class Node:
    """smbus2.SMBus over an ordinary file; a word is whatever was last written to its register."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by `close`
        self.fd = self._file.fileno()
        self.words: dict[int, int] = {}

    def read_word_data(self, _address: int, register: int, force: bool | None = None) -> int:
        return self.words.get(register, 0)

    def write_word_data(self, _address: int, register: int, word: int, force: bool | None = None) -> None:
        self.words[register] = word

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LinuxBus:
    monkeypatch.setitem(sys.modules, "smbus2", SimpleNamespace(SMBus=Node))
    node = tmp_path / "i2c-1"
    node.touch()
    made: Any = LinuxBus.__new__(LinuxBus)
    made._address, made._force, made._path, made._new, made._bus = 0x40, False, node, Node, None
    made._open()
    return made


def test_words_are_swapped_both_ways(bus: LinuxBus) -> None:
    bus.write(5, 0x1234)
    assert bus._bus.words == {5: 0x3412} and bus.read(5) == 0x1234


@pytest.mark.linux("replaces an open device file")
def test_a_removed_adapter_is_let_go_and_the_next_one_taken(bus: LinuxBus) -> None:
    bus.write(0, 0x399F)
    bus.refresh()
    assert bus.read(0) == 0x399F, "nothing happened: the same file is kept"
    held = bus._bus
    bus._path.rename(bus._path.with_name("was"))
    with pytest.raises(BusError, match="is gone"):
        bus.refresh()
    assert held._file.closed
    for access in (lambda: bus.read(0), lambda: bus.write(0, 1)):
        with pytest.raises(BusError, match="is gone"):
            access()
    bus._path.touch()
    bus.refresh()
    assert bus.read(0) == 0, "another adapter, with registers of its own"


@pytest.mark.linux("replaces an open device file")
def test_a_replaced_node_is_opened_anew(bus: LinuxBus) -> None:
    held = bus._bus
    bus._path.rename(bus._path.with_name("was"))
    bus._path.touch()
    bus.refresh()
    assert held._file.closed and bus._bus is not held


def test_an_adapter_that_never_was_names_its_node() -> None:
    pytest.importorskip("smbus2")
    with pytest.raises(BusSetupError, match="/dev/i2c-77"):
        LinuxBus(77, 0x40)


@pytest.mark.linux("asks for Linux' real-time scheduling")
def test_scheduling_is_said_whatever_was_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setscheduler", refuse)
    monkeypatch.setattr("os.setpriority", refuse)
    assert be_punctual().startswith("SCHED_OTHER, nice ") and "no CAP_SYS_NICE" in be_punctual()
    monkeypatch.setattr("os.setpriority", lambda *_arguments: None)
    assert be_punctual().startswith("SCHED_OTHER, nice -15, timer slack ")


def test_a_loss_carries_its_spread() -> None:
    assert cost._loss([(100.0, 98.0), (200.0, 196.0), (50.0, 49.0)]) == {"mean": 2.0, "u": 0.0}
    told = cost._loss([(100.0, 98.0), (100.0, 102.0), (100.0, 100.0)])
    assert told["mean"] == 0.0 and told["u"] == pytest.approx(2.309, abs=1e-3)


@pytest.mark.linux("the power sampler runs on Linux alone")
@pytest.mark.parametrize(("rounds", "round_s"), [(2, 4.0), (5, 0.5)])
def test_too_little_to_tell_a_spread_is_refused(rounds: int, round_s: float) -> None:
    with pytest.raises(UsageError, match="three rounds"):
        cost.measure(None, rounds, round_s)
