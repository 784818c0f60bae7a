"""The shell around the protocol core: sockets, threads, clocks, counters, ledger.

Reading order: counters, ledger, spans, plane, dataplane, native, stream, dialer (drone), acceptor (gcs),
work, endpoint.
"""
