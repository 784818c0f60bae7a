"""Attacks and foreign traffic on the lab's own `air` network: bounded, timed, and written down as sent.

`attacker` sends, `tap` listens beside the drone. Both take addresses from their environment alone, refuse any
outside the air network, and stop by themselves: at an episode's end, when the controller's connection ends,
and when it falls silent.
"""

from __future__ import annotations

__version__ = "0.1.0"
