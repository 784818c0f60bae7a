"""Hosts, builds and samplers that are not what they are said to be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bad_bundles.forge import (
    Registry,
    cell_of,
    cells,
    counted,
    edit,
    edit_field,
    finish,
    load_lines,
    registering,
    rename_cells,
    save_lines,
)

BAD: Registry = {}
SUITE = "mlkem768"


@registering(BAD, "unsupported_proved")
def failed_called_unsupported(root: Path) -> None:
    """A cell is filed as unsupported though both probes have the suite."""
    change = {"verdict": "unsupported", "reason": "not available", "attempts": 0}
    edit(cell_of(root, SUITE) / "record.json", lambda record: record.update(change))
    finish(root)


@registering(BAD, "ring_claims")
def container_called_hardware(root: Path) -> None:
    """A cell of containers claims the hardware ring."""
    edit(cell_of(root, SUITE) / "record.json", lambda record: record.update(ring="hardware"))
    finish(root)


@registering(BAD, "influx_reconcile")
def points_that_no_file_has(root: Path) -> None:
    """The reconciliation claims five points more than the file holds, in file and view alike."""

    def more(run: Any) -> None:
        row = run["influx"]["cells"][0]["series"][0]
        row["file_count"] = row["influx_count"] = row["file_count"] + 5

    edit(root / "data" / "run.json", more)
    finish(root)


@registering(BAD, "influx_reconcile")
def nothing_compared(root: Path) -> None:
    """The reconciliation says that all is well and lists no cell."""
    edit(root / "data" / "run.json", lambda run: run["influx"].update(cells=[]))
    finish(root)


@registering(BAD, "influx_reconcile")
def one_series_not_compared(root: Path) -> None:
    """The series in which points were lost is left out of the reconciliation."""
    edit(root / "data" / "run.json", lambda run: run["influx"]["cells"][0]["series"].pop())
    finish(root)


@registering(BAD, "providers_equal")
def other_build_at_the_ground(root: Path) -> None:
    """The ground runs another liboqs than the drone."""
    edit(root / "data" / "providers.json", lambda both: both["gcs"]["liboqs"].update(sha256="99" * 32))
    rename_cells(root)
    finish(root)


@registering(BAD, "builds_known")
def known_bytes_under_another_version(root: Path) -> None:
    """Both ends name a liboqs that came later; its digest is that of the one in this tree's images."""
    digest = "fbee8badf85344cfb2d6aaecabe1e7b7bdcf18f31843600f0ffd54217afa8f86"

    def newer(both: dict[str, Any]) -> None:
        for role in ("drone", "gcs"):
            both[role]["liboqs"] = {"version": "0.15.0", "sha256": digest}

    edit(root / "data" / "providers.json", newer)
    rename_cells(root)
    finish(root)


@registering(BAD, "host_identity")
def another_kernel(root: Path) -> None:
    """Ring lab is one machine; the ground's boot id is another's."""
    boot_id = "99999999-1111-4222-8333-444444444444"
    edit(root / "data" / "hosts" / "gcs.json", lambda facts: facts["host"].update(boot_id=boot_id))
    for cell in cells(root):  # whose kernel has been up for longer
        path = cell / "telemetry.gcs.lp"
        older = re.sub(
            r"(system_(?:busy|total)_ms=)(\d+)", lambda m: f"{m[1]}{int(m[2]) + 10**9}", path.read_text()
        )
        path.write_text(older, encoding="utf-8")
    finish(root)


@registering(BAD, "host_identity")
def ends_at_two_places(root: Path) -> None:
    """The drone stands at one place of a rack, the ground at another."""
    for role, name in (("drone", "rack-1"), ("gcs", "rack-2")):
        place = {"name": name, "tags": {"board": "pi4"}, "coordinator_version": "26.0.1"}
        edit(root / "data" / "hosts" / f"{role}.json", lambda facts, at=place: facts.update(place=at))
    finish(root)


