"""Reading a role's long-term keys from its folder; the writer is `pqtunnel.keys`.

    drone/  drone_id.hex  psk.secret  gcs.identity.json  pins.json  sig/<token>.secret
            and during a rotation next.identity.json
    gcs/    gcs.identity.json  sig/<token>.secret  psk/<drone id, hex>.secret  drones/<drone id, hex>.json

Every secret of the tunnel is a file of raw bytes named `*.secret`, so that it can be searched for as bytes.
It is looked at here and not read: the tunnel reads it into memory that it erases.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pqtunnel.errors import KeyMaterialError, key_owner_hint
from pqtunnel.handshake.identity import (
    DronePsk,
    DronePublicIdentity,
    GcsIdentity,
    GcsPublicIdentity,
    Secret,
    SecretFile,
)
from pqtunnel.suites import ALL_SIGS

IDENTITY_FILE: Final = "gcs.identity.json"
NEXT_IDENTITY_FILE: Final = "next.identity.json"
PINS_FILE: Final = "pins.json"
DRONE_ID_FILE: Final = "drone_id.hex"
PSK_FILE: Final = "psk.secret"
DRONES_FOLDER: Final = "drones"
_OTHERS: Final = 0o077
MAX_PINS: Final = 2
"""The present GCS identity and the next one, so that a rotation needs no moment of distrust."""


@dataclass(frozen=True)
class DroneKeys:
    """What a drone holds: its PSK, the GCS identities it trusts, and its own signing keys by SIG token."""

    psk: DronePsk
    trusted: Sequence[GcsPublicIdentity]
    signing: Mapping[str, Secret] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class GcsKeys:
    """What a gcs holds: its signing keys, and the PSKs and public signing keys of its drones."""

    identity: GcsIdentity
    psks: Sequence[DronePsk]
    drones: Mapping[bytes, DronePublicIdentity] = field(default_factory=dict)

    def drone_keys(self, drone_id: bytes) -> Mapping[str, bytes]:
        """A drone's registered public keys by SIG token; empty for a drone that has none."""
        drone = self.drones.get(drone_id)
        return drone.keys if drone is not None else {}


def load_drone(folder: Path) -> DroneKeys:
    """Raises KeyMaterialError naming the file and the next command."""
    try:
        drone_id = bytes.fromhex(_bytes(folder / DRONE_ID_FILE).decode("ascii").strip())
    except ValueError as error:
        raise KeyMaterialError(f"{folder / DRONE_ID_FILE} is not hexadecimal") from error
    psk = DronePsk(drone_id, _secret(folder / PSK_FILE))
    pins = _json(folder / PINS_FILE)
    if not isinstance(pins, list) or not 1 <= len(pins) <= MAX_PINS:
        raise KeyMaterialError(f"{folder / PINS_FILE} must list one or two key ids")
    trusted = []
    for path in _files(folder, ".identity.json"):
        identity = GcsPublicIdentity.from_json(_json(path))
        if identity.key_id.hex() in pins:
            trusted.append(identity)
    if not trusted:
        raise KeyMaterialError(
            f"no GCS identity in {folder} fits a pin in {PINS_FILE}",
            hint="run `make keys` and restart the lab",
        )
    signing = {path.stem: _secret(path) for path in _files(folder / "sig", ".secret")}
    for token, key in signing.items():
        scheme = ALL_SIGS.get(token)
        if scheme is None or len(key) != scheme.secret_key_bytes:
            raise KeyMaterialError(f"{folder / 'sig' / token}.secret is no signing key of the registry")
    return DroneKeys(psk, trusted, signing)


def load_gcs(folder: Path) -> GcsKeys:
    """Raises KeyMaterialError naming the file and the next command."""
    public = GcsPublicIdentity.from_json(_json(folder / IDENTITY_FILE))
    secrets = {token: _secret(folder / "sig" / f"{token}.secret") for token in public.keys}
    psks = [DronePsk(bytes.fromhex(path.stem), _secret(path)) for path in _files(folder / "psk", ".secret")]
    if not psks:
        raise KeyMaterialError(f"{folder / 'psk'} holds no drone's PSK", hint="run `make keys`")
    registered = [
        DronePublicIdentity.from_json(_json(path)) for path in _files(folder / DRONES_FOLDER, ".json")
    ]
    return GcsKeys(GcsIdentity(public, secrets), psks, {drone.drone_id: drone for drone in registered})


def _files(folder: Path, ending: str) -> list[Path]:
    """Sorted; none where there is no folder. One that may not be listed is an error, not an empty one."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(ending))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _secret(path: Path) -> SecretFile:
    """Where a secret lies, once it is known that this process may read it, and nobody else."""
    try:
        with path.open("rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    mode = stat.S_IMODE(facts.st_mode)
    if os.name == "posix" and mode & _OTHERS:  # Windows' access lists are its folder's, and not judged here
        raise KeyMaterialError(f"{path}: mode {mode:04o} lets others read a secret", hint=f"chmod 600 {path}")
    return SecretFile(path, facts.st_size)


def _unreadable(path: Path, error: OSError) -> KeyMaterialError:
    hint = key_owner_hint() if isinstance(error, PermissionError) else "run `make keys`"
    return KeyMaterialError(f"{path} cannot be read: {error.strerror or error}", hint=hint)


def _json(path: Path) -> object:
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise KeyMaterialError(f"{path} is not JSON: {error}") from error
