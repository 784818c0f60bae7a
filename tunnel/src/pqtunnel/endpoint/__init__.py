"""The shell around the protocol core: sockets, threads, clocks, counters, ledger.

Reading order: counters, ledger, spans, gate, dataplane, stream, dialer (drone), acceptor (gcs), work,
endpoint.
"""
