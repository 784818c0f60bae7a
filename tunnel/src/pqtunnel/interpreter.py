"""Is this Python one that the tunnel's libraries are built for? Asked before anything else is imported.

Written so that an old interpreter can read it and says a sentence, not a traceback.
"""

from __future__ import annotations

import sys

LEAST = (3, 11)


def refusal(version: tuple[int, int], largest: int) -> str | None:
    """What is wrong and the next step, as one text; None where such a Python will do. `largest` is its
    sys.maxsize."""
    if version < LEAST:
        old, least = (".".join(map(str, numbers)) for numbers in (version, LEAST))
        return (
            f"pqtunnel: this is Python {old}, the tunnel needs {least} or newer [python_too_old]\n"
            "  next: install the Python that the other end runs: both ends need the same minor version"
        )
    if largest < 1 << 32:
        return (
            "pqtunnel: this Python is of 32 bits, the tunnel's libraries are of 64 [python_32_bit]\n"
            f"  next: install the 64-bit Python {version[0]}.{version[1]}"
        )
    return None


def check() -> None:
    """End with exit code 4 and that sentence where this Python will not do."""
    text = refusal((sys.version_info[0], sys.version_info[1]), sys.maxsize)
    if text is not None:
        print(text, file=sys.stderr)
        raise SystemExit(4)
