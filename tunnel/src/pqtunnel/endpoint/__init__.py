"""The shell around the protocol core: sockets, threads, clocks, counters, ledger.

Reading order: counters, plane, handshakes, native, native_handshakes, dialer (drone), acceptor (gcs), work,
endpoint.
"""
