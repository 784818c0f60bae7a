"""Ascon-128a (Ascon v1.2, not Ascon-AEAD128). Key, nonce, tag: 16 bytes; the tag follows the ciphertext."""

from typing import Final, final

__version__: Final[str]
ALGORITHM: Final[str]
KEY_BYTES: Final[int]
NONCE_BYTES: Final[int]
TAG_BYTES: Final[int]

class InvalidTag(Exception): ...

@final
class Ascon128a:
    def __new__(cls, key: bytes) -> Ascon128a: ...
    def seal(self, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes: ...
    def open(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes: ...
