"""`pqtunnel bench`: every primitive, every full handshake, the embedded ladder, one iteration at a time.

This is the performance mode: single operations, two clocks (`timing`). Results are raw files, one a benchmark
(layout of `primitives-2026-01` §11); every summary is recomputed from them (`summary`).
"""
