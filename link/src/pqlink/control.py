"""Requests to the router: one JSON object in, one out. Sans-IO; the shell carries the lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pqbase.documents import Json
from pqbase.lines import refusal
from pqlink import __version__
from pqlink.errors import LinkError, RequestError, SettingsError
from pqlink.lease import Lease, Pair
from pqlink.router import Router
from pqlink.settings import Side
from pqlink.trace import MOST_BYTES, parse_trace

ROLES: Final = ("drone", "gcs")
SECONDS_MAX: Final = 1_000_000
#: characters of a trace in one request: as JSON escapes at most 60,000 bytes
TRACE_PART_CHARS: Final = 10_000
_MOST_PARTS: Final = MOST_BYTES // TRACE_PART_CHARS + 1
#: rows of the log in one answer, some 16 kB: a socket takes it at once
LOG_PART_ROWS: Final = 400


class Control:
    """Carries requests out on a lease and a router.

    facts: what the shell found out about its kernel; routes: role → does that end send through us now.
    """

    def __init__(self, router: Router, lease: Lease, facts: Json) -> None:
        self._router = router
        self._lease = lease
        self._facts = facts
        self.routes: dict[str, bool] = dict.fromkeys(ROLES, False)
        self._parts: list[str] = []
        self._handlers: dict[str, Callable[[Json, int], Json]] = {
            "hello": self._hello,
            "set": self._set,
            "renew": self._renew,
            "change": self._change,
            "clear": self._clear,
            "state": self._state,
            "trace": self._trace,
            "log": self._log,
        }

    def answer(self, request: Json, now_ns: int) -> Json:
        """{"ok": true, …} or {"ok": false, "code", "error", "hint"}."""
        try:
            handler = self._handlers.get(str(request.get("op")))
            if handler is None:
                raise RequestError(
                    f"no op {request.get('op')!r}", hint=f"ops: {', '.join([*self._handlers, 'ask'])}"
                )
            return {"ok": True, **handler(request, now_ns)}
        except LinkError as error:
            return refusal(error)

    def tick(self, now_ns: int) -> str | None:
        """Let what has run out end."""
        ended = self._lease.tick(now_ns)
        if ended is not None:
            self._apply()
        return ended

    # ------------------------------------------------------------------ ops

    def _hello(self, request: Json, now_ns: int) -> Json:
        return {"version": __version__, **self._facts, **self._state(request, now_ns)}

    def _set(self, request: Json, now_ns: int) -> Json:
        seed = request.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise RequestError(f"set: 'seed' must be a whole number, not {seed!r}")
        was_active = self._lease.active
        sides = self._sides(request)
        self._lease.take(_owner(request), sides, _seconds(request, "hold_s", 3.0), now_ns)
        self._router.restart(seed, now_ns)
        if not was_active:
            self.routes = dict.fromkeys(ROLES, False)
        self._apply()
        return self._state(request, now_ns)

    def _renew(self, request: Json, now_ns: int) -> Json:
        self._lease.renew(_owner(request), now_ns)
        return {"routes": self.routes}

    def _change(self, request: Json, now_ns: int) -> Json:
        sides = self._sides(request)
        if any(side.trace is not None for side in (*sides, *self._lease.sides)):
            raise RequestError(
                "change: a trace cannot be changed for a time", hint="put the change into the trace"
            )
        self._lease.change(_owner(request), sides, _seconds(request, "for_s", None), now_ns)
        self._apply()
        return self._state(request, now_ns)

    def _clear(self, request: Json, now_ns: int) -> Json:
        released = self._lease.release(_owner(request))
        self._apply()
        return {"released": released, **self._state(request, now_ns)}

    def _trace(self, request: Json, now_ns: int) -> Json:
        """A trace in parts, the first with part 0; it is kept once the last one is there."""
        part, parts, text = request.get("part"), request.get("parts"), request.get("text")
        if not isinstance(text, str) or len(text) > TRACE_PART_CHARS:
            raise RequestError(f"trace: 'text' must be a text of at most {TRACE_PART_CHARS} characters")
        if part == 0:
            self._parts = []
        if not isinstance(parts, int) or part != len(self._parts) or not part < parts <= _MOST_PARTS:
            self._parts = []
            raise RequestError(
                f"trace: part {part!r:.20} of {parts!r:.20} does not follow", hint="send it again from part 0"
            )
        self._parts.append(text)
        if len(self._parts) < parts:
            return {"traces": list(self._router.traces)}
        content, self._parts = "".join(self._parts).encode(), []
        self._router.keep(parse_trace(content))
        return {"traces": list(self._router.traces)}

    def _log(self, request: Json, now_ns: int) -> Json:
        first = request.get("first")
        if isinstance(first, bool) or not isinstance(first, int) or first < 0:
            raise RequestError(f"log: 'first' must be a whole number, not {first!r:.40}")
        return {"rows": list(self._router.log_rows(first, LOG_PART_ROWS))}

    def _sides(self, request: Json) -> Pair:
        """Both directions, their traces at hand and said nowhere else. Raises SettingsError, RequestError."""
        sides = Side.parse(request.get("up")), Side.parse(request.get("down"))
        for name, side in zip(("up", "down"), sides, strict=True):
            if side.trace is None:
                continue
            trace = self._router.traces.get(side.trace.sha256)
            if trace is None:
                raise RequestError(
                    f"{name}: no trace {side.trace.sha256[:12]} is here",
                    code="no_trace",
                    hint="op trace sends it",
                )
            if twice := side.said_twice(trace.known):
                raise SettingsError(
                    f"{name}: the trace says what {twice[0]} says", hint=f"leave {twice[0]} out"
                )
        return sides

    def _state(self, request: Json, now_ns: int) -> Json:
        return {
            "owner": self._lease.owner,
            "active": self._lease.active,
            "routes": self.routes,
            "settings": self._router.settings,
            "counts": {name: counts.as_dict() for name, counts in self._router.counts().items()},
            "guests": self._router.guests,
            "traces": list(self._router.traces),
            "logged": self._router.logged,
            "unlogged": self._router.unlogged,
            "strangers": self._router.strangers,
            "overflow": self._router.overflow,
        }

    def _apply(self) -> None:
        self._router.set(*self._lease.sides)


def _owner(request: Json) -> str:
    owner = request.get("owner")
    if not isinstance(owner, str) or not 0 < len(owner) <= 200:
        raise RequestError(f"'owner' must be a name of 1 to 200 characters, not {owner!r}")
    return owner


def _seconds(request: Json, key: str, default: float | None) -> float:
    value = request.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= SECONDS_MAX:
        raise RequestError(f"{key!r} must be a number of seconds, not {value!r:.40}")
    return float(value)
