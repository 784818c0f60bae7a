"""The figures in a document: written between two markers, from a run's JSON, never by hand.

The first marker carries the SHA-256 of what stands between them, so that a hand's edit is noticed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from pqbench.errors import DocumentError

_BEGIN: Final = re.compile(r"^<!-- bench:begin(?: sha256=(?P<digest>[0-9a-f]{64}))? -->$", re.MULTILINE)
_END: Final = "<!-- bench:end -->"


def _split(document: str) -> tuple[str, str, str, str | None]:
    begins = list(_BEGIN.finditer(document))
    if len(begins) != 1 or document.count(_END) != 1 or document.index(_END) < begins[0].end():
        raise DocumentError(
            "the document needs the markers bench:begin and bench:end once each, in this order"
        )
    begin, end = begins[0], document.index(_END)
    return document[: begin.start()], document[begin.end() : end], document[end:], begin["digest"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def with_figures(document: str, figures: str) -> str:
    """The document with `figures` between its markers. Raises DocumentError without markers."""
    before, _, after, _ = _split(document)
    body = f"\n{figures.strip()}\n"
    return f"{before}<!-- bench:begin sha256={_digest(body)} -->{body}{after}"


def check(document: str) -> None:
    """Raises DocumentError when what stands between the markers is not what was written there."""
    _, body, _, digest = _split(document)
    if digest is None and body.strip():
        raise DocumentError("the figures carry no digest: they were not written by the bench")
    if digest is not None and digest != _digest(body):
        raise DocumentError("the figures between the markers were edited by hand")
