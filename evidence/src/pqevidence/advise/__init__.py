"""Advice: which suite for this radio and this aircraft, from what bundles measured.

Reading order: radio (the link asked about), wire (bytes of a handshake), transfer (how TCP carries them),
evidence (what bundles hold), predict (from both to a time), answer (which suites, and when to be silent),
hold_out (is a radio foretold by the others?), words (how it is said). docs/ADVISE.md has model and
validation.
"""
