"""Runs a plan: drives both agents cell by cell, keeps every raw file, seals a bundle at the end.

Reading order: agents (calls to both ends) → cell (one cell from prepare to raw files) → store (work folder,
survives a kill at any moment) → engine (the campaign) → finish (reconcile, analyse, report, seal).
"""
