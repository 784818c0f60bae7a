"""Transcript hashes and the bytes that are signed.

TH1 = SHA-512(Challenge frame ‖ Hello frame ‖ ServerHello body up to and including the KEM public key)
TH2 = SHA-512(TH1 ‖ LP(signature) ‖ LP(ciphertext))

Both long-term key ids are in TH1: the GCS's in Challenge, the drone's in Hello.
"""

from __future__ import annotations

import hashlib
from typing import Final

from pqtunnel.wire import prefixed

SIGNATURE_CONTEXT: Final = b"pqtunnel/1 ServerHello signature\x00"
"""Domain separation inside the message, because not every scheme of the registry takes a context string."""


def transcript_1(challenge_frame: bytes, hello_frame: bytes, server_hello_signed_part: bytes) -> bytes:
    """TH1, 64 bytes."""
    digest = hashlib.sha512(challenge_frame)
    digest.update(hello_frame)
    digest.update(server_hello_signed_part)
    return digest.digest()


def transcript_2(th1: bytes, signature: bytes, ciphertext: bytes) -> bytes:
    """TH2, 64 bytes."""
    return hashlib.sha512(th1 + prefixed(signature) + prefixed(ciphertext)).digest()


def signed_message(th1: bytes) -> bytes:
    """What the GCS signs and the drone verifies."""
    return SIGNATURE_CONTEXT + th1
