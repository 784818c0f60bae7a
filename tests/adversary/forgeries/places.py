"""Cells, suites and repetitions in places where they were not measured."""

from __future__ import annotations

import shutil

from adversary.catalogue import forgery
from adversary.raw import MS, ROLES, Bundle, Cell, Json, S, load, save

HOLE_NS = 20 * S


def _hole(bundle: Bundle, before: int, hole_ns: int = HOLE_NS) -> None:
    """As if something had been measured ahead of cell number `before`: all that follows is later."""
    for cell in bundle.cells[before:]:
        cell.shift(hole_ns)

    def later(run: Json) -> None:
        run["ended_ns"] += hole_ns
        for session in run.get("sessions") or []:
            if session.get("ended_ns"):
                session["ended_ns"] += hole_ns

    bundle.edit("run.json", later)


@forgery("attempts removed", "sim", "lab")
def invalid_attempt_gone(bundle: Bundle) -> None:
    """A cell was measured once; the invalid attempt before it, 20 s long, is gone."""
    _hole(bundle, 3)


@forgery("attempts removed", "sim", "lab")
def attempts_of_the_first_cell_gone(bundle: Bundle) -> None:
    """The first cell was measured once; what came before it in this run is gone."""
    _hole(bundle, 0)


@forgery("attempts removed", "sim", "lab")
def last_cells_gone(bundle: Bundle) -> None:
    """The last repetition was never planned: the run goes on for its time and ends."""
    last = max(cell.row["repetition"] for cell in bundle.cells)
    bundle.scenario(lambda s: s.update(repetitions=s["repetitions"] - 1))
    bundle.replan(lambda row: row["repetition"] != last)


@forgery("attempts removed", "sim", "lab")
def slow_suite_gone(bundle: Bundle) -> None:
    """The slowest suite was never part of the campaign."""
    bundle.scenario(lambda s: s.update(suites=[x for x in s["suites"] if "mceliece" not in x]))
    bundle.replan(lambda row: "mceliece" not in row["suite_id"])


@forgery("attempts removed", "sim", "lab")
def one_bad_cell_gone(bundle: Bundle) -> None:
    """`only` left one cell out, by chance the one that spoiled the mean."""
    bad = bundle.cells[4].row["cell_id"]
    kept = [cell.row["cell_id"] for cell in bundle.cells if cell.row["cell_id"] != bad]
    bundle.scenario(lambda s: s.update(only=kept))
    bundle.replan(lambda row: row["cell_id"] != bad)


def _fill(target: Cell, source: Cell, *, keep_identity: bool = True) -> None:
    """Raw files of `source` in the place of `target`'s, at target's time, under target's name."""
    start = target.wall[0]
    row, folder = target.row, target.folder
    first = next(e for e in target.lines("events.ndjson") if e["host"] == "drone")
    offset = first["t_ns"] - first["mono_ns"]
    shutil.rmtree(folder)
    shutil.copytree(source.folder, folder)
    copied = Cell(folder, row)
    other = next(e for e in copied.lines("events.ndjson") if e["host"] == "drone")
    by_ns = start - copied.wall[0]
    copied.shift(by_ns, mono_by_ns=by_ns + (other["t_ns"] - other["mono_ns"]) - offset)
    if keep_identity:
        _rename(copied, source.row, row)


def _relay(bundle: Bundle) -> None:
    """Cells that took over others' files have other lengths: they follow one another again."""
    at = bundle.cells[0].wall[0]
    for cell in bundle.cells:
        start, end = cell.wall
        cell.shift(at - start)
        at += end - start + MS

    def later(run: Json) -> None:
        run["ended_ns"] = max(run["ended_ns"], at + 10 * MS)
        for session in run.get("sessions") or []:
            session["ended_ns"] = run["ended_ns"]

    bundle.edit("run.json", later)
    run = load(bundle.data / "run.json")
    if run.get("influx") and run["influx"].get("available"):
        for entry in run["influx"]["cells"]:
            counted: dict[str, int] = {}
            for role in ROLES:
                path = bundle.data / "cells" / entry["cell_id"] / f"telemetry.{role}.lp"
                for line in path.read_text().splitlines():
                    name = line.split(" ", 1)[0]
                    counted[name] = counted.get(name, 0) + 1
            entry["series"] = [
                {"series": k, "file_count": n, "influx_count": n} for k, n in sorted(counted.items())
            ]
        save(bundle.data / "run.json", run)


