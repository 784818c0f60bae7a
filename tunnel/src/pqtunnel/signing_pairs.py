"""Long-term signing key pairs of one owner, proved before they are trusted, and files that are written whole.

In scope: one folder of pairs. Not in scope: whose they are and who trusts them (`pqtunnel.keys`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pqtunnel.errors import KeyMaterialError, ProviderMissing, TunnelError
from pqtunnel.primitives import Primitives
from pqtunnel.suites import ALL_SIGS, EXTRA_SIGS

_PROOF: Final = b"pqtunnel provisioning self-test"


@dataclass
class Provisioned:
    """What a run made and what it kept, as names relative to the key folder; `others`: ids of the drones that
    the GCS knows beside this folder's. `next_key_id` is empty outside a rotation."""

    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    gcs_key_id: str = ""
    next_key_id: str = ""


def signing_pairs(
    folder: Path,
    name: str,
    known: Mapping[str, bytes],
    primitives: Primitives,
    report: Provisioned,
    progress: Callable[[str], None],
) -> dict[str, bytes]:
    """Public keys by SIG token: one proved pair for each signature scheme of the 72, and for each extra one
    that this host's libraries hold. Pairs of `known` whose secret in `folder` still proves are kept. Raises
    KeyMaterialError, ProviderMissing."""
    public: dict[str, bytes] = {}
    for token, scheme in ALL_SIGS.items():
        try:
            primitives.sig(token)
        except ProviderMissing:
            if token in EXTRA_SIGS:
                continue  # `pqtunnel suites --probe` tells why; a lab without it is whole
            raise
        progress(scheme.name)
        path = folder / f"{token}.secret"
        if token in known and path.is_file() and _proves(primitives, token, known[token], path.read_bytes()):
            public[token] = known[token]
            report.kept.append(f"{name}/{token}")
            continue
        public_key, secret_key = primitives.sig(token).generate()
        if not _proves(primitives, token, public_key, bytes(secret_key)):
            raise KeyMaterialError(
                f"a fresh {scheme.name} key pair does not verify its own signature",
                code="selftest_failed",
                hint="the library is broken on this host: `./pqtunnel selftest`",
            )
        write_private(path, bytes(secret_key))
        public[token] = bytes(public_key)
        report.made.append(f"{name}/{token}")
    return public


def _proves(primitives: Primitives, token: str, public_key: bytes, secret_key: bytes) -> bool:
    """Does this pair belong together? Signs and verifies, and a changed message must not verify."""
    provider = primitives.sig(token)
    try:
        signature = provider.sign(secret_key, _PROOF)
        return provider.verify(public_key, _PROOF, signature) and not provider.verify(
            public_key, _PROOF + b".", signature
        )
    except TunnelError:
        return False


def document_of(value: Mapping[str, object]) -> bytes:
    """The bytes of a public identity's file."""
    return json.dumps(value, indent=1).encode() + b"\n"


def write_changed(path: Path, data: bytes) -> bool:
    """Write unless the file holds just this; True when it was written."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_private(path, data)
    return True


def write_private(path: Path, data: bytes) -> None:
    """Replace a file by one of mode 0600, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
