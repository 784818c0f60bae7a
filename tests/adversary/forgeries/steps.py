"""Steps of a handshake in other places, of other kinds, with other names, or gone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from adversary.catalogue import forgery
from adversary.raw import Bundle, Cell, Json, scaled, wall_ns


def _slowest(cell: Cell, share: int) -> tuple[dict[str, list[Json]], list[str]]:
    found = cell.handshakes()
    return found, sorted(found, key=lambda key: wall_ns(found[key]))[-(len(found) // share) :]


def _called(bundle: Bundle, mode: str) -> None:
    """The slowest third are of another mode; events, numbers and scenario fit."""
    for cell in bundle.cells:
        found, slow = _slowest(cell, 3)
        kept = [key for key in found if key not in slow]
        for number, key in enumerate([*kept, *slow]):
            for row in found[key]:
                row["index"] = number
                if key in slow and (row["host"] == "drone" or mode == "rekey"):
                    row["mode"] = mode
        cell.put_handshakes(found)
        cell.completed(len(kept))
        if mode == "rekey":

            def rekeyed(both: Json, count: int = len(slow)) -> None:
                both["drone"].update(rekey_started=count, rekey_completed=count)

            cell.counters(rekeyed)
    bundle.scenario(lambda s: s["handshake"].update(count=s["handshake"]["count"] * 2 // 3))


@forgery("called something else", "sim", "lab")
def slowest_called_redials(bundle: Bundle) -> None:
    """The slowest third of the handshakes were no cold ones: they were made after a silence."""
    _called(bundle, "redial")


@forgery("called something else", "sim", "lab")
def slowest_called_rekeys(bundle: Bundle) -> None:
    """The slowest third of the handshakes were no cold ones: they were rekeys."""
    _called(bundle, "rekey")


@forgery("called something else", "sim", "lab")
def primitives_called_codec(bundle: Bundle) -> None:
    """Signing and decapsulation are no cryptography but the packing of messages."""

    def renamed(row: Json) -> None:
        if row["step"] in ("sign", "decaps"):
            row["kind"] = "codec"

    bundle.change_lines("spans.ndjson", renamed)


@forgery("called something else", "sim", "lab")
def time_on_the_network_was_input(bundle: Bundle) -> None:
    """The drone waits for nobody: what it waits for the ground station is its own input and output."""

    def renamed(row: Json) -> None:
        if row["kind"] == "network_wait":
            row["kind"] = "io"

    bundle.change_lines("spans.ndjson", renamed)


@forgery("called something else", "lab", "sim")
def verification_called_signing(bundle: Bundle) -> None:
    """Who signs fast and who verifies slowly change places in the steps' names."""
    swap = {"encaps": "verify", "verify": "encaps"}
    bundle.change_lines("spans.ndjson", lambda row: row.update(step=swap.get(row["step"], row["step"])))


@forgery("times scaled", "lab", "sim")
def work_of_a_primitive_moved_to_another_step(bundle: Bundle) -> None:
    """Decapsulation of one suite costs half of what it costs in its sister suite; the rest of it lies in the
    step that follows, walls are as they were."""
    for cell in bundle.cells:
        if "mlkem768-aesgcm" not in cell.suite:
            continue
        found = cell.handshakes()
        for rows in found.values():
            ground = sorted((r for r in rows if r["host"] == "gcs"), key=lambda r: r["start_ns"])
            steps = [r for r in ground if r["step"] != "handshake"]
            for before, after in pairwise(steps):
                if before["step"] == "decaps":
                    half = (before["end_ns"] - before["start_ns"]) // 2
                    gap = after["start_ns"] - before["end_ns"]
                    before["end_ns"] -= half
                    after["start_ns"] = before["end_ns"] + gap
                    if isinstance(before.get("cpu_ns"), int):
                        before["cpu_ns"] -= half
        cell.put_handshakes(found)


