"""One exception tree: every error has a code for machines, a message and the next step for people."""

from __future__ import annotations

from pqbase.errors import PqError


class SitlError(PqError):
    """Base of everything this package raises on purpose."""

    code = "sitl_error"

    def as_answer(self) -> dict[str, object]:
        """The error as a control answer."""
        return {"ok": False, "code": self.code, "message": self.what, "hint": self.hint}


class SpecError(SitlError):
    """A request names something that does not exist or lies outside its range."""

    code = "bad_spec"


class BusyError(SitlError):
    """A source runs already."""

    code = "busy"


class NotReadyError(SitlError):
    """The source exists but cannot send yet."""

    code = "not_ready"

    def __init__(self, message: str, hint: str, retry_after_s: float) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s

    def as_answer(self) -> dict[str, object]:
        return {**super().as_answer(), "retry_after_s": self.retry_after_s}


class SourceUnavailableError(SitlError):
    """The source cannot run on this host."""

    code = "unavailable"


class ProcessError(SitlError):
    """A supervised process did not start or died."""

    code = "process_died"


class TlogError(SitlError):
    """A telemetry log cannot be read."""

    code = "bad_tlog"
