"""The registry: 72 suites, level-matched, found by id, alias, glob and wire code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtunnel import suites
from pqtunnel.errors import SuiteUnknown
from tools import python_told


def test_exactly_the_level_matched_72() -> None:
    by_level = {level: sum(suite.level == level for suite in suites.SUITES.values()) for level in (1, 3, 5)}
    assert by_level == {1: 27, 3: 18, 5: 27}
    assert all(suite.kem.level == suite.sig.level for suite in suites.SUITES.values())
    assert len({suite.wire_code for suite in suites.SUITES.values()}) == 72


def test_published_sizes() -> None:
    # primitives-2026-01 §9; Falcon's are maxima here and measured lengths there.
    mceliece = suites.KEMS["classicmceliece8192128"]
    assert (mceliece.public_key_bytes, mceliece.secret_key_bytes, mceliece.ciphertext_bytes) == (
        1357824,
        14120,
        208,
    )
    assert suites.SIGS["sphincs192s"].signature_bytes == 16224
    assert suites.SIGS["falcon512"].signature_bytes >= 659
    assert suites.SIGS["falcon1024"].signature_bytes >= 1277


def test_older_spelling_is_an_alias() -> None:
    assert suites.get("cs-mlkem768-ascon128-mldsa65").id == "cs-mlkem768-ascon128a-mldsa65"
    assert [suite.id for suite in suites.match(["cs-mlkem768-ascon128-mldsa65"])] == [
        "cs-mlkem768-ascon128a-mldsa65"
    ]


def test_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(SuiteUnknown) as caught:
        suites.get("cs-mlkem786-aesgcm-mldsa65")
    assert caught.value.nearest == "cs-mlkem768-aesgcm-mldsa65"
    assert "cs-mlkem768-aesgcm-mldsa65" in caught.value.hint


def test_globs_keep_registry_order_and_refuse_to_match_nothing() -> None:
    assert [suite.id for suite in suites.match(["cs-*"])] == list(suites.SUITES)
    assert len(suites.match(["*-falcon512", "*-falcon512"])) == 9
    with pytest.raises(SuiteUnknown):
        suites.match(["cs-rsa*"])


def test_extras_stand_beside_the_72() -> None:
    assert not set(suites.EXTRA) & set(suites.SUITES) and len(suites.EXTRA) == 97
    assert all(name.startswith("xs-") or name == "plain" for name in suites.EXTRA)
    assert len({suite.wire_code for suite in suites.ALL.values()}) == len(suites.ALL)
    families = {(suite.kem.family, suite.sig.family) for suite in suites.EXTRA.values()}
    assert families >= {("x25519", "ed25519"), ("hybrid", "mldsa"), ("hqc", "slhdsa")}
    assert all((kem == "x25519") == (sig == "ed25519") for kem, sig in families)
    ascon = {(s.kem.token, s.sig.token) for s in suites.EXTRA.values() if s.aead.token == "asconaead128"}
    assert {(s.kem.token, s.sig.token) for s in suites.SUITES.values()} <= ascon
    assert all(suite.kem.level == suite.sig.level for suite in suites.EXTRA.values())


def test_no_glob_takes_extras_unasked() -> None:
    assert {s.id[:3] for s in suites.match(["*-aesgcm-*"])} == {"cs-"}
    assert {s.id[:3] for s in suites.match(["xs-*"])} == {"xs-"} and len(suites.match(["xs-*"])) == 96
    assert len(suites.match(["cs-*", "xs-*", "plain"])) == len(suites.ALL)
    hybrid, mlkem = "xs-x25519mlkem768-aesgcm-mldsa65", "cs-mlkem768-aesgcm-mldsa65"
    assert [s.id for s in suites.match([hybrid, mlkem])] == [mlkem, hybrid]
    for everything in ("*", "**"):
        with pytest.raises(SuiteUnknown) as caught:
            suites.match([everything])
        assert "xs-*" in caught.value.hint and "cs-*" in caught.value.hint


def test_plain_has_no_code_and_no_parts() -> None:
    plain = suites.get("plain")
    assert plain.is_plain and plain.level == 0 and plain.level_label == "none"
    assert suites.by_wire(plain.wire_code) is None and plain.aead.token not in suites.ALL_AEADS
    assert [s.id for s in suites.ALL.values() if s.is_plain] == ["plain"]
    assert suites.get("xs-x25519-aesgcm-ed25519").level_label == "classical"
    assert suites.get("cs-mlkem768-aesgcm-mldsa65").level_label == "3"


def test_hybrids_are_their_parts() -> None:
    for kem in suites.EXTRA_KEMS.values():
        if kem.family == "hybrid":
            inner, curve = suites.KEMS[kem.token.removeprefix("x25519")], suites.EXTRA_KEMS["x25519"]
            assert kem.level == inner.level and kem.x25519_bytes == curve.shared_secret_bytes
            for size in ("public_key_bytes", "secret_key_bytes", "ciphertext_bytes", "shared_secret_bytes"):
                assert getattr(kem, size) == getattr(inner, size) + getattr(curve, size)


@given(st.binary(max_size=5))
def test_wire_codes_resolve_only_to_themselves(code: bytes) -> None:
    found = suites.by_wire(code)
    assert found is None or found.wire_code == code


def test_lifecycle_is_the_weakest_part() -> None:
    assert suites.get("cs-mlkem768-aesgcm-mldsa65").lifecycle == "standard"
    assert suites.get("cs-hqc128-aesgcm-mldsa44").lifecycle == "experimental"
    assert "IND-CCA2" in suites.get("cs-hqc128-aesgcm-mldsa44").notes[0]


def test_registry_imports_nothing_native() -> None:
    native = "{'oqs', 'cryptography', 'pq_ascon', 'ctypes'}"
    code = f"import sys, pqtunnel.suites; print(sorted({native} & set(sys.modules)))"
    child = python_told(code)
    assert (child.returncode, child.stdout.strip()) == (0, "[]")
