"""Provisioning: makes and keeps every long-term key of a lab, one folder a role.

    ca/          ca.cert.pem  ca.key.pem
    controller/  ca.cert.pem  tls.cert.pem  tls.key.pem
    drone/       … and drone_id.hex  psk.secret  gcs.identity.json  pins.json
    gcs/         … and gcs.identity.json  sig/<token>.secret  psk/<drone id, hex>.secret

Running it again keeps what is valid and makes what is missing. Every signing key pair is proved by a
signature before it is trusted. Folders are 0700, files 0600. The control plane's CA is classical (ECDSA
P-256, RFC 5480): it gates who may command a measurement, not the secrecy of the tunnel.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pqtunnel.endpoint.identity_files import (
    DRONE_ID_FILE,
    IDENTITY_FILE,
    PINS_FILE,
    PSK_FILE,
    load_drone,
    load_gcs,
)
from pqtunnel.errors import KeyMaterialError, ProviderMissing, TunnelError
from pqtunnel.handshake.identity import GcsPublicIdentity
from pqtunnel.keyschedule import PSK_BYTES
from pqtunnel.pki import Authority, certificate_is_good
from pqtunnel.primitives import Primitives
from pqtunnel.suites import ALL_SIGS, EXTRA_SIGS
from pqtunnel.wire import DRONE_ID_BYTES

ROLES: Final = ("controller", "drone", "gcs")
_PROOF: Final = b"pqtunnel provisioning self-test"


@dataclass
class Provisioned:
    """What a run made and what it kept, as names relative to the key folder."""

    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    gcs_key_id: str = ""


def provision(
    root: Path,
    primitives: Primitives,
    *,
    force: bool = False,
    owner: tuple[int, int] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Provisioned:
    """Make or complete the keys under `root`.

    `force` replaces everything. `owner` (uid, gid) is given to all files, for containers that run as
    another user. Raises KeyMaterialError when a key pair fails its self-test or the folder cannot be written.
    """
    report = Provisioned()
    try:
        if force:
            for name in ("ca", *ROLES):
                if (root / name).is_dir():
                    shutil.rmtree(root / name)
        for folder in (root, *(root / name for name in ("ca", *ROLES))):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        authority = _authority(root, report)
        for role in ROLES:
            _tls(root, role, authority, report)
        progress("signing keys")
        identity = _signing_keys(root, primitives, report, progress)
        _psk(root, report)
        _pins(root, identity, report)
        _check(root)
        if owner is not None:
            _give_to(root, owner)
    except OSError as error:
        raise KeyMaterialError(
            f"{error.filename or root}: {error.strerror or error}", code="keys_not_written",
            hint="choose a folder you may write with --out, or free space",
        ) from error  # fmt: skip
    report.gcs_key_id = identity.key_id.hex()
    return report


def _write(path: Path, data: bytes) -> None:
    """Replace a file by one of mode 0600, whole or not at all."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _authority(root: Path, report: Provisioned) -> Authority:
    cert, key = root / "ca" / "ca.cert.pem", root / "ca" / "ca.key.pem"
    if cert.is_file() and key.is_file():
        authority = Authority.from_pem(cert.read_bytes(), key.read_bytes())
        if authority is not None:
            report.kept.append("ca")
            return authority
    authority = Authority.new()
    _write(key, authority.key_pem())
    _write(cert, authority.cert_pem())
    report.made.append("ca")
    return authority


def _tls(root: Path, role: str, authority: Authority, report: Provisioned) -> None:
    folder = root / role
    ca, cert, key = folder / "ca.cert.pem", folder / "tls.cert.pem", folder / "tls.key.pem"
    if (
        cert.is_file()
        and key.is_file()
        and certificate_is_good(cert.read_bytes(), key.read_bytes(), authority, role)
    ):
        report.kept.append(f"{role}/tls")
    else:
        cert_pem, key_pem = authority.issue(role)
        _write(key, key_pem)
        _write(cert, cert_pem)
        report.made.append(f"{role}/tls")
    if not ca.is_file() or ca.read_bytes() != authority.cert_pem():
        _write(ca, authority.cert_pem())


