"""The serial log of the ESP32-C6 board, read strictly: a number counts only with its size and its whole unit.

A line gives a value when it names the algorithm (or stands below a heading that does), a buffer size, and a
number with a unit that ends there: `AES-256-CTR 1 KB: 20.27 MB/s`, `SHA-256 64 bytes: 14 us`, `RSA-2048
modular exponentiation: 219 ms`; rows with `|` as well. What was cut off or garbled is listed, not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Table
from pqevidence.errors import EXIT_CHECK, LabError

COLUMNS = ("algorithm", "operation", "size_bytes", "throughput_mbs", "time_us", "n", "reason")
SIZES_BYTES = tuple(64 * 2**k for k in range(10))
RSA_BYTES = 256
MAX_BYTES = 8 << 20
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NAME = {
    "AES-256-CTR": re.compile(r"\bAES\b|\bAES[-_ ]?256", re.IGNORECASE),
    "SHA-256": re.compile(r"\bSHA[-_ ]?256", re.IGNORECASE),
    "RSA-2048": re.compile(r"\bRSA\b|\bRSA[-_ ]?2048", re.IGNORECASE),
}
_SIZE = re.compile(r"(?<![\d.])(\d{1,5})\s*(bytes?|B|KB|KiB)(?![\w/])", re.IGNORECASE)
_VALUE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*(MB/s|[uµμ]s|ms)(?![\w/])")
_OWN_DIGITS = re.compile(r"\b(?:AES|SHA|RSA)[-_ ]?\d*", re.IGNORECASE)
_TO_US = {"us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1000.0}


@dataclass(frozen=True)
class Refused:
    """A line that looked like a result and gave none."""

    line: int
    reason: str


@dataclass(frozen=True)
class BoardLog:
    """Values by (algorithm, size), in the order they came, and what was refused."""

    values: dict[tuple[str, int], list[float]]
    refused: tuple[Refused, ...]

    def table(self) -> Table:
        """One row for each of the 21 steps of the ladder; a step that the log lacks has its reason."""
        table = Table("board-ladder", COLUMNS)
        for algorithm, operation, size in steps():
            own = self.values.get((algorithm, size), [])
            middle = median(own)
            aes = algorithm == "AES-256-CTR"
            table.add(
                algorithm=algorithm,
                operation=operation,
                size_bytes=size,
                throughput_mbs=middle if aes else None,
                time_us=None if aes else middle,
                n=len(own),
                reason=None if own else "not in the log",
            )
        return table


def steps() -> Iterator[tuple[str, str, int]]:
    """(algorithm, operation, size) of the published ladder."""
    for algorithm, operation in (("AES-256-CTR", "encrypt"), ("SHA-256", "hash")):
        for size in SIZES_BYTES:
            yield algorithm, operation, size
    yield "RSA-2048", "modexp", RSA_BYTES


def parse(data: bytes) -> BoardLog:
    """Read a log's bytes. Never raises: what cannot be read is in `refused`."""
    values: dict[tuple[str, int], list[float]] = {}
    refused: list[Refused] = []
    heading: str | None = None
    lines = data.split(b"\n")
    for number, raw in enumerate(lines, 1):
        text = _ANSI.sub("", raw.decode("utf-8", errors="replace")).strip()
        named = next((name for name, pattern in _NAME.items() if pattern.search(text)), None)
        heading = named or heading
        found = _VALUE.search(text)
        size = _SIZE.search(text)
        # a heading has no digits beside those of its name; a result that lost its end has
        begun = named is not None and any(char.isdigit() for char in _OWN_DIGITS.sub("", text))
        if heading is None or (found is None and size is None and not begun):
            continue
        if "\ufffd" in text:
            refused.append(Refused(number, "bytes that are no text"))
        elif number == len(lines):
            refused.append(Refused(number, "cut off: the log ends in this line"))
        elif found is None:
            refused.append(Refused(number, "no number with a whole unit"))
        else:
            _take(heading, size, found, number, values, refused)
    return BoardLog(values, tuple(refused))


def _take(
    algorithm: str,
    size: re.Match[str] | None,
    found: re.Match[str],
    number: int,
    values: dict[tuple[str, int], list[float]],
    refused: list[Refused],
) -> None:
    amount, unit = float(found[1]), found[2]
    if algorithm == "RSA-2048":
        place = RSA_BYTES
    elif size is None:
        refused.append(Refused(number, "no buffer size"))
        return
    else:
        place = int(size[1]) * (1024 if size[2].lower().startswith("k") else 1)
        if place not in SIZES_BYTES:
            refused.append(Refused(number, f"{place} bytes is no step of the ladder"))
            return
    if (algorithm == "AES-256-CTR") != (unit == "MB/s") or amount <= 0:
        refused.append(Refused(number, f"{found[0]} is no result of {algorithm}"))
        return
    values.setdefault((algorithm, place), []).append(amount * _TO_US.get(unit, 1.0))


def read_log(path: Path) -> BoardLog:
    """From a file. Raises LabError where it cannot be read or holds no result at all."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise LabError(
                "board-log",
                f"{path.name} is larger than {MAX_BYTES >> 20} MiB",
                "a serial log is text",
                "name the log of one run",
                EXIT_CHECK,
            )
        log = parse(path.read_bytes())
    except OSError as error:
        raise LabError(
            "board-log", f"{path} cannot be read", error.strerror or str(error), "name a file"
        ) from error
    if not log.values:
        told = f"{len(log.refused)} lines looked like one" if log.refused else "no line looks like one"
        raise LabError(
            "board-log",
            f"{path.name} holds no result of the ladder",
            told,
            "log the board's serial output from its start",
            EXIT_CHECK,
        )
    return log
