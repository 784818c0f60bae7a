"""The one exception tree of the bench."""

from __future__ import annotations

from pqbase.errors import PqError


class BenchError(PqError):
    """Base of everything this package raises on purpose."""

    code = "bench_failed"
    hint = "run it again with BENCH=tiny and read what it prints"


class PeerMissing(BenchError):
    """A peer is not there, or does not start; its rows say why."""

    code = "peer_missing"
    hint = "./images/build.sh --force bench builds it again"


class ChildFailed(BenchError):
    """A helper process ended or said something else than expected."""

    code = "child_failed"


class DocumentError(BenchError):
    """The document does not hold the two markers once each, or its table was edited by hand."""

    code = "bad_document"
    hint = "make bench-doc writes the table again"
