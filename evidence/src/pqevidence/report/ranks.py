"""The drawing that a report begins with: suites by their time, a dot each, with what else is asked at once.

Two layouts of the same rows: beside each other on a wide window, a row on three lines on a narrow one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import family_class, vertical_grid
from pqevidence.report.svg import LogAxis, counted, significant

WIDE, NARROW = 1120.0, 344.0
_ROW, _TOP, _COLUMN = 26.0, 40.0, 92.0
#: width of a letter of a label, and how much of the drawing labels may take
_LETTER, _MOST_LABELS = 6.7, 480.0
_NARROW_ROW, _NARROW_VALUE = 58.0, 64.0


@dataclass(frozen=True)
class Rank:
    """One row. value: a median; interval: of the mean, where there are enough cells for one; spread: least
    and greatest single value, drawn where there is no interval; beside: a text for each further column."""

    label: str
    family: str | None
    value: float
    interval: tuple[float, float] | None
    spread: tuple[float, float] | None
    beside: tuple[str, ...]
    href: str

    @property
    def line(self) -> tuple[float, float] | None:
        """What is drawn through the dot."""
        return self.interval or self.spread

    def told(self, unit: str) -> str:
        """The row in words."""
        text = f"{self.label}: {significant(self.value)} {unit}"
        if self.line is None:
            return text
        low, high = (significant(end) for end in self.line)
        kind = "95 % interval of the mean" if self.interval else "single values from"
        return f"{text}, {kind} {low} to {high}"


@dataclass(frozen=True)
class Ranking:
    """Rows from the least to the greatest. heads: of the columns beside; omitted: (place, how many rows are
    left out there), where there are more than one screen holds."""

    rows: tuple[Rank, ...]
    heads: tuple[str, ...]
    axis_title: str
    unit: str = "ms"
    omitted: tuple[int, int] | None = None

    def axis(self, start: float, end: float) -> LogAxis:
        """One axis for all rows."""
        values = [v for row in self.rows for v in (row.value, *(row.line or ()))]
        return LogAxis.over(values, start, end)

    @property
    def description(self) -> str:
        """For screen readers."""
        first, last = self.rows[0], self.rows[-1]
        return (
            f"{counted(len(self.rows), 'row')}, least first, from {first.told(self.unit)} to "
            f"{last.told(self.unit)}."
        )


def wide(figure_id: str, title: str, ranking: Ranking) -> str:
    """Label, dot on a log axis, value and further columns in one line a row."""
    columns = len(ranking.heads) + 1
    labels = max(len(row.label) for row in ranking.rows) * _LETTER + 12
    axis = ranking.axis(min(max(labels, 160.0), _MOST_LABELS), WIDE - _COLUMN * columns - 20)
    lines = len(ranking.rows) + (ranking.omitted is not None)
    bottom = _TOP + _ROW * lines
    items = vertical_grid(axis, _TOP, bottom, ranking.axis_title)
    ends = [WIDE - _COLUMN * (columns - 1 - place) for place in range(columns)]
    for end, head in zip(ends, (f"median, {ranking.unit}", *ranking.heads), strict=True):
        items.append(svg.text(end, _TOP - 22, head, class_="tick", text_anchor="end"))
    y = _TOP
    for place, row in enumerate(ranking.rows):
        if ranking.omitted is not None and ranking.omitted[0] == place:
            items.append(_omitted(ranking.omitted[1], axis.start - 8, y + _ROW / 2 + 4))
            y += _ROW
        middle = y + _ROW / 2
        drawn = [
            svg.text(axis.start - 8, middle + 4, row.label, class_="suite", text_anchor="end"),
            *_mark(row, axis, middle, ranking.unit),
        ]
        texts = (significant(row.value), *row.beside)
        for number, (end, text) in enumerate(zip(ends, texts, strict=True)):
            kind = "label" if number == 0 else "label small"
            drawn.append(svg.text(end, middle + 4, text, class_=kind, text_anchor="end"))
        items.append(svg.element("a", "".join(drawn), href=row.href))
        y += _ROW
    return svg.document(figure_id, WIDE, bottom + 38, title, ranking.description, items)


def narrow(figure_id: str, title: str, ranking: Ranking) -> str:
    """Label, then dot and value, then the further columns: three lines a row."""
    axis = ranking.axis(12.0, NARROW - _NARROW_VALUE)
    height = _NARROW_ROW * len(ranking.rows) + (22.0 if ranking.omitted is not None else 0.0)
    items = vertical_grid(axis, 18.0, 18.0 + height, ranking.axis_title)
    y = 18.0
    for place, row in enumerate(ranking.rows):
        if ranking.omitted is not None and ranking.omitted[0] == place:
            items.append(_omitted(ranking.omitted[1], NARROW, y + 14))
            y += 22.0
        beside = ", ".join(
            f"{head.partition(',')[0]} {text}" for head, text in zip(ranking.heads, row.beside, strict=True)
        )
        drawn = [
            svg.text(0, y + 14, row.label, class_="suite"),
            *_mark(row, axis, y + 28, ranking.unit),
            svg.text(
                NARROW, y + 32, f"{significant(row.value)} {ranking.unit}", class_="label", text_anchor="end"
            ),
            *([svg.text(0, y + 47, beside, class_="tick")] if beside else []),
        ]
        items.append(svg.element("a", "".join(drawn), href=row.href))
        y += _NARROW_ROW
    return svg.document(figure_id, NARROW, 18.0 + height + 38, title, ranking.description, items)


def _mark(row: Rank, axis: LogAxis, y: float, unit: str) -> list[str]:
    shade = family_class(row.family)
    drawn = [svg.line(axis.start, y, axis.end, y, "rail")]
    if row.line is not None:
        kind = "interval" if row.interval else "spread"
        drawn.append(svg.line(axis(row.line[0]), y, axis(row.line[1]), y, f"{kind} {shade}"))
    tip = svg.hover(row.told(unit))
    drawn.append(svg.element("circle", tip, cx=axis(row.value), cy=y, r=5, class_=f"point {shade}"))
    return drawn


def _omitted(count: int, x: float, y: float) -> str:
    text = f"{counted(count, 'suite')} between them: below"
    return svg.text(x, y, text, class_="none", text_anchor="end")
