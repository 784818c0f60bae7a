"""Requests to the router: one JSON object in, one out. Sans-IO; the shell carries the lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pqbase.lines import Json, refusal
from pqlink import __version__
from pqlink.errors import LinkError, RequestError
from pqlink.lease import Lease, Pair
from pqlink.router import Router
from pqlink.settings import Side

ROLES: Final = ("drone", "gcs")
SECONDS_MAX: Final = 1_000_000


class Control:
    """Carries requests out on a lease and a router.

    facts: what the shell found out about its kernel; routes: role → does that end send through us now.
    """

    def __init__(self, router: Router, lease: Lease, facts: Json) -> None:
        self._router = router
        self._lease = lease
        self._facts = facts
        self.routes: dict[str, bool] = dict.fromkeys(ROLES, False)
        self._handlers: dict[str, Callable[[Json, int], Json]] = {
            "hello": self._hello, "set": self._set, "renew": self._renew, "change": self._change,
            "clear": self._clear, "state": self._state,
        }  # fmt: skip

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
        self._lease.take(_owner(request), _sides(request), _seconds(request, "hold_s", 3.0), now_ns)
        self._router.restart(seed)
        if not was_active:
            self.routes = dict.fromkeys(ROLES, False)
        self._apply()
        return self._state(request, now_ns)

    def _renew(self, request: Json, now_ns: int) -> Json:
        self._lease.renew(_owner(request), now_ns)
        return {"routes": self.routes}

    def _change(self, request: Json, now_ns: int) -> Json:
        self._lease.change(_owner(request), _sides(request), _seconds(request, "for_s", None), now_ns)
        self._apply()
        return self._state(request, now_ns)

    def _clear(self, request: Json, now_ns: int) -> Json:
        released = self._lease.release(_owner(request))
        self._apply()
        return {"released": released, **self._state(request, now_ns)}

    def _state(self, request: Json, now_ns: int) -> Json:
        return {
            "owner": self._lease.owner,
            "active": self._lease.active,
            "routes": self.routes,
            "settings": self._router.settings,
            "counts": {name: counts.as_dict() for name, counts in self._router.counts().items()},
            "guests": self._router.guests,
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


def _sides(request: Json) -> Pair:
    return Side.parse(request.get("up")), Side.parse(request.get("down"))


def _seconds(request: Json, key: str, default: float | None) -> float:
    value = request.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= SECONDS_MAX:
        raise RequestError(f"{key!r} must be a number of seconds, not {value!r:.40}")
    return float(value)
