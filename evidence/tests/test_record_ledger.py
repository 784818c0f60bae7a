"""The join of two ledgers against a slow oracle, and files that are no ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.measures.traffic.checks import _left_out, _missing
from pqevidence.record.ledger import (
    HEADER,
    Column,
    LedgerError,
    _matched,
    _undisturbed,
    join,
    read_ledger,
)
from pqtunnel.blackout import EPOCH_SHIFT


def column(rows: list[tuple[int, int, int, int, str]]) -> Column:
    """(sequence, size, t_in, t_out, window) in epoch 0."""
    made = Column()
    for sequence, size, t_in, t_out, window in rows:
        made.key.append(sequence)
        made.size_bytes.append(size)
        made.t_in_ns.append(t_in)
        made.t_out_ns.append(t_out)
        made.window.append(window)
    return made


@given(st.integers(0, 40), st.data())
def test_loss_reorder_and_duplicates_as_an_oracle_counts_them(count: int, data: st.DataObject) -> None:
    sent = column([(n, 100, 10 * n, 10 * n + 1, "traffic" if n % 3 else "bulk-1") for n in range(count)])
    order = data.draw(st.permutations(range(count)))
    arrived = [n for n in order if data.draw(st.booleans())]
    repeated = [n for n in arrived if data.draw(st.integers(0, 4)) == 0]
    ghosts = [1000 + n for n in range(data.draw(st.integers(0, 3)))]
    receiver = column([(n, 100, 10 * n + 5, 10 * n + 7, "traffic") for n in [*arrived, *repeated, *ghosts]])
    result = join(sent, receiver)
    assert result.total("sent") == count
    assert result.total("lost") == count - len(arrived)
    assert result.duplicates == len(repeated)
    assert result.ghosts == len(ghosts)
    late = sum(any(before > n for before in arrived[:at]) for at, n in enumerate(arrived))
    assert result.total("reordered") == late
    latencies = sorted(value for window in result.windows.values() for value in window.latency_ns)
    assert latencies == [7] * len(arrived)
    assert result.total("resized") == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["traffic", "bulk-1", "x"]))))
def test_what_arrived_in_order_is_matched_by_its_place(rows: list[tuple[int, int, str]]) -> None:
    """Keys of several epochs that rise, windows in any order, sizes of which some changed on the way."""
    keys = [(n // 3 << EPOCH_SHIFT) + 2 * n for n in range(len(rows))]
    sent = column([(key, 100, 10 * n, 11 * n, rows[n][2]) for n, key in enumerate(keys)])
    got = column([(key, 100 + rows[n][0], 12 * n + rows[n][1], 13 * n, "y") for n, key in enumerate(keys)])
    assert join(sent, got) == _undisturbed(sent, got) == _matched(sent, got)
    assert sent.count_by_window() == dict(Counter(sent.window))
    assert sum(sent.bytes_by_window().values()) == 100 * len(rows)
    assert _left_out(keys) == _missing(keys)


def test_of_windows_that_take_turns_each_row_is_taken_once() -> None:
    rows = column([(n, n, n, n, "ab"[n % 2]) for n in range(5)])
    assert {name: take(rows.key) for name, take in rows.windows.items()} == {"a": [0, 2, 4], "b": [1, 3]}
    assert list(rows.of_window("c", rows.key)) == []


def test_window_is_the_senders() -> None:
    sent = column([(1, 100, 0, 1, "traffic")])
    got = column([(1, 100, 5, 9, "bulk-600")])
    assert list(join(sent, got).windows) == ["traffic"]


def test_changed_size_is_seen() -> None:
    assert join(column([(1, 100, 0, 1, "t")]), column([(1, 101, 5, 9, "t")])).total("resized") == 1


def test_epochs_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "ledger.csv"
    lines = [
        ",".join(HEADER),
        "tx,0,7,64,1,2,traffic",
        "tx,1,7,64,3,4,traffic",
        "rx,4294967295,7,64,3,4,traffic",
    ]
    path.write_text("\n".join(lines) + "\n")
    ledger = read_ledger(path)
    assert len(set(ledger.tx.key)) == 2
    assert ledger.rx.key == [(4294967295 << EPOCH_SHIFT) + 7]
    assert join(ledger.tx, ledger.tx).duplicates == 0


def test_keys_of_many_epochs_hash_apart() -> None:
    """An hour with a rekey every ten seconds took minutes to join while they did not."""
    hashes = {hash(epoch << EPOCH_SHIFT | sequence) for epoch in range(360) for sequence in range(1000)}
    assert len(hashes) == 360 * 1000
    wide = {hash(epoch << EPOCH_SHIFT | 2**34 + step) for epoch in range(4096) for step in range(64)}
    assert len(wide) == 4096 * 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n", "line 1"),
        (",".join(HEADER) + "\nup,0,1,64,1,2,traffic\n", "line 2: direction 'up'"),
        (",".join(HEADER) + "\ntx,0,x,64,1,2,traffic\n", "line 2"),
        (",".join(HEADER) + "\ntx,0,1,64,1,2\n", "line 2"),
        (",".join(HEADER) + "\ntx,0,1,64,1,2,3,traffic\n", "line 2"),
        (",".join(HEADER) + f"\ntx,0,1,64,{2**62},2,traffic\n", "line 2: a number outside"),
        (",".join(HEADER) + "\ntx,0,1,64,2,-1,traffic\n", "line 2: a number outside"),
    ],
)
def test_damage_names_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "ledger.csv"
    path.write_text(text)
    with pytest.raises(LedgerError, match=says):
        read_ledger(path)
