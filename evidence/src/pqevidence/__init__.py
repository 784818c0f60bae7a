"""What a bundle is and says: read, derived, judged, printed. It needs no lab and does not know who ran one.

Reading order: scenario (what is asked) → plan (cells) → record (one cell's result from its raw files) →
bundle (sealed whole) → analysis (tables) → report (pages) → verify (all of it made again).
"""

__version__ = "1.0.0"
