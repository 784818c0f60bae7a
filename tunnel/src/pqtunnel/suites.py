"""Registry of cipher suites: pure data with a lifecycle, importable without anything native.

S = {(KEM, SIG, AEAD) : level(KEM) = level(SIG)}: 9 KEMs × 8 SIGs × 3 AEADs give exactly 72 suites
(level 1: 27, level 3: 18, level 5: 27). Ids read `cs-{kem}-{aead}-{sig}`, tokens as in `pqc-mav-2026-02`.

Sizes are those of liboqs 0.13 (`primitives-2026-01` §9 agrees on every key, ciphertext and fixed-size
signature). Two published figures differ and are corrected here: HQC's shared secret is 64 bytes in the
submission that liboqs 0.13 carries, and Falcon signatures have a variable length of which the maximum counts.

Not in scope: whether a suite works on this host (`probe`), and calling a primitive (`primitives`).
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from pqtunnel.errors import SuiteUnknown

Lifecycle = Literal["standard", "draft", "withdrawn", "experimental"]


@dataclass(frozen=True, slots=True)
class Kem:
    """A key-encapsulation mechanism. Sizes in bytes; `allowance_s` is its share of a handshake's deadline."""

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


# fmt: on


@dataclass(frozen=True, slots=True)
class Suite:
    """One KEM × AEAD × SIG at one NIST level."""

    id: str
    kem: Kem
    sig: Sig
    aead: Aead
    aliases: tuple[str, ...]

    @property
    def level(self) -> int:
        """NIST level that KEM and SIG share: 1, 3 or 5."""
        return self.kem.level

    @property
    def wire_code(self) -> bytes:
        """Three bytes in Hello: KEM code, SIG code, AEAD code."""
        return bytes((self.kem.code, self.sig.code, self.aead.code))

    @property
    def crypto_allowance_s(self) -> float:
        """What a slow board may need for the primitives, added to the handshake's 5 s."""
        return self.kem.allowance_s + self.sig.allowance_s

    @property
    def lifecycle(self) -> Lifecycle:
        """The weakest lifecycle of its parts."""
        order: tuple[Lifecycle, ...] = ("standard", "draft", "withdrawn", "experimental")
        return max((self.kem.lifecycle, self.sig.lifecycle, self.aead.lifecycle), key=order.index)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of its parts, empty ones left out."""
        return tuple(note for note in (self.kem.notes, self.sig.notes, self.aead.notes) if note)


def _build() -> dict[str, Suite]:
    suites: dict[str, Suite] = {}
    for level in (1, 3, 5):
        for kem in KEMS.values():
            for sig in SIGS.values():
                if kem.level != level or sig.level != level:
                    continue
                for aead in AEADS.values():
                    suite_id = f"cs-{kem.token}-{aead.token}-{sig.token}"
                    aliases = tuple(f"cs-{kem.token}-{alias}-{sig.token}" for alias in aead.aliases)
                    suites[suite_id] = Suite(suite_id, kem, sig, aead, aliases)
    return suites


SUITES: Final = MappingProxyType(_build())
_ALIASES: Final = {alias: suite for suite in SUITES.values() for alias in suite.aliases}
_BY_WIRE: Final = {suite.wire_code: suite for suite in SUITES.values()}


def nearest(suite_id: str) -> str | None:
    """The known id closest to `suite_id`, or None when nothing is close."""
    found = difflib.get_close_matches(suite_id.lower(), [*SUITES, *_ALIASES], n=1, cutoff=0.5)
    return canonical(found[0]) if found else None


def canonical(suite_id: str) -> str:
    """The id under which results are filed; aliases such as `ascon128` resolve. Raises SuiteUnknown."""
    return get(suite_id).id


def get(suite_id: str) -> Suite:
    """The suite of an id or alias. Raises SuiteUnknown, which names the nearest id."""
    suite = SUITES.get(suite_id) or _ALIASES.get(suite_id)
    if suite is None:
        raise SuiteUnknown(suite_id, nearest(suite_id))
    return suite


def match(patterns: Iterable[str]) -> list[Suite]:
    """Suites that any of the ids or globs selects, in registry order, each once. Raises SuiteUnknown for a
    pattern that selects nothing, so that a typing error never shrinks a campaign silently."""
    chosen: set[str] = set()
    for pattern in patterns:
        if not any(char in pattern for char in "*?["):
            chosen.add(get(pattern).id)
            continue
        hits = [
            suite.id
            for suite in SUITES.values()
            if any(fnmatch.fnmatchcase(name, pattern) for name in (suite.id, *suite.aliases))
        ]
        if not hits:
            raise SuiteUnknown(pattern, nearest(pattern))
        chosen.update(hits)
    return [suite for suite in SUITES.values() if suite.id in chosen]


def by_wire(code: bytes) -> Suite | None:
    """The suite of a three-byte wire code, or None: an unknown code is the caller's refusal to make."""
    return _BY_WIRE.get(bytes(code))
