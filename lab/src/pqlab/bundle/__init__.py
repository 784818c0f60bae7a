"""Result bundles: a BagIt bag (RFC 8493, sha-512) that holds an RO-Crate of one run. Format: docs/BUNDLE.md.

Reading order: bag (tag files), crate (metadata), secrets (what must not be in it), sealing (work
folder → bundle), locate (find and open one), numbers (the hash a report carries).
"""

from pqlab.bundle.bag import BagError
from pqlab.bundle.locate import Bundle, locate, open_bundle
from pqlab.bundle.numbers import numbers_sha256
from pqlab.bundle.sealing import SealError, seal
from pqlab.bundle.secrets import SecretHit, search

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
