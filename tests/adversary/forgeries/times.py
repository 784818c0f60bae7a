"""Times that were never measured."""

from __future__ import annotations

from adversary.catalogue import forgery
from adversary.raw import ROLES, Bundle, Cell, Json, load, scaled, wall_ns


def _scale(cell: Cell, factor: float) -> None:
    found = cell.handshakes()
    for rows in found.values():
        scaled(rows, factor)
    cell.put_handshakes(found)


def _squeeze(cell: Cell, factor: float) -> None:
    """The whole block of handshakes takes `factor` of its time, gaps included; its label ends earlier."""
    rows = cell.lines("spans.ndjson")
    zero = min(row["start_ns"] for row in rows)
    last = max(row["end_ns"] for row in rows)
    scaled(rows, factor)
    cell.put_lines("spans.ndjson", rows)
    saved = round((last - zero) * (1 - factor))

    def earlier(row: Json) -> None:
        if row.get("window") == "handshake_cold" and row["event"] == "window_end":
            row["t_ns"] -= saved

    cell.change_lines("events.ndjson", earlier)
    cell.log_from_events()


@forgery("times scaled", "sim", "lab")
def all_spans_halved(bundle: Bundle) -> None:
    """All handshakes take half the time that they took."""
    for cell in bundle.cells:
        _scale(cell, 0.5)


@forgery("times scaled", "sim", "lab")
def all_spans_a_thousandth(bundle: Bundle) -> None:
    """A post-quantum handshake in a microsecond."""
    for cell in bundle.cells:
        _scale(cell, 0.001)


@forgery("times scaled", "sim", "lab")
def one_suite_halved(bundle: Bundle) -> None:
    """One suite is twice as fast as it is."""
    for repetition in range(2):
        _scale(bundle.cell("mlkem768-chacha", repetition), 0.5)


@forgery("times scaled", "sim", "lab")
def one_suite_a_tenth(bundle: Bundle) -> None:
    """One suite is ten times as fast as its sister with another AEAD."""
    for repetition in range(2):
        _scale(bundle.cell("mlkem768-chacha", repetition), 0.1)


@forgery("times scaled", "sim", "lab")
def block_squeezed_to_half(bundle: Bundle) -> None:
    """All handshakes take half the time, and their window ends earlier."""
    for cell in bundle.cells:
        _squeeze(cell, 0.5)


@forgery("times scaled", "sim", "lab")
def block_squeezed_to_a_thousandth(bundle: Bundle) -> None:
    """All handshakes take microseconds, and their window ends earlier."""
    for cell in bundle.cells:
        _squeeze(cell, 0.001)


@forgery("times scaled", "sim", "lab")
def a_rivals_suite_slower(bundle: Bundle) -> None:
    """A rival's suite is half as fast again as it is."""
    for repetition in range(2):
        found = (cell := bundle.cell("mceliece", repetition)).handshakes()
        moved = 0
        for rows in found.values():
            long = wall_ns(rows)
            for row in rows:
                row["start_ns"] += moved
                row["end_ns"] += moved
            scaled(rows, 1.5)
            moved += long // 2
        cell.put_handshakes(found)


