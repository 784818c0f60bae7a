"""What this host can speak: every suite is available, or unsupported for a stated reason. Never "failed".

A probe asks whether the providers exist and hold the registry's sizes; whether they compute rightly is the
self-test's question, and a primitive that fails it makes its suites unsupported here.
"""

from __future__ import annotations

from pqtunnel.errors import ProviderMissing
from pqtunnel.kat import failed_primitives
from pqtunnel.primitives import Primitives, load
from pqtunnel.suites import ALL


def probe(
    primitives: Primitives | None = None, selftest_report: dict[str, object] | None = None
) -> dict[str, dict[str, str | None]]:
    """Suite id → {"status": "available" | "unsupported", "reason": None or text}. Raises nothing of its own.

    With the report of `kat.selftest`, suites with a primitive that failed its known answer are unsupported
    too.
    """
    host = primitives if primitives is not None else load()
    failed = failed_primitives(selftest_report) if selftest_report is not None else {}
    reasons: dict[str, str | None] = {}

    def reason_for(kind: str, token: str) -> str | None:
        key = f"{kind}/{token}"
        if key not in reasons:
            reasons[key] = f"{token} fails its known-answer test" if token in failed else None
            try:
                {"kem": host.kem, "sig": host.sig, "aead": host.aead}[kind](token)
            except ProviderMissing as error:
                reasons[key] = str(error)
        return reasons[key]

    result: dict[str, dict[str, str | None]] = {}
    for suite in ALL.values():
        if suite.is_plain:  # needs nothing; whether it is allowed is the scenario's to say
            result[suite.id] = {"status": "available", "reason": None}
            continue
        found = (
            reason_for("kem", suite.kem.token),
            reason_for("sig", suite.sig.token),
            reason_for("aead", suite.aead.token),
        )
        problems = [reason for reason in found if reason is not None]
        result[suite.id] = {
            "status": "unsupported" if problems else "available",
            "reason": "; ".join(dict.fromkeys(problems)) or None,
        }
    return result
