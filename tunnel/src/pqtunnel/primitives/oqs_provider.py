"""KEMs and signatures by liboqs.

The descriptors and the loaded library come from liboqs-python; the calls pass Python buffers straight to C.
The package's own wrappers copy every input, which costs more than the encapsulation itself for the 1.3 MB
key of Classic-McEliece-8192128. Calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes

from pqtunnel.errors import PrimitiveFailed, ProviderMissing
from pqtunnel.primitives.interfaces import KemKeyPair
from pqtunnel.primitives.oqs_library import load_oqs
from pqtunnel.suites import Kem, Sig


def _out(buffer: bytearray) -> ctypes.Array[ctypes.c_char]:
    """A C view of a bytearray, for results; the bytearray owns the memory."""
    return (ctypes.c_char * len(buffer)).from_buffer(buffer)


def _check_sizes(name: str, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
    if expected != found:
        raise ProviderMissing(
            f"{name}: sizes {found} of this liboqs differ from the registry's {expected}",
            hint="Another liboqs version holds another variant; use the tunnel image (make images).",
        )


class OqsKem:
    """One KEM of liboqs. Raises ProviderMissing when this build does not hold it."""

    def __init__(self, kem: Kem) -> None:
        oqs = load_oqs()
        if kem.oqs_name not in oqs.get_enabled_kem_mechanisms():
            raise ProviderMissing(f"{kem.name} is not in this build of liboqs {oqs.oqs_version()}")
        self._native = oqs.native()
        self._handle = self._native.OQS_KEM_new(kem.oqs_name.encode())
        found = self._handle.contents
        _check_sizes(
            kem.name,
            (kem.public_key_bytes, kem.secret_key_bytes, kem.ciphertext_bytes, kem.shared_secret_bytes),
            (
                found.length_public_key,
                found.length_secret_key,
                found.length_ciphertext,
                found.length_shared_secret,
            ),
        )
        self._kem = kem

    def generate(self) -> KemKeyPair:
        public = ctypes.create_string_buffer(self._kem.public_key_bytes)
        secret = bytearray(self._kem.secret_key_bytes)
        if self._native.OQS_KEM_keypair(self._handle, public, _out(secret)) != 0:
            raise PrimitiveFailed(f"{self._kem.name}: key generation failed")
        return KemKeyPair(public.raw, secret)

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        self._expect(public, self._kem.public_key_bytes, "public key")
        ciphertext = ctypes.create_string_buffer(self._kem.ciphertext_bytes)
        secret = bytearray(self._kem.shared_secret_bytes)
        if self._native.OQS_KEM_encaps(self._handle, ciphertext, _out(secret), public) != 0:
            raise PrimitiveFailed(f"{self._kem.name}: encapsulation failed")
        return ciphertext.raw, secret

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self._expect(ciphertext, self._kem.ciphertext_bytes, "ciphertext")
        self._expect(pair.secret, self._kem.secret_key_bytes, "secret key")
        secret = bytearray(self._kem.shared_secret_bytes)
        if self._native.OQS_KEM_decaps(self._handle, _out(secret), ciphertext, _out(pair.secret)) != 0:
            raise PrimitiveFailed(f"{self._kem.name}: decapsulation failed")
        return secret

    def _expect(self, value: bytes | bytearray, size: int, what: str) -> None:
        # C reads as many bytes as the algorithm says, whatever the buffer holds: this check is memory safety.
        if len(value) != size:
            raise PrimitiveFailed(f"{self._kem.name}: {what} has {len(value)} bytes, not {size}")


class OqsSig:
    """One signature scheme of liboqs. Raises ProviderMissing when this build does not hold it."""

    def __init__(self, sig: Sig) -> None:
        oqs = load_oqs()
        if sig.oqs_name not in oqs.get_enabled_sig_mechanisms():
            raise ProviderMissing(f"{sig.name} is not in this build of liboqs {oqs.oqs_version()}")
        self._native = oqs.native()
        self._handle = self._native.OQS_SIG_new(sig.oqs_name.encode())
        found = self._handle.contents
        _check_sizes(
            sig.name,
            (sig.public_key_bytes, sig.secret_key_bytes, sig.signature_bytes),
            (found.length_public_key, found.length_secret_key, found.length_signature),
        )
        self._sig = sig

    def generate(self) -> tuple[bytes, bytes]:
        public = ctypes.create_string_buffer(self._sig.public_key_bytes)
        secret = ctypes.create_string_buffer(self._sig.secret_key_bytes)
        if self._native.OQS_SIG_keypair(self._handle, public, secret) != 0:
            raise PrimitiveFailed(f"{self._sig.name}: key generation failed")
        return public.raw, secret.raw

    def sign(self, secret: bytes, message: bytes) -> bytes:
        if len(secret) != self._sig.secret_key_bytes:
            raise PrimitiveFailed(
                f"{self._sig.name}: secret key has {len(secret)} bytes, not {self._sig.secret_key_bytes}"
            )
        signature = ctypes.create_string_buffer(self._sig.signature_bytes)
        length = ctypes.c_size_t(self._sig.signature_bytes)
        status = self._native.OQS_SIG_sign(
            self._handle, signature, ctypes.byref(length), message, ctypes.c_size_t(len(message)), secret
        )
        if status != 0:
            raise PrimitiveFailed(f"{self._sig.name}: signing failed")
        return signature.raw[: length.value]

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        if len(public) != self._sig.public_key_bytes or not 0 < len(signature) <= self._sig.signature_bytes:
            return False
        status = self._native.OQS_SIG_verify(
            self._handle,
            message,
            ctypes.c_size_t(len(message)),
            signature,
            ctypes.c_size_t(len(signature)),
            public,
        )
        return bool(status == 0)
