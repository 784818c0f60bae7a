"""Traffic that was not carried, or not all of it, or not like this."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.forge import (
    Json,
    Registry,
    cell_of,
    cells,
    counted,
    edit,
    finish,
    load,
    load_lines,
    load_table,
    refit,
    registering,
    rename_cells,
    retick,
    save,
    save_lines,
    save_table,
)

BAD: Registry = {}
SUITE = "mlkem768"


@registering(BAD, "source_told")
def frames_of_other_sizes(root: Path) -> None:
    """The vehicle's frames are of a size that gives other bytes than it sent."""
    for cell in cells(root):

        def other(traffic: Json) -> None:
            sent = traffic["windows"]["traffic"]["drone"]["source_report"]["sent"]
            sent["sizes"] = {"280": sent["count"]}

        edit(cell / "traffic.json", other)
    finish(root)


@registering(BAD, "source_told")
def answers_faster_than_their_way(root: Path) -> None:
    """Answers came back in a hundredth of the time: sooner than a datagram goes down and another one up."""
    for cell in cells(root):

        def sooner(traffic: Json) -> None:
            report = traffic["windows"]["traffic"]["gcs"]["source_report"]
            report["rtt_ms"] = [value / 100 for value in report["rtt_ms"]]

        edit(cell / "traffic.json", sooner)
    finish(root)


@registering(BAD, "source_asked")
def straight_through_the_tunnel(root: Path) -> None:
    """The traffic went through no other program, says its route; the scenario asked for MAVProxy."""
    edit(
        root / "data" / "scenario.effective.yml",
        lambda scenario: scenario["traffic"].update(route="mavproxy"),
    )
    rename_cells(root)
    for cell in cells(root):
        edit(cell / "traffic.json", lambda traffic: traffic["windows"]["traffic"].update(route="direct"))
    finish(root)


@registering(BAD, "source_asked")
def gates_moved_in_one_file(root: Path) -> None:
    """The window was as long as it should be by traffic.json; the ground closed its gate two seconds later,
    by its own event."""
    for cell in cells(root):
        path = cell / "events.ndjson"
        rows = load_lines(path)
        close_ns = load(cell / "traffic.json")["windows"]["traffic"]["gcs"]["close_ns"] + 2 * 10**9
        rows.append({"t_ns": close_ns, "host": "gcs", "event": "gate_close", "window": "traffic"})
        save_lines(path, rows)
    finish(root)


@registering(BAD, "control_agree")
def keepalives_that_nobody_heard(root: Path) -> None:
    """The drone sent a hundred keepalives, whose numbers nobody misses; the ground received none of them."""
    for cell in cells(root):
        for role, _, window in counted(cell / "counters.json"):
            if role == "drone":
                window["tx_keepalive"] += 100
    finish(root)


@registering(BAD, "rate_time_packets")
def a_fortieth_of_the_packets(root: Path) -> None:
    """One datagram in forty of those that rate and time ask for, consistently at both ends."""
    for cell in cells(root):
        kept: dict[str, tuple[int, int]] = {}
        for role in ("drone", "gcs"):
            rows = load_table(cell / f"ledger.{role}.csv")
            direction = "tx" if role == "drone" else "rx"
            down = [row for row in rows[1:] if row[0] == direction and row[6] == "traffic"][::40]
            rest = [row for row in rows[1:] if row[0] == direction and row[6] != "traffic"]
            other = [row for row in rows[1:] if row[0] != direction]
            for number, row in enumerate([*down, *rest], 1):
                row[2] = str(number)
            save_table(cell / f"ledger.{role}.csv", [rows[0], *down, *rest, *other])
            kept[role] = (len(down), sum(int(row[3]) for row in down))
        for role, window, counters in counted(cell / "counters.json"):
            if window == "traffic":
                count, sealed = kept[role]
                names = (
                    ("tx_data", "plaintext_in", "seal")
                    if role == "drone"
                    else ("rx_ok", "plaintext_out", "open")
                )
                counters[names[0]] = counters[names[1]] = counters[f"{names[2]}_count"] = count
                counters[f"{names[0]}_bytes"] = sealed
                counters[f"{names[1]}_bytes"] = sealed - 24 * count
        count, sealed = kept["drone"]

        def fewer(traffic: Json, count: int = count, size: int = sealed - 24 * count) -> None:
            ends = traffic["windows"]["traffic"]
            ends["drone"]["source_report"]["sent"].update(count=count, bytes=size, sizes={})
            ends["gcs"]["source_report"]["received"].update(count=count)

        edit(cell / "traffic.json", fewer)
        refit(cell)
        retick(cell)
    finish(root)


