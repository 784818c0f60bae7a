"""Who may attack now, and the account of what was done. Sans-IO; `now_ns` is any monotonic clock.

A holder takes the attacker for one cell, on one connection. Whatever he began ends with that connection, when
he is silent for `hold_s`, and at its own deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqattack.bounds import BIN_NS, MAX_FOR_S
from pqattack.errors import RequestError
from pqattack.sender import Runner
from pqattack.settings import Episode
from pqbase.documents import Json

S_NS: Final = 1_000_000_000
HOLD_MAX_S: Final = 3.0
MAX_EPISODES: Final = 64


@dataclass
class Done:
    """One episode and what sends it."""

    number: int
    episode: Episode
    runner: Runner

    def summary(self) -> Json:
        """Everything but the bins."""
        bins = self.runner.bins
        return {
            "episode": self.number,
            **self.episode.as_dict(),
            "benign": self.episode.benign,
            "t_on_ns": bins.first_ns,
            "t_off_ns": bins.last_ns,
            "sent_count": bins.sent,
            "failed_count": self.runner.failed,
            "skipped_count": bins.skipped,
            "ended": self.runner.ended,
        }

    def truth(self) -> Json:
        """The same with the counts by bin, [number, count] in order of time."""
        return {**self.summary(), "bin_ns": BIN_NS, "bins": sorted(self.runner.bins.counts.items())}


class Desk:
    """One holder at a time, one episode at a time, at most `MAX_FOR_S` of sending in one hold."""

    def __init__(self) -> None:
        self.owner: str | None = None
        self._connection: object = None
        self._hold_ns = 0
        self._until_ns = 0
        self.episodes: list[Done] = []

    @property
    def running(self) -> Done | None:
        """The episode that is on now."""
        last = self.episodes[-1] if self.episodes else None
        return last if last is not None and last.runner.ended is None else None

    @property
    def next_ns(self) -> int | None:
        """When `tick` has something to do."""
        return self._until_ns if self.owner is not None else None

    def take(self, owner: str, connection: object, hold_s: float, now_ns: int) -> None:
        """Hold the attacker, with an empty account. Raises RequestError while somebody else holds it."""
        if not 0.1 <= hold_s <= HOLD_MAX_S:
            raise RequestError(f"take: hold_s {hold_s:g} is outside 0.1 … {HOLD_MAX_S:g}")
        if self.owner not in (None, owner):
            raise RequestError(
                f"the attacker is held by {self.owner!r}", code="held", hint="release it there, or wait 3 s"
            )
        if (on := self.running) is not None:
            on.runner.stop("taken anew")
        self.owner, self._connection, self._hold_ns = owner, connection, round(hold_s * S_NS)
        self.episodes = []
        self._until_ns = now_ns + self._hold_ns

    def renew(self, owner: str, now_ns: int) -> None:
        """The holder lives."""
        self.require(owner)
        self._until_ns = now_ns + self._hold_ns

    def admit(self, owner: str, episode: Episode) -> None:
        """May this episode begin? Raises RequestError."""
        self.require(owner)
        if (on := self.running) is not None:
            raise RequestError(f"episode {on.number} is still on", code="busy", hint="stop it, or wait")
        spent_s = sum(done.episode.for_s for done in self.episodes) + episode.for_s
        if spent_s > MAX_FOR_S or len(self.episodes) >= MAX_EPISODES:
            raise RequestError(
                f"{spent_s:g} s in {len(self.episodes) + 1} episodes are more than one hold may have",
                code="out_of_bounds",
                hint=f"at most {MAX_FOR_S:g} s and {MAX_EPISODES} episodes",
            )

    def begin(self, episode: Episode, runner: Runner) -> Done:
        """Enter an admitted episode and start it."""
        done = Done(len(self.episodes) + 1, episode, runner)
        self.episodes.append(done)
        runner.start()
        return done

    def stop(self, why: str) -> None:
        """End what is on."""
        if (on := self.running) is not None:
            on.runner.stop(why)

    def release(self, owner: str, why: str = "released") -> bool:
        """Give the attacker up; False when `owner` did not hold it. The account stays readable."""
        if self.owner != owner:
            return False
        self.stop(why)
        self.owner = self._connection = None
        return True

    def gone(self, connection: object) -> bool:
        """A connection has ended; True when the hold ended with it."""
        if self.owner is None or connection is not self._connection:
            return False
        return self.release(self.owner, "the controller's connection ended")

    def tick(self, now_ns: int) -> bool:
        """True when the holder has been silent for too long, and the hold is over."""
        if self.owner is None or now_ns < self._until_ns:
            return False
        return self.release(self.owner, "the controller fell silent")

    def require(self, owner: str) -> None:
        """Raises RequestError unless `owner` holds the attacker."""
        if self.owner is None or self.owner != owner:
            raise RequestError(
                f"{owner!r} does not hold the attacker",
                code="not_held",
                hint="`take` it; it lapses in silence",
            )

    def account(self, number: object) -> Done:
        """The episode of that number of this hold. Raises RequestError."""
        for done in self.episodes:
            if done.number == number and not isinstance(number, bool):
                return done
        raise RequestError(f"there is no episode {number!r:.20}", hint=f"there are {len(self.episodes)}")
