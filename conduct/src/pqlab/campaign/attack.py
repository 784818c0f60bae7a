"""The controller's hold on the attacker: episodes begun, a sign of life, and the account of what was sent.

The attacker stops by itself when this connection ends, 1 s after the last sign of life, and at each episode's
own end: a controller that is killed leaves the air quiet.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from pqattack.settings import Episode
from pqbase.documents import Json
from pqbase.lines import Client, NoAnswer, Refused
from pqevidence.errors import LabError
from pqlab.lab_number import lab_number

PORT: Final = 48092
HOLD_S: Final = 1.0
RENEW_EVERY_S: Final = 0.2
_ANSWER_S: Final = 5.0
_POLL_S: Final = 0.02
#: an episode ends by itself; this much later it is an error
_SLACK_S: Final = 2.0
#: scenarios cannot let two episodes overlap, so an episode in the way ends within this or is stuck
_BUSY_S: Final = 1.0


class AttackFailure(LabError):
    """The attacker refused, or does not answer."""


class AttackControl:
    """Holds the attacker for one cell at a time: `take` … `release`. A thread renews on the same connection,
    because the attacker binds the hold to it."""

    def __init__(self, address: tuple[str, int] | None = None) -> None:
        self.address = address or ("127.0.0.1", lab_number().port(PORT))
        self._client = Client(self.address, _ANSWER_S, "./compose/lab.sh profile attacker")
        self._owner: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: why the hold was lost while it was wanted; None while all is well
        self.lapsed: str | None = None

    def hello(self) -> Json:
        """What the attacker is, what it can do, what it does now."""
        return self._call("hello")

    def take(self, owner: str) -> Json:
        """Hold the attacker; it begins to listen. Raises AttackFailure."""
        state = self._call("take", owner=owner, hold_s=HOLD_S)
        self._owner, self.lapsed = owner, None
        self._stop.clear()
        self._thread = threading.Thread(target=self._renew, args=(owner,), name="attack-renew", daemon=True)
        self._thread.start()
        return state

    def start(self, episode: Episode) -> Json:
        """Begin one episode; it ends by itself. Returns its account so far, with its number as `episode`.

        Waits for one before it that ends late, as on a busy machine; its account says when it began.
        """
        deadline_s = time.monotonic() + _BUSY_S
        while True:
            try:
                return self._call("start", owner=self._owner, attack=episode.as_dict())
            except AttackFailure as error:
                if error.code != "attack-busy" or time.monotonic() > deadline_s:
                    raise
            time.sleep(_POLL_S)

    def wait(self, number: int, limit_s: float) -> Json:
        """The account of an episode that is over. Raises AttackFailure when it does not end."""
        deadline_s = time.monotonic() + limit_s + _SLACK_S
        while True:
            truth = self._call("truth", owner=self._owner, episode=number)
            if truth["ended"] is not None:
                return truth
            if time.monotonic() > deadline_s:
                raise AttackFailure(
                    "attack-endless",
                    f"episode {number} does not end",
                    f"waited {limit_s + _SLACK_S:g} s",
                    "docker stop pqlab-attacker-1",
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End what is on."""
        self._call("stop", owner=self._owner)

    def truth(self, number: int) -> Json:
        """The account of one episode of this hold, with its counts by bin."""
        return self._call("truth", owner=self._owner, episode=number)

    def release(self) -> bool:
        """Nothing is sent any more, confirmed; False when nothing was held. Raises AttackFailure."""
        owner, self._owner = self._owner, None
        if self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=_ANSWER_S)
            self._thread = None
        return owner is not None and bool(self._call("release", owner=owner)["released"])

    def close(self) -> None:
        """Release, and end the connection."""
        try:
            self.release()
        finally:
            self._client.close()

    # ------------------------------------------------------------------ parts

    def _renew(self, owner: str) -> None:
        try:
            while not self._stop.wait(RENEW_EVERY_S):
                self._call("renew", owner=owner)
        except AttackFailure as error:
            self.lapsed = str(error)

    def _call(self, op: str, **details: object) -> Json:
        """One request. Raises AttackFailure with the attacker's own words."""
        try:
            return self._client.ask(op, **details)
        except NoAnswer as error:
            what = f"the attacker did not answer `{op}`"
            raise AttackFailure("no-attacker", what, error.why, error.hint) from error
        except Refused as error:
            code = f"attack-{error.code.replace('_', '-')}"
            raise AttackFailure(code, f"the attacker refused `{op}`", error.what, error.hint) from error
