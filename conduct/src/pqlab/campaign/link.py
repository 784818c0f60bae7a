"""The controller's hold on the link router: settings, a sign of life every second, probes.

The router forgets everything 3 s after the last sign of life: a controller that is killed leaves it clean.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Final

from pqbase.documents import Json, part_of, texts_of
from pqbase.lines import Client, NoAnswer, Refused
from pqevidence.errors import LabError
from pqlab.lab_number import lab_number
from pqlink.control import TRACE_PART_CHARS
from pqlink.settings import Side

PORT: Final = 48090
HOLD_S: Final = 3.0
RENEW_EVERY_S: Final = 1.0
_ANSWER_S: Final = 5.0
_ROUTES_S: Final = 3.0
_POLL_S: Final = 0.02
_SEE_LOG: Final = "docker logs pqlab-link-1, then: make lab-status"


class LinkFailure(LabError):
    """The link router refused, or does not answer."""


class LinkConnection:
    """Questions to the router's control, on one connection that is made anew after it broke."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = Client(address, _ANSWER_S, "./compose/lab.sh profile link")

    def call(self, op: str, **details: object) -> Json:
        """One request. Raises LinkFailure with the router's own words."""
        try:
            return self._client.ask(op, **details)
        except NoAnswer as error:
            if not error.connected:
                what = "the link router does not answer at {}:{}".format(*self._client.address)
                raise LinkFailure("no-link", what, error.why, error.hint) from error
            what = f"the link router did not answer `{op}`"
            raise LinkFailure("link-lost", what, error.why, _SEE_LOG) from error
        except Refused as error:
            code = f"link-{error.code.replace('_', '-')}"
            raise LinkFailure(code, f"the link router refused `{op}`", error.what, error.hint) from error

    def ask(self, role: str, op: str, **details: object) -> Json:
        """One request to an end's helper."""
        return self.call("ask", role=role, request={"op": op, **details})

    def close(self) -> None:
        """End the connection; what is held lapses unless somebody else renews it."""
        self._client.close()


class LinkControl:
    """Holds the link for one cell at a time. `take` … `release`; a thread renews in between."""

    def __init__(self, address: tuple[str, int] | None = None) -> None:
        self.address = address or ("127.0.0.1", lab_number().port(PORT))
        self.connection = LinkConnection(self.address)
        self._owner: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: why the hold was lost while it was wanted; None while all is well
        self.lapsed: str | None = None

    def hello(self) -> Json:
        """What the router is and what its kernel can do."""
        return self.connection.call("hello")

    def take(
        self, owner: str, up: Side, down: Side, seed: int, traces: Mapping[str, bytes] | None = None
    ) -> Json:
        """Settings in force and both ends' routes through the router, confirmed. Raises LinkFailure.

        traces: digest → file of every trace that `up` or `down` names.
        """
        if traces:
            held = texts_of(self.hello(), "traces")
            for sha256, content in traces.items():
                if sha256 not in held:
                    self._send_trace(content)
        sides = {"up": up.as_dict(), "down": down.as_dict()}
        state = self.connection.call("set", owner=owner, seed=seed, hold_s=HOLD_S, **sides)
        self._owner, self.lapsed = owner, None
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._renew, args=(owner,), name="link-renew", daemon=True)
            self._thread.start()
        deadline_s = time.monotonic() + _ROUTES_S
        while not all(part_of(state, "routes").values()):
            if time.monotonic() > deadline_s:
                silent = ", ".join(role for role, there in part_of(state, "routes").items() if not there)
                raise LinkFailure(
                    "link-route",
                    f"no route through the link at: {silent}",
                    "the helper beside that end does not answer; it follows a restarted one in 5 s",
                    "./compose/lab.sh profile link",
                )
            time.sleep(_POLL_S)
            state = self.connection.call("state")
        return state

    def change(self, up: Side, down: Side, for_s: float) -> None:
        """Other settings for a time, ended by the router itself."""
        self.connection.call("change", owner=self._owner, up=up.as_dict(), down=down.as_dict(), for_s=for_s)

    def log(self, rows: int) -> list[list[object]]:
        """The first `rows` packets of this hold: direction, ns since it began, bytes, ns waited or None."""
        found: list[list[object]] = []
        while len(found) < rows:
            part = _packets(self.connection.call("log", first=len(found)))
            if not part:
                raise LinkFailure(
                    "link-log",
                    "the link router lost its account of the packets",
                    f"{len(found)} of {rows} rows are there",
                    "docker logs pqlab-link-1",
                )
            found += part
        return found[:rows]

    def _send_trace(self, content: bytes) -> None:
        text = content.decode()
        parts = [text[at : at + TRACE_PART_CHARS] for at in range(0, len(text), TRACE_PART_CHARS)]
        for number, part in enumerate(parts):
            self.connection.call("trace", part=number, parts=len(parts), text=part)

    def state(self) -> Json:
        """Owner, routes, settings, counts."""
        return self.connection.call("state")

    def release(self) -> bool:
        """Clean link and direct routes, confirmed; False when nothing was held. Raises LinkFailure."""
        owner, self._owner = self._owner, None
        if self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=_ANSWER_S)
            self._thread = None
        if owner is None:
            return False
        state = self.connection.call("clear", owner=owner)
        released = bool(state["released"])
        deadline_s = time.monotonic() + _ROUTES_S
        while any(part_of(state, "routes").values()) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            state = self.connection.call("state")
        return released

    def close(self) -> None:
        """Release, and end the connection."""
        try:
            self.release()
        finally:
            self.connection.close()

    def _renew(self, owner: str) -> None:
        """A connection of its own: a probe that waits must not keep the sign of life back."""
        try:
            with contextlib.closing(LinkConnection(self.address)) as connection:
                while not self._stop.wait(RENEW_EVERY_S):
                    connection.call("renew", owner=owner)
        except LinkFailure as error:
            self.lapsed = str(error)


def _packets(answer: Json) -> list[list[object]]:
    found = answer["rows"]
    if not isinstance(found, list):
        raise TypeError(f"`rows` is {type(found).__name__}, not a list")
    return found
