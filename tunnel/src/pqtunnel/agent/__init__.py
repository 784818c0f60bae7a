"""The agent: the endpoint's remote control, JSON-RPC 2.0 over mutual TLS.

Reading order: state, params, idempotency, server, methods, lineblock, streams, drivers, telemetry, upkeep,
main.
"""
