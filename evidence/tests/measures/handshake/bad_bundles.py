"""Handshakes whose times are not what they are called."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.forge import (
    Json,
    Registry,
    cell_of,
    cells,
    edit,
    finish,
    load_lines,
    refit,
    registering,
    rename_cells,
    retick,
    save_lines,
)

BAD: Registry = {}
SUITE = "falcon512"


def spans(root: Path, part: str = SUITE) -> tuple[Path, list[Json]]:
    path = cell_of(root, part) / "spans.ndjson"
    return path, load_lines(path)


def close(root: Path, path: Path, rows: list[Json]) -> None:
    save_lines(path, rows)
    refit(path.parent)
    finish(root)


@registering(BAD, "steps_named")
def waiting_called_output(root: Path) -> None:
    """The ground waits for nobody: what it waits for a Hello is its own input and output."""
    for cell in cells(root):
        rows = load_lines(cell / "spans.ndjson")
        for row in rows:
            if row["step"] == "wait_hello":
                row["kind"] = "io"
        save_lines(cell / "spans.ndjson", rows)
    finish(root)


@registering(BAD, "steps_follow")
def part_of_a_primitive_left_out(root: Path) -> None:
    """Decapsulation takes half of its time; nothing stands where the rest of it was."""
    for cell in cells(root):
        rows = load_lines(cell / "spans.ndjson")
        for row in rows:
            if row["step"] == "decaps":
                row["end_ns"] -= min(20_000, (row["end_ns"] - row["start_ns"]) // 2)
                row.pop("cpu_ns", None)
        save_lines(cell / "spans.ndjson", rows)
        refit(cell)
    finish(root)


@registering(BAD, "steps_follow")
def answers_before_their_questions(root: Path) -> None:
    """The ground is faster than it is by half a millisecond: it begins as much earlier, before any Hello."""
    for cell in cells(root):
        rows = load_lines(cell / "spans.ndjson")
        for row in rows:
            if row["host"] == "gcs":
                row.update(start_ns=row["start_ns"] - 500_000, end_ns=row["end_ns"] - 500_000)
        save_lines(cell / "spans.ndjson", rows)
    finish(root)


@registering(BAD, "pooled_apart")
def keys_made_ahead_of_cold_handshakes(root: Path) -> None:
    """The ground took ready key pairs, and the handshakes are still called cold."""
    path, rows = spans(root)
    for row in rows:
        if row["host"] == "gcs":
            row["keygen"] = "pooled"
    close(root, path, rows)


@registering(BAD, "span_coverage")
def sleep_inside_the_wall(root: Path) -> None:
    """A fifth of each wall is in no step: somebody slept."""
    path, rows = spans(root)
    for row in rows:
        if row["step"] == "handshake":
            row["end_ns"] += (row["end_ns"] - row["start_ns"]) // 5
    close(root, path, rows)


@registering(BAD, "span_order")
def overlapping_steps(root: Path) -> None:
    """Verification starts before the message to verify has come."""
    path, rows = spans(root)
    for row in rows:
        if row["step"] == "verify":
            row["start_ns"] -= 10_000
            row["end_ns"] -= 10_000
    close(root, path, rows)


@registering(BAD, "span_window")
def from_another_time(root: Path) -> None:
    """The handshakes took place half a minute after their window."""
    path, rows = spans(root)
    for row in rows:
        row["start_ns"] += 30_000_000_000
        row["end_ns"] += 30_000_000_000
    save_lines(path, rows)
    retick(path.parent)
    close(root, path, rows)


@registering(BAD, "network_wait")
def signature_in_no_time(root: Path) -> None:
    """The drone has the ground's answer before the ground has signed it."""
    path, rows = spans(root)
    signing = {r["handshake_id"]: (r["end_ns"] - r["start_ns"]) * 4 // 5 for r in rows if r["step"] == "sign"}
    ends = {r["handshake_id"]: r["end_ns"] for r in rows if r["step"] == "wait_server_hello"}
    for row in rows:
        if row["host"] == "drone":
            saved, cut = signing[row["handshake_id"]], ends[row["handshake_id"]]
            row["start_ns"] -= saved if row["start_ns"] >= cut else 0
            row["end_ns"] -= saved if row["end_ns"] >= cut else 0
    close(root, path, rows)


@registering(BAD, "handshake_count")
def the_better_half(root: Path) -> None:
    """Eight handshakes were counted, four are shown."""
    path, rows = spans(root)
    keep = sorted({row["handshake_id"] for row in rows})[:4]
    close(root, path, [row for row in rows if row["handshake_id"] in keep])


@registering(BAD, "handshake_count")
def fewer_than_the_scenario_wants(root: Path) -> None:
    """A cell counts from nine handshakes on; it has eight."""
    edit(root / "data" / "scenario.effective.yml", lambda scenario: scenario["handshake"].update(min_count=9))
    rename_cells(root)
    finish(root)


@registering(BAD, "primitive_sizes")
def key_of_another_algorithm(root: Path) -> None:
    """Key generation made a key of ML-KEM-1024 in a suite of ML-KEM-512."""
    path, rows = spans(root)
    for row in rows:
        if row["step"] == "keygen":
            row["size_bytes"] = 1568
    close(root, path, rows)


@registering(BAD, "cell_suite")
def spans_of_another_suite(root: Path) -> None:
    """A cell of one AEAD shows the handshakes of the same KEM and signature with another one."""
    path, rows = spans(root)
    for row in rows:
        row["suite_id"] = row["suite_id"].replace("chacha20poly1305", "aesgcm")
    close(root, path, rows)


@registering(BAD, "cell_suite")
def cells_swapped_between_suites(root: Path) -> None:
    """Two suites have changed places: each record is of its suite, the raw files beneath are of the other."""
    one, other = cell_of(root, "mlkem768"), cell_of(root, "classicmceliece348864")
    aside = root / "aside"
    records = {cell: (cell / "record.json").read_bytes() for cell in (one, other)}
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    for cell, content in records.items():
        (cell / "record.json").write_bytes(content)
        refit(cell)
    finish(root)


@registering(BAD, "level_dependence")
def same_at_every_level(root: Path) -> None:
    """Three suites of two levels take the same time: the times are those of one of them."""
    _, template = spans(root, "mlkem768")
    origin = min(row["start_ns"] for row in template)
    for number, cell in enumerate(cells(root)):
        path = cell / "spans.ndjson"
        own = load_lines(path)
        shift = min(row["start_ns"] for row in own) - origin
        sizes = {row["step"]: row["size_bytes"] for row in own if "size_bytes" in row}
        rows = []
        for row in template:
            copied = {
                **row,
                "suite_id": own[0]["suite_id"],
                "handshake_id": f"{number}{row['handshake_id'][1:]}",
            }
            if "size_bytes" in row:  # the forger knows what each algorithm makes
                copied["size_bytes"] = sizes[row["step"]]
            copied["start_ns"] += shift
            copied["end_ns"] += shift
            if row["step"] in (
                "wait_hello",
                "wait_server_hello",
            ):  # and that no two are alike to the nanosecond
                copied["end_ns"] -= 13 * number + 1
            rows.append(copied)
        save_lines(path, rows)
        refit(cell)
        retick(cell)
    finish(root)
