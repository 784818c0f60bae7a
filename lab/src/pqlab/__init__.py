"""Plan, run, check and report measurement campaigns of the post-quantum MAVLink tunnel.

Reading order: scenario (what is asked) → plan (cells) → campaign (drives both agents) → record (one cell's
result from its raw files) → bundle (sealed whole) → verify → analysis → report.
"""

__version__ = "0.2.0"
