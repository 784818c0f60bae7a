"""Two layouts of every drawing: for a wide window, and for a narrow one with labels above what they name.

A drawing function takes the layout first and is decorated with :func:`both`; whoever calls it gets a
:class:`Drawing`, which holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from pqevidence.report import svg

_Given = ParamSpec("_Given")
_Picked = TypeVar("_Picked")
#: height of a line of text, and of a line of a legend under a drawing (pixels)
LABEL = 15.0
_LEGEND = 17.0


@dataclass(frozen=True)
class Layout:
    """width: of the drawing, in pixels."""

    width: float
    narrow: bool

    def pick(self, wide: _Picked, narrow: _Picked) -> _Picked:
        """The one of two values that is meant for this layout."""
        return narrow if self.narrow else wide


WIDE, NARROW = Layout(960.0, False), Layout(344.0, True)


class Drawing(str):
    """Markup for a wide window; `narrow`: the same rows and numbers for a narrow one."""

    narrow: str

    def __new__(cls, wide: str, narrow: str) -> Drawing:
        made = super().__new__(cls, wide)
        made.narrow = narrow
        return made


def both(
    draw: Callable[Concatenate[Layout, str, _Given], str],
) -> Callable[Concatenate[str, _Given], Drawing]:
    """The drawing in both layouts; ids of the narrow one end in `-narrow`."""

    @wraps(draw)
    def drawn(figure_id: str, /, *args: _Given.args, **kwargs: _Given.kwargs) -> Drawing:
        narrow = draw(NARROW, f"{figure_id}-narrow", *args, **kwargs)
        return Drawing(draw(WIDE, figure_id, *args, **kwargs), narrow)

    return drawn


def short_name(text: str) -> str:
    """Names of algorithms as a narrow window has room for: `SPHINCS+ 128s` of `SPHINCS+-SHA2-128s-simple`."""
    return text.replace("-SHA2-", " ").replace("-simple", "")


def legend(top: float, lines: Sequence[tuple[str, str]]) -> Iterator[str]:
    """(CSS class, words) of curves, a line each from `top` down; a wide window has them at their ends."""
    for place, (shade, words) in enumerate(lines):
        y = top + _LEGEND * place
        yield svg.line(0, y - 4, 16, y - 4, f"curve {shade}")
        yield svg.text(22, y, words, class_="label small")


def legend_height(count: int) -> float:
    """Pixels that so many lines of a legend take."""
    return _LEGEND * count
