"""Accounts of what the ground asked of the vehicle that nobody asked for, or that no witness bears out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import Json, Registry, cells, edit, finish, load, registering, rename_cells

BAD: Registry = {}
STEP: Json = {
    "kind": "mode", "at_s": 0.1, "mode": "BRAKE", "limit_s": None, "waypoints": None, "count": None,
    "rate_hz": None, "for_s": None,
}  # fmt: skip
BEGUN_NS = 5_000_000_000
KIND = "COMMAND_LONG MAV_CMD_DO_SET_MODE"


def _asked(root: Path, change: Callable[[Json, Json], object]) -> None:
    """A session in which the ground changed the mode once, as both ends tell it; then `change` of the
    ground's account and the vehicle's report in every cell."""

    def ask(scenario: Json) -> None:
        scenario["traffic"] |= {"source": "embedded", "workload": [STEP]}

    edit(root / "data" / "scenario.effective.yml", ask)
    rename_cells(root)
    seeds = {row["cell_id"]: row["seed"] for row in load(root / "data" / "plan.json")["cells"]}
    for cell in cells(root):
        row = {
            "step": 0,
            "number": 0,
            "kind": "mode",
            "command": "MAV_CMD_DO_SET_MODE",
            "due_ns": BEGUN_NS + 100_000_000,
            "sent_ns": BEGUN_NS + 101_000_000,
            "acknowledged_ns": BEGUN_NS + 107_000_000,
            "result": 0,
            "retries_count": 0,
            "items_count": 0,
            "reason": None,
        }
        ground: Json = {
            "seed": seeds[cell.name],
            "begun_ns": BEGUN_NS,
            "sent": {KIND: 1},
            "heard": {"COMMAND_ACK": 1},
            "rows": [row],
        }
        vehicle: Json = {
            "uplink": [{"system": 255, "component": 190, "frames": {KIND: 1}}],
            "beside": {"count": 1, "sizes": {"22": 1}, "kinds": {"COMMAND_ACK": 1}},
        }
        change(ground, vehicle)

        def put(document: Json, ground: Json = ground, vehicle: Json = vehicle) -> None:
            window = document["windows"]["traffic"]
            window["spec"]["source"] = "embedded"
            window["gcs"].setdefault("source_report", {})["workload"] = ground
            window["drone"].setdefault("source_report", {}).update(vehicle)

        edit(cell / "traffic.json", put)
    finish(root)


@registering(BAD, "commands_planned")
def an_answer_after_its_limit(root: Path) -> None:
    """A command that took 20 s and counts as answered; its limit is 5 s."""

    def late(ground: Json, _vehicle: Json) -> None:
        ground["rows"][0]["acknowledged_ns"] += 20_000_000_000

    _asked(root, late)


@registering(BAD, "commands_planned")
def no_answer_and_a_result(root: Path) -> None:
    """A command that nobody acknowledged has the result of one that was."""

    def silent(ground: Json, _vehicle: Json) -> None:
        ground["rows"][0] |= {"acknowledged_ns": None, "reason": "no answer within 5 s"}

    _asked(root, silent)


@registering(BAD, "commands_planned")
def a_command_left_out(root: Path) -> None:
    """The plan has a command that the ground does not tell of."""
    _asked(
        root,
        lambda ground, _vehicle: (ground["rows"].clear(), ground["sent"].clear(), ground["heard"].clear()),
    )


@registering(BAD, "commands_witnessed")
def an_answer_the_vehicle_never_gave(root: Path) -> None:
    """The ground heard an acknowledgement; the vehicle counted none."""

    def none(_ground: Json, vehicle: Json) -> None:
        vehicle["beside"] = {"count": 0, "sizes": {}, "kinds": {}}

    _asked(root, none)


@registering(BAD, "commands_witnessed")
def more_heard_than_was_asked(root: Path) -> None:
    """The vehicle heard two commands of the ground, which sent one."""

    def twice(_ground: Json, vehicle: Json) -> None:
        vehicle["uplink"][0]["frames"][KIND] = 2

    _asked(root, twice)


@registering(BAD, "commands_witnessed")
def more_frames_than_the_tunnel_carried(root: Path) -> None:
    """Both ends agree on a million acknowledgements; the tunnel carried some hundred datagrams."""

    def many(ground: Json, vehicle: Json) -> None:
        ground["sent"] |= {"PARAM_REQUEST_READ": 10**6}
        vehicle["uplink"][0]["frames"] |= {"PARAM_REQUEST_READ": 10**6}

    _asked(root, many)
