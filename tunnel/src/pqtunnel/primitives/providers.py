"""What builds of which providers this host runs: the rows of providers.json.

Absent providers appear with null fields and the reason, never with an invented version.
"""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import pqbase
import pqtunnel
from pqtunnel.errors import ProviderMissing
from pqtunnel.primitives.oqs_library import library_path, load_oqs


def _sha256_of(path: Path | None) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else None


def tree_sha256(*roots: Path) -> str:
    """SHA-256 over the names and bytes of every Python source under each of `roots`, in sorted order."""
    digest = hashlib.sha256()
    for root in roots:
        # Windows sorts paths without regard to case: the order is that of the names, everywhere.
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
            name = path.relative_to(root).as_posix().encode()
            content = path.read_bytes()
            digest.update(len(name).to_bytes(4, "big") + name + len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _liboqs() -> dict[str, object]:
    try:
        oqs = load_oqs()
    except ProviderMissing as error:
        return {"version": None, "sha256": None, "path": None, "reason": str(error)}
    path = library_path()
    return {
        "version": oqs.oqs_version(),
        "python_binding": oqs.oqs_python_version(),
        "sha256": _sha256_of(path),
        "path": str(path) if path is not None else None,
        "reason": None if path is not None else "this platform cannot name the file of a loaded symbol",
    }


def _ascon_native() -> dict[str, object]:
    try:
        import pq_ascon
    except ImportError as error:
        return {"version": None, "sha256": None, "reason": f"pq_ascon is not installed ({error})"}
    # A wheel may put the extension itself or a package around it; either way the extension is what counts.
    origin = str(getattr(pq_ascon, "pq_ascon", pq_ascon).__file__)
    return {"version": pq_ascon.__version__, "sha256": _sha256_of(Path(origin)), "reason": None}


def _core() -> dict[str, object]:
    try:
        import pq_core
    except ImportError as error:
        return {"version": None, "sha256": None, "reason": f"pq_core is not installed ({error})"}
    origin = str(getattr(pq_core, "pq_core", pq_core).__file__)
    return {"version": pq_core.__version__, "sha256": _sha256_of(Path(origin)), "reason": None}


def _cryptography() -> tuple[str | None, str | None]:
    try:
        import cryptography
        from cryptography.hazmat.backends.openssl import backend
    except ImportError:
        return None, None
    return cryptography.__version__, backend.openssl_version_text()


def provider_facts() -> dict[str, object]:
    """Versions and content hashes of everything that computes: `hello.providers` of the agent."""
    cryptography_version, openssl_version = _cryptography()
    return {
        "python": platform.python_version(),
        "openssl": openssl_version,
        "cryptography": cryptography_version,
        "liboqs": _liboqs(),
        "ascon_native": _ascon_native(),
        "core": _core(),
        "pqtunnel": {
            "version": pqtunnel.__version__,
            "tree_sha256": tree_sha256(Path(pqtunnel.__file__).parent, Path(pqbase.__file__).parent),
        },
    }