@registering(BAD, "host_identity")
def place_without_a_coordinator(root: Path) -> None:
    """A place that nobody lends: its coordinator is not named."""
    for role in ("drone", "gcs"):
        place = {"name": "rack-1", "tags": {}}
        edit(root / "data" / "hosts" / f"{role}.json", lambda facts, at=place: facts.update(place=at))
    finish(root)


@registering(BAD, "selftest")
def wrong_known_answer(root: Path) -> None:
    """The drone's ML-KEM gave a wrong known answer."""

    def break_it(facts: Any) -> None:
        facts["selftest"]["items"][0]["ok"] = False

    edit(root / "data" / "hosts" / "drone.json", break_it)
    finish(root)


@registering(BAD, "selftest")
def primitive_without_known_answer(root: Path) -> None:
    """The ground's self-test left out one signature scheme of the suites that gave results."""

    def leave_out(facts: Any) -> None:
        items = facts["selftest"]["items"]
        items.remove(next(item for item in items if item["name"].startswith("sig/")))

    edit(root / "data" / "hosts" / "gcs.json", leave_out)
    finish(root)


@registering(BAD, "dataplane")
def fell_back_to_python(root: Path) -> None:
    """The drone's packets went through the Python plane, though its core is installed and nobody asked for
    Python; its results are claimed all the same."""
    _through_python(root, "drone")
    finish(root)


@registering(BAD, "dataplane")
def python_called_native(root: Path) -> None:
    """The drone's host says native, its cells say python."""
    _through_python(root, "drone")
    edit(root / "data" / "hosts" / "drone.json", lambda facts: facts.update(dataplane="native"))
    finish(root)


@registering(BAD, "dataplane")
def native_without_a_core(root: Path) -> None:
    """The ground says native, and its providers have no core."""
    none = {"version": None, "sha256": None, "reason": "pq_core is not installed"}
    for role in ("drone", "gcs"):  # both, so that the builds agree
        edit(root / "data" / "providers.json", lambda both, role=role: both[role].update(core=none))
    rename_cells(root)
    finish(root)


@registering(BAD, "dataplane")
def asked_for_python_and_ran_native(root: Path) -> None:
    """The ground's environment asked for Python; its host and its cells say native."""
    edit(root / "data" / "hosts" / "gcs.json", lambda facts: facts.update(dataplane_asked="python"))
    finish(root)


@registering(BAD, "dataplane")
def plane_left_untold(root: Path) -> None:
    """Nothing says any more which plane the ground ran."""
    edit(root / "data" / "hosts" / "gcs.json", lambda facts: facts.pop("dataplane"))
    finish(root)


@registering(BAD, "dataplane")
def bins_of_a_plane_that_keeps_none(root: Path) -> None:
    """Both ends were asked for Python, and the drone of one cell left bins, which native alone keeps."""
    for role in ("drone", "gcs"):
        _through_python(root, role)
        edit(root / "data" / "hosts" / f"{role}.json", lambda facts: facts.update(dataplane_asked="python"))
    (cell_of(root, SUITE) / "bins.ndjson").write_text("[1,[1,2,3]]\n", encoding="utf-8")
    finish(root)


def _through_python(root: Path, role: str) -> None:
    edit(root / "data" / "hosts" / f"{role}.json", lambda facts: facts.update(dataplane="python"))
    for cell in cells(root):
        rows = load_lines(cell / "events.ndjson")
        for row in rows:
            if row["host"] == role and row["event"] == "prepare":
                row["dataplane"] = "python"
        save_lines(cell / "events.ndjson", rows)
        edit_field(cell, "A", f"dataplane_{role}", value="python")


def many_refused(root: Path) -> None:
    """Not bad, but a warning: datagrams came twice and were refused on an unimpaired link."""
    for cell in cells(root):
        for role, window, counters in counted(cell / "counters.json"):
            if role == "gcs" and window == "traffic":
                counters["replay"] += 7
    finish(root)
