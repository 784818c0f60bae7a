"""Provisioning: makes and keeps every long-term key of a lab, one folder a role.

    ca/          ca.cert.pem  ca.key.pem
    controller/  ca.cert.pem  tls.cert.pem  tls.key.pem
    drone/       … and drone_id.hex  psk.secret  gcs.identity.json  pins.json  sig/<token>.secret
    gcs/         … and gcs.identity.json  sig/<token>.secret  psk/<drone id>.secret  drones/<drone id>.json
    next/        gcs.identity.json  sig/<token>.secret: the GCS's next identity, during a rotation
    complete     there only while the whole set is: a run takes it away first and writes it last

Running it again keeps what is valid and makes what is missing, of a run that was killed too. Every signing
key pair is proved by a signature before it is trusted. Folders are 0700, files 0600. The control plane's CA
is classical (ECDSA P-256, RFC 5480): it gates who may command a measurement, not the secrecy of the tunnel.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pqtunnel.endpoint.identity_files import (
    DRONE_ID_FILE,
    DRONES_FOLDER,
    IDENTITY_FILE,
    MAX_PINS,
    NEXT_IDENTITY_FILE,
    PINS_FILE,
    PSK_FILE,
    load_drone,
    load_gcs,
)
from pqtunnel.errors import KeyMaterialError, key_owner_hint
from pqtunnel.handshake.identity import DronePublicIdentity, GcsPublicIdentity
from pqtunnel.pki import Authority, certificate_is_good
from pqtunnel.primitives import Primitives
from pqtunnel.signing_pairs import (
    Provisioned,
    document_of,
    signing_pairs,
    write_changed,
    write_private,
)
from pqtunnel.wire import DRONE_ID_BYTES, PSK_BYTES

ROLES: Final = ("controller", "drone", "gcs")
NEXT_FOLDER: Final = "next"
COMPLETE_FILE: Final = "complete"


def provision(
    root: Path,
    primitives: Primitives,
    *,
    force: bool = False,
    second_pin: bool = False,
    rotate: bool = False,
    owner: tuple[int, int] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Provisioned:
    """Make or complete the keys under `root`.

    `force` replaces everything. `second_pin` makes the GCS's next identity too and pins it at the drone
    beside the present one; `rotate` then puts it in the present one's place. `owner` (uid, gid) is given to
    all files, for containers that run as another user. Raises KeyMaterialError when a key pair fails its
    self-test or the folder cannot be written.
    """
    report = Provisioned()
    try:
        (root / COMPLETE_FILE).unlink(missing_ok=True)
        if force:
            for name in ("ca", *ROLES, NEXT_FOLDER):
                if (root / name).is_dir():
                    shutil.rmtree(root / name)
        for folder in (root, *(root / name for name in ("ca", *ROLES))):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        authority = _authority(root, report)
        for role in ROLES:
            _tls(root, role, authority, report)
        progress("signing keys")
        if rotate:
            _rotate(root)
        identities = [_gcs_identity(root / "gcs", "gcs", primitives, report, progress)]
        if second_pin or (root / NEXT_FOLDER).is_dir():
            identities.append(_gcs_identity(root / NEXT_FOLDER, NEXT_FOLDER, primitives, report, progress))
        _psk(root, report)
        _drone_signing_keys(root, primitives, report, progress)
        _pins(root, report, identities)
        _check(root)
        if owner is not None:
            _give_to(root, owner)
        write_private(root / COMPLETE_FILE, b"every key of this folder was made and read back\n")
        if owner is not None:
            _chown(root / COMPLETE_FILE, owner)
    except PermissionError as error:
        raise KeyMaterialError(
            f"{error.filename or root}: {error.strerror or error}",
            code="keys_not_written",
            hint=f"{key_owner_hint()}, or choose a folder you may write with --out",
        ) from error
    except OSError as error:
        raise KeyMaterialError(
            f"{error.filename or root}: {error.strerror or error}",
            code="keys_not_written",
            hint="choose a folder you may write with --out, or free space",
        ) from error
    report.gcs_key_id = identities[0].key_id.hex()
    report.next_key_id = identities[1].key_id.hex() if len(identities) > 1 else ""
    return report


def _authority(root: Path, report: Provisioned) -> Authority:
    cert, key = root / "ca" / "ca.cert.pem", root / "ca" / "ca.key.pem"
    if cert.is_file() and key.is_file():
        authority = Authority.from_pem(cert.read_bytes(), key.read_bytes())
        if authority is not None:
            report.kept.append("ca")
            return authority
    authority = Authority.new()
    write_private(key, authority.key_pem())
    write_private(cert, authority.cert_pem())
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
        write_private(key, key_pem)
        write_private(cert, cert_pem)
        report.made.append(f"{role}/tls")
    if not ca.is_file() or ca.read_bytes() != authority.cert_pem():
        write_private(ca, authority.cert_pem())


def _gcs_identity(
    folder: Path, name: str, primitives: Primitives, report: Provisioned, progress: Callable[[str], None]
) -> GcsPublicIdentity:
    """The GCS identity of a folder and the document of it; pairs that still prove are kept."""
    file = folder / IDENTITY_FILE
    known: dict[str, bytes] = {}
    if file.is_file():
        try:
            known = dict(GcsPublicIdentity.from_json(json.loads(file.read_bytes())).keys)
        except (ValueError, KeyMaterialError):
            known = {}  # unreadable: every pair is made anew and reported as made
    public = signing_pairs(folder / "sig", f"{name}/sig", known, primitives, report, progress)
    identity = GcsPublicIdentity(public)
    write_changed(file, document_of(identity.to_json()))
    return identity


def _drone_signing_keys(
    root: Path, primitives: Primitives, report: Provisioned, progress: Callable[[str], None]
) -> None:
    """The drone's own signing pairs, and their registration at the GCS under the drone's key id."""
    drone_id = bytes.fromhex((root / "drone" / DRONE_ID_FILE).read_text(encoding="ascii").strip())
    registered = root / "gcs" / DRONES_FOLDER / f"{drone_id.hex()}.json"
    known: dict[str, bytes] = {}
    if registered.is_file():
        try:
            known = dict(DronePublicIdentity.from_json(json.loads(registered.read_bytes())).keys)
        except (ValueError, KeyMaterialError):
            known = {}
    public = signing_pairs(root / "drone" / "sig", "drone/sig", known, primitives, report, progress)
    write_changed(registered, document_of(DronePublicIdentity(drone_id, public).to_json()))


def _psk(root: Path, report: Provisioned) -> None:
    id_file, psk_file = root / "drone" / DRONE_ID_FILE, root / "drone" / PSK_FILE
    drone_id, psk = "", b""
    if id_file.is_file() and psk_file.is_file():
        drone_id, psk = id_file.read_text(encoding="ascii").strip(), psk_file.read_bytes()
    if len(drone_id) != 2 * DRONE_ID_BYTES or len(psk) != PSK_BYTES:
        _forget(root, drone_id)
        drone_id, psk = secrets.token_hex(DRONE_ID_BYTES), secrets.token_bytes(PSK_BYTES)
        write_private(id_file, drone_id.encode() + b"\n")
        write_private(psk_file, psk)
        report.made.append("drone/psk")
    else:
        report.kept.append("drone/psk")
    shared = root / "gcs" / "psk" / f"{drone_id}.secret"
    if not shared.is_file() or shared.read_bytes() != psk:
        write_private(shared, psk)
    report.others = [known for known in _known_drones(root) if known != drone_id]


def _known_drones(root: Path) -> list[str]:
    """Ids, hex, of the drones whose PSK the GCS has."""
    return sorted(path.stem for path in (root / "gcs" / "psk").glob("*.secret"))


def _forget(root: Path, drone_id: str) -> None:
    """At the GCS, the PSK and the signing keys of one drone; an empty id is nobody's."""
    if drone_id:
        (root / "gcs" / "psk" / f"{drone_id}.secret").unlink(missing_ok=True)
        (root / "gcs" / DRONES_FOLDER / f"{drone_id}.json").unlink(missing_ok=True)


