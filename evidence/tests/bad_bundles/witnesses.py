"""Claims that another witness in the bundle contradicts: seeds, order, clocks, logs, ticks of the sampler,
routers, bins, scores, and files and versions that there are not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from fixtures_make import seed_of
from measures.attack.bad_bundles import BIN_NS, COUNT_A_BIN, attack_all
from measures.link.bad_bundles import _through_the_link

from bad_bundles.forge import (
    Json,
    Registry,
    cell_of,
    cells,
    edit,
    finish,
    load,
    load_lines,
    load_table,
    refit,
    registering,
    rename_cells,
    retick,
    save_lines,
    save_table,
)
from pqevidence.bundle.unpack import unpack

BAD: Registry = {}
#: bundles that earlier versions sealed
OLDER = Path(__file__).resolve().parents[3] / "conduct" / "tests" / "bundles"
S = 1_000_000_000


@registering(BAD, "files_known")
def page_beside_the_page(root: Path) -> None:
    """A second page with other numbers lies beside the report."""
    (root / "data" / "summary.html").write_text("<!doctype html><p>0.1 ms</p>\n", encoding="utf-8")
    finish(root)


@registering(BAD, "files_asked")
def trace_that_nobody_names(root: Path) -> None:
    """A radio trace lies in the bundle, and no condition names it."""
    text = b"t_ms,rate_kbit_s,delay_ms,loss\n0,1000,20,0\n"
    (root / "data" / "traces").mkdir()
    (root / "data" / "traces" / f"{hashlib.sha256(text).hexdigest()}.csv").write_bytes(text)
    finish(root)


@registering(BAD, "files_asked")
def samples_of_no_sensor(root: Path) -> None:
    """Power samples of a host that has no sensor for them."""
    header = '{"sensor": "ina219", "rate_hz": 1000}\nt_ns,voltage_v,current_a,flags,lateness_ns\n'
    (cells(root)[0] / "power.drone.csv").write_text(header, encoding="ascii")
    finish(root)


@registering(BAD, "attempts_due")
def result_before_the_result(root: Path) -> None:
    """A cell was measured twice, and the first time gave a result as good as the second."""
    plan = load(root / "data" / "plan.json")["cells"]
    last = root / "data" / "cells" / max(plan, key=lambda row: row["position"])["cell_id"]
    kept = last / "attempt-1"
    files = [path for path in last.iterdir() if path.name != "record.json"]
    kept.mkdir()
    for path in files:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, kept / path.name)
    edit(last / "record.json", lambda record: record.update(attempts=2))
    finish(root)


@registering(BAD, "versions_known")
def version_that_never_was(root: Path) -> None:
    """A version that nobody has made it, so that nobody would render its pages again."""
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.2.9"))
    finish(root)


@registering(BAD, "versions_known")
def old_version_with_new_files(root: Path) -> None:
    """It claims to be of 0.1.0, whose pages are not rendered again, and has what came later."""
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.1.0"))
    finish(root)


@registering(BAD, "versions_known")
def ends_of_another_protocol(root: Path) -> None:
    """Both ends say that they spoke a protocol that there is not yet."""
    for role in ("drone", "gcs"):
        edit(root / "data" / "hosts" / f"{role}.json", lambda facts: facts.update(protocol_version=9))
    finish(root)


@registering(BAD, "version_kept")
def old_version_with_new_spans(root: Path) -> None:
    """A bundle of 0.1.0, whose spans say what the scheduler did: only later versions read that."""
    shutil.rmtree(root)
    with (OLDER / "bundle-0.1.0.tar.zst").open("rb") as content:
        unpack(content, root.parent)
    for cell in cells(root):
        rows = load_lines(cell / "spans.ndjson")
        save_lines(cell / "spans.ndjson", [{**row, "involuntary": 0} for row in rows])
    finish(root, logs=False)


@registering(BAD, "seeds_drawn")
def seed_of_choice(root: Path) -> None:
    """One cell has another seed than the campaign's gives it; its traffic was made with that."""
    plan = load(root / "data" / "plan.json")
    row = plan["cells"][0]
    row["seed"] += 1
    edit(root / "data" / "plan.json", lambda old: old.update(plan))

    def seeded(traffic: Json) -> None:
        for window in traffic["windows"].values():
            window["spec"]["seed"] = row["seed"]

    edit(root / "data" / "cells" / row["cell_id"] / "traffic.json", seeded)
    finish(root)