def _rename(cell: Cell, old: Json, new: Json) -> None:
    """Ids, seeds and suite of `new` wherever a raw file names those of `old`."""
    pairs = [(str(old[k]), str(new[k])) for k in ("cell_id", "suite_id", "seed")]
    for path in cell.folder.rglob("*"):
        if path.is_file() and path.suffix != ".csv":
            text = path.read_text(encoding="utf-8")
            for before, after in pairs:
                text = text.replace(before, after)
            path.write_text(text, encoding="utf-8")
    rows = cell.lines("events.ndjson")
    for event in rows:
        if "position" in event:
            event["position"] = new["position"]
    cell.put_lines("events.ndjson", rows)
    cell.log_from_events()


@forgery("repetition copied", "sim", "lab")
def first_repetition_twice(bundle: Bundle) -> None:
    """Two repetitions agree to the nanosecond: the tunnel is steady beyond belief."""
    for cell in bundle.cells[3:]:
        _fill(cell, bundle.cell(cell.suite, 0))
    _relay(bundle)


@forgery("repetition copied", "sim", "lab")
def one_cell_copied(bundle: Bundle) -> None:
    """The repetition that went badly went as well as the first."""
    _fill(bundle.cells[3], bundle.cell(bundle.cells[3].suite, 0))


@forgery("repetition copied", "sim", "lab")
def handshakes_copied_alone(bundle: Bundle) -> None:
    """The second repetition's handshakes are those of the first, its traffic is its own."""
    for cell in bundle.cells[3:]:
        source = bundle.cell(cell.suite, 0)
        start = min(row["start_ns"] for row in cell.lines("spans.ndjson"))
        rows = source.lines("spans.ndjson")
        by_ns = start - min(row["start_ns"] for row in rows)
        for row in rows:
            row.update(start_ns=row["start_ns"] + by_ns, end_ns=row["end_ns"] + by_ns)
        last = max(row["end_ns"] for row in rows)
        cell.put_lines("spans.ndjson", rows)
        events = cell.lines("events.ndjson")
        offset = next(e["t_ns"] - e["mono_ns"] for e in events if e["host"] == "drone")
        end = next(e for e in events if e["event"] == "window_end" and e["window"] == "handshake_cold")
        opened = min(
            e["t_ns"]
            for e in events
            if e["event"] in ("gate_open", "window_start") and e.get("window") == "traffic"
        )
        end["t_ns"] = min(max(end["t_ns"], last + offset), opened)
        cell.put_lines("events.ndjson", events)
        cell.log_from_events()


@forgery("repetition copied", "sim", "lab")
def half_of_the_handshakes_copied(bundle: Bundle) -> None:
    """The six fastest handshakes of a cell took place twice."""
    for cell in bundle.cells:
        found = cell.handshakes()
        keys = list(found)
        half = len(keys) // 2
        for into, source in zip(keys[half:], keys[:half], strict=False):
            zero = min(row["start_ns"] for row in found[into])
            by_ns = zero - min(row["start_ns"] for row in found[source])
            found[into] = [
                {
                    **row,
                    "handshake_id": into,
                    "index": old["index"],
                    "start_ns": row["start_ns"] + by_ns,
                    "end_ns": row["end_ns"] + by_ns,
                }
                for row, old in zip(found[source], found[into], strict=True)
            ]
        cell.put_handshakes(found)


@forgery("repetition copied", "sim", "lab")
def traffic_copied_alone(bundle: Bundle) -> None:
    """The second repetition's datagrams took as long as the first's, each of them."""
    for cell in bundle.cells[3:]:
        source = bundle.cell(cell.suite, 0)
        ours = load(cell.folder / "traffic.json")["windows"]["traffic"]["drone"]["open_ns"]
        theirs = load(source.folder / "traffic.json")["windows"]["traffic"]["drone"]["open_ns"]
        for role in ROLES:
            rows = source.ledger(role)
            for row in rows:
                row[4], row[5] = str(int(row[4]) + ours - theirs), str(int(row[5]) + ours - theirs)
            cell.put_ledger(role, rows)
        counted = load(source.folder / "counters.json")

        def same(both: Json, counted: Json = counted) -> None:
            for role in ROLES:
                both[role]["windows"] = counted[role]["windows"]

        cell.counters(same)


