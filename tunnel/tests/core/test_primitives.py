"""Native primitives: round trips, memory-safety checks, quiet loading, the probe and the self-test."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqtunnel import kat
from pqtunnel.errors import KeyMaterialError, PrimitiveFailed, ProviderMissing, SelfTestFailed
from pqtunnel.kat import oqs_kats, symmetric
from pqtunnel.kat.drbg import CtrDrbg, HqcShake, replaced_randomness
from pqtunnel.primitives import Primitives, load, provider_facts
from pqtunnel.primitives.oqs_library import load_oqs
from pqtunnel.probe import probe
from pqtunnel.suites import AEADS, ALL, ALL_AEADS, ALL_KEMS, ALL_SIGS, KEMS, SIGS, SUITES
from tools import python_told

pytestmark = pytest.mark.native
ROOT = os.pathsep.join(sys.path)


@pytest.mark.parametrize("token", ["mlkem512", "mlkem768", "mlkem1024", "hqc128", "classicmceliece348864"])
def test_kem_round_trip_and_lengths(native: Primitives, token: str) -> None:
    kem, spec = native.kem(token), KEMS[token]
    pair = kem.generate()
    ciphertext, secret = kem.encapsulate(pair.public)
    assert kem.decapsulate(pair, ciphertext) == secret and len(secret) == spec.shared_secret_bytes
    assert len(pair.public) == spec.public_key_bytes and len(ciphertext) == spec.ciphertext_bytes
    for broken in (pair.public[:-1], pair.public + b"\0", b""):
        with pytest.raises(PrimitiveFailed):
            kem.encapsulate(broken)
    with pytest.raises(PrimitiveFailed):
        kem.decapsulate(pair, ciphertext[:-1])
    pair.wipe()
    assert not any(pair.secret)


@pytest.mark.parametrize("token", ["mldsa44", "mldsa65", "mldsa87", "falcon512", "falcon1024"])
def test_signatures_verify_and_malformed_ones_do_not(native: Primitives, token: str) -> None:
    sig, spec = native.sig(token), SIGS[token]
    public, secret = sig.generate()
    signature = sig.sign(secret, b"message")
    assert len(signature) <= spec.signature_bytes
    assert sig.verify(public, b"message", signature)
    assert not sig.verify(public, b"other", signature)
    for broken in (b"", signature + bytes(spec.signature_bytes), signature[:-1], bytes(len(signature))):
        assert not sig.verify(public, b"message", broken)
    assert not sig.verify(public[:-1], b"message", signature)
    with pytest.raises(PrimitiveFailed):
        sig.sign(secret[:-1], b"message")


@settings(max_examples=40, deadline=None)
@given(
    key=st.binary(min_size=16, max_size=16),
    nonce=st.binary(min_size=16, max_size=16),
    plaintext=st.binary(max_size=90),
    aad=st.binary(max_size=40),
)
def test_native_ascon_equals_the_pure_python_one(
    key: bytes, nonce: bytes, plaintext: bytes, aad: bytes
) -> None:
    ascon = pytest.importorskip("ascon")
    native_ascon = load().aead("ascon128a").new(key)
    sealed = native_ascon.seal(nonce, plaintext, aad)
    assert sealed == ascon.encrypt(key, nonce, aad, plaintext, variant="Ascon-128a")
    assert native_ascon.open(nonce, sealed, aad) == plaintext


@pytest.mark.parametrize("token", list(AEADS))
def test_aead_refuses_every_change(native: Primitives, token: str) -> None:
    spec, provider = AEADS[token], native.aead(token)
    key = provider.new(bytes(spec.key_bytes))
    nonce = bytes(spec.nonce_bytes)
    sealed = key.seal(nonce, b"plain", b"aad")
    assert len(sealed) == 5 + spec.tag_bytes
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 0x80
        with pytest.raises(key.invalid_tag):
            key.open(nonce, bytes(changed), b"aad")
    for arguments in (
        (nonce, sealed, b"aaD"),
        (nonce[:-1] + b"\1", sealed, b"aad"),
        (nonce, sealed[:10], b"aad"),
    ):
        with pytest.raises(key.invalid_tag):
            key.open(*arguments)
    with pytest.raises(KeyMaterialError):
        provider.new(bytes(spec.key_bytes - 1))


def test_loading_prints_nothing(native: Primitives) -> None:
    child = python_told("from pqtunnel.primitives import load; load().kem('mlkem512').generate()")
    assert (child.returncode, child.stdout, child.stderr) == (0, "", "")


def test_missing_library_fails_clearly_and_clones_nothing(tmp_path: Path) -> None:
    code = (
        "import ctypes.util, subprocess\n"
        "ctypes.util.find_library = lambda name: None\n"
        "subprocess.run = None\n"
        "from pqtunnel.primitives import load\n"
        "from pqtunnel.probe import probe\n"
        "try: load().kem('mlkem512')\n"
        "except Exception as error: print(type(error).__name__, error.code)\n"
        "found = {k: v for k, v in probe().items() if k[:3] == 'cs-'}\n"
        "print({v['status'] for v in found.values()}, found['cs-mlkem512-aesgcm-mldsa44']['reason'])\n"
    )
    child = python_told(code, OQS_INSTALL_PATH=str(tmp_path))
    first, second = child.stdout.splitlines()
    assert first == "ProviderMissing provider_missing"
    assert second.startswith("{'unsupported'} no liboqs shared library found") and str(tmp_path) in second


def test_incomplete_library_is_named(tmp_path: Path) -> None:
    if sys.platform == "win32":
        other: Path | None = Path(os.environ["SYSTEMROOT"], "system32", "version.dll")
        place = tmp_path / "bin" / "oqs.dll"
    else:
        other = next(Path("/lib").rglob("libm.so.6"), None)
        place = tmp_path / "lib" / "liboqs.so"
    if other is None:
        pytest.skip("no library to stand in for an incomplete liboqs")
    place.parent.mkdir()
    place.write_bytes(other.read_bytes())
    code = (
        "import ctypes.util\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from pqtunnel.primitives import load\n"
        "try: load().kem('mlkem512')\n"
        "except Exception as error: print(error)\n"
    )
    child = python_told(code, OQS_INSTALL_PATH=str(tmp_path))
    assert "lacks OQS_SIG_supports_ctx_str" in child.stdout


def test_every_suite_is_available_here(native: Primitives) -> None:
    found = probe(native)
    assert set(found) == set(ALL)
    assert {found[suite_id]["status"] for suite_id in SUITES} == {"available"}
    unsupported = {suite_id for suite_id, entry in found.items() if entry["status"] == "unsupported"}
    assert all("slhdsa" in suite_id for suite_id in unsupported)
    assert all("is not in this build of liboqs" in str(found[suite_id]["reason"]) for suite_id in unsupported)


def test_probe_reports_what_fails_its_known_answer(native: Primitives) -> None:
    report = {"ok": False, "items": [{"name": "kem/hqc128", "ok": False, "detail": "differs"}]}
    found = probe(native, report)
    unsupported = [suite_id for suite_id in SUITES if found[suite_id]["status"] == "unsupported"]
    assert len(unsupported) == 9 and all("hqc128" in suite_id for suite_id in unsupported)
    assert found[unsupported[0]]["reason"] == "hqc128 fails its known-answer test"


def test_selftest_passes_and_leaves_this_process_random(native: Primitives) -> None:
    report = kat.selftest()
    assert report["ok"] is True
    assert kat.selftest(timeout_s=0.0) == report
    names = [item["name"] for item in report["items"]]
    core_items = len(ALL_AEADS) if importlib.util.find_spec("pq_core") else 0
    assert len(names) == len(set(names)) == 3 + len(ALL_AEADS) + len(ALL_KEMS) + len(ALL_SIGS) + core_items
    missing = {item["name"] for item in report["items"] if item["ok"] is None}
    assert missing <= {"sig/slhdsa128s", "sig/slhdsa192s", "sig/slhdsa256s"}
    assert all(item["ok"] is True for item in report["items"] if item["name"] not in missing)
    kem = native.kem("mlkem512")
    assert kem.generate().public != kem.generate().public


def test_selftest_that_cannot_run_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no library there: the interpreter ends with 1
    with pytest.raises(SelfTestFailed, match="status 1"):
        kat.run_selftest()


def test_selftest_that_does_not_end_says_so() -> None:
    with pytest.raises(SelfTestFailed, match="did not end"):
        kat.run_selftest(timeout_s=0.001)


def test_known_answer_tests_reject_mutants(native: Primitives, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneBitOff:
        def __getattr__(self, name: str) -> object:
            return getattr(native.kem("mlkem512"), name)

        def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
            ciphertext, secret = native.kem("mlkem512").encapsulate(public)
            return bytes((ciphertext[0] ^ 1,)) + ciphertext[1:], secret

    class Mutant:
        def kem(self, token: str) -> OneBitOff:
            return OneBitOff()

    with pytest.raises(SelfTestFailed):
        oqs_kats.check_kem(Mutant(), KEMS["mlkem512"])  # type: ignore[arg-type]
    monkeypatch.setattr(oqs_kats, "CtrDrbg", lambda seed: CtrDrbg(bytes(48)))
    with pytest.raises(SelfTestFailed, match="differs"):
        oqs_kats.check_sig(native, SIGS["mldsa44"])
    monkeypatch.setattr(symmetric, "_HMAC_JEFE", "00" * 64)
    with pytest.raises(SelfTestFailed):
        symmetric.check_hmac()


def test_randomness_is_put_back_even_after_an_error(native: Primitives) -> None:
    kem = native.kem("mlkem512")
    with pytest.raises(RuntimeError), replaced_randomness(load_oqs().native(), HqcShake(bytes(48))):
        first = kem.generate().public
        raise RuntimeError
    with replaced_randomness(load_oqs().native(), HqcShake(bytes(48))):
        assert kem.generate().public == first
    assert kem.generate().public != first


def test_drbg_call_sizes_and_seed_length() -> None:
    assert len(CtrDrbg(bytes(48)).read(33)) == 33
    assert CtrDrbg(bytes(48)).read(16) == CtrDrbg(bytes(48)).read(32)[:16]
    with pytest.raises(ValueError, match="48"):
        CtrDrbg(bytes(47))
    stream = HqcShake(bytes(48))
    assert stream.read(10) + stream.read(10) == HqcShake(bytes(48)).read(20)


def test_provider_facts_name_builds_by_content(native: Primitives) -> None:
    facts = provider_facts()
    for name in ("liboqs", "ascon_native"):
        assert len(facts[name]["sha256"]) == 64 and facts[name]["version"]
    core = facts["core"]
    assert core["reason"] if core["version"] is None else len(core["sha256"]) == 64
    assert len(facts["pqtunnel"]["tree_sha256"]) == 64
    assert Path(facts["liboqs"]["path"]).name.startswith(("liboqs", "oqs"))


def test_unknown_algorithm_of_a_build_is_provider_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import oqs

    from pqtunnel.primitives.oqs_provider import OqsKem, OqsSig

    monkeypatch.setattr(oqs, "get_enabled_kem_mechanisms", lambda: ())
    monkeypatch.setattr(oqs, "get_enabled_sig_mechanisms", lambda: ())
    with pytest.raises(ProviderMissing, match="not in this build"):
        OqsKem(KEMS["hqc128"])
    with pytest.raises(ProviderMissing, match="not in this build"):
        OqsSig(SIGS["sphincs128s"])
