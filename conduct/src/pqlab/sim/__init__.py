"""Ring sim: a whole run in virtual time, in this process, from the campaign's seed alone.

Reading order: clock, primitives (stand-ins), identity, end, cellworld (handshakes, traffic), facts, agent,
run. docs/DETERMINISM.md says what a simulated bundle claims (nothing physical) and what its seed controls.
"""

from pqlab.sim.run import carry_out, stage

__all__ = ["carry_out", "stage"]
