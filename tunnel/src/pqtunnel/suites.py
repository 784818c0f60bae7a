"""Cipher suites: which algorithms of the registry go together, and how one is found.

S = {(KEM, SIG, AEAD) : level(KEM) = level(SIG)}: 9 KEMs × 8 SIGs × 3 AEADs give exactly 72 suites
(level 1: 27, level 3: 18, level 5: 27). Ids read `cs-{kem}-{aead}-{sig}`, tokens as in `pqc-mav-2026-02`.

`EXTRA` stands beside them, ids `xs-{kem}-{aead}-{sig}`: a classical baseline, hybrids, SLH-DSA,
Ascon-AEAD128; and `plain`, which is no tunnel at all and is never negotiated.

Not in scope: whether a suite works on this host (`probe`), and calling a primitive (`primitives`).
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pqtunnel.errors import SuiteUnknown
from pqtunnel.registry import (
    AEADS,
    ALL_AEADS,
    ALL_KEMS,
    ALL_SIGS,
    EXTRA_AEADS,
    EXTRA_KEMS,
    EXTRA_SIGS,
    KEM_FAMILIES,
    KEMS,
    NO_KEM,
    NO_SIG,
    NULL_AEAD,
    SIG_FAMILIES,
    SIGS,
    Aead,
    Kem,
    Lifecycle,
    Sig,
)

__all__ = [
    "AEADS", "ALL", "ALL_AEADS", "ALL_KEMS", "ALL_SIGS", "EXTRA", "EXTRA_AEADS", "EXTRA_KEMS", "EXTRA_SIGS",
    "KEMS", "KEM_FAMILIES", "PLAIN", "SIGS", "SIG_FAMILIES", "SUITES", "Aead", "Kem", "Lifecycle", "Sig",
    "Suite", "by_wire", "canonical", "get", "match", "nearest",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suite:
    """One KEM × AEAD × SIG at one NIST level; or `plain`, which has none of the three and level 0."""

    id: str
    kem: Kem
    sig: Sig
    aead: Aead
    aliases: tuple[str, ...]

    @property
    def level(self) -> int:
        """NIST level that KEM and SIG share: 1, 3 or 5; 0 for `plain`."""
        return self.kem.level

    @property
    def level_label(self) -> str:
        """What a table prints for the level: the classical baseline has no NIST level of its own."""
        if self.is_plain:
            return "none"
        return "classical" if self.kem.family == "x25519" else str(self.level)

    @property
    def is_plain(self) -> bool:
        """No handshake, no keys, no tag: both ends need it from their scenario."""
        return self.aead is NULL_AEAD

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


def _suite(prefix: str, kem: Kem, aead: Aead, sig: Sig) -> Suite:
    name = f"{prefix}-{kem.token}-{{}}-{sig.token}"
    return Suite(name.format(aead.token), kem, sig, aead, tuple(name.format(alias) for alias in aead.aliases))


def _matrix() -> dict[str, Suite]:
    made = [
        _suite("cs", kem, aead, sig)
        for level in (1, 3, 5)
        for kem in KEMS.values()
        for sig in SIGS.values()
        if kem.level == sig.level == level
        for aead in AEADS.values()
    ]
    return {suite.id: suite for suite in made}


def _extra_pairs() -> Iterator[tuple[Kem, Sig]]:
    """KEM × SIG outside the 72's: X25519 with Ed25519 and nothing else, hybrids with the 72's signatures, the
    72's KEMs with SLH-DSA; levels match everywhere."""
    yield EXTRA_KEMS["x25519"], EXTRA_SIGS["ed25519"]
    for kem in (*EXTRA_KEMS.values(), *KEMS.values()):
        partners = {"x25519": (), "hybrid": tuple(SIGS.values())}.get(
            kem.family, tuple(sig for sig in EXTRA_SIGS.values() if sig.family == "slhdsa")
        )
        yield from ((kem, sig) for sig in partners if sig.level == kem.level)


def _extra() -> dict[str, Suite]:
    further = [
        _suite("xs", suite.kem, aead, suite.sig)
        for suite in SUITES.values()
        if suite.aead is AEADS["aesgcm"]
        for aead in EXTRA_AEADS.values()
    ]
    other = [_suite("xs", kem, aead, sig) for kem, sig in _extra_pairs() for aead in ALL_AEADS.values()]
    return {suite.id: suite for suite in (PLAIN, *further, *other)}


SUITES: Final = MappingProxyType(_matrix())
"""The 72."""
PLAIN: Final = Suite("plain", NO_KEM, NO_SIG, NULL_AEAD, ())
EXTRA: Final = MappingProxyType(_extra())
"""What stands beside the 72; `plain` is the first."""
ALL: Final = MappingProxyType({**SUITES, **EXTRA})
_ALIASES: Final = {alias: suite for suite in ALL.values() for alias in suite.aliases}
_BY_WIRE: Final = {suite.wire_code: suite for suite in ALL.values() if not suite.is_plain}


def nearest(suite_id: str) -> str | None:
    """The known id closest to `suite_id`, or None when nothing is close."""
    found = difflib.get_close_matches(suite_id.lower(), [*ALL, *_ALIASES], n=1, cutoff=0.5)
    return canonical(found[0]) if found else None


def canonical(suite_id: str) -> str:
    """The id under which results are filed; aliases such as `ascon128` resolve. Raises SuiteUnknown."""
    return get(suite_id).id


def get(suite_id: str) -> Suite:
    """The suite of an id or alias. Raises SuiteUnknown, which names the nearest id."""
    suite = ALL.get(suite_id) or _ALIASES.get(suite_id)
    if suite is None:
        raise SuiteUnknown(suite_id, nearest(suite_id))
    return suite


def match(patterns: Iterable[str]) -> list[Suite]:
    """Suites that any of the ids or globs selects, in registry order, each once.

    A glob that begins with a wildcard selects among the 72 alone; the extras want their prefix (`xs-*`), so
    that no campaign grows by them unasked, and `*` by itself is refused for the same reason. Raises
    SuiteUnknown for a pattern that selects nothing, so that a typing error never shrinks one silently.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        if not any(char in pattern for char in "*?["):
            chosen.add(get(pattern).id)
            continue
        if not pattern.strip("*"):
            hint = "Say cs-* for the 72 suites, xs-* for the extras, or both."
            raise SuiteUnknown(pattern, None, hint)
        among = SUITES if pattern[0] in "*?[" else ALL
        hits = [
            suite.id
            for suite in among.values()
            if any(fnmatch.fnmatchcase(name, pattern) for name in (suite.id, *suite.aliases))
        ]
        if not hits:
            raise SuiteUnknown(pattern, nearest(pattern))
        chosen.update(hits)
    return [suite for suite in ALL.values() if suite.id in chosen]


def by_wire(code: bytes) -> Suite | None:
    """The suite of a three-byte wire code, or None: an unknown code is the caller's refusal to make.
    `plain` has no code."""
    return _BY_WIRE.get(bytes(code))
