"""Numbers that a page prints, by table, with the files the table names; and the numbers that these hold."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser


class Printed(HTMLParser):
    """Number cells of every table with what stands under it, and the field tables of the cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        #: table id → (shown, sort key) of its number cells
        self.numbers: dict[str, list[tuple[str, str]]] = {}
        #: table id → the files it says it is from
        self.source: dict[str, list[str]] = {}
        #: cell section → rows of its field tables
        self.fields: dict[str, list[list[str]]] = {}
        self._table: str | None = None
        self._last = ""
        self._cell: str | None = None
        self._number: str | None = None
        self._text: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            if values.get("class") == "src" and self._last:
                self.source.setdefault(self._last, []).append(values["href"])
        if tag == "details" and values.get("class") == "cell":
            self._cell = values["id"]
            self.fields[self._cell] = []
        if tag == "table":
            self._table = self._last = values.get("id", "")
        if tag == "figure":
            self._last = ""
        if self._table is None:
            return
        if tag == "tr" and self._cell and not self._table:
            self.fields[self._cell].append([])
        if tag in ("td", "th"):
            self._text = []
            kinds = values.get("class", "").split()
            self._number = values.get("data-s", "") if "num" in kinds and self._table else None

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = None
        if tag in ("td", "th") and self._text is not None:
            text = "".join(self._text).strip()
            if self._number is not None and self._table:
                # a key that its text repeats is left out
                key = self._number or format(float(text.replace(",", "")), ".9g")
                self.numbers.setdefault(self._table, []).append((text, key))
            if self._cell and not self._table and self.fields[self._cell]:
                self.fields[self._cell][-1].append(text)
            self._text, self._number = None, None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)


def numbers_of(text: str) -> set[str]:
    """Every number of a table to nine digits, as a page's sort keys have them."""
    found = set()
    for row in csv.DictReader(io.StringIO(text)):
        for value in row.values():
            if re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", value or ""):
                found.add(format(float(value), ".9g"))
    return found


def numbers_in(document: object) -> set[str]:
    """Every number of a JSON document, in the same form."""
    if isinstance(document, dict | list):
        inner = document.values() if isinstance(document, dict) else document
        return set().union(*map(numbers_in, inner))
    return {format(float(document), ".9g")} if isinstance(document, int | float) else set()


def lost_numbers(printed: Printed, content: Callable[[str], str], scale: float = 1.0) -> list[str]:
    """Printed numbers that no file named under their table holds; content: link → text of that file.

    scale: of the unit a page may print in, over the file's (1e6 for microjoules of joules).
    """
    lost = []
    for name, cells in printed.numbers.items():
        assert name in printed.source, f"{name} prints {len(cells)} numbers and names no file"
        linked: set[str] = set()
        for link in printed.source[name]:
            text = content(link)
            linked |= numbers_of(text) if link.endswith(".csv") else numbers_in(json.loads(text))
        lost += [
            f"{name}: {text} ({key}): {printed.source[name]}"
            for text, key in cells
            if key not in linked and format(float(key) / scale, ".9g") not in linked
        ]
    return lost
