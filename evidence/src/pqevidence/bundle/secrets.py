"""Search a bundle for the keys a run held: their bytes and what people and programs write them as.

Every stretch of 12 bytes of a key is known; a file is read as what it may hold (bytes, hex with or without
separators, base64 at each alignment, lists of numbers, escaped bytes), and each reading is looked at every 4
or 8 bytes. So 24 bytes of any key are found, wherever they are cut out of it, also across closed line breaks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

STRETCH_BYTES = 12
TEXT_PIECE_BYTES = 24
#: offsets between two looks; a fragment of STRETCH_BYTES + step - 1 bytes is met whole
_STEP_BYTES = 8
_STEP_DECODED_BYTES = 4
MIN_SECRET_BYTES = 16
_MIN_DISTINCT_BYTES = 8
_RUN = re.compile(rb"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX = re.compile(rb"[0-9A-Fa-f]{24,}")
_TOKEN = re.compile(rb"[A-Za-z0-9+/_=-]{22,}")
#: 1f:2e:3d …, 1f 2e 3d …, 0x1f, 0x2e, …; line breaks behind a separator are closed
_SEPARATED = re.compile(rb"(?<![0-9A-Fa-f])(?:(?:0x)?[0-9A-Fa-f]{2}[:\- ,]\s*){11,}(?:0x)?[0-9A-Fa-f]{2}")
_NUMBERS = re.compile(rb"(?<!\d)(?:\d{1,3},\s*){11,}\d{1,3}")
_ESCAPED = re.compile(rb"\\+(?:x([0-9A-Fa-f]{2})|u00([0-9A-Fa-f]{2})|([nrtbf\\'\"]))")
_ESCAPES = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"b": b"\b",
    b"f": b"\f",
    b"\\": b"\\",
    b"'": b"'",
    b'"': b'"',
}
# What a key folder holds beside secrets: public halves, pins of them, and opaque ids.
_PUBLIC_SUFFIXES = (".pub", ".crt", ".cert.pem", ".identity.json", "pins.json", "drone_id.hex")
_PUBLIC_BLOCK = re.compile(
    rb"-----BEGIN (CERTIFICATE|PUBLIC KEY)[ A-Z]*-----.*?-----END [ A-Z]+-----", re.DOTALL
)


@dataclass(frozen=True)
class SecretHit:
    """A file of the bundle that holds part of a key; `how` is bytes, hex, base64, numbers, escaped bytes."""

    path: str
    secret: str
    how: str


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


@dataclass(frozen=True)
class _Known:
    """What is looked for, each with the name of its key file: every stretch of bytes, and pieces of text."""

    stretches: dict[bytes, str]
    texts: dict[bytes, str]

    def met(self, data: bytes, step: int) -> set[str]:
        """Key files of which `data` holds a part."""
        last = len(data) - STRETCH_BYTES + 1
        found = {
            self.stretches[stretch]
            for start in range(0, last, step)
            if (stretch := data[start : start + STRETCH_BYTES]) in self.stretches
        }
        return found | self.met_text(data)

    def met_text(self, data: bytes) -> set[str]:
        """The same of keys that are text themselves."""
        return {name for text, name in self.texts.items() if text in data}


def _known(secrets: Iterable[Path]) -> _Known:
    """What has few distinct bytes is padding: it would match anything. Text is looked for in longer pieces,
    since words of a key file may stand anywhere."""
    found = _Known({}, {})
    for path in key_files(secrets):
        for value in secret_values(path.read_bytes()):
            into, length, step = (
                (found.texts, TEXT_PIECE_BYTES, TEXT_PIECE_BYTES // 2)
                if value.isascii()
                else (found.stretches, STRETCH_BYTES, 1)
            )
            last = max(0, len(value) - length)
            for start in {*range(0, last, step), last}:
                piece = value[start : start + length]
                if len(set(piece)) >= _MIN_DISTINCT_BYTES:
                    into.setdefault(piece, path.name)
    return found


def search(root: Path, files: Iterable[str], secrets: Iterable[Path]) -> list[SecretHit]:
    """Files (paths relative to root) that hold part of a key; at most one hit a file, key and encoding."""
    known = _known(secrets)
    hits: dict[SecretHit, None] = {}
    for name in files:
        content = (root / name).read_bytes()
        # a file of plain text holds no key's own bytes, unless those are text themselves
        met = known.met_text(content) if content.isascii() else known.met(content, _STEP_BYTES)
        found = [("bytes", secret) for secret in met]
        for how, data in _readings(content, lists=not _is_ledger(name)):
            found += [(how, secret) for secret in known.met(data, _STEP_DECODED_BYTES)]
        hits |= {SecretHit(name, secret, how): None for how, secret in found}
    return list(hits)


def _is_ledger(name: str) -> bool:
    """Rows of whole numbers, and most of a bundle's bytes: no list of small numbers stands in them."""
    return name.rsplit("/", 1)[-1].startswith("ledger.")


def _readings(content: bytes, *, lists: bool) -> Iterator[tuple[str, bytes]]:
    """(how, bytes) of all in a file that could be an encoding; what lies apart stays apart by a zero."""
    runs = list(dict.fromkeys(_RUN.findall(content)))  # telemetry repeats its names 10 times a second
    # The last one closes line breaks inside an encoding.
    lines = [run.rstrip(b"=") for run in runs]
    lines.append(b"".join(lines))
    digits = [found for line in lines for found in _HEX.findall(line)]
    separated = _SEPARATED.findall(content) if lists else []
    digits += [re.sub(rb"0x|[^0-9A-Fa-f]", b"", found) for found in separated]
    for shift in (0, 1):  # both places where a byte may begin
        yield "hex", b"\0".join(_of_hex(text[shift:]) for text in digits)
    for shift in range(4):  # and a group of four letters
        yield "base64", b"\0".join(_of_base64(line[shift:]) for line in lines)
    numbers = _NUMBERS.findall(content) if lists else []
    values = [[int(text) for text in found.split(b",")] for found in numbers]
    yield "numbers", b"\0".join(bytes(row) for row in values if max(row) < 256)
    if b"\\x" in content or b"\\u00" in content:
        yield "escaped bytes", _ESCAPED.sub(_unescape, content)


def _of_hex(digits: bytes) -> bytes:
    return bytes.fromhex(digits[: len(digits) // 2 * 2].decode("ascii"))


def _of_base64(text: bytes) -> bytes:
    return base64.b64decode(text[: len(text) // 4 * 4].translate(bytes.maketrans(b"-_", b"+/")))


def _unescape(found: re.Match[bytes]) -> bytes:
    digits = found[1] or found[2]
    return bytes.fromhex(digits.decode("ascii")) if digits else _ESCAPES[found[3]]
