"""Settings that end by themselves: a holder renews them, or the link is clean again. Sans-IO.

Two clocks run down: the holder's (`hold_s` after the last sign of life) and that of a timed change. Whoever
dies, the link heals at the place where it acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqlink.errors import RequestError
from pqlink.settings import NOTHING, Side

S_NS: Final = 1_000_000_000
HOLD_MAX_S: Final = 5.0
CHANGE_MAX_S: Final = 3600.0

Pair = tuple[Side, Side]
CLEAN: Final[Pair] = (NOTHING, NOTHING)


@dataclass
class _Change:
    sides: Pair
    until_ns: int


class Lease:
    """Who holds the link, with what settings, and until when. `now_ns` is any monotonic clock."""

    def __init__(self) -> None:
        self.owner: str | None = None
        self._base: Pair = CLEAN
        self._hold_ns = 0
        self._until_ns = 0
        self._change: _Change | None = None

    @property
    def active(self) -> bool:
        """Is the router in the path?"""
        return self.owner is not None

    @property
    def sides(self) -> Pair:
        """What is in force: up, down."""
        if self._change is not None:
            return self._change.sides
        return self._base if self.active else CLEAN

    def take(self, owner: str, sides: Pair, hold_s: float, now_ns: int) -> None:
        """Put `sides` in force for `owner`. A link held by somebody else is refused until it lapses."""
        if not owner:
            raise RequestError("set: 'owner' is empty", hint="name the cell")
        if not 0.1 <= hold_s <= HOLD_MAX_S:
            raise RequestError(f"set: hold_s {hold_s:g} is outside 0.1 … {HOLD_MAX_S:g}")
        if self.owner not in (None, owner):
            raise RequestError(
                f"the link is held by {self.owner!r}", code="held", hint="clear it there, or wait 5 s"
            )
        self.owner, self._base, self._hold_ns = owner, sides, round(hold_s * S_NS)
        self._change = None
        self.renew(owner, now_ns)

    def renew(self, owner: str, now_ns: int) -> None:
        """The holder lives."""
        self._require(owner)
        self._until_ns = now_ns + self._hold_ns

    def change(self, owner: str, sides: Pair, for_s: float, now_ns: int) -> None:
        """Other settings for `for_s` seconds, then those of `take` again."""
        self._require(owner)
        if not 0 < for_s <= CHANGE_MAX_S:
            raise RequestError(f"change: for_s {for_s:g} is outside 0 … {CHANGE_MAX_S:g}")
        self._change = _Change(sides, now_ns + round(for_s * S_NS))

    def release(self, owner: str) -> bool:
        """Give the link up; False when `owner` did not hold it (any more)."""
        if self.owner != owner:
            return False
        self._end()
        return True

    def tick(self, now_ns: int) -> str | None:
        """What ran out at `now_ns`: `change`, `holder`, or None."""
        if self.active and now_ns >= self._until_ns:
            self._end()
            return "holder"
        if self._change is not None and now_ns >= self._change.until_ns:
            self._change = None
            return "change"
        return None

    @property
    def next_ns(self) -> int | None:
        """When `tick` has something to do next."""
        times = [self._until_ns] if self.active else []
        if self._change is not None:
            times.append(self._change.until_ns)
        return min(times, default=None)

    def _require(self, owner: str) -> None:
        if self.owner is None or self.owner != owner:
            raise RequestError(
                f"{owner!r} does not hold the link" + (f", {self.owner!r} does" if self.owner else ""),
                code="not_held",
                hint="`set` takes it; it lapses when it is not renewed",
            )

    def _end(self) -> None:
        self.owner, self._base, self._change = None, CLEAN, None
