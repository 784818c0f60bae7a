"""Shares of a campaign: which whole blocks one pair of hosts carries out, decided by the plan alone.

A block (one repetition of everything) is never cut, so that every paired contrast stays on one pair of hosts.
Shares 1 to n of one campaign hold each of its blocks exactly once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pqbase.documents import Json, part_or_none
from pqbase.text import canonical_json
from pqevidence.errors import UsageError

_SHARE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)
_PAIR = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
#: suite, condition, repetition
Place = tuple[str, str, int]


@dataclass(frozen=True)
class Share:
    """Share `number` of `of`, both from 1 on, on the pair of hosts that is called `pair`."""

    number: int
    of: int
    pair: str

    @classmethod
    def asked(cls, text: str | None, pair: str | None) -> Share | None:
        """What `--share k/n` and `--pair NAME` ask for; None where neither is given. A pair alone carries out
        the whole campaign (1/1), a share alone is of the pair `pair-k`. Raises UsageError."""
        if text is None and pair is None:
            return None
        found = _SHARE.fullmatch(text or "1/1")
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(
                "bad-share",
                f"--share {text} is no share",
                "it is k/n with whole numbers, k from 1 to n",
                "--share 1/2 and, on the other pair of hosts, --share 2/2",
            )
        name = pair if pair is not None else f"pair-{int(found[1])}"
        if not is_pair(name):
            raise UsageError(
                "bad-pair",
                f"--pair {name} is no name of a pair",
                "it has up to 32 small letters, digits, `-` and `_`, and begins with a letter or a digit",
                "--pair bench-1",
            )
        return cls(int(found[1]), int(found[2]), name)

    @classmethod
    def of_plan(cls, plan: Json) -> Share | None:
        """The share that a plan.json names; None without one. ValueError for one that is none."""
        told = part_or_none(plan, "share")
        if told is None:
            return None
        number, of = told.get("number"), told.get("of")
        if not (_whole(number) and _whole(of) and 1 <= number <= of and is_pair(plan.get("pair"))):
            raise ValueError(f"share {number} of {of} on pair {plan.get('pair')} is no share")
        return cls(number, of, str(plan["pair"]))

    def blocks(self, count: int) -> range:
        """Its blocks (0-based) of `count`: neighbours, so that designs that turn round from block to block do
        so on every pair of hosts. Raises UsageError where there are more shares than blocks."""
        if self.of > count:
            raise UsageError(
                "many-shares",
                f"--share {self.number}/{self.of}: {count} blocks, too few for {self.of} shares",
                "a share holds whole blocks, and a block is one repetition of everything",
                f"ask for at most {count} shares, or for more repetitions on every pair (--reps)",
            )
        return range((self.number - 1) * count // self.of, self.number * count // self.of)

    def document(self) -> Json:
        """Its members of plan.json, the campaign's digest apart."""
        return {"share": {"number": self.number, "of": self.of}, "pair": self.pair}


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_pair(name: object) -> bool:
    """Is it a name that a pair of hosts may have?"""
    return isinstance(name, str) and _PAIR.fullmatch(name) is not None


def campaign_digest(scenario_sha256: str, order: Sequence[Place]) -> str:
    """SHA-256 (hex) of a scenario and the order of its whole matrix, every share's blocks in it: equal for
    all shares of one campaign, whatever the builds of their hosts."""
    content = {"scenario_sha256": scenario_sha256, "order": [list(place) for place in order]}
    return hashlib.sha256(canonical_json(content)).hexdigest()
