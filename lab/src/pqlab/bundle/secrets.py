"""Search a bundle for the keys a run held: their bytes, hex and base64, whole or in large part.

A key is cut into short chunks taken across its length, so that a leak of a part, or a line break inside an
encoding, is found as well. Files are scanned once: raw chunks only where a file holds bytes beyond ASCII (or
the chunk is ASCII itself), encoded chunks only in the runs of letters that could be an encoding.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 24
CHUNKS_A_KEY = 8
MIN_SECRET_BYTES = 16
_MIN_DISTINCT_BYTES = 8
_RUN = re.compile(rb"[A-Za-z0-9+/_-]{20,}={0,2}")
_TOKEN = re.compile(rb"[A-Za-z0-9+/_=-]{22,}")
# What a key folder holds beside secrets: public halves, pins of them, and opaque ids.
_PUBLIC_SUFFIXES = (".pub", ".crt", ".cert.pem", ".identity.json", "pins.json", "drone_id.hex")
_PUBLIC_BLOCK = re.compile(
    rb"-----BEGIN (CERTIFICATE|PUBLIC KEY)[ A-Z]*-----.*?-----END [ A-Z]+-----", re.DOTALL
)


@dataclass(frozen=True)
class SecretHit:
    """A file of the bundle that holds part of a key; `how` is bytes, hex or base64."""

    path: str
    secret: str
    how: str


@dataclass(frozen=True)
class _Needle:
    secret: str
    how: str
    pattern: bytes


def key_files(secrets: Iterable[Path]) -> list[Path]:
    """The files named, and every file under the folders named; public files are left out by name.

    FileNotFoundError for a path that is not there: a search that looks for nothing must not look like a pass.
    """
    found: list[Path] = []
    for path in secrets:
        if path.is_dir():
            found += [inner for inner in sorted(path.rglob("*")) if inner.is_file()]
        elif path.is_file():
            found.append(path)
        else:
            raise FileNotFoundError(f"{path.name}: no such key file")
    return [path for path in found if not path.name.endswith(_PUBLIC_SUFFIXES)]


def secret_values(content: bytes) -> list[bytes]:
    """The byte strings in a key file that must not leak.

    A binary file is one secret. In a text file each long token is one, and so is what it decodes to; the
    bodies of certificates and public keys are not secret.
    """
    if not content.isascii():
        return [content] if len(content) >= MIN_SECRET_BYTES else []
    text = _PUBLIC_BLOCK.sub(b"", content)
    values: list[bytes] = []
    for token in _TOKEN.findall(text):
        if token.strip(b"-=") == b"" or len(set(token)) < _MIN_DISTINCT_BYTES:
            continue
        values.append(token)
        values += _decoded(token)
    block = b"".join(line for line in text.split() if _RUN.fullmatch(line) and b"-----" not in line)
    values += _decoded(block)
    return [v for v in values if len(v) >= MIN_SECRET_BYTES and len(set(v)) >= _MIN_DISTINCT_BYTES]


def _decoded(token: bytes) -> list[bytes]:
    out: list[bytes] = []
    try:
        out.append(bytes.fromhex(token.decode("ascii")))
    except ValueError:
        plain = token.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        try:
            out.append(base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True))
        except binascii.Error:
            return []
    return out


def _chunks(value: bytes) -> list[bytes]:
    if len(value) <= CHUNK_BYTES:
        return [value]
    last = len(value) - CHUNK_BYTES
    count = min(CHUNKS_A_KEY, last + 1)
    starts = sorted({round(i * last / (count - 1)) for i in range(count)}) if count > 1 else [0]
    return [value[start : start + CHUNK_BYTES] for start in starts]


def _base64_forms(chunk: bytes) -> list[bytes]:
    """The characters a chunk gives at each of the three alignments, partial characters cut off."""
    forms = []
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + chunk).rstrip(b"=")
        start = -(-shift * 8 // 6)
        end = (shift + len(chunk)) * 8 // 6
        forms.append(encoded[start:end])
    return forms


def needles(secrets: Iterable[Path]) -> list[_Needle]:
    """Every pattern to look for, each once."""
    found: dict[tuple[str, bytes], _Needle] = {}
    for path in key_files(secrets):
        for value in secret_values(path.read_bytes()):
            for chunk in _chunks(value):
                if len(set(chunk)) < _MIN_DISTINCT_BYTES:
                    continue  # padding or a constant: it would match anything
                patterns = [
                    ("bytes", chunk),
                    ("hex", chunk.hex().encode()),
                    ("hex", chunk.hex().upper().encode()),
                ]
                for form in _base64_forms(chunk):
                    patterns += [("base64", form), ("base64", form.translate(bytes.maketrans(b"+/", b"-_")))]
                for how, pattern in patterns:
                    found.setdefault((how, pattern), _Needle(path.name, how, pattern))
    return list(found.values())


def search(root: Path, files: Iterable[str], secrets: Iterable[Path]) -> list[SecretHit]:
    """Files (paths relative to root) that hold part of a key; at most one hit a file, key and encoding."""
    all_needles = needles(secrets)
    raw = [needle for needle in all_needles if needle.how == "bytes"]
    raw_ascii = [needle for needle in raw if needle.pattern.isascii()]
    encoded = [needle for needle in all_needles if needle.how != "bytes"]
    hits: dict[SecretHit, None] = {}
    for name in files:
        content = (root / name).read_bytes()
        for needle in raw_ascii if content.isascii() else raw:
            if needle.pattern in content:
                hits[SecretHit(name, needle.secret, needle.how)] = None
        runs = list(dict.fromkeys(_RUN.findall(content)))  # telemetry repeats its names 10 times a second
        # The second form closes line breaks inside an encoding.
        haystack = b"\n".join(runs) + b"\n" + b"".join(runs)
        for needle in encoded if runs else ():
            if needle.pattern in haystack:
                hits[SecretHit(name, needle.secret, needle.how)] = None
    return list(hits)
