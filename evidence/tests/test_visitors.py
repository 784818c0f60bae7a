"""A ground station that spoke to the vehicle in a measured window is told; its orders cost the cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
from bundle_kit import write_records

from pqevidence.record.visitors import Visitor, is_order, visitors

Json = dict[str, Any]


def window(*rows: tuple[int | None, int | None, dict[str, int]], sent: int | None = 40) -> Json:
    account = [{"system": system, "component": component, "frames": f} for system, component, f in rows]
    ground = {} if sent is None else {"source_report": {"sent": {"count": sent}}}
    return {"drone": {"source_report": {"uplink": account}}, "gcs": {"source": "uplink", **ground}}


OWN = [(255, 230, {"HEARTBEAT": 20}), (255, 190, {"HEARTBEAT": 10, "TIMESYNC": 20})]


def test_the_labs_own_senders_are_no_visitors() -> None:
    assert visitors(window(*OWN)) == []
    assert visitors(window(*OWN, sent=None)) == []  # an end that was killed told nothing
    assert visitors({"drone": {"source_report": {}}, "gcs": {}}) == []


def test_one_that_only_listens_is_told_and_gave_no_orders() -> None:
    frames = {"HEARTBEAT": 3, "PARAM_REQUEST_LIST": 1, "COMMAND_LONG MAV_CMD_REQUEST_MESSAGE": 2}
    (found,) = visitors(window(*OWN, (250, 1, frames)))
    assert found == Visitor(250, 1, frames)
    assert found.orders == {} and found.orders_told() == ""
    assert found.as_dict()["frames"] == frames


def test_one_that_bears_the_probes_numbers_is_known_by_what_is_more() -> None:
    (found,) = visitors(window((255, 190, {"HEARTBEAT": 15, "TIMESYNC": 26}), sent=40))
    assert found.frames == {"HEARTBEAT": 15, "TIMESYNC": 26}
    (found,) = visitors(window((255, 190, {"HEARTBEAT": 10, "SET_MODE": 1}), sent=40))
    assert found.frames == {"SET_MODE": 1}


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("COMMAND_LONG MAV_CMD_COMPONENT_ARM_DISARM", True), ("COMMAND_INT MAV_CMD_NAV_LAND", True),
        ("COMMAND_LONG 60000", True), ("COMMAND_LONG MAV_CMD_SET_MESSAGE_INTERVAL", True), ("SET_MODE", True),
        ("MISSION_COUNT", True), ("PARAM_SET", True), ("REQUEST_DATA_STREAM", True),
        ("COMMAND_LONG MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES", False),
        ("COMMAND_LONG MAV_CMD_GET_MESSAGE_INTERVAL", False), ("MISSION_REQUEST_LIST", False),
        ("PARAM_REQUEST_LIST", False), ("HEARTBEAT", False),
    ],
)  # fmt: skip
def test_what_asks_for_a_change_is_an_order(kind: str, order: bool) -> None:
    assert is_order(kind) is order


def test_orders_within_a_cell_make_it_invalid_with_the_reason(tmp_path: Path) -> None:
    work = fixtures_make.make_work_dir(tmp_path, suites=("cs-mlkem768-aesgcm-mldsa65",))
    (folder,) = (work / "data" / "cells").iterdir()
    file = folder / "traffic.json"
    traffic = json.loads(file.read_text())
    uplink = [{"system": 250, "component": 1, "frames": {"COMMAND_LONG MAV_CMD_COMPONENT_ARM_DISARM": 1}}]

    def verdict(account: list[Json]) -> tuple[str, str | None]:
        traffic["windows"]["traffic"]["drone"]["source_report"]["uplink"] = account
        file.write_text(json.dumps(traffic))
        write_records(work)
        record = json.loads((folder / "record.json").read_text())
        return record["verdict"], record["reason"]

    assert verdict([{"system": 250, "component": 1, "frames": {"HEARTBEAT": 3}}]) == ("pass", None)
    found, reason = verdict(uplink)
    assert found == "invalid"
    assert reason is not None
    assert "traffic_source" in reason
    assert "a visitor (system 250, component 1) gave the vehicle orders" in reason
    assert "MAV_CMD_COMPONENT_ARM_DISARM (1)" in reason
