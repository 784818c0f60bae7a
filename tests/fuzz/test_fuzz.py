"""Replay of every committed input, a short search, and proof that the fuzzers can fail: planted faults in the
code under test must be found by the committed inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import engine
import targets
from targets import handshake as handshake_targets
from targets import wire as wire_targets

from pqspec import path, replay, session
from pqspec.handshake import drone, gcs
from pqtunnel import wire

SLOW = {"bundle"}
"""Some 100 ms an input: the corpus is for the long search, here a few inputs are enough."""


def inputs_of(name: str) -> dict[str, bytes]:
    inputs = {**targets.find(name).seeds(), **corpora.load(name)}
    if name in SLOW:
        found = {key: data for key, data in inputs.items() if key.startswith("finding-")}
        return {**found, **dict(list(inputs.items())[:6])}
    return inputs


@pytest.mark.parametrize("name", targets.names())
def test_every_committed_input_is_handled(name: str) -> None:
    target = targets.find(name)
    inputs = inputs_of(name)
    assert inputs, "a target without inputs shows nothing"
    for data in inputs.values():
        target.run(data)


@pytest.mark.parametrize("name", ["wire", "handshake", "session", "rpc", "line"])
def test_a_short_search_finds_nothing(name: str) -> None:
    target = targets.find(name)
    corpus = {**target.seeds(), **corpora.load(name)}
    result = engine.own_loop(target.run, corpus, target.words, 0.5, 1, target.limit)
    assert result.findings == []
    assert result.executions > len(corpus)


def test_every_parser_of_the_wire_is_a_target() -> None:
    assert {name for name in vars(wire) if name.startswith("parse_")} == set(wire_targets.PARSERS)


def test_the_search_finds_a_fault_behind_three_bytes() -> None:
    def fragile(data: bytes) -> None:
        at = wire.VERSION  # so that the loop has lines of the project to look at
        if data[:at] == b"F" and data[1:2] == b"U" and data[2:3] == b"Z":
            raise ValueError("planted")

    result = engine.own_loop(fragile, {"seed": b"FUX"}, [b"FUZ"], 1.0, 1, 16)
    assert [finding["kind"] for finding in result.findings] == ["ValueError"]


def broken(name: str, scene: int | None) -> int:
    """How many of a target's committed inputs (of one scene) raise."""
    count = 0
    for data in inputs_of(name).values():
        if scene is not None and data[:1] != bytes((scene,)):
            continue
        try:
            targets.find(name).run(data)
        except Exception:  # noqa: BLE001  any raise is what is counted
            count += 1
    return count


Plant = Callable[[pytest.MonkeyPatch], None]


def macs_always_fit(patch: pytest.MonkeyPatch) -> None:
    for module in (drone, gcs):
        patch.setattr(module, "mac_equal", lambda _left, _right: True)


def nothing_is_a_replay(patch: pytest.MonkeyPatch) -> None:
    for module in (replay, session):
        patch.setattr(module.ReplayWindow, "judge", lambda _self, _sequence, _now_ns: replay.Judged.FRESH)


def any_signature_verifies(patch: pytest.MonkeyPatch) -> None:
    primitives = handshake_targets.WORLD.primitives
    for scheme in primitives.sigs.values():
        patch.setattr(scheme, "verify", lambda *_: True)


def any_answer_moves_the_peer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(path.PathState, "on_response", lambda *_: True)


def lengths_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wire, "body_length_bounds", lambda *_: (0, 1 << 24))


@pytest.mark.parametrize(
    ("plant", "name", "scene"),
    [
        (macs_always_fit, "handshake", 0),
        (macs_always_fit, "handshake", 1),
        (macs_always_fit, "handshake", 2),
        (any_signature_verifies, "handshake", 0),
        (nothing_is_a_replay, "session", None),
        (lengths_are_believed, "wire", 0),
        (any_answer_moves_the_peer, "control-frames", 0),
    ],
)
def test_a_planted_fault_shows_in_the_committed_inputs(
    plant: Plant, name: str, scene: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken(name, scene) == 0
    plant(monkeypatch)
    assert broken(name, scene) > 0