def revoke(root: Path, drone_id: str) -> None:
    """Take one drone's PSK and signing keys from the GCS. Raises KeyMaterialError for one that it does not
    know and for this folder's own, which the next run would register again."""
    known = _known_drones(root)
    if drone_id not in known:
        raise KeyMaterialError(
            f"the GCS of {root} knows no drone {drone_id}", hint=f"it knows {', '.join(known) or 'none'}"
        )
    own = root / "drone" / DRONE_ID_FILE
    if own.is_file() and own.read_text(encoding="ascii").strip() == drone_id:
        raise KeyMaterialError(
            f"drone {drone_id} is the one of {root / 'drone'}",
            hint="./pqtunnel keys --force makes all keys anew; without that folder the drone may be revoked",
        )
    _forget(root, drone_id)


def _pins(root: Path, report: Provisioned, identities: Sequence[GcsPublicIdentity]) -> None:
    """At the drone: the identities it is to trust, the present one first, and their pins."""
    folder = root / "drone"
    names = (IDENTITY_FILE, NEXT_IDENTITY_FILE)
    for name, identity in zip(names, identities, strict=False):
        write_changed(folder / name, document_of(identity.to_json()))
    if len(identities) < MAX_PINS:
        (folder / NEXT_IDENTITY_FILE).unlink(missing_ok=True)
    pins = json.dumps([identity.key_id.hex() for identity in identities]).encode() + b"\n"
    changed = write_changed(folder / PINS_FILE, pins)
    (report.made if changed else report.kept).append("drone/pins")


def _rotate(root: Path) -> None:
    """The next GCS identity takes the present one's place; the present one's secrets are removed."""
    following, present = root / NEXT_FOLDER, root / "gcs"
    if not (following / IDENTITY_FILE).is_file():
        raise KeyMaterialError(
            "there is no next identity to rotate to",
            code="no_next_identity",
            hint="./pqtunnel keys --second-pin, deploy the drone's folder, then --rotate",
        )
    shutil.rmtree(present / "sig")
    (following / "sig").rename(present / "sig")
    (following / IDENTITY_FILE).replace(present / IDENTITY_FILE)
    shutil.rmtree(following)


def _check(root: Path) -> None:
    """Make everything private, and read it back the way the endpoints will."""
    for path in root.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    load_gcs(root / "gcs")
    load_drone(root / "drone")


def _give_to(root: Path, owner: tuple[int, int]) -> None:
    for path in (root, *root.rglob("*")):
        _chown(path, owner)


def _chown(path: Path, owner: tuple[int, int]) -> None:
    if sys.platform == "win32":
        raise KeyMaterialError(
            "--owner gives files to a UID:GID, which Windows does not have",
            hint="leave --owner out and run as the user who shall own the keys",
        )
    os.chown(path, *owner)
