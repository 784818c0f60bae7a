"""Algorithms of the registry: pure data with a lifecycle, importable without anything native.

`KEMS`, `SIGS` and `AEADS` are those of the 72 suites; `EXTRA_KEMS`, `EXTRA_SIGS` and `EXTRA_AEADS` stand
beside them in the same matrix; `ALL_*` hold both, by token.

Sizes are those of liboqs 0.13 (`primitives-2026-01` §9 agrees on every key, ciphertext and fixed-size
signature). Two published figures differ and are corrected here: HQC's shared secret is 64 bytes in the
submission that liboqs 0.13 carries, and Falcon signatures have a variable length of which the maximum counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Lifecycle = Literal["standard", "draft", "withdrawn", "experimental"]


@dataclass(frozen=True, slots=True)
class Kem:
    """A key-encapsulation mechanism. Sizes in bytes; `allowance_s` is its share of a handshake's deadline.

    `oqs_name` is empty where liboqs does not carry it out. `x25519_bytes` is the part of the shared secret,
    at its beginning, that belongs in the key schedule's X25519 slot (hybrids: 32, else 0).
    """

    token: str
    name: str
    oqs_name: str
    code: int
    family: str
    level: int
    public_key_bytes: int
    secret_key_bytes: int
    ciphertext_bytes: int
    shared_secret_bytes: int
    lifecycle: Lifecycle
    standard: str
    allowance_s: float
    notes: str = ""
    x25519_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sig:
    """A signature scheme. `signature_bytes` is the exact size, or the maximum where `variable_length`."""

    token: str
    name: str
    oqs_name: str
    code: int
    family: str
    level: int
    public_key_bytes: int
    secret_key_bytes: int
    signature_bytes: int
    variable_length: bool
    lifecycle: Lifecycle
    standard: str
    allowance_s: float
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Aead:
    """An AEAD. The nonce is the per-direction IV xor the 64-bit sequence, so iv size = `nonce_bytes`."""

    token: str
    name: str
    code: int
    key_bytes: int
    nonce_bytes: int
    tag_bytes: int
    lifecycle: Lifecycle
    standard: str
    aliases: tuple[str, ...] = ()
    notes: str = ""


_HQC_NOTE = (
    "Round-4 submission of 2023-04-30; the copy in liboqs 0.13 has a known IND-CCA2 flaw and lacks the fix "
    "of CVE-2025-52473; NIST selected a revised HQC. For measurement only."
)
_MCELIECE_NOTE = "Not standardised by NIST (ISO candidate); key generation time is heavy-tailed."
_FALCON_NOTE = "FN-DSA draft pending; 2021-11 submission with PQClean patches; signature length varies."
_SPHINCS_NOTE = "SPHINCS+ 3.1 submission; FIPS 205 SLH-DSA differs on the wire. Removed from liboqs 0.16."
_MLDSA44_NOTE = "Claims NIST category 2; paired with level 1 as published."

# fmt: off
KEMS: Final = MappingProxyType(
    {
        kem.token: kem
        for kem in (
            Kem("mlkem512", "ML-KEM-512", "ML-KEM-512", 0x01, "mlkem", 1, 800, 1632, 768, 32,
                "standard", "FIPS 203", 1.0),
            Kem("mlkem768", "ML-KEM-768", "ML-KEM-768", 0x02, "mlkem", 3, 1184, 2400, 1088, 32,
                "standard", "FIPS 203", 1.0),
            Kem("mlkem1024", "ML-KEM-1024", "ML-KEM-1024", 0x03, "mlkem", 5, 1568, 3168, 1568, 32,
                "standard", "FIPS 203", 1.0),
            Kem("hqc128", "HQC-128", "HQC-128", 0x11, "hqc", 1, 2249, 2305, 4433, 64,
                "experimental", "HQC 2023-04-30", 2.0, _HQC_NOTE),
            Kem("hqc192", "HQC-192", "HQC-192", 0x12, "hqc", 3, 4522, 4586, 8978, 64,
                "experimental", "HQC 2023-04-30", 2.0, _HQC_NOTE),
            Kem("hqc256", "HQC-256", "HQC-256", 0x13, "hqc", 5, 7245, 7317, 14421, 64,
                "experimental", "HQC 2023-04-30", 3.0, _HQC_NOTE),
            Kem("classicmceliece348864", "Classic-McEliece-348864", "Classic-McEliece-348864", 0x21,
                "mceliece", 1, 261120, 6492, 96, 32,
                "experimental", "Classic McEliece 2022-10-25", 15.0, _MCELIECE_NOTE),
            Kem("classicmceliece460896", "Classic-McEliece-460896", "Classic-McEliece-460896", 0x22,
                "mceliece", 3, 524160, 13608, 156, 32,
                "experimental", "Classic McEliece 2022-10-25", 30.0, _MCELIECE_NOTE),
            Kem("classicmceliece8192128", "Classic-McEliece-8192128", "Classic-McEliece-8192128", 0x23,
                "mceliece", 5, 1357824, 14120, 208, 32,
                "experimental", "Classic McEliece 2022-10-25", 60.0, _MCELIECE_NOTE),
        )
    }
)

SIGS: Final = MappingProxyType(
    {
        sig.token: sig
        for sig in (
            Sig("mldsa44", "ML-DSA-44", "ML-DSA-44", 0x01, "mldsa", 1, 1312, 2560, 2420, False,
                "standard", "FIPS 204", 1.0, _MLDSA44_NOTE),
            Sig("mldsa65", "ML-DSA-65", "ML-DSA-65", 0x02, "mldsa", 3, 1952, 4032, 3309, False,
                "standard", "FIPS 204", 1.0),
            Sig("mldsa87", "ML-DSA-87", "ML-DSA-87", 0x03, "mldsa", 5, 2592, 4896, 4627, False,
                "standard", "FIPS 204", 1.0),
            Sig("falcon512", "Falcon-512", "Falcon-512", 0x11, "falcon", 1, 897, 1281, 752, True,
                "draft", "Falcon 2021-11-01", 1.0, _FALCON_NOTE),
            Sig("falcon1024", "Falcon-1024", "Falcon-1024", 0x12, "falcon", 5, 1793, 2305, 1462, True,
                "draft", "Falcon 2021-11-01", 1.0, _FALCON_NOTE),
            Sig("sphincs128s", "SPHINCS+-SHA2-128s-simple", "SPHINCS+-SHA2-128s-simple", 0x21, "sphincs", 1,
                32, 64, 7856, False, "withdrawn", "SPHINCS+ 3.1", 10.0, _SPHINCS_NOTE),
            Sig("sphincs192s", "SPHINCS+-SHA2-192s-simple", "SPHINCS+-SHA2-192s-simple", 0x22, "sphincs", 3,
                48, 96, 16224, False, "withdrawn", "SPHINCS+ 3.1", 15.0, _SPHINCS_NOTE),
            Sig("sphincs256s", "SPHINCS+-SHA2-256s-simple", "SPHINCS+-SHA2-256s-simple", 0x23, "sphincs", 5,
                64, 128, 29792, False, "withdrawn", "SPHINCS+ 3.1", 15.0, _SPHINCS_NOTE),
        )
    }
)

AEADS: Final = MappingProxyType(
    {
        aead.token: aead
        for aead in (
            Aead("aesgcm", "AES-256-GCM", 0x01, 32, 12, 16, "standard", "NIST SP 800-38D", ("aes256gcm",)),
            Aead("chacha20poly1305", "ChaCha20-Poly1305", 0x02, 32, 12, 16, "standard", "RFC 8439",
                 ("chacha20",)),
            Aead("ascon128a", "Ascon-128a", 0x03, 16, 16, 16, "withdrawn", "Ascon v1.2 (CAESAR portfolio)",
                 ("ascon128",),
                 "Superseded by Ascon-AEAD128 (SP 800-232), which is another algorithm; 128-bit key at every "
                 "level; the Rust crate used here is unaudited."),
        )
    }
)

_CLASSICAL_NOTE = "Classical baseline: no security against a quantum computer, whatever its level says."
_HYBRID_NOTE = "X25519 beside ML-KEM; both secrets enter the key schedule, each in a slot of its own."
_SLHDSA_NOTE = "Not in liboqs 0.13; offered where the build holds it, under the known answers held for it."

EXTRA_KEMS: Final = MappingProxyType(
    {
        kem.token: kem
        for kem in (
            Kem("x25519", "X25519", "", 0x41, "x25519", 1, 32, 32, 32, 32,
                "standard", "RFC 7748", 1.0, _CLASSICAL_NOTE),
            Kem("x25519mlkem512", "X25519 + ML-KEM-512", "", 0x51, "hybrid", 1, 832, 1664, 800, 64,
                "draft", "RFC 7748 with FIPS 203", 1.0, _HYBRID_NOTE, 32),
            Kem("x25519mlkem768", "X25519 + ML-KEM-768", "", 0x52, "hybrid", 3, 1216, 2432, 1120, 64,
                "draft", "RFC 7748 with FIPS 203", 1.0, _HYBRID_NOTE, 32),
            Kem("x25519mlkem1024", "X25519 + ML-KEM-1024", "", 0x53, "hybrid", 5, 1600, 3200, 1600, 64,
                "draft", "RFC 7748 with FIPS 203", 1.0, _HYBRID_NOTE, 32),
        )
    }
)

EXTRA_SIGS: Final = MappingProxyType(
    {
        sig.token: sig
        for sig in (
            Sig("ed25519", "Ed25519", "", 0x31, "ed25519", 1, 32, 32, 64, False,
                "standard", "RFC 8032", 1.0, _CLASSICAL_NOTE),
            Sig("slhdsa128s", "SLH-DSA-SHA2-128s", "SLH_DSA_PURE_SHA2_128S", 0x41, "slhdsa", 1,
                32, 64, 7856, False, "standard", "FIPS 205", 10.0, _SLHDSA_NOTE),
            Sig("slhdsa192s", "SLH-DSA-SHA2-192s", "SLH_DSA_PURE_SHA2_192S", 0x42, "slhdsa", 3,
                48, 96, 16224, False, "standard", "FIPS 205", 15.0, _SLHDSA_NOTE),
            Sig("slhdsa256s", "SLH-DSA-SHA2-256s", "SLH_DSA_PURE_SHA2_256S", 0x43, "slhdsa", 5,
                64, 128, 29792, False, "standard", "FIPS 205", 15.0, _SLHDSA_NOTE),
        )
    }
)

EXTRA_AEADS: Final = MappingProxyType(
    {
        "asconaead128": Aead(
            "asconaead128", "Ascon-AEAD128", 0x04, 16, 16, 16, "standard", "NIST SP 800-232", (),
            "Not Ascon-128a: neither opens the other's packets; 128-bit key at every level; the Rust crate "
            "used here is unaudited."),
    }
)

# What `plain` is made of: nothing. None of the three has a code on the wire or a provider.
NO_KEM: Final = Kem("none", "none", "", 0, "none", 0, 0, 0, 0, 0, "standard", "none", 0.0)
NO_SIG: Final = Sig("none", "none", "", 0, "none", 0, 0, 0, 0, False, "standard", "none", 0.0)
NULL_AEAD: Final = Aead("null", "none", 0, 0, 0, 0, "standard", "none")
# fmt: on

KEM_FAMILIES: Final = MappingProxyType(
    {
        "mlkem": "ML-KEM", "hqc": "HQC", "mceliece": "Classic-McEliece", "x25519": "X25519",
        "hybrid": "X25519 + ML-KEM", "none": "none",
    }
)  # fmt: skip
SIG_FAMILIES: Final = MappingProxyType(
    {
        "mldsa": "ML-DSA", "falcon": "Falcon", "sphincs": "SPHINCS+", "ed25519": "Ed25519",
        "slhdsa": "SLH-DSA", "none": "none",
    }
)  # fmt: skip
"""Family token → the name that tables print."""

ALL_KEMS: Final = MappingProxyType({**KEMS, **EXTRA_KEMS})
ALL_SIGS: Final = MappingProxyType({**SIGS, **EXTRA_SIGS})
ALL_AEADS: Final = MappingProxyType({**AEADS, **EXTRA_AEADS})
