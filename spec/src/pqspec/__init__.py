"""The tunnel's protocol as an executable specification: handshake, key schedule, packets, sessions, paths.

The tunnel itself is native (tunnel/core, tunnel/link). The tests hold it against this package, and ring
*sim* runs this in virtual time. No endpoint has it: keys are Python's bytes here, and are not erased.
docs/PROTOCOL.md is it in prose.
"""
