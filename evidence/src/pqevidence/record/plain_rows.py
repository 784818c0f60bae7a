"""Rows of a ledger as a writer leaves them, read as one list of numbers: a campaign has millions."""

from __future__ import annotations

import json
import re
from array import array
from itertools import groupby
from sys import byteorder
from typing import Final, NamedTuple

#: what JSON lets stand in a list beside whole numbers that are written as such, but for blanks, text and null
_BESIDE: Final = (b"\t", b"\r", b"\n", b"t", b"f", b".", b"e", b"E", b"[", b"{")
#: the highest byte of numbers below 2^62
_LOW: Final = bytes(range(0x40))
#: in names of nothing else nothing is quoted and nothing ends a row, whoever reads them
_NAME: Final = re.compile(r"[a-z0-9_-]*", re.ASCII)
_DIRECTIONS: Final = ("tx", "rx")
#: different ends of a row together with how the next one begins: directions × windows, and an epoch a rekey
_MOST_SEAMS: Final = 64
#: of an epoch: far below what bounds a number
_MOST_DIGITS: Final = 9


#: window, direction, epoch: how a row ends, and how the next one begins
Seam = tuple[str, str, str]
_NO_SEAM: Final = ("", "no direction", "")


class Stretch(NamedTuple):
    """Columns of rows in file order. began: (direction, epoch, number of rows) of each run of rows that have
    both in common."""

    began: list[tuple[str, int, int]]
    sequence: array[int]
    size_bytes: array[int]
    t_in_ns: array[int]
    t_out_ns: array[int]
    window: list[str]


def read_plain(stretch: bytes) -> Stretch | None:
    """Whole rows; None where one is not as a writer leaves it, or has a number outside 0 to 2^62: then
    nothing is known of any.

    All that is no long number stands at the seam of two rows (window, newline, direction, epoch), and few
    seams are different. Each becomes a negative number of its own; what is left is one JSON list.
    """
    # a number below 0 would look like a seam, and behind a seam there are blanks
    if not stretch.endswith(b"\n") or b",-" in stretch or b" " in stretch:
        return None
    seams: dict[int, Seam] = {}
    text = _numbered(b",\n%b,," % stretch, seams)
    if text is None or any(map(text.__contains__, _BESIDE)):
        return None
    try:
        numbers: list[int] = json.loads(f"[{text.decode('ascii').strip(',')}]")
        # refuses all that is no number, or has more than 63 bits
        sequence, size, t_in, t_out = columns = [array("q", numbers[place::5]) for place in range(1, 5)]
    except (ValueError, TypeError, OverflowError):
        return None
    # one seam, then four numbers that are none: no row is shorter or longer
    if len(numbers) % 5 != 1 or not all(map(_is_below, columns)):
        return None
    runs = [(seams.get(number, _NO_SEAM), len(list(run))) for number, run in groupby(numbers[::5])]
    (end, count), began = runs[-1], []
    if end[1] or count != 1:
        return None
    for (_, direction, epoch), count in runs[:-1]:
        if direction not in _DIRECTIONS or not epoch.isdecimal() or len(epoch) > _MOST_DIGITS:
            return None
        began.append((direction, int(epoch), count))
    window: list[str] = []
    for (name, _, _), count in runs:
        if not _NAME.fullmatch(name):
            return None
        window += [name] * count
    return Stretch(began, sequence, size, t_in, t_out, window[1:])


def _is_below(column: array[int]) -> bool:
    """Has no number one of the two highest of its bits? Those below 0 have."""
    highest = column.tobytes()[7 if byteorder == "little" else 0 :: 8]
    return not highest.translate(None, _LOW)


def _numbered(text: bytes, seams: dict[int, Seam]) -> bytes | None:
    """The text with each seam as `,-1  ,`, `,-2  ,` …, and in `seams` what they stand for. None for more
    different ones than a writer leaves."""
    done: list[bytes] = []
    while (at := text.find(b"\n")) >= 0:
        begin = text.rfind(b",", 0, at)
        middle = text.find(b",", at)
        end = text.find(b",", middle + 1)
        if min(begin, middle, end) < 0 or len(seams) == _MOST_SEAMS:
            return None
        parts = text[begin + 1 : at], text[at + 1 : middle], text[middle + 1 : end]
        window, direction, epoch = (part.decode("latin-1") for part in parts)
        number = -1 - len(seams)
        seams[number] = window, direction, epoch
        # rows of one window stand together: to replace between the first such seam and the last is to look at
        # the text once for all of them
        same = text[begin : end + 1]
        stop = text.rfind(same) + len(same)
        # as long as what it stands for, where it is not longer: that is put in its place in one go
        instead = b",%d" % number
        part = _numbered(text[begin:stop].replace(same, instead.ljust(len(same) - 1) + b","), seams)
        if part is None:
            return None
        done += (text[:begin], part)
        text = text[stop:]
    return b"".join((*done, text))
