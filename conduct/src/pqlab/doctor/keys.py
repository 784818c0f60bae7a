"""The identities of both ends and of the controller: there, and readable by nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pqlab.doctor.model import Reading, Requirement
from pqlab.doctor.system import System

HOLDERS = ("drone", "gcs", "controller")
#: what `pqtunnel keys` writes last
COMPLETE_FILE = "complete"
#: what `pqtunnel keys` writes that must stay secret
SECRET_PATTERNS = ("*.key.pem", "*.secret")


def secret_files(folder: Path) -> Iterator[Path]:
    """Every file below `folder` that holds key material."""
    for pattern in SECRET_PATTERNS:
        yield from sorted(folder.rglob(pattern))


def read_presence(system: System) -> Reading:
    """One folder a holder, each with something secret in it."""
    folder = system.project / "keys"
    missing = [name for name in HOLDERS if not any(secret_files(folder / name))]
    if missing:
        return Reading(False, f"no keys for {', '.join(missing)}")
    if not (folder / COMPLETE_FILE).is_file():
        return Reading(False, "not the whole set: a run of `pqtunnel keys` was cut off")
    return Reading(True, f"keys of {', '.join(HOLDERS)}")


def read_signing(system: System) -> Reading:
    """The drone's own signing keys: only conditions with `drone_auth: signature` need them."""
    if not any(secret_files(system.project / "keys" / "drone" / "sig")):
        return Reading(False, "the drone has none: `drone_auth: signature` cannot run")
    return Reading(True, "the drone can sign")


def read_modes(system: System) -> Reading:
    """Permission bits of every secret file."""
    folder = system.project / "keys"
    files = list(secret_files(folder))
    if not files:
        return Reading(True, "no secret files yet")
    loose = [path.relative_to(system.project) for path in files if path.stat().st_mode & 0o077]
    if loose:
        return Reading(False, f"{len(loose)} of {len(files)} open to others, e.g. {loose[0]}")
    return Reading(True, f"{len(files)} secret files, all closed to others")


REQUIREMENTS = (
    Requirement("keys", "want", "an identity for each end and the controller", read_presence, "make keys"),
    Requirement("drone signs", "want", "signing keys at the drone", read_signing, "make keys"),
    Requirement(
        "key modes",
        "need",
        "0600 on every secret file",
        read_modes,
        "chmod -R go-rwx keys; make new ones if others had access: rm -r keys && make keys",
    ),
)
