"""Pages of an earlier version, read row by row: what today's renderer says too, is right; of all else every
number must be one of the bundle's, of the suite that the row names, and every word one that such a page has.

`older_words.json` holds what pages of a version say whatever was measured, and the words of the others.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Final

#: the table of sentences
CHECKLIST: Final = "checklist"
WORDS: Final = "older_words.json"
#: what ends a row; the cells of one belong together
_BLOCKS = frozenset({
    "title", "h1", "h2", "h3", "h4", "h5", "p", "li", "tr", "caption", "figcaption", "summary", "text",
    "desc", "dt", "dd", "div", "ul", "ol", "table", "thead", "tbody", "section", "nav", "header",
    "footer", "main",
    "figure", "svg", "details", "dl", "pre", "body", "head",
})  # fmt: skip
_KEPT_WHOLE = ("style", "script")
_SPOKEN = ("title", "alt", "aria-label", "content")
_NUMBER = re.compile(r"(?<![\w.])[+−-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d{1,2}(?!\d))?")
#: digests and ids are names
_NAME = re.compile(r"\b[0-9a-f]{12,}\b|\b\d{8}T\d{6}Z-[0-9a-f]{6}\b")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SUITE = re.compile(r"\b(?:cs|xs)-[a-z0-9]+(?:-[a-z0-9]+)+\b|\bplain\b")
#: so many words beside the names of suites are a heading, no sentence
_HEADING = 3
#: a page may say a share in per cent, and a time of nanoseconds in ms or s
_SCALES = (1.0, 100.0, 1e-6, 1e-9)


class _Rows(HTMLParser):
    """Text of a page by rows, and its styles and scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[str] = []
        self.whole: list[tuple[str, str]] = []
        self._text: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._end()
        self.rows += [value for name, value in attrs if name in _SPOKEN and value]
        self.whole += [
            (name, value or "") for name, value in attrs if name == "style" or name.startswith("on")
        ]
        if tag in _KEPT_WHOLE:
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._end()
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.whole.append((self._inside, data))
        else:
            self._text.append(data)

    def _end(self) -> None:
        text = " ".join(" ".join(self._text).split())
        if text:
            self.rows.append(text)
        self._text = []


