"""The effective scenario: every value set, each with where it came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from pqbase.documents import Json, number_of, numbers_of, part_of, part_or_none, rows_of, texts_of, whole_of
from pqevidence.scenario.conditions import settings_of

#: blocks that decide what happens inside a cell; they enter its id
CELL_BLOCKS = ("handshake", "traffic", "bulk", "ledger", "telemetry")
#: written into an effective scenario for its readers: what a command line changed, what it was made of
READER_KEYS = ("overrides", "composed_of")


@dataclass(frozen=True)
class Overrides:
    """Values a command line sets over the file's. None leaves the file's value."""

    session_s: float | None = None
    suites: tuple[str, ...] | None = None
    repetitions: int | None = None
    overlays: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    families: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    conditions: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A validated scenario with defaults filled in, overrides applied and suites expanded.

    data: the effective mapping (JSON types); origins: dotted path of each leaf → `file:line`, `default` or
    the command-line option; file: where it was read; composed_of: files and overlays it was made of, when
    more than one; suites: canonical ids in registry order; traces: digest → file of each radio trace, empty
    for one that a run wrote down (its traces lie beside it).
    """

    data: Json
    origins: dict[str, str]
    file: Path
    composed_of: tuple[str, ...] = ()
    traces: Mapping[str, Path] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def ring(self) -> str:
        return str(self.data["ring"])

    @property
    def seed(self) -> int:
        return whole_of(self.data, "seed")

    @property
    def suites(self) -> tuple[str, ...]:
        return tuple(texts_of(self.data, "suites"))

    @property
    def repetitions(self) -> int:
        return whole_of(self.data, "repetitions")

    @property
    def conditions(self) -> tuple[Json, ...]:
        return tuple(rows_of(self.data, "conditions"))

    @property
    def handshake(self) -> Json:
        return dict(part_of(self.data, "handshake"))

    @property
    def traffic(self) -> Json | None:
        return _copied(part_or_none(self.data, "traffic"))

    @property
    def bulk(self) -> Json | None:
        return _copied(part_or_none(self.data, "bulk"))

    @property
    def ledger(self) -> bool:
        return bool(self.data["ledger"])

    @property
    def order_method(self) -> str:
        return str(part_of(self.data, "order")["method"])

    @property
    def only(self) -> tuple[str, ...]:
        """Beginnings of the cell ids asked for; () for all."""
        return tuple(texts_of(self.data, "only"))

    def condition(self, name: str) -> Json:
        """The condition of that name."""
        return next(c for c in self.conditions if c["name"] == name)

    def cell_settings(self, condition: str) -> Json:
        """Everything of this scenario that decides what happens inside a cell of `condition`."""
        chosen = settings_of(self.condition(condition))
        return {**chosen, **{block: self.data[block] for block in CELL_BLOCKS}}

    def places(self, block: int) -> list[tuple[str, str]]:
        """(suite, condition) of every cell of one block, suites outside, in the order written."""
        open_to = [
            (str(condition["name"]), None if condition["suites"] is None else texts_of(condition, "suites"))
            for condition in self.conditions
            if condition["repetitions"] is None or block + 1 in numbers_of(condition, "repetitions")
        ]
        return [(suite, name) for suite in self.suites for name, of in open_to if of is None or suite in of]

    @property
    def cell_count(self) -> int:
        """Cells of the whole matrix, `only` left aside."""
        return sum(len(self.places(block)) for block in range(self.repetitions))

    def windows_s(self) -> float:
        """Length of all traffic windows of one cell, seconds."""
        total = number_of(self.traffic, "session_s") if self.traffic else 0.0
        if self.bulk:
            total += number_of(self.bulk, "step_s") * len(numbers_of(self.bulk, "rates_pps"))
        return total

    def effective_yaml(self) -> str:
        """The effective scenario as it goes into a bundle; `overrides` says which option set which value."""
        moved = {path: origin for path, origin in self.origins.items() if origin.startswith("--")}
        text = dict(self.data)
        if moved:
            text["overrides"] = moved
        if self.composed_of:
            text["composed_of"] = list(self.composed_of)
        return yaml.safe_dump(text, sort_keys=False, default_flow_style=False, allow_unicode=True, width=110)

    @property
    def sha256(self) -> str:
        """SHA-256 of `effective_yaml`, hex."""
        return hashlib.sha256(self.effective_yaml().encode()).hexdigest()

    def leaves(self) -> Iterator[tuple[str, object, str]]:
        """(dotted path, value, origin) of every value, in file order."""
        for path, value in _leaves(self.data, ""):
            yield path, value, self.origins[path]


def _copied(block: Json | None) -> Json | None:
    return None if block is None else dict(block)


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value