@registering(BAD, "seeds_drawn")
def traffic_of_another_seed(root: Path) -> None:
    """The traffic of a cell was made with a seed that the plan does not name."""
    edit(cells(root)[0] / "traffic.json", lambda t: t["windows"]["traffic"]["spec"].update(seed=4))
    finish(root)


@registering(BAD, "order_drawn")
def order_as_it_suited(root: Path) -> None:
    """The scenario says that suites run as written; they ran the other way round."""
    rows = sorted(load(root / "data" / "plan.json")["cells"], key=lambda row: row["position"])

    def written(scenario: Json) -> None:
        scenario.update(order={"method": "fixed"}, suites=[row["suite_id"] for row in rows][::-1])

    edit(root / "data" / "scenario.effective.yml", written)
    rename_cells(root)
    finish(root)


@registering(BAD, "none_between")
def a_minute_before_the_first_cell(root: Path) -> None:
    """The run began a minute before its first cell, and nothing tells what it did."""
    edit(root / "data" / "run.json", lambda run: run.update(started_ns=run["started_ns"] - 60 * S))
    finish(root)


@registering(BAD, "times_once")
def handshake_twice(root: Path) -> None:
    """A slow handshake has the times of the one before it, to the nanosecond."""
    for cell in cells(root):
        rows = load_lines(cell / "spans.ndjson")
        ids = list(dict.fromkeys(row["handshake_id"] for row in rows))[:2]
        first, second = ([row for row in rows if row["handshake_id"] == key] for key in ids)
        by_ns = min(row["start_ns"] for row in second) - min(row["start_ns"] for row in first)
        for old, row in zip(first, second, strict=True):
            row.update(start_ns=old["start_ns"] + by_ns, end_ns=old["end_ns"] + by_ns)
        save_lines(cell / "spans.ndjson", rows)
        refit(cell)
    finish(root)


@registering(BAD, "clocks_steady")
def a_cell_of_another_boot(root: Path) -> None:
    """One cell's monotonic clocks are an hour ahead of the others'."""
    cell = cells(root)[-1]
    for name in ("events.ndjson", "spans.ndjson"):
        rows = load_lines(cell / name)
        for row in rows:
            for key in ("mono_ns", *(("start_ns", "end_ns") if name == "spans.ndjson" else ())):
                if key in row:
                    row[key] += 3600 * S
        save_lines(cell / name, rows)
    finish(root)


@registering(BAD, "log_told")
def log_in_prose(root: Path) -> None:
    """The controller's log says that all went well, and nothing else."""
    for cell in cells(root):
        (cell / "logs" / "controller.log").write_text("all went well\n", encoding="utf-8")
    finish(root, logs=False)


@registering(BAD, "arrived_while_sent")
def there_before_it_was_sealed(root: Path) -> None:
    """Each datagram reaches the other kernel after a fifth of what its sender took to send it."""
    for cell in cells(root):
        ledgers = {role: load_table(cell / f"ledger.{role}.csv") for role in ("drone", "gcs")}
        for role, other in (("drone", "gcs"), ("gcs", "drone")):
            sent = {(r[1], r[2]): r for r in ledgers[role] if r[0] == "tx" and r[6] == "traffic"}
            for row in ledgers[other]:
                if row[0] == "rx" and (own := sent.get((row[1], row[2]))) is not None:
                    arrived = int(own[4]) + (int(own[5]) - int(own[4])) // 5
                    row[5] = str(int(row[5]) + arrived - int(row[4]))
                    row[4] = str(arrived)
        for role, rows in ledgers.items():
            save_table(cell / f"ledger.{role}.csv", rows)
        refit(cell)
        retick(cell)
    finish(root)


