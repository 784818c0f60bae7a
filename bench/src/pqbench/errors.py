"""The one exception tree of the bench."""

from __future__ import annotations

from typing import ClassVar


class BenchError(Exception):
    """What happened; `code` for programs, `hint` with the next step for people."""

    default_code: ClassVar[str] = "bench_failed"
    default_hint: ClassVar[str] = "run it again with BENCH=tiny and read what it prints"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.code = self.default_code
        self.hint = hint or self.default_hint


class PeerMissing(BenchError):
    """A peer is not there, or does not start; its rows say why."""

    default_code = "peer_missing"
    default_hint = "./images/build.sh --force bench builds it again"


class ChildFailed(BenchError):
    """A helper process ended or said something else than expected."""

    default_code = "child_failed"


class DocumentError(BenchError):
    """The document does not hold the two markers once each, or its table was edited by hand."""

    default_code = "bad_document"
    default_hint = "make bench-doc writes the table again"
