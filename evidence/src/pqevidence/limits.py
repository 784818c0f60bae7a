"""What must be there before anything is said; a plan is held against it before it runs."""

from __future__ import annotations

#: Below this many runs no interval and no claim is made.
MIN_RUNS_COUNT = 3
#: Pairs of equal cells of one class of cost needed before their spread counts as a noise floor.
MIN_FLOOR_PAIRS_COUNT = 10
#: Where no noise floor could be measured, only effects beyond this ratio are stated.
ASSUMED_FLOOR_RATIO = 1.10
