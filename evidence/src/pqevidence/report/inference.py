"""The words beside an interval: what it speaks of, and which effects it could not have shown."""

from __future__ import annotations

from pqevidence.report.svg import significant

#: One sentence for each unit of inference that a table names.
UNITS = {
    "suite": "The unit is the suite: n counts suites, the interval says what further suites of the kind "
    "would give in this run, and repetitions only sharpen the value of each.",
    "block": "The unit is the block: n counts blocks, the interval is of the mean over these suites, and "
    "speaks of no others.",
    "pair": "The unit is the pair of cells in a block: the interval is of this suite on these hosts, and "
    "speaks of repetitions in this run.",
    "repetition": "The unit is the repetition: the interval is of this suite on these hosts at this run's "
    "average state of the machine; what another run, other hosts or a rare fault would differ by is not in "
    "it.",
    "run": "There are two runs and so one difference between runs: the interval speaks of repetitions inside "
    "these two, and what two further runs would differ by is not in it.",
}

#: the same for a merged bundle
HOST_UNITS = (
    "The unit is the host: n counts hosts, each gives one value, and the interval says what further boards "
    "of the kind would give. Blocks and suites only sharpen the value of each."
)


def amount(value: float, scale: str, unit: str = "points") -> str:
    """An effect as people say it: per cent of change, a factor, or points."""
    if scale != "ratio":
        return f"{significant(value)} {unit}"
    return f"{significant(100 * (value - 1), 2)} %" if value < 2 else f"a factor of {significant(value, 2)}"


def unseen(value: float | None, scale: str, unit: str = "points") -> str | None:
    """What a "not distinguishable" does not exclude; None where nothing was inferred."""
    if value is None:
        return None
    return f"an effect below {amount(value, scale, unit)} would not have been seen"
