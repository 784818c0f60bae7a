"""A link that was not what its condition says, or not there at all."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import Json, Registry, cells, edit, finish, load, registering, rename_cells, save

BAD: Registry = {}
NOTHING: Json = {
    "delay_ms": 0.0, "jitter_ms": 0.0, "loss_pct": 0.0, "rate_kbps": 0.0, "queue_ms": 0.0, "reorder_pct": 0.0,
    "duplicate_pct": 0.0, "distribution": "uniform", "burst_loss": None,
}  # fmt: skip
PROBE: Json = {"udp_count": 4000, "tcp_count": 4000, "rate_hz": 400.0}


def counts(n: int, lost: int) -> Json:
    """Of `n` probes `lost` did not come; a 95 % interval by Wilson's formula."""
    p, z = lost / n, 1.959964
    middle, half = (
        (p + z * z / (2 * n)) / (1 + z * z / n),
        z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)),
    )
    return {
        "n": n,
        "received": n - lost,
        "lost": lost,
        "loss_pct": round(100 * p, 4),
        "loss_low_pct": round(100 * max(0.0, middle - half), 4),
        "loss_high_pct": round(100 * min(1.0, middle + half), 4),
    }


def times(name: str, mean_ms: float) -> Json:
    """Times around `mean_ms` with the little spread that a bare path has."""
    spread = {"mean": mean_ms, "sd": 0.05, "min": mean_ms - 0.05, "p50": mean_ms, "max": mean_ms + 0.9}
    return {f"{name}_{key}_ms": round(value, 4) for key, value in spread.items()}


def lossy_link(loss_pct: float = 5.0) -> Json:
    """link.json of a link that loses `loss_pct` each way and does nothing else."""
    n = PROBE["udp_count"]
    up = counts(n, round(n * loss_pct / 100))
    down = counts(up["received"], round(up["received"] * loss_pct / 100))
    tcp = counts(n, round(n * (1 - (1 - loss_pct / 100) ** 2)))
    router = {
        "offered": 5000,
        "offered_bytes": 600000,
        "lost": 250,
        "lost_burst": 0,
        "lost_queue": 0,
        "delivered": 4750,
        "duplicated": 0,
        "overtook": 0,
        "delay_sum_ns": 0,
        "delay_square_sum_ns2": 0,
        "late_count": 4750,
        "late_sum_ns": 4750 * 20_000,
        "late_max_ns": 900_000,
    }
    side = {**NOTHING, "loss_pct": loss_pct}
    return {
        "schema_version": "pqlab/link/v1",
        "cell_id": "",
        "seed": 7,
        "set": {"up": side, "down": side},
        "netem_in_kernel": False,
        "lapsed": None,
        "router": {"up": router, "down": dict(router), "strangers": 0, "overflow": 0},
        "probes": {
            "udp": {
                "sent": n,
                "returned": down["received"],
                "doubles": 0,
                "reordered": 0,
                "size_bytes": 64,
                "rate_hz": 400.0,
                "up": {**up, **times("delay", 0.15)},
                "down": {**down, **times("delay", 0.12)},
            },
            "tcp": {"kind": "tcp", "rate_hz": 400.0, "limit_ms": 950.0, **tcp, **times("rtt", 0.3)},
        },
    }


def condition_link(loss_pct: float = 5.0) -> Json:
    """The `link` block of a condition with that loss, as an effective scenario writes it."""
    side = {**NOTHING, "loss_pct": loss_pct}
    return {"up": side, "down": side, "probe": PROBE}


def _through_the_link(root: Path, spoil: Callable[[Json], None] | None, delay_ms: float = 0.0) -> None:
    """Every cell of the bundle claims a lossy link; link.json as `spoil` leaves it, absent for None."""

    def link(scenario: Json) -> None:
        block = condition_link()
        block["up"] = {**block["up"], "delay_ms": delay_ms}
        scenario["conditions"][0]["link"] = block

    edit(root / "data" / "scenario.effective.yml", link)
    rename_cells(root)
    for cell in cells(root):
        if spoil is not None:
            document = lossy_link()
            document["cell_id"] = cell.name
            for counts in document["router"].values():
                if isinstance(counts, dict):  # what the ledgers of the fixture say of this link
                    counts.update(lost=0, delivered=counts["offered"])
            document["set"]["up"] = {**document["set"]["up"], "delay_ms": delay_ms}
            spoil(document)
            save(cell / "link.json", document)
    finish(root)


@registering(BAD, "link_achieved")
def no_router_in_the_path(root: Path) -> None:
    """The condition names a link; nothing shows that a packet ever went through one."""
    _through_the_link(root, None)


@registering(BAD, "link_achieved")
def milder_link_than_claimed(root: Path) -> None:
    """Five per cent of loss are claimed each way; the probes lost one."""

    def milder(document: Json) -> None:
        document["probes"] = lossy_link(1.0)["probes"]

    _through_the_link(root, milder)


@registering(BAD, "link_achieved")
def probes_that_do_not_add_up(root: Path) -> None:
    """More echoes came back than probes had arrived."""

    def more(document: Json) -> None:
        document["probes"]["udp"]["returned"] += 150

    _through_the_link(root, more)


@registering(BAD, "link_achieved")
def other_settings_than_the_scenario(root: Path) -> None:
    """The router was set to a rate that the scenario does not name."""

    def other(document: Json) -> None:
        document["set"]["down"] = {**document["set"]["down"], "rate_kbps": 64.0}

    _through_the_link(root, other)


