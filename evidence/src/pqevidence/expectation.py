"""What a planned campaign can tell apart: for each comparison of conditions its expected interval width and
least detectable effect, from the spread in a named earlier bundle; unknown without one."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from pqbase.documents import Json
from pqevidence.limits import ASSUMED_FLOOR_RATIO, MIN_FLOOR_PAIRS_COUNT, MIN_RUNS_COUNT
from pqevidence.plan import Cell
from pqevidence.scenario.model import Scenario


@dataclass(frozen=True)
class Expectation:
    """One metric of one comparison. half_width and detectable are ratios ≥ 1 or differences in `unit`; None
    with a reason where unknown."""

    condition: str
    against: str
    pairs: int
    suites: int
    metric: str
    unit: str
    scale: str
    half_width: float | None
    detectable: float | None
    reason: str | None
    overall: float | None = None

    def text(self) -> str:
        """One line for a terminal."""
        what = f"{self.condition} against {self.against}, {self.metric}: "
        if self.half_width is None or self.detectable is None:
            return f"{what}unknown ({self.reason})"
        width, effect = (self._amount(value) for value in (self.half_width, self.detectable))
        mean = "" if self.overall is None else f"; from {self._amount(self.overall)} in the mean over all"
        return (
            f"{what}95 % interval ± {width} a suite, effects from {effect} on detectable "
            f"({self.pairs} pairs a suite, {self.suites} suites at once){mean}; a smaller effect would not "
            "be seen"
        )

    def _amount(self, value: float) -> str:
        if self.scale != "ratio":
            return f"{value:.3g} {self.unit}"
        return f"{100 * (value - 1):.1f} %" if value < 2 else f"a factor of {value:.3g}"

    def as_dict(self) -> Json:
        """For `--json`."""
        return asdict(self)


def expectations(scenario: Scenario, cells: list[Cell], source: Path | None) -> list[Expectation]:
    """Every condition against the first one, twins left aside; [] where there is but one condition."""
    names = [str(c["name"]) for c in scenario.conditions if c["aa_of"] is None]
    found: list[Expectation] = []
    if len(names) < 2:
        return found
    # only here: the analysis is slow to load, and most plans have one condition
    from pqevidence.analysis.power import precision

    for name in names[1:]:
        pairs = _pairs(cells, names[0], name)
        if not pairs:
            continue
        # the suite with the fewest pairs decides what may be claimed of all
        fewest, suites = min(pairs.values()), len(pairs)
        for row in precision(source, fewest, suites):
            found.append(
                Expectation(
                    name,
                    names[0],
                    fewest,
                    suites,
                    row.metric,
                    row.unit,
                    row.scale,
                    row.half_width,
                    row.detectable,
                    row.reason,
                    row.overall,
                )
            )
    return found


def unanswerable(scenario: Scenario, cells: list[Cell]) -> list[str]:
    """What the plan cannot answer, whatever it measures: one line each."""
    found = []
    repetitions = Counter((cell.suite_id, cell.condition) for cell in cells)
    fewest = min(repetitions.values(), default=0)
    if fewest < MIN_RUNS_COUNT:
        found.append(
            f"no interval for a single suite or condition: {fewest} of at least {MIN_RUNS_COUNT} repetitions "
            "(families of suites are compared over suites)"
        )
    twins = sum(1 for cell in cells if scenario.condition(cell.condition)["aa_of"] is not None)
    steps = sum(count - 1 for count in repetitions.values())
    if twins < MIN_FLOOR_PAIRS_COUNT and steps < MIN_FLOOR_PAIRS_COUNT:
        found.append(
            f"no effect below {100 * (ASSUMED_FLOOR_RATIO - 1):.0f} %: no noise floor is measured "
            f"({twins} A/A pairs, {steps} steps between repetitions; {MIN_FLOOR_PAIRS_COUNT} of either "
            "needed)"
        )
    return [f"cannot answer: {line}" for line in found]


def told(rows: list[Expectation]) -> list[str]:
    """One line a figure that is known; one a comparison and reason for those that are not."""
    lines: list[str] = []
    unknown: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row.half_width is None:
            unknown.setdefault((row.condition, row.against, str(row.reason)), []).append(row.metric)
        else:
            lines.append(row.text())
    for (condition, against, reason), metrics in unknown.items():
        every = len(metrics) == sum(1 for r in rows if (r.condition, r.against) == (condition, against))
        which = "every figure" if every else ", ".join(metrics)
        lines.append(
            f"{condition} against {against}: interval and detectable effect unknown for {which} ({reason})"
        )
    return lines


def _pairs(cells: list[Cell], one: str, other: str) -> Counter[str]:
    """Suite → repetitions planned under both conditions."""
    planned = {(cell.suite_id, cell.condition, cell.repetition) for cell in cells}
    return Counter(s for s, condition, r in planned if condition == other and (s, one, r) in planned)