@forgery("times scaled", "lab", "sim")
def slowest_brought_to_the_median(bundle: Bundle) -> None:
    """No handshake took much longer than the others: the slowest third are as long as the median, and each
    rest that follows is longer by as much."""
    for cell in bundle.cells:
        found, slow = _slowest(cell, 3)
        walls = sorted(wall_ns(rows) for rows in found.values())
        middle = walls[len(walls) // 2]
        for number, key in enumerate(slow):
            scaled(found[key], (middle + 37 * number) / wall_ns(found[key]))
        cell.put_handshakes(found)


@forgery("times scaled", "lab", witnessed=False)
def tail_of_latency_cut(bundle: Bundle) -> None:
    """One datagram in twenty took longer than it did: the slowest arrived as early as the 90th percentile."""
    for cell in bundle.cells:
        for sender, receiver in (("drone", "gcs"), ("gcs", "drone")):
            sent = {(r[1], r[2]): int(r[4]) for r in cell.ledger(sender) if r[0] == "tx"}
            rows = cell.ledger(receiver)
            took = sorted(int(r[5]) - sent[r[1], r[2]] for r in rows if r[0] == "rx")
            limit = took[9 * len(took) // 10]
            for number, row in enumerate(rows):
                if row[0] == "rx" and (over := int(row[5]) - sent[row[1], row[2]] - limit) > 0:
                    less = over + number % 5
                    row[4], row[5] = str(int(row[4]) - less), str(int(row[5]) - less)
            cell.put_ledger(receiver, rows)


@forgery("times scaled", "lab")
def round_trips_shortened(bundle: Bundle) -> None:
    """The vehicle answers in a fortieth of the time; both ways of the tunnel took longer than that."""
    _answered(bundle, 40)


@forgery("times scaled", "lab", witnessed=False)
def vehicle_that_answers_in_half_the_time(bundle: Bundle) -> None:
    """The vehicle answers in half the time, which is more than both ways of the tunnel took."""
    _answered(bundle, 2)


def _answered(bundle: Bundle, faster: int) -> None:
    def shorter(traffic: Json) -> None:
        report = traffic["windows"]["traffic"]["gcs"]["source_report"]
        report["rtt_ms"] = [value / faster for value in report["rtt_ms"]]

    bundle.edit_cells("traffic.json", shorter)


def _each(bundle: Bundle, change: Callable[[dict[tuple[str, str], Json], list[Json]], list[Json]]) -> None:
    """Rows of every handshake through `change(rows by host and step, rows)`."""
    for cell in bundle.cells:
        found = cell.handshakes()
        for key, rows in found.items():
            found[key] = change({(row["host"], row["step"]): row for row in rows}, rows)
        cell.put_handshakes(found)


@forgery("steps moved", "lab", "sim")
def part_of_a_primitive_left_out(bundle: Bundle) -> None:
    """Decapsulation took four fifths of its time; nothing stands where the rest was."""

    def shorter(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        row = by_step["gcs", "decaps"]
        row["end_ns"] -= (row["end_ns"] - row["start_ns"]) // 5
        if isinstance(row.get("cpu_ns"), int):
            row["cpu_ns"] = row["end_ns"] - row["start_ns"]
        return rows

    _each(bundle, shorter)


@forgery("steps moved", "lab", "sim")
def signed_before_the_key_was_made(bundle: Bundle) -> None:
    """The ground signs first and makes its key then: both steps stand in each other's place."""

    def exchanged(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        first, between, last = (by_step["gcs", name] for name in ("keygen", "transcript", "sign"))
        lengths = [row["end_ns"] - row["start_ns"] for row in (last, between, first)]
        at = first["start_ns"]
        for row, length in zip((last, between, first), lengths, strict=True):
            row.update(start_ns=at, end_ns=at + length)
            at += length
        return rows

    _each(bundle, exchanged)


@forgery("steps moved", "lab", "sim")
def keys_that_nobody_derived(bundle: Bundle) -> None:
    """No key was derived at the ground station: the step is gone, too short for its wall to show it."""
    _each(bundle, lambda _by_step, rows: [r for r in rows if (r["host"], r["step"]) != ("gcs", "kdf")])


@forgery("steps moved", "lab", "sim")
def challenge_that_was_never_made(bundle: Bundle) -> None:
    """The ground makes no challenge: its first step is gone, and the wall begins later."""

    def gone(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        first = by_step["gcs", "challenge"]
        by_step["gcs", "handshake"]["start_ns"] = first["end_ns"]
        return [row for row in rows if row is not first and (row["host"], row["step"]) != ("gcs", "accept")]

    _each(bundle, gone)


@forgery("steps moved", "lab")
def drone_that_signed(bundle: Bundle) -> None:
    """The drone proved itself by a signature in each handshake; the condition asks for its key alone."""

    def signed(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        row, ground = by_step["drone", "kdf"], by_step["gcs", "sign"]
        middle = (row["start_ns"] + row["end_ns"]) // 2
        more = {
            **row,
            "step": "sign",
            "kind": "crypto",
            "start_ns": middle,
            "size_bytes": ground["size_bytes"],
        }
        row["end_ns"] = middle
        return [*rows, more]

    _each(bundle, signed)


@forgery("steps moved", "lab", "sim")
def ground_that_answers_before_it_is_asked(bundle: Bundle) -> None:
    """All of the ground's work lies half a millisecond earlier, before the drone's Hello."""

    def earlier(_by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        for row in rows:
            if row["host"] == "gcs":
                row.update(start_ns=row["start_ns"] - 500_000, end_ns=row["end_ns"] - 500_000)
        return rows

    _each(bundle, earlier)


@forgery("steps moved", "lab", "sim")
def drone_that_waits_for_less(bundle: Bundle) -> None:
    """The drone waits for the ground's answer 0.1 ms and a signature less than it did; what it saved it waits
    for the last message."""
    _each(bundle, lambda by_step, rows: _sooner(by_step, rows, _signing(by_step) + 100_000))


@forgery("steps moved", "lab", "sim")
def answer_before_it_was_sent(bundle: Bundle) -> None:
    """The drone has the ground's answer 0.2 ms before it was sent, and waits for the last one instead."""

    def earlier(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        sent, got = by_step["gcs", "send_server_hello"], by_step["drone", "wait_server_hello"]
        return _sooner(by_step, rows, got["end_ns"] - sent["start_ns"] + 200_000)

    _each(bundle, earlier)


def _signing(by_step: dict[tuple[str, str], Json]) -> int:
    row = by_step["gcs", "sign"]
    return int(row["end_ns"] - row["start_ns"])


def _sooner(by_step: dict[tuple[str, str], Json], rows: list[Json], less_ns: int) -> list[Json]:
    """The drone's steps from its wait for the ground's answer on, earlier by that or most of that wait."""
    waited, last = by_step["drone", "wait_server_hello"], by_step["drone", "wait_finished"]
    less_ns = min(less_ns, (waited["end_ns"] - waited["start_ns"]) * 9 // 10)
    moved = False
    for row in sorted((r for r in rows if r["host"] == "drone"), key=lambda r: r["start_ns"]):
        if row is waited:
            row["end_ns"] -= less_ns
            moved = True
        elif row is last:
            row["start_ns"] -= less_ns
            moved = False
        elif moved and row["step"] != "handshake":
            row.update(start_ns=row["start_ns"] - less_ns, end_ns=row["end_ns"] - less_ns)
    return rows


@forgery("steps moved", "lab", "sim")
def wall_that_begins_before_its_steps(bundle: Bundle) -> None:
    """A rival's handshakes take three hundredths longer than all that was done in them."""
    for repetition in range(2):
        cell = bundle.cell("mceliece", repetition)
        found = cell.handshakes()
        for rows in found.values():
            for row in rows:
                if row["step"] == "handshake":
                    row["end_ns"] += (row["end_ns"] - row["start_ns"]) * 3 // 100
        cell.put_handshakes(found)


@forgery("steps moved", "lab", "sim", witnessed=False)
def key_made_in_the_time_of_encapsulation(bundle: Bundle) -> None:
    """Key generation costs half of what it costs, and encapsulation more by that, in every suite: walls,
    clocks and waits agree."""

    def exchanged(by_step: dict[tuple[str, str], Json], rows: list[Json]) -> list[Json]:
        made, sealed = by_step["gcs", "keygen"], by_step["drone", "encaps"]
        less = (made["end_ns"] - made["start_ns"]) // 2
        for role, first, last in (("gcs", made, "wait_client_kem"), ("drone", None, "")):
            moving = False
            for row in sorted((r for r in rows if r["host"] == role), key=lambda r: r["start_ns"]):
                if row["step"] == "handshake":
                    continue
                if role == "gcs":
                    if row is first:
                        row["end_ns"] -= less
                        moving = True
                    elif row["step"] == last:
                        row["start_ns"] -= less
                        moving = False
                    elif moving:
                        row.update(start_ns=row["start_ns"] - less, end_ns=row["end_ns"] - less)
                elif row["step"] == "wait_server_hello":
                    row["end_ns"] -= less
                    moving = True
                elif row is sealed:
                    row["start_ns"] -= less
                    moving = False
                elif moving:
                    row.update(start_ns=row["start_ns"] - less, end_ns=row["end_ns"] - less)
        for row, by_ns in ((made, -less), (sealed, less)):
            if isinstance(row.get("cpu_ns"), int):
                row["cpu_ns"] += by_ns
        return rows

    _each(bundle, exchanged)
