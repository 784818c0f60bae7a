"""Reading the parameters of a call: type and range checks with errors that name the field."""

from __future__ import annotations

from typing import Final

from pqtunnel.errors import TunnelError

_REQUIRED: Final = object()


class ParamsError(TunnelError):
    """A parameter is missing, of the wrong type or out of range (JSON-RPC -32602)."""

    code = "bad_params"
    hint = "see docs/AGENT.md for the method's parameters"


class Params:
    """Parameters of one call; `done` refuses names nobody asked for."""

    def __init__(self, method: str, values: object) -> None:
        if not isinstance(values, dict):
            raise ParamsError(f"{method}: params must be an object")
        self._method = method
        self._values: dict[str, object] = values
        self._read: set[str] = set()

    def _take(self, name: str, default: object) -> object:
        self._read.add(name)
        value = self._values.get(name, default)
        if value is _REQUIRED:
            raise ParamsError(f"{self._method}: {name!r} is missing")
        return value

    def text(self, name: str, default: object = _REQUIRED) -> str:
        """A string of 1 to 200 characters."""
        value = self._take(name, default)
        if not isinstance(value, str) or not 0 < len(value) <= 200:
            raise ParamsError(f"{self._method}: {name!r} must be a short string, not {value!r:.80}")
        return value

    def text_or_null(self, name: str) -> str | None:
        """A short string, or null, or absent."""
        return None if self._take(name, None) is None else self.text(name)

    def texts(self, name: str, most: int = 100) -> tuple[str, ...]:
        """At most `most` short strings; none when the name is absent or null."""
        value = self._take(name, None)
        if value is None:
            return ()
        known = value if isinstance(value, list) and len(value) <= most else [None]
        if not all(isinstance(one, str) and 0 < len(one) <= 200 for one in known):
            raise ParamsError(f"{self._method}: {name!r} must be a list of short strings, not {value!r:.80}")
        return tuple(known)

    def whole(self, name: str, default: object = _REQUIRED, *, least: int, most: int) -> int:
        """An integer in [least, most]."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ParamsError(
                f"{self._method}: {name!r} must be a whole number {least} to {most}, not {value!r:.80}"
            )
        return value

    def number(self, name: str, default: object = _REQUIRED, *, least: float, most: float) -> float:
        """A number in [least, most]."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ParamsError(
                f"{self._method}: {name!r} must be a number {least:g} to {most:g}, not {value!r:.80}"
            )
        return float(value)

    def flag(self, name: str, default: object = _REQUIRED) -> bool:
        """A boolean."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise ParamsError(f"{self._method}: {name!r} must be true or false, not {value!r:.80}")
        return value

    def object_or_null(self, name: str) -> dict[str, object] | None:
        """An object, or null, or absent."""
        value = self._take(name, None)
        if value is None or isinstance(value, dict):
            return value
        raise ParamsError(f"{self._method}: {name!r} must be an object or null, not {value!r:.80}")

    def done(self) -> None:
        """Raise ParamsError for a name that no one read: a misspelt option must not pass silently."""
        extra = sorted(set(self._values) - self._read)
        if extra:
            raise ParamsError(
                f"{self._method}: unknown parameter {extra[0]!r}",
                hint="known: " + ", ".join(sorted(self._read)),
            )
