"""What an endpoint exports of its sealed side (schema pqtunnel/feed/v1), read and checked.

A file that is absent, half a document or of another schema is an error with its reason; the service turns it
into a state, never into silence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from pqdetect.errors import FeedError
from pqdetect.service.verdict import BIN_NS

SCHEMA: Final = "pqtunnel/feed/v1"
#: bins that a document holds, counted back from the newest complete one
SHOWN_BINS: Final = 100


@dataclass(frozen=True)
class Feed:
    """One document.

    bins: number → counts in the order of `fields`, absent where nothing happened; None where this data plane
    makes none (`reason`). Bins from `first_bin` on are told here, those below `complete_before` stay as they
    are. moved: by window number, what counters of the kernel moved by in it: `if_…` of the sealed side's
    interface, `udp_…` of the host; absent where they were not read. began_bin: where the feed of this cell
    began; another attempt at the same cell begins elsewhere.
    """

    cell_id: str | None
    boot: str
    t_ns: int
    mono_ns: int
    fields: tuple[str, ...]
    bins: Mapping[int, tuple[int, ...]] | None
    complete_before: int
    first_bin: int
    moved: Mapping[int, dict[str, int]] = field(default_factory=dict)
    reason: str | None = None
    began_bin: int = 0

    @property
    def offset_ns(self) -> int:
        """Realtime minus monotonic of the endpoint's clocks."""
        return self.t_ns - self.mono_ns


class _Window(TypedDict):
    k: int
    interface: NotRequired[dict[str, int] | None]
    udp: NotRequired[dict[str, int] | None]


class _Document(TypedDict):
    schema: str
    bin_ns: int
    fields: list[str]
    bins: list[tuple[int, list[int]]] | None
    complete_before: int
    first_bin: NotRequired[int]
    windows: NotRequired[list[_Window] | None]
    cell_id: str | None
    boot: str
    t_ns: int
    mono_ns: int
    reason: NotRequired[str | None]


def parse(text: str) -> Feed:
    """A document. Raises FeedError."""
    try:
        document: _Document = json.loads(text)
    except ValueError as error:
        raise FeedError(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        told = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise FeedError(f"schema {told!r}, {SCHEMA} is due")
    try:
        return _feed(document)
    except (KeyError, TypeError, ValueError) as error:
        raise FeedError(f"a field is missing or of another type: {error!r}") from error


def _feed(document: _Document) -> Feed:
    if int(document["bin_ns"]) != BIN_NS:
        raise ValueError(f"bin_ns {document['bin_ns']}, {BIN_NS} is due")
    told = document["bins"]
    fields = tuple(str(name) for name in (document["fields"] if told is not None else ()))
    bins = None if told is None else {int(number): tuple(map(int, counts)) for number, counts in told}
    if bins is not None and any(len(counts) != len(fields) for counts in bins.values()):
        raise ValueError("a bin has not as many counts as there are fields")
    complete = 0 if bins is None else int(document["complete_before"])
    return Feed(
        cell_id=None if document["cell_id"] is None else str(document["cell_id"]),
        boot=str(document["boot"]),
        t_ns=int(document["t_ns"]),
        mono_ns=int(document["mono_ns"]),
        fields=fields,
        bins=bins,
        complete_before=complete,
        first_bin=max(int(document.get("first_bin", 0)), complete - SHOWN_BINS),
        moved={int(row["k"]): _moved(row) for row in document.get("windows") or ()},
        reason=None if document.get("reason") is None else str(document["reason"]),
        began_bin=int(document.get("first_bin") or 0),
    )


def _moved(row: _Window) -> dict[str, int]:
    return {
        f"{prefix}_{name}": int(value)
        for prefix, block in (("if", row.get("interface")), ("udp", row.get("udp")))
        for name, value in (block or {}).items()
    }


class FeedFile:
    """Reads the file when it has changed, else gives what it gave before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._last: Feed | None = None

    def read(self) -> Feed:
        """The newest document. Raises FeedError."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 (called many times a second)
            changed = (status.st_mtime_ns, status.st_ino)
            if changed == self._seen and self._last is not None:
                return self._last
            self._last = None
            self._last = parse(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise FeedError(f"{self._path.name}: {error}") from error
        self._seen = changed
        return self._last
