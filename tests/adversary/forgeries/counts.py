"""Counts of what was, or was not: handshakes, failures, datagrams, alarms."""

from __future__ import annotations

from adversary.catalogue import forgery
from adversary.raw import OTHER, ROLES, Bundle, Cell, Json, load, save, wall_ns

HS = ("hs_started", "hs_completed", "hs_keygens", "hs_signatures", "hs_decaps", "hs_encaps", "hs_verifies")


def _drop_slowest(cell: Cell, *, renumber: bool) -> int:
    """The slowest third of the handshakes is gone; how many."""
    found = cell.handshakes()
    slow = sorted(found, key=lambda key: wall_ns(found[key]))[-(len(found) // 3) :]
    kept = {key: rows for key, rows in found.items() if key not in slow}
    if renumber:
        for number, rows in enumerate(kept.values()):
            for row in rows:
                row["index"] = number
    cell.put_handshakes(kept)

    def fewer(both: Json) -> None:
        for role in both.values():
            for name in HS:
                if role.get(name):
                    role[name] = len(kept)

    cell.counters(fewer)
    cell.completed(len(kept))
    return len(slow)


@forgery("slowest third dropped", "sim", "lab")
def slowest_handshakes_gone(bundle: Bundle) -> None:
    """The slowest third of all handshakes never took place."""
    for cell in bundle.cells:
        _drop_slowest(cell, renumber=False)


@forgery("slowest third dropped", "sim", "lab")
def slowest_gone_and_renumbered(bundle: Bundle) -> None:
    """The same, and the others are numbered as if they had been all."""
    for cell in bundle.cells:
        _drop_slowest(cell, renumber=True)


@forgery("slowest third dropped", "sim", "lab")
def slowest_gone_and_never_asked_for(bundle: Bundle) -> None:
    """The same, and the scenario asked for no more."""
    for cell in bundle.cells:
        _drop_slowest(cell, renumber=True)
    bundle.scenario(lambda s: s["handshake"].update(count=s["handshake"]["count"] * 2 // 3))


@forgery("slowest third dropped", "lab")
def slowest_gone_and_the_sampler_agrees(bundle: Bundle) -> None:
    """The same, and what the sampler read of the tunnel's counters fits."""
    for cell in bundle.cells:
        lost = _drop_slowest(cell, renumber=True)

        def fewer(_series: str, _tags: str, fields: dict[str, str], t_ns: int, lost: int = lost) -> int:
            for name in HS:
                if name in fields:
                    fields[name] = f"{max(0, int(fields[name][:-1]) - lost)}i"
            return t_ns

        for role in ROLES:
            cell.telemetry(role, fewer)


@forgery("slowest third dropped", "sim", "lab")
def slow_datagrams_gone(bundle: Bundle) -> None:
    """The twentieth of the datagrams that took longest was never sent: the tail of the latency is short."""
    for cell in bundle.cells:
        sent = {(r[1], r[2]): r for r in cell.ledger("drone") if r[0] == "tx"}
        got = {(r[1], r[2]): r for r in cell.ledger("gcs") if r[0] == "rx"}
        took = sorted(got, key=lambda key: int(got[key][5]) - int(sent[key][4]) if key in sent else 0)
        _unsend(cell, set(took[-(len(took) // 20) :]))


def _unsend(cell: Cell, gone: set[tuple[str, str]]) -> None:
    """Datagrams of the drone that are in no file any more, but in what source and sink report."""
    rows = [row for row in cell.ledger("drone") if row[0] == "tx" and (row[1], row[2]) in gone]
    size = sum(int(row[3]) for row in rows)
    for role, direction in (("drone", "tx"), ("gcs", "rx")):
        cell.put_ledger(
            role, [r for r in cell.ledger(role) if not (r[0] == direction and (r[1], r[2]) in gone)]
        )

    def fewer(both: Json) -> None:
        for role, names in (
            ("drone", ("tx_data", "plaintext_in", "seal_count")),
            ("gcs", ("rx_ok", "plaintext_out", "open_count")),
        ):
            window = both[role]["windows"]["traffic"]
            for name in names:
                window[name] -= len(rows)
            for name in names[:2]:
                window[f"{name}_bytes"] -= size - (24 * len(rows) if name.startswith("plain") else 0)

    cell.counters(fewer)


@forgery("losses erased", "lossy")
def lost_datagrams_arrived(bundle: Bundle) -> None:
    """Every datagram arrived over a link that loses one in twenty."""
    for cell in bundle.cells:
        for role in ROLES:
            _arrive(cell, role)


@forgery("losses erased", "lossy")
def half_of_the_lost_arrived(bundle: Bundle) -> None:
    """The tunnel loses half of what its link loses."""
    for cell in bundle.cells:
        _arrive(cell, "drone", every=2)


def _arrive(cell: Cell, sender: str, every: int = 1) -> None:
    receiver = OTHER[sender]
    there = {(r[1], r[2]) for r in cell.ledger(receiver) if r[0] == "rx"}
    lost = [r for r in cell.ledger(sender) if r[0] == "tx" and (r[1], r[2]) not in there][::every]
    rows = cell.ledger(receiver)
    rows += [["rx", r[1], r[2], r[3], str(int(r[5]) + 30_000), str(int(r[5]) + 75_000), r[6]] for r in lost]
    cell.put_ledger(receiver, sorted(rows, key=lambda row: (row[0], int(row[4]))))
    size = sum(int(r[3]) for r in lost)

    def more(both: Json) -> None:
        window = both[receiver]["windows"]["traffic"]
        for name in ("rx_ok", "plaintext_out", "open_count"):
            window[name] += len(lost)
        window["rx_ok_bytes"] += size
        window["plaintext_out_bytes"] += size - 24 * len(lost)
        if window["rx_ok"] == both[sender]["windows"]["traffic"]["tx_data"]:
            window["digest_rx"] = both[sender]["windows"]["traffic"]["digest_tx"]

    cell.counters(more)

    def told(traffic: Json) -> None:
        received = traffic["windows"]["traffic"][receiver]["source_report"]["received"]
        received["count"] += len(lost)
        received["bytes"] += size - 24 * len(lost)

    cell.edit("traffic.json", told)


@forgery("losses erased", "lossy")
def lost_datagrams_never_sent(bundle: Bundle) -> None:
    """No datagram was lost: what did not arrive was never sent."""
    for cell in bundle.cells:
        there = {(r[1], r[2]) for r in cell.ledger("gcs") if r[0] == "rx"}
        gone = {(r[1], r[2]) for r in cell.ledger("drone") if r[0] == "tx" and (r[1], r[2]) not in there}
        rows = [r for r in cell.ledger("drone") if r[0] == "tx" and (r[1], r[2]) in gone]
        cell.put_ledger("drone", [r for r in cell.ledger("drone") if r not in rows])
        size = sum(int(r[3]) for r in rows)

        def fewer(both: Json, rows: list[list[str]] = rows, size: int = size) -> None:
            window = both["drone"]["windows"]["traffic"]
            for name in ("tx_data", "plaintext_in", "seal_count"):
                window[name] -= len(rows)
            window["tx_data_bytes"] -= size
            window["plaintext_in_bytes"] -= size - 24 * len(rows)
            window["digest_tx"] = both["gcs"]["windows"]["traffic"]["digest_rx"]

        cell.counters(fewer)


@forgery("losses erased", "lossy")
def router_lost_nothing(bundle: Bundle) -> None:
    """The tunnel itself loses what a perfect link carried."""

    def clean(link: Json) -> None:
        for direction in ("up", "down"):
            counts = link["router"][direction]
            counts.update(delivered=counts["offered"], late_count=counts["offered"], lost=0)

    bundle.edit_cells("link.json", clean)


@forgery("losses erased", "lab", "sim")
def refused_datagrams_forgotten(bundle: Bundle) -> None:
    """Nothing foreign was on air, and nothing was refused: a hundred datagrams fewer came in than arrived."""
    cell = bundle.cells[0]

    def forget(both: Json) -> None:
        both["gcs"]["windows"]["traffic"]["open_count"] -= 100

    cell.counters(forget)


def _failing(cell: Cell, count: int) -> None:
    """As an honest cell tells it: two handshakes that did not complete."""

    def more(both: Json) -> None:
        both["drone"]["hs_started"] += count
        both["drone"]["hs_failed"] = both["drone"].get("hs_failed", 0) + count
        both["gcs"]["hs_started"] += count
        both["gcs"]["hs_bad_mac"] += count

    cell.counters(more)
    for event in (rows := cell.lines("events.ndjson")):
        if event["event"] == "handshake_block":
            event.update(failed=count, failures=[{"code": "timeout", "reason": "no answer"}] * count)
    cell.put_lines("events.ndjson", rows)
    cell.log_from_events()


def _unfail(cell: Cell) -> None:
    for event in (rows := cell.lines("events.ndjson")):
        if event["event"] == "handshake_block":
            event.update(failed=0, failures=[])
    cell.put_lines("events.ndjson", rows)


@forgery("failures deleted", "sim", "lab")
def failed_handshakes_not_told(bundle: Bundle) -> None:
    """No handshake ever failed; the ground's counters still say that three were begun and not completed."""
    for cell in bundle.cells:
        _failing(cell, 3)
        _unfail(cell)
        cell.counters(
            lambda both: both["drone"].update(hs_started=both["drone"]["hs_completed"], hs_failed=0)
        )
        cell.log_from_events()


@forgery("failures deleted", "sim", "lab")
def failed_handshakes_left_in_the_log(bundle: Bundle) -> None:
    """No handshake ever failed; counters agree, the controller's log does not."""
    for cell in bundle.cells:
        counters = load(cell.folder / "counters.json")
        _failing(cell, 3)
        _unfail(cell)
        save(cell.folder / "counters.json", counters)


@forgery("failures deleted", "sim", "lab")
def error_taken_out_of_the_events(bundle: Bundle) -> None:
    """A cell that ended with an error is a result."""
    cell = bundle.cells[3]
    rows = cell.lines("events.ndjson")
    last = max(i for i, row in enumerate(rows) if row["host"] == "controller")
    error = {
        "t_ns": rows[last]["t_ns"],
        "host": "controller",
        "event": "error",
        "reason": "the drone is gone",
    }
    rows.insert(last, error)
    cell.put_lines("events.ndjson", rows)
    cell.log_from_events()
    cell.keep_lines("events.ndjson", lambda row: row["event"] != "error")


@forgery("failures deleted", "sim", "lab")
def failed_cell_called_unsupported(bundle: Bundle) -> None:
    """A host lacks the suite, so that its failure is nobody's."""
    cell = bundle.cells[0]
    first = next(row for row in cell.lines("events.ndjson") if row["host"] == "controller")
    row = {
        "t_ns": first["t_ns"],
        "host": "controller",
        "event": "unsupported",
        "reason": "no such suite",
        "suite_id": cell.suite,
    }
    for path in cell.folder.iterdir():
        if path.is_file():
            path.unlink()
    (cell.folder / "logs" / "drone.log").unlink()
    (cell.folder / "logs" / "gcs.log").unlink()
    cell.put_lines("events.ndjson", [row])
    cell.log_from_events()
    bundle.edit(
        "hosts/drone.json",
        lambda facts: facts["suites"][cell.suite].update(status="unavailable", reason="no such suite"),
    )
    run = load(bundle.data / "run.json")
    if run.get("influx"):
        run["influx"]["cells"] = [
            {**entry, "series": []} if entry["cell_id"] == cell.row["cell_id"] else entry
            for entry in run["influx"]["cells"]
        ]
    if run.get("verdict_counts"):
        run["verdict_counts"] = {"pass": len(bundle.cells) - 1, "unsupported": 1}
    bundle.edit("run.json", lambda old: old.update(run))


@forgery("verdicts flipped", "watched")
def alarms_called_quiet(bundle: Bundle) -> None:
    """The detector raised no alarm in the session; its scores say that it did."""
    for cell in bundle.cells:
        rows = cell.lines("detector.ndjson")
        gate = load(cell.folder / "traffic.json")["windows"]["traffic"]["drone"]
        for row in rows:
            if row["t_ns"] < gate["close_ns"]:
                row.update(attack_score=0.97)
        cell.put_lines("detector.ndjson", rows)


@forgery("verdicts flipped", "watched")
def quiet_called_alarm(bundle: Bundle) -> None:
    """The detector raised a false alarm in every session; its scores say that it saw nothing."""
    for cell in bundle.cells:
        rows = cell.lines("detector.ndjson")
        for row in rows[1:3]:
            row.update(attack=True)
        cell.put_lines("detector.ndjson", rows)


@forgery("verdicts flipped", "watched")
def canary_raised_by_hand(bundle: Bundle) -> None:
    """The detector saw the known attack; its scores stayed where they were without one."""
    bundle.change_lines("detector.ndjson", lambda row: row.update(attack_score=0.01))


@forgery("verdicts flipped", "watched")
def scores_flipped_with_their_verdicts(bundle: Bundle) -> None:
    """The link was bad in a window of each session: score and verdict say so, as the rule has it."""
    for cell in bundle.cells:
        rows = cell.lines("detector.ndjson")
        rule = load(bundle.data / "providers.json")["detectors"]["xgboost"]["card"]["rules"]["degraded"]
        assert rule["need"] == rule["among"] == rule["hold"] == 1
        rows[1].update(degraded=True, degraded_score=1.0)
        rows[2].update(degraded=False, degraded_score=0.0)
        cell.put_lines("detector.ndjson", rows)


@forgery("verdicts flipped", "watched")
def surer_that_nothing_was_lost(bundle: Bundle) -> None:
    """The detector was ten times as sure that the link was whole; verdicts as they were."""

    def surer(row: Json) -> None:
        row.update(degraded_score=row["degraded_score"] / 10)

    bundle.change_lines("detector.ndjson", surer)


@forgery("verdicts flipped", "watched")
def scores_of_another_scale(bundle: Bundle) -> None:
    """The detector is more than sure: a score of 1.7."""

    def surer(row: Json) -> None:
        if row["attack"]:
            row.update(attack_score=1.7)

    bundle.change_lines("detector.ndjson", surer)


@forgery("verdicts flipped", "watched")
def detector_for_free(bundle: Bundle) -> None:
    """The detector used a tenth of the processor time that its own lines tell."""

    def cheaper(usage: Json) -> None:
        after, before = usage["after"]["xgboost"], usage["before"]["xgboost"]
        after.update(cpu_ns=before["cpu_ns"] + (after["cpu_ns"] - before["cpu_ns"]) // 50)

    bundle.edit_cells("detectors.json", cheaper)


@forgery("verdicts flipped", "watched")
def verdicts_of_another_cell(bundle: Bundle) -> None:
    """What the detector said of one cell is said of another one."""
    first, second = bundle.cells[:2]
    text = (first.folder / "detector.ndjson").read_text()
    rows = second.lines("detector.ndjson")
    for row in rows:
        row.update(cell_id=first.row["cell_id"])
    second.put_lines("detector.ndjson", rows)
    assert text


@forgery("verdicts flipped", "watched")
def truth_moved(bundle: Bundle) -> None:
    """The known attack began where the detector first raised it: it was seen at once."""
    by_ns = 900_000_000

    def later(row: Json) -> None:
        if "bin" in row:
            row["bin"] += by_ns // 20_000_000
        elif "t_on_ns" in row:
            row.update(t_on_ns=row["t_on_ns"] + by_ns, t_off_ns=row["t_off_ns"] + by_ns)

    bundle.change_lines("canary/attack.ndjson", later)