@forgery("times scaled", "sim", "lab")
def latency_halved(bundle: Bundle) -> None:
    """Datagrams arrive in half the time."""
    for cell in bundle.cells:
        for role, other in (ROLES, ROLES[::-1]):
            sent = {(r[1], r[2]): int(r[4]) for r in cell.ledger(other) if r[0] == "tx"}
            rows = cell.ledger(role)
            for row in rows:
                if row[0] == "rx" and (row[1], row[2]) in sent:
                    begun = sent[row[1], row[2]]
                    row[4], row[5] = (str(begun + (int(v) - begun) // 2) for v in (row[4], row[5]))
            cell.put_ledger(role, rows)


@forgery("times scaled", "lab", witnessed=False)
def latency_and_sending_halved(bundle: Bundle) -> None:
    """Datagrams are sent, and arrive, in half the time."""
    latency_halved(bundle)
    for cell in bundle.cells:
        for role in ROLES:
            rows = cell.ledger(role)
            for row in rows:
                if row[0] == "tx":
                    row[5] = str(int(row[4]) + (int(row[5]) - int(row[4])) // 2)
            cell.put_ledger(role, rows)


@forgery("builds renamed", "sim", "lab", witnessed=False)
def seal_times_tenth(bundle: Bundle) -> None:
    """Sealing a datagram costs a tenth of what it costs."""

    def cheaper(both: Json) -> None:
        for counted in both.values():
            for window in counted["windows"].values():
                window["seal_ns_total"] //= 10
                window["open_ns_total"] //= 10

    for cell in bundle.cells:
        cell.counters(cheaper)


@forgery("processor time", "sim", "lab")
def tunnel_uses_half(bundle: Bundle) -> None:
    """The tunnel needs half of the processor time that it used."""
    for cell in bundle.cells:
        for role in ROLES:
            cell.telemetry(role, _half)


def _half(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
    for name in ("process_pct",):
        if name in fields:
            fields[name] = f"{float(fields[name]) / 2:.4f}"
    return t_ns


@forgery("processor time", "sim", "lab")
def tunnel_uses_nothing(bundle: Bundle) -> None:
    """Handshakes and datagrams cost no processor time at all."""

    def nothing(fields: dict[str, str]) -> None:
        if "process_cpu_ns" in fields:
            fields.update(process_cpu_ns="0i", process_pct="0.0")

    bundle.change_readings(nothing)


@forgery("processor time", "sim", "lab")
def machine_was_idle(bundle: Bundle) -> None:
    """The machine was idle but for the tunnel: 0.1 % busy."""

    def idle(fields: dict[str, str]) -> None:
        if "system_pct" in fields:
            fields["system_pct"] = "0.1"

    bundle.change_readings(idle)


@forgery("processor time", "lab")
def twice_the_processors(bundle: Bundle) -> None:
    """The machine has eight processors."""
    for role in (*ROLES, "controller"):
        bundle.edit(f"hosts/{role}.json", lambda facts: facts["host"].update(cpu_count=8))


@forgery("processor time", "lab")
def counter_runs_backwards(bundle: Bundle) -> None:
    """The load of the machine fell while it was measured."""
    for cell in bundle.cells:
        seen = [0]

        def back(_series: str, _tags: str, fields: dict[str, str], t_ns: int, seen: list[int] = seen) -> int:
            if "system_busy_ms" in fields:
                seen[0] += 1
                if seen[0] > 8:
                    fields["system_busy_ms"] = f"{int(fields['system_busy_ms'][:-1]) // 3}i"
            return t_ns

        cell.telemetry("drone", back)


@forgery("processor time", "lab")
def scheduler_saw_no_waiting(bundle: Bundle) -> None:
    """No thread ever waited for a processor, and all work was done in a tenth of the process's time."""
    for cell in bundle.cells:
        walls = [row for row in cell.lines("spans.ndjson") if row["step"] == "handshake"]
        total = sum(row["end_ns"] - row["start_ns"] for row in walls if row["host"] == "drone")

        def told(row: Json) -> None:
            if row["step"] == "handshake":
                row.update(cpu_ns=row["end_ns"] - row["start_ns"], runqueue_ns=0, involuntary=0)

        cell.change_lines("spans.ndjson", told)

        def little(_series: str, _tags: str, fields: dict[str, str], t_ns: int, total: int = total) -> int:
            if "process_cpu_ns" in fields:
                fields["process_cpu_ns"] = f"{total // 10}i"
                fields["process_pct"] = "0.0"
            return t_ns

        cell.telemetry("drone", little)


@forgery("clocks moved", "sim", "lab")
def cell_an_hour_away(bundle: Bundle) -> None:
    """A cell that was measured at another time, on another day, belongs to this run."""
    cell = bundle.cells[1]
    start, _ = cell.wall
    cell.shift(0, mono_by_ns=3_600 * 10**9)
    assert start == cell.wall[0]


@forgery("clocks moved", "sim", "lab")
def one_end_of_another_boot(bundle: Bundle) -> None:
    """The ground's spans of one cell are of another boot of the machine."""
    cell = bundle.cells[2]

    def moved(row: Json) -> None:
        if row["host"] == "gcs":
            for name in ("mono_ns", "start_ns", "end_ns"):
                if isinstance(row.get(name), int):
                    row[name] += 500 * 10**9

    cell.change_lines("spans.ndjson", moved)
    cell.change_lines("events.ndjson", moved)


@forgery("clocks moved", "sim", "lab")
def every_cell_its_own_boot(bundle: Bundle) -> None:
    """Cells of six boots of the machine are one campaign without a reboot."""
    for number, cell in enumerate(bundle.cells):
        cell.shift(0, mono_by_ns=number * 86_400 * 10**9)


@forgery("clocks moved", "lab", "sim")
def traffic_before_its_gate(bundle: Bundle) -> None:
    """A fifth of the traffic was sent before the window opened, and counts."""
    for cell in bundle.cells:
        gate = load(cell.folder / "traffic.json")["windows"]["traffic"]["drone"]
        back = int(0.9 * (gate["close_ns"] - gate["open_ns"]))
        for role in ROLES:
            rows = cell.ledger(role)
            for row in rows:
                if int(row[4]) > gate["open_ns"] + 4 * back // 5:
                    row[4], row[5] = str(int(row[4]) - 2 * back), str(int(row[5]) - 2 * back)
            cell.put_ledger(role, rows)


@forgery("clocks moved", "lab", "sim")
def traffic_after_its_gate(bundle: Bundle) -> None:
    """What came seconds after the window closed counts as carried within it."""
    for cell in bundle.cells:
        gate = load(cell.folder / "traffic.json")["windows"]["traffic"]["drone"]
        third = gate["open_ns"] + 2 * (gate["close_ns"] - gate["open_ns"]) // 3
        for role in ROLES:
            rows = cell.ledger(role)
            for row in rows:
                if int(row[4]) > third:
                    row[4], row[5] = str(int(row[4]) + 3 * 10**9), str(int(row[5]) + 3 * 10**9)
            cell.put_ledger(role, rows)
