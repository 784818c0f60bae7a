"""What both ends refused, held against what the attacker says it sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqattack.settings import Episode
from pqevidence.record.attack import SentEpisode, account_problems
from pqevidence.record.raw import RawCell

SENT = 500


@pytest.mark.parametrize(
    ("refused", "is_whole"),
    [
        ({"replay": SENT}, True),  # an end that counts no second copies apart
        ({"duplicate": 200, "replay": SENT - 200}, True),
        ({"duplicate": 200, "replay": SENT - 300}, False),
        ({"duplicate": 200, "replay": SENT}, False),
    ],
)
def test_second_copies_are_among_what_an_attack_is_felt_by(refused: dict[str, int], is_whole: bool) -> None:
    told = {"kind": "replay", "for_s": 1, "rate_pps": SENT, "target": "drone", "seed": 2}
    sent = SentEpisode(1, Episode.parse(told), 0, 1_000_000_000, SENT, "deadline")
    counted = {"windows": {"traffic": refused}}
    cell = RawCell(Path(), counters={"drone": counted, "gcs": {"windows": {"traffic": {}}}})
    assert (account_problems(cell, [sent]) == []) == is_whole