@registering(BAD, "ledger_counters")
def rows_left_out(root: Path) -> None:
    """One datagram is in neither ledger, though both ends counted it."""
    cell = cell_of(root, SUITE)
    victim = next(r for r in load_table(cell / "ledger.drone.csv")[40:] if r[0] == "tx")
    for role in ("drone", "gcs"):
        direction = "tx" if role == "drone" else "rx"
        rows = load_table(cell / f"ledger.{role}.csv")
        save_table(cell / f"ledger.{role}.csv", [r for r in rows if r[:3] != [direction, *victim[1:3]]])
    refit(cell)
    finish(root)


@registering(BAD, "ledger_join")
def received_and_never_sent(root: Path) -> None:
    """The ground's ledger has a sequence that the drone never sent, in place of one it did."""
    cell = cell_of(root, SUITE)
    rows = load_table(cell / "ledger.gcs.csv")
    next(row for row in rows if row[0] == "rx" and row[6] == "traffic")[2] = "999999"
    save_table(cell / "ledger.gcs.csv", rows)
    refit(cell)
    finish(root)


@registering(BAD, "sequence_gaps")
def skipped_sequences(root: Path) -> None:
    """Fifty sequence numbers are skipped in the middle, at both ends alike: a stretch was cut out."""
    cell = cell_of(root, SUITE)
    for role in ("drone", "gcs"):
        direction = "tx" if role == "drone" else "rx"
        rows = load_table(cell / f"ledger.{role}.csv")
        for row in rows[1:]:
            if row[0] == direction and int(row[2]) > 100:
                row[2] = str(int(row[2]) + 50)
        save_table(cell / f"ledger.{role}.csv", rows)
    finish(root)


@registering(BAD, "counters_agree")
def one_not_received(root: Path) -> None:
    """With the ledger off, the ground counts one datagram less than the drone sent."""
    edit(root / "data" / "scenario.effective.yml", lambda scenario: scenario.update(ledger=False))
    rename_cells(root)
    for cell in cells(root):
        for role in ("drone", "gcs"):
            (cell / f"ledger.{role}.csv").unlink()
        for role, window, counters in counted(cell / "counters.json"):
            if role == "gcs" and window == "traffic":
                for name in ("rx_ok", "plaintext_out", "open_count"):
                    counters[name] -= 1
                counters["rx_ok_bytes"] -= 64
                counters["plaintext_out_bytes"] -= 40
    finish(root)


@registering(BAD, "counter_sums")
def totals_beyond_their_windows(root: Path) -> None:
    """The drone's total says 34,000 datagrams more than its windows."""
    path = cell_of(root, SUITE) / "counters.json"
    document: Json = load(path)
    for name in ("tx_data", "plaintext_in", "seal_count"):
        document["drone"][name] += 34_000
    save(path, document)
    finish(root)


@registering(BAD, "byte_identity")
def altered_payload(root: Path) -> None:
    """As many datagrams arrived as were sent, but not the same bytes."""
    for role, window, counters in counted(cell_of(root, SUITE) / "counters.json"):
        if role == "gcs" and window == "traffic":
            counters["digest_rx"] = f"{int(counters['digest_rx'], 16) ^ 1:016x}"
    finish(root)


@registering(BAD, "seal_overhead")
def thirty_nine_bytes(root: Path) -> None:
    """What the ground seals is 39 bytes longer than its plaintext, as the published tunnel's was."""
    ways = {("gcs", "tx"), ("drone", "rx")}
    for cell in cells(root):
        for role, way in ways:
            rows = load_table(cell / f"ledger.{role}.csv")
            for row in rows[1:]:
                row[3] = str(int(row[3]) + (15 if row[0] == way else 0))
            save_table(cell / f"ledger.{role}.csv", rows)
        for role, _, counters in counted(cell / "counters.json"):
            packets = "tx_data" if (role, "tx") in ways else "rx_ok"
            counters[f"{packets}_bytes"] += 15 * counters[packets]
    finish(root)
