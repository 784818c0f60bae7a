"""The data plane: packets that fit their rate and time, and both ends telling the same story."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import islice
from operator import le

from pqevidence.kernel.result import Tally
from pqevidence.kernel.run_shape import rates_due
from pqevidence.kernel.view import CellView
from pqevidence.record.beside import beside_of
from pqevidence.record.dataplane import seal_overhead_bytes
from pqevidence.record.raw import stamps_of_one_clock
from pqevidence.scenario.attacks import attacked
from pqevidence.scenario.conditions import keeps_ledger
from pqtunnel.blackout import EPOCH_SHIFT

UPLINK_ANSWER_HZ = 2.0
RATE_TOLERANCE_LONG, RATE_TOLERANCE_SHORT, RATE_LONG_S = 0.02, 0.10, 10.0
PATHS = (("down", "drone", "gcs"), ("up", "gcs", "drone"))
#: reasons that stray or late datagrams of an earlier session do not explain
REFUSALS = ("auth_failed", "replay", "oversize", "queue_full")
SUMMED = ("tx_data", "tx_data_bytes", "rx_ok", "rx_ok_bytes", "plaintext_in", "plaintext_out")
#: control packets that any end may send; older bundles do not count all of them
CONTROL = ("tx_epoch_ack", "tx_rekey_request", "tx_path_challenge", "tx_path_response")
_SEQUENCE_MASK = (1 << 64) - 1


def lossy(cell: CellView, window: str) -> bool:
    """Loss is a result there: an impaired link, or a ladder that offers more than the path carries."""
    return cell.impaired or window.startswith("bulk-")


def rate_time_packets(cell: CellView, tally: Tally) -> None:
    """Counted datagrams = nominal rate × measured time, ± 2 % from 10 s on, ± 10 % below (traffic contract).

    A ladder's source may fall short of a rate that its host cannot make; it cannot exceed it.
    """
    for window, rate_hz in rates_due(cell.run.scenario).items():
        seconds = cell.plane.gate_s[window]
        count = int(cell.windows("drone")[window]["tx_data"])
        report = (cell.raw.traffic or {}).get(window) or {}
        probed = window == "traffic" and (report.get("gcs") or {}).get("source") == "uplink"
        due = (rate_hz + (UPLINK_ANSWER_HZ if probed else 0.0)) * seconds + beside_of(report)[0]
        share = count / due
        allowed = RATE_TOLERANCE_LONG if seconds >= RATE_LONG_S else RATE_TOLERANCE_SHORT
        short = share < 1 - allowed and not window.startswith("bulk-")
        tally.see(100 * share)
        if short or share > 1 + allowed:
            tally.fail(f"{cell.label} {window}: {count} datagrams in {seconds:.2f} s, {due:.0f} are due")


def ledger_counters(cell: CellView, tally: Tally) -> None:
    """Per window, direction and end: as many ledger rows, and as many sealed bytes, as were counted."""
    if not keeps_ledger(cell.run.scenario, cell.run.condition(str(cell.plan["condition"]))):
        return
    tally.see()
    for role, ledger in sorted(cell.raw.ledgers.items()):
        windows = cell.windows(role)
        for end, column, counter in (("tx", ledger.tx, "tx_data"), ("rx", ledger.rx, "rx_ok")):
            rows, sizes = column.count_by_window(), column.bytes_by_window()
            for window in sorted(set(rows) | set(windows)):
                counted = windows.get(window, {})
                where = f"{cell.label} {window} {role} {end}"
                have, due = rows.get(window, 0), int(counted.get(counter, 0))
                tally.require(have == due, f"{where}: {have} rows, {due} counted")
                have, due = sizes.get(window, 0), int(counted.get(f"{counter}_bytes", 0))
                tally.require(have == due, f"{where}: {have} bytes in rows, {due} counted")


def ledger_join(cell: CellView, tally: Tally) -> None:
    """Every datagram sent in a session is received, none is received that was not sent, none twice."""
    if cell.plane.down is None or cell.plane.up is None:
        return
    tally.see()
    one_clock = stamps_of_one_clock(cell.run, cell.raw)
    for (name, _, _), join in zip(PATHS, (cell.plane.down, cell.plane.up), strict=True):
        where = f"{cell.label} {name}"
        tally.require(join.duplicates == 0, f"{where}: {join.duplicates} (epoch, sequence) pairs occur twice")
        tally.require(join.ghosts == 0, f"{where}: {join.ghosts} received and never sent")
        for window, joined in join.windows.items():
            tally.require(joined.resized == 0, f"{where} {window}: {joined.resized} changed their size")
            if not lossy(cell, window):
                tally.require(joined.lost == 0, f"{where} {window}: {joined.lost} of {joined.sent} lost")
            early = len([ns for ns in joined.latency_ns if ns < 0])
            if one_clock:
                tally.require(early == 0, f"{where} {window}: {early} delivered before they were sent")


def sequence_gaps(cell: CellView, tally: Tally) -> None:
    """Numbers a sender skipped are at most its control packets, which have numbers and no ledger."""
    tally.see()
    for role, ledger in cell.raw.ledgers.items():
        counters = (cell.raw.counters or {})[role]
        control = int(counters["tx_keepalive"]) + sum(int(counters.get(name, 0)) for name in CONTROL)
        key = ledger.tx.key
        falls = sum(map(le, islice(key, 1, None), key))
        missing = _missing(key) if falls else _left_out(key)
        where = f"{cell.label} {role}"
        tally.require(
            missing <= control, f"{where}: {missing} sequences skipped, {control} control packets sent"
        )
        tally.require(falls == 0, f"{where}: sequence went back {falls} times")


def _left_out(keys: list[int]) -> int:
    """Numbers between the first and the last one of each epoch that are not there, where all keys rise."""
    missing = begin = 0
    while begin < len(keys):
        end = bisect_left(keys, ((keys[begin] >> EPOCH_SHIFT) + 1) << EPOCH_SHIFT, begin)
        missing += keys[end - 1] - keys[begin] + 1 - (end - begin)
        begin = end
    return missing


def _missing(keys: list[int]) -> int:
    """The same of keys in any order."""
    per_epoch: dict[int, list[int]] = {}
    for key in keys:
        edge = per_epoch.setdefault(key >> EPOCH_SHIFT, [key & _SEQUENCE_MASK, key & _SEQUENCE_MASK, 0])
        sequence = key & _SEQUENCE_MASK
        edge[0], edge[1], edge[2] = min(edge[0], sequence), max(edge[1], sequence), edge[2] + 1
    return sum(max(0, high - low + 1 - count) for low, high, count in per_epoch.values())


def counters_agree(cell: CellView, tally: Tally) -> None:
    """Per window and direction: the receiver opened what the sender sealed, to the last datagram."""
    tally.see()
    for name, sender, receiver in PATHS:
        there, here = cell.windows(sender), cell.windows(receiver)
        tally.require(set(there) == set(here), f"{cell.label}: the ends counted different windows")
        for window in sorted(set(there) & set(here)):
            sent, got = int(there[window]["tx_data"]), int(here[window]["rx_ok"])
            wrong = got > sent or (got != sent and not lossy(cell, window))
            tally.require(not wrong, f"{cell.label} {window} {name}: {sent} sent, {got} received")


def counter_sums(cell: CellView, tally: Tally) -> None:
    """Totals are the sums of their windows; seal and open calls fit what was sent and received."""
    tally.see()
    for role in ("drone", "gcs"):
        total, windows = (cell.raw.counters or {})[role], cell.windows(role).values()
        counted = {name for window in windows for name, value in window.items() if _is_number(value)}
        for name in sorted(counted.union(SUMMED)):
            summed = sum(int(window[name]) for window in windows)
            text = f"{cell.label} {role} {name}: total {total[name]}, Σ windows {summed}"
            tally.require(int(total[name]) == summed, text)
        for calls, packets in (("seal_count", "tx_data"), ("open_count", "rx_ok")):
            enough = int(total[calls]) >= int(total[packets])
            tally.require(enough, f"{cell.label} {role}: {total[calls]} {calls}, {total[packets]} {packets}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def byte_identity(cell: CellView, tally: Tally) -> None:
    """Where all arrived, the order-free digests of (sequence, plaintext) are equal; none is empty."""
    tally.see()
    for name, sender, receiver in PATHS:
        there, here = cell.windows(sender), cell.windows(receiver)
        for window in sorted(set(there) & set(here)):
            sent, got = there[window], here[window]
            if int(sent["tx_data"]) != int(got["rx_ok"]):
                continue
            ours, theirs = str(sent["digest_tx"]), str(got["digest_rx"])
            where = f"{cell.label} {window} {name}"
            tally.require(ours == theirs, f"{where}: {ours} sent, {theirs} received")
            hollow = int(sent["tx_data"]) > 0 and int(ours, 16) == 0
            tally.require(not hollow, f"{where}: datagrams with an empty digest")


def seal_overhead(cell: CellView, tally: Tally) -> None:
    """Sealed = plaintext + header and tag (24 bytes; 8 in `plain`, which has no tag), at the sender (where
    all that came in was sent) and at the receiver."""
    due = seal_overhead_bytes(cell.suite)
    for role in ("drone", "gcs"):
        for window, counted in cell.windows(role).items():
            pairs = [("rx_ok", "rx_ok_bytes", "plaintext_out", "plaintext_out_bytes")]
            pairs.append(("tx_data", "tx_data_bytes", "plaintext_in", "plaintext_in_bytes"))
            for packets, sealed, plain_packets, plain in pairs:
                count = int(counted[packets])
                if count == 0 or count != int(counted[plain_packets]):
                    continue
                overhead = (int(counted[sealed]) - int(counted[plain])) / count
                tally.see(overhead)
                where = f"{cell.label} {window} {role} {packets}"
                tally.require(overhead == due, f"{where}: {overhead:.3f} bytes a datagram, {due} are due")
    tally.unit = "counts"


def refused(cell: CellView, tally: Tally) -> None:
    """Datagrams refused or left behind on an unimpaired link: a warning, with their reasons. In a ladder's
    window a full queue is what the ladder looks for."""
    tally.see()
    if cell.impaired or attacked(cell.run.condition(str(cell.plan["condition"]))):
        return  # `attack_counted` asks where each refused datagram came from
    found: Counter[str] = Counter()
    for role in ("drone", "gcs"):
        for window, counted in cell.windows(role).items():
            for name in REFUSALS:
                if not (name == "queue_full" and lossy(cell, window)):
                    found[f"{role} {name}"] += int(counted[name])
    bad = {name: count for name, count in found.items() if count}
    if bad:
        tally.warn(f"{cell.label}: " + ", ".join(f"{name} {count}" for name, count in sorted(bad.items())))
