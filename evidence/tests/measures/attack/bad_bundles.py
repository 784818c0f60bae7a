"""Foreign traffic that was not what its condition says, that nobody counted, or that nobody owns up to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import (
    Json,
    Registry,
    cells,
    counted,
    edit,
    finish,
    load,
    registering,
    rename_cells,
    save_lines,
)

BAD: Registry = {}
BIN_NS = 20_000_000
COUNT_A_BIN, BINS = 20, 25
#: as an effective scenario writes it: 1,000 forged datagrams a second at the drone, from 0.2 to 0.7 s
ATTACK: Json = {
    "kind": "forged", "start_s": 0.2, "for_s": 0.5, "rate_pps": 1000, "size_bytes": 120, "target": "drone",
    "path": "direct", "pulse_on_ms": None, "pulse_off_ms": None, "seed": 5,
}  # fmt: skip
SENT = COUNT_A_BIN * BINS


def truth(cell: Path) -> list[Json]:
    """attack.ndjson of an attacker that did as it was told."""
    open_ns = load(cell / "traffic.json")["windows"]["traffic"]["drone"]["open_ns"]
    first = (open_ns + 200_000_000) // BIN_NS + 1
    told = {key: value for key, value in ATTACK.items() if key != "start_s"}
    return [
        {"schema": "pqattack/truth/v1", "cell_id": cell.name, "bin_ns": BIN_NS},
        {
            "episode": 1,
            **told,
            "benign": False,
            "t_on_ns": first * BIN_NS + 1000,
            "t_off_ns": (first + BINS) * BIN_NS - 1000,
            "sent_count": SENT,
            "failed_count": 0,
            "skipped_count": 0,
            "ended": "deadline",
        },
        *({"episode": 1, "bin": first + i, "sent": COUNT_A_BIN} for i in range(BINS)),
    ]


def attack_all(root: Path, spoil: Callable[[list[Json]], None], refused: int = SENT) -> None:
    """Every cell of the bundle claims the attack; its drone refused `refused` datagrams in the session."""
    edit(
        root / "data" / "scenario.effective.yml",
        lambda scenario: scenario["conditions"][0].update(attack=ATTACK),
    )
    rename_cells(root)
    for cell in cells(root):
        rows = truth(cell)
        spoil(rows)
        save_lines(cell / "attack.ndjson", rows)
        for role, window, counters in counted(cell / "counters.json"):
            if role == "drone" and window == "traffic":
                counters["auth_failed"] += refused
    finish(root)


def _as_told(rows: list[Json]) -> None:
    return


@registering(BAD, "attack_bounded")
def no_attack_at_all(root: Path) -> None:
    """The condition names an attack; nothing shows that there was one."""
    attack_all(root, _as_told, refused=0)
    for cell in cells(root):
        (cell / "attack.ndjson").unlink()
    finish(root)


@registering(BAD, "attack_bounded")
def attack_beyond_its_cap(root: Path) -> None:
    """All datagrams in one bin of 20 ms: 600 in it, 500 are ever allowed."""

    def burst(rows: list[Json]) -> None:
        moved = 600 - COUNT_A_BIN
        rows[2]["sent"] = 600
        rows[1]["sent_count"] += moved

    attack_all(root, burst, refused=SENT + 580)


@registering(BAD, "attack_bounded")
def attack_after_its_time(root: Path) -> None:
    """It was to end after half a second and was sent for four more."""

    def late(rows: list[Json]) -> None:
        rows[-1]["bin"] += 200
        rows[1]["t_off_ns"] += 200 * BIN_NS

    attack_all(root, late)


@registering(BAD, "attack_bounded")
def weaker_attack_than_claimed(root: Path) -> None:
    """A fifth of the rate that the condition names."""

    def weaker(rows: list[Json]) -> None:
        for row in rows[2:]:
            row["sent"] = COUNT_A_BIN // 5
        rows[1]["sent_count"] = SENT // 5

    attack_all(root, weaker, refused=SENT // 5)


@registering(BAD, "attack_counted")
def attack_that_nobody_felt(root: Path) -> None:
    """The attacker says 500, the drone refused a hundred of them and lost none."""
    attack_all(root, _as_told, refused=100)


@registering(BAD, "attack_counted")
def more_felt_than_sent(root: Path) -> None:
    """The drone refused twice what was sent: somebody else was on air."""
    attack_all(root, _as_told, refused=2 * SENT)


@registering(BAD, "nothing_foreign")
def stranger_on_air(root: Path) -> None:
    """A condition without any attack; the ground refused datagrams that no peer makes."""
    for cell in cells(root):
        for role, window, counters in counted(cell / "counters.json"):
            if role == "gcs" and window == "traffic":
                counters["bad_header"] += 40
    finish(root)