def rows_of(name: str, text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """(rows of text, styles and scripts) of a page."""
    if not name.endswith(".html"):
        return [" ".join(line.split()) for line in text.splitlines() if line.strip()], []
    parser = _Rows()
    parser.feed(text)
    parser.close()
    parser._end()
    return parser.rows, parser.whole


@dataclass(frozen=True)
class Spoken:
    """What pages of one version say beside numbers: whole rows, the words of others, and (kind, digest) of
    styles and scripts."""

    rows: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    whole: frozenset[tuple[str, str]] = frozenset()


@cache
def words() -> Mapping[str, Spoken]:
    """By version."""
    text = (resources.files("pqevidence.verify") / WORDS).read_text(encoding="utf-8")
    return {
        version: Spoken(
            frozenset(told.get("rows", ())),
            frozenset(word for line in told.get("words", ()) for word in line.split()),
            frozenset((kind, digest) for kind, digest in told.get("whole", ())),
        )
        for version, told in json.loads(text).items()
    }


@dataclass
class Pool:
    """Numbers that a bundle holds: of all, and by suite."""

    shared: set[float] = field(default_factory=set)
    suites: dict[str, set[float]] = field(default_factory=dict)
    _sorted: dict[frozenset[str], list[float]] = field(default_factory=dict)

    def add(self, texts: Iterable[object], suites: Iterable[str] = ()) -> None:
        """Numbers in these texts; of no suite, they are everybody's."""
        found = {number for text in texts for number in numbers_in(str(text))}
        named = list(suites)
        for suite in named:
            self.suites.setdefault(suite, set()).update(found)
        if not named:
            self.shared |= found

    def holds(self, token: str, suites: frozenset[str]) -> bool:
        """Is this number one of them, as far as its digits go?"""
        value = abs(_value(token))
        digits = token.partition(".")[2].split("e")[0].split("E")[0]
        scale = 10.0 ** int(re.split("[eE]", token)[1]) if re.search("[eE]", token) else 1.0
        reach = 0.5000001 * scale * 10.0 ** -len(digits)
        for by in _SCALES:
            near = self._known(suites)
            at = bisect_left(near, (value - reach) / by)
            if at < len(near) and near[at] <= (value + reach) / by:
                return True
        return False

    def _known(self, suites: frozenset[str]) -> list[float]:
        if suites not in self._sorted:
            found = set(self.shared)
            for suite in suites or self.suites:
                found |= self.suites.get(suite, set())
            self._sorted[suites] = sorted(found)
        return self._sorted[suites]


def numbers_in(text: str) -> Iterator[float]:
    """Absolute values of the numbers in a text."""
    for token in tokens_in(text):
        yield abs(_value(token))


def tokens_in(text: str) -> list[str]:
    """The numbers in a text as they are written."""
    return _NUMBER.findall(_NAME.sub(" ", text))


def words_in(text: str) -> list[str]:
    """The words in a text, small; digests and ids are none."""
    return [word.lower() for word in _WORD.findall(_NAME.sub(" ", text))]


def _value(token: str) -> float:
    return float(token.replace(",", "").replace("−", "-"))


def suites_in(text: str) -> frozenset[str]:
    """Ids of suites in a text."""
    return frozenset(_SUITE.findall(text))


def pool_of(data: Path, records: Iterable[Mapping[str, object]]) -> Pool:
    """Numbers of documents, records and tables of a bundle."""
    pool = Pool()
    for name in ("run.json", "providers.json", "scenario.effective.yml", "plan.json"):
        pool.add([(data / name).read_text(encoding="utf-8")])
    pool.add(path.read_text(encoding="utf-8") for path in (data / "hosts").glob("*.json"))
    for record in records:
        told = list(_leaves(record))
        pool.add(told, [str(record["suite_id"])])
    for path in sorted((data / "analysis").glob("*.csv")):
        if path.stem == CHECKLIST:
            continue  # sentences, which are read themselves
        with path.open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                texts = [text for text in row.values() if isinstance(text, str)]
                pool.add(texts, suites_in(" ".join(texts)))
    return pool


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None:
        yield value


@dataclass(frozen=True)
class Read:
    """What a page of an earlier version says that nothing in the bundle gives, and how many of its rows are
    words of its own, of which numbers and vocabulary alone were asked."""

    wrong: tuple[str, ...]
    own: int
    rows: int


def read_page(name: str, told: str, due: str, pool: Pool, version: str, known: Iterable[str]) -> Read:
    """told: the sealed page; due: today's of the same bundle; known: texts of the bundle's own documents."""
    spoken = words().get(version, Spoken())
    rows, whole = rows_of(name, told)
    today, whole_today = rows_of(name, due)
    right = {*today, *spoken.rows}
    for row in today:
        pool.add([row], suites_in(row))
    vocabulary = spoken.words | {word for text in (*today, *known) for word in words_in(text)}
    wrong = []
    allowed = {*whole_today, *spoken.whole}
    for kind, text in whole:
        if (kind, text) not in allowed and (kind, hashlib.sha256(text.encode()).hexdigest()) not in allowed:
            wrong.append(f"{name} holds a {kind} that no page of pqlab {version} has: {text[:60]!r}")
    own = [row for row in rows if row not in right]
    for row in own:
        named = suites_in(row)
        tokens = tokens_in(row)
        strange = [token for token in tokens if not pool.holds(token, named)]
        if not tokens and len(words_in(_SUITE.sub(" ", row))) > _HEADING:
            strange += sorted(named)  # what is said of a suite has a number
        strange += [word for word in words_in(row) if word not in vocabulary]
        if strange:
            wrong.append(f"{name} says {strange[0]!r} in {row[:90]!r}, which nothing in the bundle gives")
    return Read(tuple(wrong), len(own), len(rows))
