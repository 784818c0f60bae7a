"""Transcript hashes and the bytes that are signed.

TH1 = SHA-512(Challenge frame ‖ Hello frame ‖ ServerHello body up to and including the KEM public key)
TH2 = SHA-512(TH1 ‖ LP(signature) ‖ LP(ciphertext))
TH3 = SHA-512(TH2 ‖ LP(drone's signature)), which takes TH2's place where the drone signs

Both long-term key ids are in TH1: the GCS's in Challenge, the drone's in Hello.
"""

from __future__ import annotations

import hashlib
from typing import Final

from pqtunnel.wire import prefixed

SIGNATURE_CONTEXT: Final = b"pqtunnel/1 ServerHello signature\x00"
"""Domain separation inside the message, because not every scheme of the registry takes a context string."""


DRONE_SIGNATURE_CONTEXT: Final = b"pqtunnel/1 ClientKem signature\x00"


def transcript_1(challenge_frame: bytes, hello_frame: bytes, server_hello_signed_part: bytes) -> bytes:
    """TH1, 64 bytes."""
    digest = hashlib.sha512(challenge_frame)
    digest.update(hello_frame)
    digest.update(server_hello_signed_part)
    return digest.digest()


def transcript_2(th1: bytes, signature: bytes, ciphertext: bytes) -> bytes:
    """TH2, 64 bytes."""
    return hashlib.sha512(th1 + prefixed(signature) + prefixed(ciphertext)).digest()


def transcript_3(th2: bytes, signature: bytes) -> bytes:
    """TH3, 64 bytes."""
    return hashlib.sha512(th2 + prefixed(signature)).digest()


def signed_message(th1: bytes) -> bytes:
    """What the GCS signs and the drone verifies."""
    return SIGNATURE_CONTEXT + th1


def drone_signed_message(th2: bytes) -> bytes:
    """What the drone signs and the GCS verifies, where the drone signs."""
    return DRONE_SIGNATURE_CONTEXT + th2