@registering(BAD, "link_achieved")
def faster_than_its_link(root: Path) -> None:
    """A link of 80 ms, probed as such; the session's datagrams took 0.1 ms."""

    def probed(document: Json) -> None:
        document["probes"]["udp"]["up"].update(times("delay", 80.1))
        document["probes"]["tcp"].update(times("rtt", 80.3))

    _through_the_link(root, probed, delay_ms=80.0)


@registering(BAD, "link_achieved")
def lapsed_and_kept(root: Path) -> None:
    """The hold on the router was lost half-way; the cell counts as a result all the same."""
    _through_the_link(root, lambda document: document.update(lapsed="the router was restarted"))


#: 20 ms each way, and half of every second nothing arrives
TRACE = b"# pqlink trace 1\n# origin: synthetic\nt_ms,delay_ms,loss_pct\n0,20,0\n500,,100\n1000,,\n"
#: more than an end of a fixture's cell sends
PACKETS = 2000
LEDGER_HEADER = "direction,t_ns,size_bytes,wait_ns"


def traced_link() -> Json:
    """The `link` block of a condition with that trace both ways, as an effective scenario writes it."""
    digest = hashlib.sha256(TRACE).hexdigest()
    trace = {"file": "half.csv", "sha256": digest, "at_end": "loop", "start_ms": 0}
    side = {**NOTHING, "trace": trace}
    return {"up": side, "down": side, "probe": None}


def traced_cell(cell: Path, seed: int) -> tuple[Json, list[str]]:
    """link.json and rows of link.ledger.csv of a router that replayed it: PACKETS each way in 2 s."""
    step_ns = 2_000_000_000 // PACKETS
    rows = [
        f"{way},{n * step_ns},90,{'' if n * step_ns % 1_000_000_000 >= 500_000_000 else 20_000_000}"
        for n in range(PACKETS)
        for way in ("up", "down")
    ]
    half = PACKETS // 2
    counts = {
        "offered": PACKETS,
        "offered_bytes": 90 * PACKETS,
        "lost": 0,
        "lost_burst": 0,
        "lost_queue": 0,
        "lost_trace": half,
        "delivered": half,
        "duplicated": 0,
        "overtook": 0,
        "delay_sum_ns": half * 20_000_000,
        "delay_square_sum_ns2": half * 20_000_000**2,
        "late_count": half,
        "late_sum_ns": 200_000,
        "late_max_ns": 90_000,
    }
    block = traced_link()
    told = {way: {**block[way], "trace": {**block[way]["trace"]}} for way in ("up", "down")}
    for side in told.values():
        del side["trace"]["file"]
    document = {
        "schema_version": "pqlab/link/v1",
        "cell_id": cell.name,
        "seed": seed,
        "set": told,
        "netem_in_kernel": False,
        "lapsed": None,
        "probes": None,
        "router": {
            "up": counts,
            "down": dict(counts),
            "strangers": 0,
            "overflow": 0,
            "logged": 2 * PACKETS,
            "unlogged": 0,
        },
    }
    return document, rows


def trace_all(root: Path, spoil: Callable[[Json, list[str]], None], trace: bytes = TRACE) -> None:
    """Every cell of the bundle claims the trace; link.json and its ledger as `spoil` leaves them."""
    edit(root / "data" / "scenario.effective.yml", lambda s: s["conditions"][0].update(link=traced_link()))
    rename_cells(root)
    file = root / "data" / "traces" / f"{hashlib.sha256(TRACE).hexdigest()}.csv"
    file.parent.mkdir()
    file.write_bytes(trace)
    seeds = {row["cell_id"]: row["seed"] for row in load(root / "data" / "plan.json")["cells"]}
    for cell in cells(root):
        document, rows = traced_cell(cell, seeds[cell.name])
        spoil(document, rows)
        save(cell / "link.json", document)
        (cell / "link.ledger.csv").write_text("\n".join([LEDGER_HEADER, *rows, ""]))
    finish(root)


@registering(BAD, "link_replayed")
def a_fade_left_out(root: Path) -> None:
    """One packet of a fade arrived, by the router's own account; its counts were made to fit."""

    def arrived(document: Json, rows: list[str]) -> None:
        place = rows.index("up,500000000,90,")
        rows[place] += "20000000"
        more = PACKETS // 2 + 1
        document["router"]["up"].update(
            lost_trace=PACKETS - more,
            delivered=more,
            delay_sum_ns=more * 20_000_000,
            delay_square_sum_ns2=more * 20_000_000**2,
        )

    trace_all(root, arrived)


@registering(BAD, "link_replayed")
def packets_later_than_the_trace(root: Path) -> None:
    """A delay of 25 ms where the trace has 20."""

    def later(document: Json, rows: list[str]) -> None:
        rows[0] = rows[0].replace("20000000", "25000000")

    trace_all(root, later)


@registering(BAD, "link_replayed")
def another_trace_than_named(root: Path) -> None:
    """The file is not the one of the digest, though it gives the same fates."""
    trace_all(root, lambda document, rows: None, TRACE.replace(b"synthetic", b"measured"))


@registering(BAD, "link_replayed")
def counts_beyond_the_packets(root: Path) -> None:
    """The router counts a packet each way that nobody wrote down."""

    def more(document: Json, rows: list[str]) -> None:
        document["router"]["down"].update(
            offered=PACKETS + 1, lost_trace=PACKETS // 2 + 1, offered_bytes=90 * (PACKETS + 1)
        )

    trace_all(root, more)
