"""Ascon-128a (Ascon v1.2) and Ascon-AEAD128 (SP 800-232). Key, nonce, tag: 16 bytes each;
the tag follows the ciphertext."""

from typing import Final, final

__version__: Final[str]
ALGORITHMS: Final[tuple[str, str]]
KEY_BYTES: Final[int]
NONCE_BYTES: Final[int]
TAG_BYTES: Final[int]

class InvalidTag(Exception): ...

@final
class Ascon128a:
    def __new__(cls, key: bytes) -> Ascon128a: ...
    def seal(self, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes: ...
    def open(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes: ...

@final
class AsconAead128:
    def __new__(cls, key: bytes) -> AsconAead128: ...
    def seal(self, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes: ...
    def open(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes: ...
