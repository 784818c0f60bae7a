"""What measures add, put in its place among what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


def placed(
    there: Sequence[Thing], added: Iterable[tuple[str | None, Thing]], name_of: Callable[[Thing], str]
) -> tuple[Thing, ...]:
    """`there` with each (name, thing) right after the one of that name; an empty name: at the end, None:
    at the beginning.

    A name may be of one that was added before. ValueError for a name that nothing has.
    """
    found = list(there)
    for after, thing in added:
        names = [None, *(name_of(other) for other in found)]
        place = names.index(after) if after != "" else len(found)
        found.insert(place, thing)
    return tuple(found)
