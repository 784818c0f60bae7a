"""`pqtunnel bench`: every primitive, every full handshake, the embedded ladder, one iteration at a time.

The performance mode (`runner`): single operations, two clocks (`timing`). Results are raw files, one a
benchmark (layout of `primitives-2026-01` §11); every summary is recomputed from them (`summary`).

The energy mode (`energyrun`) runs batches between idle spans beside a power sensor (`powerlog`). Neither
writes into a folder of the other (`folder`).
"""
