"""One episode of datagrams: paced, counted by 20 ms of real time, ended by whatever comes first."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pqattack.bins import SentBins
from pqattack.profile import due_of
from pqattack.settings import Episode

#: sent in one go before the clock is read again
_BATCH: Final = 32
_NAP_S: Final = 0.001
#: a sender that fell behind by more than this leaves out what it missed
_BEHIND_S: Final = 0.05
_STOP_LIMIT_S: Final = 1.0


class Runner(Protocol):
    """Sends one episode; `stop` ends it within milliseconds and says why."""

    bins: SentBins
    failed: int

    def start(self) -> None: ...

    def stop(self, why: str) -> None: ...

    @property
    def ended(self) -> str | None: ...


@dataclass
class Running:
    """What a runner's loop and its owner share."""

    why: str = "deadline"
    stop: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    fault: str | None = None

    def end(self, why: str) -> None:
        """Stop the loop and wait until nothing goes any more; no effect on one that is over."""
        if not self.stop.is_set() and not self.done.is_set():
            self.why = why
            self.stop.set()
        self.done.wait(timeout=_STOP_LIMIT_S)

    @property
    def ended(self) -> str | None:
        """None while it runs; `deadline`, what `end` was told, or the kernel's complaint."""
        return (self.fault or self.why) if self.done.is_set() else None


class InThread:
    """What every runner has: a loop (`run`) in a thread of its own, ended once, its fault kept."""

    def __init__(self, name: str, refused: str) -> None:
        """refused: what the kernel refused when an OSError ends the loop."""
        self.bins = SentBins()
        self.failed = 0
        self._refused = refused
        self._shared = Running()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        """Begin now."""
        self._thread.start()

    def stop(self, why: str) -> None:
        """End it and wait until nothing goes any more; no effect on one that is over."""
        self._shared.end(why)

    @property
    def ended(self) -> str | None:
        """None while it runs; `deadline`, what `stop` was told, or the kernel's complaint."""
        return self._shared.ended

    def run(self) -> None:
        """The loop; returns when the episode is over."""
        raise NotImplementedError

    def put_away(self) -> None:
        """What the loop leaves open."""

    def _guarded(self) -> None:
        try:
            self.run()
        except OSError as error:
            self._shared.fault = f"the kernel refused {self._refused}: {error.strerror or error}"
        finally:
            self.put_away()
            self._shared.done.set()


class Sender(InThread):
    """Sends `frames` in turn through `send` for the episode's time."""

    def __init__(
        self,
        episode: Episode,
        frames: Sequence[bytes],
        send: Callable[[bytes], object],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        real_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__("sender", "to send")
        self._episode = episode
        self._frames = frames
        self._send = send
        self._clock_ns, self._real_ns, self._sleep = clock_ns, real_ns, sleep

    def run(self) -> None:
        """The loop; returns when the episode is over."""
        episode, bins, send, shared = self._episode, self.bins, self._send, self._shared
        due_by, frames, real_ns = due_of(episode), itertools.cycle(self._frames), self._real_ns
        begin_ns, behind = self._clock_ns(), max(_BATCH, round(episode.rate_pps * _BEHIND_S))
        offered = 0
        while not shared.stop.is_set():
            since_s = (self._clock_ns() - begin_ns) / 1e9
            if since_s >= episode.for_s:
                return
            waiting = int(due_by(since_s)) - offered
            if waiting <= 0:
                self._sleep(min(_NAP_S, max(0.0, episode.for_s - since_s)))
                continue
            if waiting > behind:
                bins.skipped += waiting - behind
                offered += waiting - behind
                waiting = behind
            for frame in itertools.islice(frames, min(waiting, _BATCH)):
                now_ns = real_ns()
                if not bins.admit(now_ns):
                    self._sleep(_NAP_S)
                    break
                offered += 1
                try:
                    send(frame)
                except BlockingIOError:
                    self.failed += 1
                else:
                    bins.add(now_ns)
