"""One exception tree: what happened, a stable code, and what to do next."""

from __future__ import annotations


class LinkError(Exception):
    """Base of everything this package raises on purpose."""

    default_code = "link_error"
    default_hint = "see docs/LINK.md"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.hint = hint or self.default_hint


class SettingsError(LinkError):
    """A link setting that means nothing or that the router cannot carry out."""

    default_code = "bad_settings"


class TraceError(LinkError):
    """A file that is no radio trace, or a recording that gives none."""

    default_code = "bad_trace"
    default_hint = "docs/LINK.md, Traces"


class RequestError(LinkError):
    """A request that is not understood or comes at the wrong time."""

    default_code = "bad_request"


class DeviceError(LinkError):
    """The kernel refused a device, an address or a route."""

    default_code = "device"
    default_hint = "the container needs NET_ADMIN and /dev/net/tun: compose/link.yml gives both"
