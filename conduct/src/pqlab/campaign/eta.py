"""When a campaign will be over: its predicted cell times, corrected by how the finished ones came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pqevidence.plan import Cell

#: suite id and condition: what decides how long a cell takes
Kind = tuple[str, str]

#: weight of the prediction against measured seconds: a first odd cell must not turn the whole estimate
_PRIOR_S = 30.0


def kind_of(cell: Cell) -> Kind:
    """Of a planned cell."""
    return cell.suite_id, cell.condition


class Eta:
    """Seconds left, from what each cell was expected to take and what the finished ones took."""

    def __init__(self, todo: Sequence[Cell], predicted_s: Mapping[Kind, float | None]) -> None:
        """predicted_s: None where the suite was never measured."""
        self._left = {str(cell.cell_id): kind_of(cell) for cell in todo}
        self._predicted_s = predicted_s
        self._expected_s = 0.0
        self._taken_s = 0.0
        self._walls_s: dict[Kind, list[float]] = {}

    def finished(self, cell: Cell, wall_s: float) -> None:
        """One more cell is done."""
        self._left.pop(str(cell.cell_id), None)
        self._walls_s.setdefault(kind_of(cell), []).append(wall_s)
        expected_s = self._predicted_s.get(kind_of(cell))
        if expected_s is not None:
            self._expected_s += expected_s
            self._taken_s += wall_s

    def left_s(self) -> float | None:
        """None until at least one cell is measured or predicted."""
        walls = [wall for found in self._walls_s.values() for wall in found]
        mean_s = sum(walls) / len(walls) if walls else None
        ratio = (self._taken_s + _PRIOR_S) / (self._expected_s + _PRIOR_S)
        total_s = 0.0
        for kind in self._left.values():
            expected_s = self._predicted_s.get(kind)
            mine = self._walls_s.get(kind)
            if expected_s is not None:
                total_s += ratio * expected_s
            elif mine:
                total_s += sum(mine) / len(mine)
            elif mean_s is not None:
                total_s += mean_s
            else:
                return None
        return total_s
