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

    A name may be of one that is added, too, before or later. ValueError for a name that nothing has.
    """
    found, waiting = list(there), list(added)
    while waiting:
        names = [None, *(name_of(other) for other in found)]
        ready = next((one for one in waiting if one[0] == "" or one[0] in names), None)
        if ready is None:
            raise ValueError(f"{waiting[0][0]!r} is not in the list")
        waiting.remove(ready)
        after, thing = ready
        found.insert(names.index(after) if after != "" else len(found), thing)
    return tuple(found)