@registering(BAD, "ledger_gates")
def datagrams_before_the_gate(root: Path) -> None:
    """The ground's gate opened 0.8 s after it had begun to send."""
    for cell in cells(root):

        def late(traffic: Json) -> None:
            traffic["windows"]["traffic"]["gcs"]["open_ns"] += 8 * S // 10

        edit(cell / "traffic.json", late)
    finish(root)


@registering(BAD, "handshakes_told")
def begun_and_never_told(root: Path) -> None:
    """Three handshakes were begun and not completed; the controller's account has no failure."""
    for cell in cells(root):
        edit(
            cell / "counters.json",
            lambda both: both["drone"].update(hs_started=both["drone"]["hs_started"] + 3),
        )
    finish(root)


@registering(BAD, "handshakes_paused")
def shorter_and_left_where_they_began(root: Path) -> None:
    """Every handshake of the slowest suite takes a third of its time, and the next one begins when it did."""
    cell = max(cells(root), key=lambda path: _length(path / "spans.ndjson"))
    rows = load_lines(cell / "spans.ndjson")
    for key in dict.fromkeys(row["handshake_id"] for row in rows):
        mine = [row for row in rows if row["handshake_id"] == key]
        zero = min(row["start_ns"] for row in mine)
        for row in mine:
            row.update({n: zero + (row[n] - zero) // 3 for n in ("start_ns", "end_ns")})
    save_lines(cell / "spans.ndjson", rows)
    refit(cell)
    finish(root)


def _length(path: Path) -> int:
    rows = load_lines(path)
    return int(max(row["end_ns"] for row in rows) - min(row["start_ns"] for row in rows))


@registering(BAD, "sisters_alike")
def sister_at_half_the_time(root: Path) -> None:
    """Two suites differ in their AEAD alone; one has all times of its handshakes halved, and the next one
    begins when it did."""
    old, new = "cs-mlkem512-chacha20poly1305-falcon512", "cs-mlkem768-chacha20poly1305-mldsa65"
    named = load(root / "data" / "plan.json")["cells"]
    seeds = {row["seed"]: seed_of(7, new, row["condition"], 0) for row in named if row["suite_id"] == old}
    for path in (root / "data").rglob("*"):
        if path.suffix in (".json", ".ndjson", ".yml") and path.is_file():
            text = path.read_text(encoding="utf-8").replace(old, new)
            for before, after in seeds.items():
                text = text.replace(str(before), str(after))
            path.write_text(text, encoding="utf-8")
    rename_cells(root)
    model, cell = cell_of(root, "mlkem768-aesgcm"), cell_of(root, new)
    patterns = list(_shakes(model).values())
    rows = []
    for number, (key, mine) in enumerate(_shakes(cell).items()):
        begun, zero = (min(row["start_ns"] for row in given) for given in (mine, patterns[number]))
        for row in patterns[number]:
            times = {name: begun + (row[name] - zero) // 2 for name in ("start_ns", "end_ns")}
            rows.append({**row, **times, "handshake_id": key, "suite_id": new})
    save_lines(cell / "spans.ndjson", [r for role in ("drone", "gcs") for r in rows if r["host"] == role])
    theirs = load(model / "record.json")["categories"]

    def same_algorithms(record: Json) -> None:
        aead = {k: v for k, v in record["categories"]["B"].items() if k.startswith("aead")}
        record["categories"].update(B={**theirs["B"], **aead}, E=theirs["E"])

    edit(cell / "record.json", same_algorithms)
    refit(cell)
    finish(root)


def _shakes(cell: Path) -> dict[str, list[Json]]:
    """Rows by handshake, in their order."""
    found: dict[str, list[Json]] = {}
    for row in load_lines(cell / "spans.ndjson"):
        found.setdefault(row["handshake_id"], []).append(row)
    return found


@registering(BAD, "plan_schema")
def fewer_than_foretold(root: Path) -> None:
    """The run foretold a cell more than its plan has: one was taken out of both plan and scenario."""
    edit(root / "data" / "plan.json", lambda plan: plan["budget"].update(cells=len(plan["cells"]) + 1))
    finish(root)


@registering(BAD, "ring_derived")
def stand_ins_in_the_lab(root: Path) -> None:
    """Ring lab, and the primitives were those of the simulation."""

    def built(both: dict[str, dict[str, Any]]) -> None:
        for role in ("drone", "gcs"):
            both[role]["liboqs"]["version"] = "stand-in"

    edit(root / "data" / "providers.json", built)
    rename_cells(root)
    finish(root)


@registering(BAD, "ring_real")
def sent_in_no_time_of_its_own(root: Path) -> None:
    """Ring lab, and every datagram took exactly 8,000 ns to be sealed and sent."""
    for cell in cells(root):
        rows = load_table(cell / "ledger.drone.csv")
        for row in rows[1:]:
            if row[0] == "tx":
                row[5] = str(int(row[4]) + 8_000)
        save_table(cell / "ledger.drone.csv", rows)
    finish(root)


def _ticks(cell: Path, role: str, series: str, name: str, value: str) -> None:
    path = cell / f"telemetry.{role}.lp"
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(series) and f"{name}=" in line:
            head, _, rest = line.partition(f"{name}=")
            cut = min(at for mark in (",", " ") if (at := rest.find(mark)) >= 0)
            line = f"{head}{name}={value}{rest[cut:]}"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@registering(BAD, "ticks_counters")
def fewer_at_every_tick(root: Path) -> None:
    """The sampler never read more than two handshakes; spans and counters have eight."""
    for cell in cells(root):
        _ticks(cell, "drone", "pq_tunnel", "hs_completed", "2i")
    finish(root)


@registering(BAD, "ticks_processor")
def less_than_idle(root: Path) -> None:
    """The sampler needed less than no processor time."""
    for cell in cells(root):
        _ticks(cell, "gcs", "pq_cpu", "sampler_pct", "-3.0")
    finish(root)


@registering(BAD, "link_losses")
def losses_that_nobody_missed(root: Path) -> None:
    """The router says that it lost 400 packets of each direction; both ledgers are whole."""

    def lost(document: Json) -> None:
        for name in ("up", "down"):
            counts = document["router"][name]
            counts.update(lost=400, delivered=counts["offered"] - 400, late_count=counts["offered"] - 400)

    _through_the_link(root, lost)


@registering(BAD, "attack_in_step")
def truth_a_second_late(root: Path) -> None:
    """The drone refused everything a second before the attacker says that it began."""
    attack_all(root, lambda _rows: None)
    for cell in cells(root):
        first = next(row["bin"] for row in load_lines(cell / "attack.ndjson") if "bin" in row) - S // BIN_NS
        header = {
            "schema": "pqtunnel/feed/v1",
            "role": "drone",
            "bin_ns": BIN_NS,
            "fields": ["rx_datagrams", "tx_data", "auth_failed"],
        }
        refused = [[number, [COUNT_A_BIN, 7, COUNT_A_BIN]] for number in range(first, first + 25)]
        after = [[number, [1, 7, 0]] for number in range(first + 25, first + 150)]
        rows: list[Any] = [header, *refused, *after]
        (cell / "bins.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    finish(root)


@registering(BAD, "run_told")
def plan_of_the_month_before(root: Path) -> None:
    """The plan was made a month before its run, as one that was published would be."""
    edit(root / "data" / "plan.json", lambda plan: plan.update(created_utc="2026-02-01T12:00:00Z"))
    finish(root)


@registering(BAD, "run_told")
def controller_of_its_own(root: Path) -> None:
    """The controller did not run on the drone's machine; its boot is the drone's."""
    edit(root / "data" / "run.json", lambda run: run["controller"].update(controller_on_dut=False))
    finish(root)


@registering(BAD, "host_identity")
def other_kernel_at_one_end(root: Path) -> None:
    """The drone ran another kernel than the ground station, with which it shares its boot."""
    edit(root / "data" / "hosts" / "drone.json", lambda facts: facts["host"].update(kernel="6.12.1-rt5"))
    finish(root)
