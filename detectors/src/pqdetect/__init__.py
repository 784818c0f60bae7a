"""Detectors that see the sealed link: what an endpoint's feed shows, as features, models and verdicts.

In scope: windows of 0.6 s made from 20 ms bins, features, a simulator with ground truth, models, decisions,
and the service that runs them beside an endpoint. Not in scope: producing the feed (the tunnel agent),
generating attacks on a real link, and judging cells (the lab).

The way of the data: feed or recording → `feed` (windows) → `features` → `model` → `decide` → verdict; for
training, `simulate` makes recordings with truth where the feed would be.
"""

__version__ = "0.1.0"
