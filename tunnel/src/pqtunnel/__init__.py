"""Post-quantum MAVLink tunnel.

Importing this package loads nothing native: `pqtunnel.suites` and `pqtunnel.rpc` serve controllers that have
neither liboqs nor an AEAD library. `pqtunnel.primitives.load()` is the one door to native code.
"""

PROTOCOL_VERSION = 1
__version__ = "0.1.0"
