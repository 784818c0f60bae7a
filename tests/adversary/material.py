"""Honest bundles to start from: what the tree simulates, and synthetic test data of a lab.

`sim`: a simulated run. `lab`: synthetic data in the format of a real lab. `lossy`: the same through a link
router that loses 5 %. `watched`: the same with a detector and a known attack after each session. Each
verifies; the run of the kit begins by asking.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from adversary.raw import MS, OTHER, ROLES, Bundle, Cell, Json, save
from adversary.rebuild import rebuild, seal

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence" / "tests"))
SUITES = (
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-classicmceliece348864-ascon128a-mldsa44",
    "cs-mlkem768-chacha20poly1305-mldsa65",
)
REPETITIONS, HANDSHAKES = 2, 12
#: share of datagrams that the lossy link loses, each way
LOSS = 0.05
BIN_NS = 20 * MS
_SCENARIO = f"""\
schema: pqlab/scenario/v1
name: adversary
title: Three suites, two repetitions, a second of traffic
seed: 20260301
suites: [{", ".join(SUITES)}]
repetitions: {REPETITIONS}
handshake: {{count: {HANDSHAKES}, min_count: 5, max_s: 20}}
traffic: {{source: auto, profile: intervals_320hz, rate_hz: 320, session_s: 1}}
bulk: null
"""


def sim(folder: Path) -> Path:
    """A run in virtual time, through the lab's own command line."""
    from pqlab.cli.main import main

    folder.mkdir(parents=True, exist_ok=True)
    scenario = folder / "adversary.yml"
    scenario.write_text(_SCENARIO, encoding="utf-8")
    inventory = ROOT / "ansible" / "inventories" / "sim.ini"
    code = main(["run", str(scenario), "--inventory", str(inventory), "--out", str(folder / "results")])
    if code != 0:
        raise RuntimeError(f"the simulated run ended with {code}")
    return (folder / "results" / "latest").resolve()


def lab(folder: Path) -> Path:
    """Synthetic data of a container lab: one machine, real formats, invented times."""

    def schedule(root: Path) -> None:
        for cell in Bundle(root).cells:
            _scheduled(cell)
            _sent_in_one_call(cell)

    return _synthetic(folder, schedule, session_s=5.0)


def lossy(folder: Path) -> Path:
    """The same through a router that loses 5 % each way, with its own account of it."""
    from measures.link.bad_bundles import condition_link, lossy_link

    def impair(root: Path) -> None:
        bundle, rng = Bundle(root), random.Random("lost")
        bundle.scenario(lambda s: s["conditions"][0].update(link=condition_link(100 * LOSS)))
        for cell in bundle.cells:
            document = lossy_link(100 * LOSS)
            document["cell_id"] = cell.row["cell_id"]
            for role, direction in (("drone", "up"), ("gcs", "down")):
                offered, lost = _lose(cell, role, rng)
                # the handshakes' packets go through it, too, before the traffic
                document["router"][direction] |= {
                    "offered": offered + 120,
                    "lost": lost,
                    "delivered": offered + 120 - lost,
                    "late_count": offered + 120 - lost,
                    "late_sum_ns": 20_000 * offered,
                }
            save(cell.folder / "link.json", document)

    return _synthetic(folder, impair, session_s=4.0)


def watched(folder: Path) -> Path:
    """The same with a detector that watches each cell and raises the attack after its session. Its scores are
    those of a shipped model."""
    from detector_files import facts, write_usage, write_watched
    from scored_files import name_model, rescore

    def watch(root: Path) -> None:
        bundle = Bundle(root)
        named = facts("xgboost")
        name_model(named)
        bundle.edit("providers.json", lambda p: p.update(detectors={"xgboost": named}))
        bundle.rename()
        for cell in bundle.cells:
            write_watched(cell.folder, "xgboost")
            write_usage(cell.folder, ("xgboost",), "xgboost", share=0.12)
            # a twentieth of a core, as its lines tell it, too
            cell.change_lines("detector.ndjson", lambda r: r.update(cpu_ns=3 * 10**7 * r["history_windows"]))
            _canary(cell)
            rescore(cell.folder)

    base = {"name": "baseline", "link": "none", "detector": "xgboost", "detector_history": "cold"}
    return _synthetic(folder, watch, conditions=(base,), session_s=2.4)


MATERIALS: dict[str, Callable[[Path], Path]] = {"sim": sim, "lab": lab, "lossy": lossy, "watched": watched}


def _synthetic(folder: Path, change: Callable[[Path], None], **options: object) -> Path:
    import fixture_handshake
    import fixtures_make

    fixture_handshake.TIMES.setdefault(SUITES[2], fixture_handshake.TIMES[SUITES[0]])
    root = folder / fixtures_make.RUN_ID
    given: dict[str, object] = {
        "suites": SUITES,
        "repetitions": REPETITIONS,
        "handshakes": HANDSHAKES,
        "bulk": False,
        **options,
    }
    fixtures_make.make_work_dir(root, **given)  # type: ignore[arg-type]
    change(root)
    rebuild(root)
    seal(root)
    return root


