"""Result bundles: a BagIt bag (RFC 8493, sha-512) that holds an RO-Crate of one run. Format: docs/BUNDLE.md.

Reading order: bag (tag files), crate (metadata), secrets (what must not be in it), sealing (work
folder → bundle), locate (find and open one), numbers (the hash a report carries).
"""

from pqevidence.bundle.bag import BagError
from pqevidence.bundle.locate import Bundle, locate, open_bundle
from pqevidence.bundle.numbers import numbers_sha256
from pqevidence.bundle.sealing import SealError, seal
from pqevidence.bundle.secrets import SecretHit, search

open = open_bundle

__all__ = [
    "BagError",
    "Bundle",
    "SealError",
    "SecretHit",
    "locate",
    "numbers_sha256",
    "open",
    "open_bundle",
    "seal",
    "search",
]
