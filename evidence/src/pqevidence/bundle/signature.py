"""Detached signatures of archives, made and checked by OpenSSH (`ssh-keygen -Y`), which is on every host.

A signature says who archived the bytes. It says nothing of whether the bundle's numbers are true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import BinaryIO

from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, LabError

SUFFIX = ".sig"
#: what the signature is for, so that one made for mail or git is worth nothing here
NAMESPACE = "pqlab-bundle"
_LIMIT_S = 120


class SignatureError(LabError):
    """A signature that was not made or does not hold.

    Codes: no-ssh-keygen, no-key, sign-failed, no-signature, no-signers, bad-signature.
    """


def sign(file: Path, key: Path) -> bytes:
    """The signature of a file's bytes; asks for the key's passphrase on the terminal if it has one."""
    _require(key, "no-key", "is no key file", "name a private key, made by: ssh-keygen -t ed25519 -f KEY")
    with file.open("rb") as content:
        done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE], content)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise SignatureError(
            "sign-failed",
            f"the archive could not be signed with {key.name}",
            _last_line(done),
            "nothing was written; check the key: ssh-keygen -y -f KEY",
        )
    return done.stdout


def check(content: BinaryIO, signature: Path, allowed_signers: Path, identity: str) -> None:
    """Raises SignatureError unless `identity`, as listed in the allowed-signers file, signed these bytes.

    content: an open file at its start; it is left at its start.
    """
    _require(signature, "no-signature", "is not there", "fetch the .sig file that was published with it")
    _require(allowed_signers, "no-signers", "is not there", "one line each: NAME ssh-ed25519 AAAA…")
    done = _ssh_keygen(
        ["-Y", "verify", "-f", str(allowed_signers), "-I", identity, "-n", NAMESPACE, "-s", str(signature)],
        content,
    )
    # the child moved the offset that both share, which the buffered file does not know
    os.lseek(content.fileno(), 0, os.SEEK_SET)
    content.seek(0)
    if done.returncode != 0:
        raise SignatureError(
            "bad-signature",
            f"the signature is not one of these bytes by {identity}",
            _last_line(done),
            "nothing was unpacked; ask the sender for the archive, its .sig and the key's fingerprint",
            EXIT_CHECK,
        )


def _require(path: Path, code: str, trouble: str, hint: str) -> None:
    if not path.is_file():
        raise SignatureError(code, f"{path} {trouble}", "no such file", hint, EXIT_ENVIRONMENT)


def _ssh_keygen(options: list[str], content: BinaryIO) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SignatureError(
            "no-ssh-keygen",
            "signatures need ssh-keygen",
            "it is not on this machine's path",
            "sudo apt-get install openssh-client, or leave the signature out",
            EXIT_ENVIRONMENT,
        )
    try:
        return subprocess.run(
            [program, *options], stdin=content, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SignatureError(
            "sign-failed",
            "ssh-keygen did not answer",
            f"within {_LIMIT_S} s",
            "try again, with a key that asks less",
        ) from error


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen ended with {done.returncode}"