def _scheduled(cell: Cell) -> None:
    """What the scheduler counted beside each handshake; the processes used that, too."""
    walls: dict[str, list[tuple[int, int]]] = {role: [] for role in ROLES}
    offset = next(e["t_ns"] - e["mono_ns"] for e in cell.lines("events.ndjson") if "mono_ns" in e)
    found = cell.handshakes()
    for rows in found.values():
        for row in rows:
            if row["kind"] == "crypto":
                row["cpu_ns"] = row["end_ns"] - row["start_ns"]
            if row["step"] == "handshake":
                steps = [
                    r for r in rows if r["host"] == row["host"] and r["kind"] not in ("network_wait", "io")
                ]
                used = sum(r["end_ns"] - r["start_ns"] for r in steps)
                row.update(cpu_ns=used, runqueue_ns=2_000, involuntary=0)
                walls[row["host"]].append((row["end_ns"] + offset, used))
    cell.put_handshakes(found)
    for role in ROLES:
        before = [0]

        def used_until(
            _series: str,
            _tags: str,
            fields: dict[str, str],
            t_ns: int,
            role: str = role,
            before: list[int] = before,
        ) -> int:
            if "process_cpu_ns" in fields:
                now = int(fields["process_cpu_ns"][:-1]) + sum(u for end, u in walls[role] if end <= t_ns)
                fields.update(process_cpu_ns=f"{now}i", process_pct=f"{(now - before[0]) / 1e6:.3f}")
                before[0] = now
            return t_ns

        cell.telemetry(role, used_until)


def _sent_in_one_call(cell: Cell) -> None:
    """On one machine the other kernel has a datagram while its send call still runs: after 0.6 of it."""
    for role in ROLES:
        rows = cell.ledger(role)
        arrived = {(r[1], r[2]): int(r[4]) + (int(r[5]) - int(r[4])) * 3 // 5 for r in rows if r[0] == "tx"}
        theirs = cell.ledger(OTHER[role])
        for row in theirs:
            if row[0] == "rx":
                moved = arrived[row[1], row[2]] - int(row[4])
                row[4], row[5] = str(int(row[4]) + moved), str(int(row[5]) + moved)
        cell.put_ledger(OTHER[role], theirs)


def _canary(cell: Cell) -> None:
    """The known attack after the session by 20 ms, and what the drone refused in each of them."""
    header, told = cell.lines("canary/attack.ndjson")
    first, last = told["t_on_ns"] // BIN_NS, told["t_off_ns"] // BIN_NS
    count = 20
    told |= {
        "for_s": (told["t_off_ns"] - told["t_on_ns"]) / 10**9,
        "size_bytes": 120,
        "seed": 5,
        "pulse_on_ms": None,
        "pulse_off_ms": None,
        "skipped_count": 0,
        "sent_count": count * (last + 1 - first),
    }
    bins = [{"episode": 1, "bin": number, "sent": count} for number in range(first, last + 1)]
    cell.put_lines("canary/attack.ndjson", [header, told, *bins])
    rows = [json.loads(line) for line in (cell.folder / "bins.ndjson").read_text().splitlines()]
    place = rows[0]["fields"].index("auth_failed")
    for row in rows[1:]:
        if first <= row[0] <= last:
            row[1][place] = count
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (cell.folder / "bins.ndjson").write_text(text, encoding="utf-8")


def _lose(cell: Cell, sender: str, rng: random.Random) -> tuple[int, int]:
    """Take every twentieth datagram away at its receiver; datagrams offered and lost."""
    receiver = OTHER[sender]
    sent = [row for row in cell.ledger(sender) if row[0] == "tx"]
    gone = {(row[1], row[2]) for row in sent if rng.random() < LOSS}
    lost = [row for row in sent if (row[1], row[2]) in gone]
    rows = [row for row in cell.ledger(receiver) if not (row[0] == "rx" and (row[1], row[2]) in gone)]
    cell.put_ledger(receiver, rows)
    size = sum(int(row[3]) for row in lost)

    def count(both: dict[str, dict[str, dict[str, dict[str, int | str]]]]) -> None:
        window = both[receiver]["windows"]["traffic"]
        over = 24 * len(lost)
        for name, less in (
            ("rx_ok", len(lost)),
            ("rx_ok_bytes", size),
            ("plaintext_out", len(lost)),
            ("plaintext_out_bytes", size - over),
            ("open_count", len(lost)),
        ):
            window[name] = int(window[name]) - less
        if lost:
            window["digest_rx"] = f"{rng.getrandbits(64):016x}"

    cell.counters(count)
    opened = sorted(int(row[5]) for row in rows if row[0] == "rx")

    def read(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
        if "rx_ok" in fields:
            fields["rx_ok"] = f"{bisect_right(opened, t_ns - 10 * MS)}i"
        return t_ns

    cell.telemetry(receiver, read)
    cell.edit("traffic.json", lambda t: _told(t, receiver, len(lost), size))
    return len(sent), len(lost)


def _told(traffic: Json, role: str, count: int, size: int) -> None:
    received = traffic["windows"]["traffic"][role]["source_report"]["received"]
    received["count"] -= count
    received["bytes"] -= size - 24 * count


def copy(material: Path, into: Path) -> Path:
    """A copy under its own name."""
    root = into / material.name
    shutil.copytree(material, root)
    return root
