"""One exception tree: what happened, a stable code, and what to do next."""

from __future__ import annotations


class AttackError(Exception):
    """Base of everything this package raises on purpose."""

    default_code = "attack_error"
    default_hint = "see docs/ATTACKS.md"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.hint = hint or self.default_hint


class BoundsError(AttackError):
    """An address outside the lab's air network, or more than this package ever sends."""

    default_code = "out_of_bounds"


class SettingsError(AttackError):
    """An attack that means nothing or that cannot be carried out."""

    default_code = "bad_settings"


class RequestError(AttackError):
    """A request that is not understood or comes at the wrong time."""

    default_code = "bad_request"


class WireError(AttackError):
    """The kernel refused a socket, an interface is missing, or a neighbour does not answer."""

    default_code = "wire"
    default_hint = "the container needs NET_RAW and its address on air: compose/lab.yml gives both"
