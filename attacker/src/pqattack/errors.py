"""One exception tree: what happened, a stable code, and what to do next."""

from __future__ import annotations

from pqbase.errors import PqError


class AttackError(PqError):
    """Base of everything this package raises on purpose."""

    code = "attack_error"
    hint = "see docs/ATTACKS.md"


class BoundsError(AttackError):
    """An address outside the lab's air network, or more than this package ever sends."""

    code = "out_of_bounds"


class SettingsError(AttackError):
    """An attack that means nothing or that cannot be carried out."""

    code = "bad_settings"


class RequestError(AttackError):
    """A request that is not understood or comes at the wrong time."""

    code = "bad_request"


class WireError(AttackError):
    """The kernel refused a socket, an interface is missing, or a neighbour does not answer."""

    code = "wire"
    hint = "the container needs NET_RAW and its address on air: compose/lab.yml gives both"
