"""One exception tree: what happened, a stable code, and what to do next."""

from __future__ import annotations

from pqbase.errors import PqError


class LinkError(PqError):
    """Base of everything this package raises on purpose."""

    code = "link_error"
    hint = "see docs/LINK.md"


class SettingsError(LinkError):
    """A link setting that means nothing or that the router cannot carry out."""

    code = "bad_settings"


class TraceError(LinkError):
    """A file that is no radio trace, or a recording that gives none."""

    code = "bad_trace"
    hint = "docs/LINK.md, Traces"


class RequestError(LinkError):
    """A request that is not understood or comes at the wrong time."""

    code = "bad_request"


class DeviceError(LinkError):
    """The kernel refused a device, an address or a route."""

    code = "device"
    hint = "the container needs NET_ADMIN and /dev/net/tun: compose/link.yml gives both"
