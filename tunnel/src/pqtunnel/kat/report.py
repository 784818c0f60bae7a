"""Running the tests one after another and turning their outcomes into a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pqbase.documents import Json
from pqtunnel.errors import PrimitiveFailed, ProviderMissing, SelfTestFailed
from pqtunnel.kat import curves, oqs_kats, symmetric
from pqtunnel.primitives import load
from pqtunnel.suites import ALL_AEADS, ALL_SIGS, EXTRA_KEMS, KEMS


def _tests() -> Iterator[tuple[str, Callable[[], str]]]:
    primitives = load()
    yield "hash/sha512", symmetric.check_sha512
    yield "kdf/hmac-sha512", symmetric.check_hmac
    yield "kdf/keyschedule", symmetric.check_key_schedule
    for token in ALL_AEADS:
        yield f"aead/{token}", lambda token=token: symmetric.check_aead(primitives, token)  # type: ignore[misc]
    for token in ALL_AEADS:
        yield f"core/{token}", lambda token=token: symmetric.check_core(primitives, token)  # type: ignore[misc]
    for kem in KEMS.values():
        yield f"kem/{kem.token}", lambda kem=kem: oqs_kats.check_kem(primitives, kem)  # type: ignore[misc]
    yield "kem/x25519", lambda: curves.check_x25519(primitives)
    for kem in EXTRA_KEMS.values():
        if kem.family == "hybrid":
            yield f"kem/{kem.token}", lambda kem=kem: curves.check_hybrid(primitives, kem)  # type: ignore[misc]
    for sig in ALL_SIGS.values():
        check = curves.check_ed25519 if sig.family == "ed25519" else oqs_kats.check_sig
        yield f"sig/{sig.token}", lambda sig=sig, check=check: check(primitives, sig)  # type: ignore[misc]


def _outcome(name: str, test: Callable[[], str]) -> Json:
    start_ns = time.perf_counter_ns()
    try:
        detail, ok = test(), True
    except ProviderMissing as error:
        return {"name": name, "ok": None, "detail": f"unsupported: {error}"}
    except (SelfTestFailed, PrimitiveFailed) as error:
        detail, ok = str(error), False
    duration_ms = (time.perf_counter_ns() - start_ns) / 1e6
    return {"name": name, "ok": ok, "detail": f"{detail} ({duration_ms:.1f} ms)"}


def run_all() -> Json:
    """The report. To be called in a process that carries no traffic (see the package's docstring)."""
    items = [_outcome(name, test) for name, test in _tests()]
    return {"ok": all(item["ok"] is not False for item in items), "items": items}
