"""The matrix of a campaign: cells with content-hash ids, in blocked random order, each with its own seed.

In scope: pure functions from (scenario, provider builds) to cells. Not in scope: running them (campaign), how
long they take (budget).
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import asdict, dataclass, fields

from pqbase.documents import Json, exact_of, rows_of, text_of, text_or_none
from pqbase.text import canonical_json
from pqevidence.scenario.model import Scenario
from pqevidence.share import Share, campaign_digest

SCHEMA_VERSION = "pqlab/plan/v1"
#: cell seeds stay exact in every JSON reader
_SEED_BITS = 53


@dataclass(frozen=True)
class Cell:
    """One suite × condition × repetition.

    cell_id: 16 hex, None while the provider builds are unknown; repetition: 1-based; position: 0-based
    place in the run; block: 0-based, each holds every suite and condition once; seed: the cell's own.
    """

    cell_id: str | None
    suite_id: str
    condition: str
    repetition: int
    position: int
    block: int
    seed: int


_MEMBERS = frozenset(each.name for each in fields(Cell))


def cell_id(suite_id: str, settings: Json, repetition: int, providers: Json) -> str:
    """Id of a cell: the first 16 hex of SHA-256 over all that decides its result.

    settings: `Scenario.cell_settings`; providers: {"drone": …, "gcs": …} as in providers.json.
    """
    content = {
        "condition": settings,
        "providers": {role: providers[role] for role in ("drone", "gcs")},
        "repetition": repetition,
        "suite": suite_id,
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]


def cell_seed(campaign_seed: int, suite_id: str, condition: str, repetition: int) -> int:
    """Seed of one cell: from the campaign's seed and the place in the matrix, not from the position."""
    digest = hashlib.sha256(canonical_json([campaign_seed, suite_id, condition, repetition])).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


def make_cells(scenario: Scenario, providers: Json | None, share: Share | None = None) -> list[Cell]:
    """All cells in the order they run. A block is one repetition of the whole matrix. share: its blocks only.
    Raises UsageError where the campaign has fewer blocks than shares."""
    cells: list[Cell] = []
    settings = {str(c["name"]): scenario.cell_settings(str(c["name"])) for c in scenario.conditions}
    for block in range(scenario.repetitions) if share is None else share.blocks(scenario.repetitions):
        repetition = block + 1
        for suite_id, condition in _ordered(scenario, block):
            identity = cell_id(suite_id, settings[condition], repetition, providers) if providers else None
            if identity is not None and scenario.only and not identity.startswith(scenario.only):
                continue
            cells.append(
                Cell(
                    cell_id=identity,
                    suite_id=suite_id,
                    condition=condition,
                    repetition=repetition,
                    position=len(cells),
                    block=block,
                    seed=cell_seed(scenario.seed, suite_id, condition, repetition),
                )
            )
    return cells


def _ordered(scenario: Scenario, block: int) -> list[tuple[str, str]]:
    """(suite, condition) of one block in running order."""
    matrix = scenario.places(block)
    rng = random.Random(f"{scenario.seed}/{block}")
    if scenario.order_method == "blocked-random":
        rng.shuffle(matrix)
    elif scenario.order_method == "abba":
        by_suite: dict[str, list[str]] = {}
        for suite_id, condition in matrix:
            by_suite.setdefault(suite_id, []).append(condition)
        suites = list(by_suite)
        rng.shuffle(suites)
        # A B, B A, A B, … from suite to suite, and the other way round in the next block: a drift that is
        # even over four cells falls on both conditions alike
        matrix = [
            (suite, condition)
            for place, suite in enumerate(suites)
            for condition in (by_suite[suite] if (place + block) % 2 == 0 else by_suite[suite][::-1])
        ]
    return matrix


def campaign_of(scenario: Scenario) -> str:
    """Digest of the campaign that a share is of (64 hex)."""
    order = [
        (*place, block + 1) for block in range(scenario.repetitions) for place in _ordered(scenario, block)
    ]
    return campaign_digest(scenario.sha256, order)


def plan_document(
    scenario: Scenario,
    cells: list[Cell],
    budget: Json,
    *,
    run_id: str | None,
    created_utc: str | None,
    share: Share | None = None,
) -> Json:
    """plan.json: what the bundle promises to hold."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "scenario": scenario.name,
        "scenario_sha256": scenario.sha256,
        "created_utc": created_utc,
        "seed": scenario.seed,
        "order": scenario.order_method,
        **({} if share is None else {"campaign": campaign_of(scenario), **share.document()}),
        "conditions": list(scenario.conditions),
        "cells": [asdict(cell) for cell in cells],
        "budget": budget,
    }


#: members of plan.json that a run promises; its id, times and expectations are left out
PROMISED = (
    "schema_version", "scenario", "scenario_sha256", "seed", "order", "campaign", "share", "pair",
    "conditions", "cells",
)  # fmt: skip


def plan_digest(document: Json) -> str:
    """SHA-256 (hex) of what a plan.json promises, as JSON with one spelling: the same before the run and in
    its bundle. The first link of both chains of an attested run."""
    promised = {name: document[name] for name in PROMISED if name in document}
    return hashlib.sha256(canonical_json(promised)).hexdigest()


def cells_of(document: Json) -> list[Cell]:
    """The cells of a plan.json, in running order."""
    return sorted(map(_cell, rows_of(document, "cells")), key=lambda cell: cell.position)


def _cell(row: Json) -> Cell:
    if strange := sorted(row.keys() ^ _MEMBERS):
        raise TypeError(f"a cell of the plan has too much or too little: {', '.join(strange)}")
    return Cell(
        cell_id=text_or_none(row, "cell_id"),
        suite_id=text_of(row, "suite_id"),
        condition=text_of(row, "condition"),
        repetition=exact_of(row, "repetition"),
        position=exact_of(row, "position"),
        block=exact_of(row, "block"),
        seed=exact_of(row, "seed"),
    )
