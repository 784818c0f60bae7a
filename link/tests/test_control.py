"""Requests in, answers out: every refusal says what to do, and nothing half done stays."""

from __future__ import annotations

from typing import Any

import pytest

from pqlink.control import Control
from pqlink.lease import Lease
from pqlink.router import Router

S = 1_000_000_000


@pytest.fixture
def control() -> Control:
    return Control(Router("198.18.2.20", "198.18.2.30"), Lease(), {"netem": False})


def ask(control: Control, now_ns: int = 0, **request: Any) -> dict[str, Any]:
    return control.answer(request, now_ns)


def test_set_renew_clear(control: Control) -> None:
    answer = ask(
        control, op="set", owner="c1", up={"delay_ms": 80, "jitter_ms": 10}, down={"loss_pct": 5}, hold_s=3
    )
    assert answer["ok"] and answer["active"]
    assert answer["settings"]["up"]["delay_ms"] == 80
    assert answer["settings"]["down"]["loss_pct"] == 5
    assert answer["routes"] == {"drone": False, "gcs": False}
    control.routes["drone"] = True
    assert ask(control, 2 * S, op="renew", owner="c1")["routes"]["drone"] is True
    assert control.tick(4 * S) is None
    cleared = ask(control, 4 * S, op="clear", owner="c1")
    assert cleared["released"] and not cleared["active"]
    assert cleared["settings"]["up"]["delay_ms"] == 0


def test_silence_cleans_the_router(control: Control) -> None:
    ask(control, op="set", owner="c1", up={"loss_pct": 100}, hold_s=3)
    assert control.tick(3 * S) == "holder"
    assert ask(control, op="state")["settings"]["up"]["loss_pct"] == 0


def test_partition_and_back(control: Control) -> None:
    ask(control, op="set", owner="c1", up={"delay_ms": 5}, hold_s=3)
    ask(control, op="change", owner="c1", up={"loss_pct": 100}, down={"loss_pct": 100}, for_s=1)
    assert ask(control, op="state")["settings"]["down"]["loss_pct"] == 100
    assert control.tick(1 * S) == "change"
    assert ask(control, op="state")["settings"]["up"] == {
        **ask(control, op="state")["settings"]["down"],
        "delay_ms": 5,
    }


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"op": "explode"}, "bad_request"),
        ({}, "bad_request"),
        ({"op": "set"}, "bad_request"),
        ({"op": "set", "owner": "a", "seed": -1}, "bad_request"),
        ({"op": "set", "owner": "a", "hold_s": 60}, "bad_request"),
        ({"op": "set", "owner": "a", "up": {"dealy_ms": 5}}, "bad_settings"),
        ({"op": "renew", "owner": "a"}, "not_held"),
        ({"op": "change", "owner": "a", "for_s": 1}, "not_held"),
        ({"op": "change", "owner": "a"}, "bad_request"),
    ],
)
def test_refusals(control: Control, request_: dict[str, Any], code: str) -> None:
    answer = control.answer(request_, 0)
    assert answer["ok"] is False
    assert answer["code"] == code
    assert answer["hint"]
    assert ask(control, op="state")["active"] is False