def _signing_keys(
    root: Path, primitives: Primitives, report: Provisioned, progress: Callable[[str], None]
) -> GcsPublicIdentity:
    """The GCS identity: one proved key pair for each signature scheme of the 72, and for each extra one that
    this host's libraries hold; existing pairs that still prove are kept."""
    known: dict[str, bytes] = {}
    file = root / "gcs" / IDENTITY_FILE
    if file.is_file():
        try:
            known = dict(GcsPublicIdentity.from_json(json.loads(file.read_bytes())).keys)
        except (ValueError, KeyMaterialError):
            known = {}  # unreadable: every pair below is made anew and reported as made
    public: dict[str, bytes] = {}
    for token, scheme in ALL_SIGS.items():
        try:
            primitives.sig(token)
        except ProviderMissing:
            if token in EXTRA_SIGS:
                continue  # `pqtunnel suites --probe` tells why; a lab without it is whole
            raise
        progress(scheme.name)
        path = root / "gcs" / "sig" / f"{token}.secret"
        if token in known and path.is_file() and _proves(primitives, token, known[token], path.read_bytes()):
            public[token] = known[token]
            report.kept.append(f"gcs/sig/{token}")
            continue
        public_key, secret_key = primitives.sig(token).generate()
        if not _proves(primitives, token, public_key, bytes(secret_key)):
            raise KeyMaterialError(
                f"a fresh {scheme.name} key pair does not verify its own signature",
                code="selftest_failed", hint="the library is broken on this host: `./pqtunnel selftest`",
            )  # fmt: skip
        _write(path, bytes(secret_key))
        public[token] = bytes(public_key)
        report.made.append(f"gcs/sig/{token}")
    identity = GcsPublicIdentity(public)
    document = json.dumps(identity.to_json(), indent=1).encode() + b"\n"
    if not file.is_file() or file.read_bytes() != document:
        _write(file, document)
    return identity


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


def _psk(root: Path, report: Provisioned) -> None:
    id_file, psk_file = root / "drone" / DRONE_ID_FILE, root / "drone" / PSK_FILE
    drone_id, psk = "", b""
    if id_file.is_file() and psk_file.is_file():
        drone_id, psk = id_file.read_text().strip(), psk_file.read_bytes()
    if len(drone_id) != 2 * DRONE_ID_BYTES or len(psk) != PSK_BYTES:
        drone_id, psk = secrets.token_hex(DRONE_ID_BYTES), secrets.token_bytes(PSK_BYTES)
        _write(id_file, drone_id.encode() + b"\n")
        _write(psk_file, psk)
        report.made.append("drone/psk")
    else:
        report.kept.append("drone/psk")
    shared = root / "gcs" / "psk" / f"{drone_id}.secret"
    if not shared.is_file() or shared.read_bytes() != psk:
        for stale in (root / "gcs" / "psk").glob("*.secret"):
            stale.unlink()
        _write(shared, psk)


def _pins(root: Path, identity: GcsPublicIdentity, report: Provisioned) -> None:
    folder = root / "drone"
    document = (root / "gcs" / IDENTITY_FILE).read_bytes()
    if not (folder / IDENTITY_FILE).is_file() or (folder / IDENTITY_FILE).read_bytes() != document:
        _write(folder / IDENTITY_FILE, document)
    pins = json.dumps([identity.key_id.hex()]).encode() + b"\n"
    if not (folder / PINS_FILE).is_file() or identity.key_id.hex() not in (folder / PINS_FILE).read_text():
        _write(folder / PINS_FILE, pins)
        report.made.append("drone/pins")
    else:
        report.kept.append("drone/pins")


def _check(root: Path) -> None:
    """Read everything back the way the endpoints will."""
    load_gcs(root / "gcs")
    load_drone(root / "drone")
    for path in root.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _give_to(root: Path, owner: tuple[int, int]) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, *owner)
