"""Tables of a bundle from its raw files; pqevidence.derived has all of them.

Reading order: load (raw files) → handshakes, traffic, system (per cell) → groups, effects, comparison
(run level) → table (CSV); for conditions: metrics → conditions (pairs) → estimate → claims. stats, bootstrap
and multiplicity hold the arithmetic, power what a plan may expect; docs/STATISTICS.md says which rule applies
when.
"""