@forgery("suites swapped", "sim", "lab", witnessed=False)
def two_suites_swapped(bundle: Bundle) -> None:
    """The slower of two suites is the faster one; times, sizes and names are the other's."""
    for repetition in range(2):
        one, other = bundle.cell("mlkem768-aesgcm", repetition), bundle.cell("mlkem768-chacha", repetition)
        kept = one.folder.with_name("kept")
        shutil.copytree(one.folder, kept)
        held = Cell(kept, one.row)
        _fill(one, other)
        _fill(other, held)
        shutil.rmtree(kept)
    _relay(bundle)


@forgery("suites swapped", "sim", "lab")
def times_of_one_suite_for_another(bundle: Bundle) -> None:
    """A suite has the handshakes of another one with the same KEM and signature."""
    for repetition in range(2):
        target, source = (
            bundle.cell("mlkem768-chacha", repetition),
            bundle.cell("mlkem768-aesgcm", repetition),
        )
        _fill(target, source)
    _relay(bundle)


@forgery("suites swapped", "sim", "lab")
def names_swapped_in_the_plan(bundle: Bundle) -> None:
    """Two suites of one repetition stand in each other's row of the plan, files and all."""
    plan = load(bundle.data / "plan.json")
    first, second = plan["cells"][:2]
    first["suite_id"], second["suite_id"] = second["suite_id"], first["suite_id"]
    save(bundle.data / "plan.json", plan)
    before = {cell.row["position"]: cell for cell in bundle.cells}
    for row, old in ((first, second["suite_id"]), (second, first["suite_id"])):
        cell = before[row["position"]]
        _rename(cell, {**row, "suite_id": old}, row)
    bundle.rename()


@forgery("order and seeds", "sim", "lab")
def favourite_always_first(bundle: Bundle) -> None:
    """Chance put one suite first in every block, when the machine was coolest."""
    plan = load(bundle.data / "plan.json")
    starts = [cell.wall[0] for cell in bundle.cells]
    by_id = {cell.row["cell_id"]: cell for cell in bundle.cells}
    offset = {cell.row["cell_id"]: cell.wall for cell in bundle.cells}
    rows = sorted(plan["cells"], key=lambda row: (row["block"], row["suite_id"]))
    at = starts[0]
    for position, row in enumerate(rows):
        cell = by_id[row["cell_id"]]
        cell.shift(at - offset[row["cell_id"]][0])
        at += offset[row["cell_id"]][1] - offset[row["cell_id"]][0] + MS
        row["position"] = position
        events = cell.lines("events.ndjson")
        for event in events:
            if "position" in event:
                event["position"] = position
        cell.put_lines("events.ndjson", events)
        cell.log_from_events()
    plan["cells"] = rows
    save(bundle.data / "plan.json", plan)


@forgery("order and seeds", "sim", "lab")
def seeds_drawn_until_they_suited(bundle: Bundle) -> None:
    """The seeds of the cells follow from the campaign's; in truth they were chosen."""
    plan = load(bundle.data / "plan.json")
    for row in plan["cells"]:
        old, new = str(row["seed"]), row["seed"] ^ 0x55
        row["seed"] = new
        path = bundle.data / "cells" / row["cell_id"] / "traffic.json"
        path.write_text(path.read_text().replace(old, str(new)))
    save(bundle.data / "plan.json", plan)


@forgery("order and seeds", "sim", "lab")
def another_campaign_seed(bundle: Bundle) -> None:
    """The order was drawn from a seed that was published before."""
    bundle.edit("plan.json", lambda plan: plan.update(seed=424242))
    bundle.scenario(lambda s: s.update(seed=424242))


@forgery("order and seeds", "sim", "lab")
def traffic_of_another_seed(bundle: Bundle) -> None:
    """All cells carried the traffic of their own seeds; in truth one was made with another."""
    cell = bundle.cells[2]
    cell.edit("traffic.json", lambda t: t["windows"]["traffic"]["spec"].update(seed=7_654_321))
