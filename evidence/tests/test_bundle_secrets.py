"""The search for keys: whatever way a key leaked it is found, and what is no key is not."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pqevidence.bundle.secrets import key_files, search, secret_values

KEY = random.Random(7).randbytes(64)
LONG_KEY = random.Random(8).randbytes(4032)
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def wrapped(data: bytes, width: int) -> bytes:
    return b"\n".join(data[i : i + width] for i in range(0, len(data), width))


ENCODINGS = {
    "bytes": lambda key: key,
    "hex": lambda key: key.hex().encode(),
    "HEX": lambda key: key.hex().upper().encode(),
    "base64": lambda key: base64.b64encode(key),
    "base64, a byte before": lambda key: base64.b64encode(b"x" + key),
    "base64, two bytes before": lambda key: base64.b64encode(b"xy" + key),
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(key),
    "base64 in lines": lambda key: wrapped(base64.b64encode(key), 64),
    "hex in lines": lambda key: wrapped(key.hex().encode(), 32),
    "hex with colons": lambda key: key.hex(":").encode(),
    "hex with colons in lines, as openssl writes it": lambda key: b"\n".join(
        b"    " + key[i : i + 15].hex(":").encode() + b":" for i in range(0, len(key), 15)
    ),
    "hex with blanks": lambda key: key.hex(" ").upper().encode(),
    "hex as in C": lambda key: ", ".join(f"0x{byte:02x}" for byte in key).encode(),
    "numbers": lambda key: repr(list(key)).encode(),
    "repr of Python": lambda key: repr(key).encode(),
    "repr of Python inside JSON": lambda key: json.dumps({"key": repr(key)}).encode(),
    "text of JSON": lambda key: json.dumps(key.decode("latin-1")).encode(),
}


def leak(tmp_path: Path, key: bytes, content: bytes) -> list[str]:
    (tmp_path / "sig.secret").write_bytes(key)
    (tmp_path / "file.log").write_bytes(content)
    return [hit.how for hit in search(tmp_path, ["file.log"], [tmp_path / "sig.secret"])]


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS.keys())
@pytest.mark.parametrize("key", [KEY[:32], KEY, LONG_KEY], ids=["32 bytes", "64 bytes", "4032 bytes"])
def test_a_key_in_a_log_is_found(tmp_path: Path, key: bytes, encode: object) -> None:
    assert callable(encode)
    assert leak(tmp_path, key, b"state: " + encode(key) + b" end\n")


@QUICK
@given(st.binary(max_size=80), st.binary(max_size=80), st.sampled_from(sorted(ENCODINGS)))
def test_whatever_surrounds_it(tmp_path: Path, before: bytes, after: bytes, how: str) -> None:
    assert leak(tmp_path, KEY, before + b"\n" + ENCODINGS[how](KEY) + b"\n" + after)


@QUICK
@given(st.integers(0, 4032 - 48), st.sampled_from(sorted(ENCODINGS)))
def test_any_24_bytes_of_a_long_key_are_found(tmp_path: Path, start: int, how: str) -> None:
    """48 where bytes are escaped: a backslash among them is lost on the way back."""
    part = LONG_KEY[start : start + (48 if "JSON" in how or "repr" in how else 24)]
    assert leak(tmp_path, LONG_KEY, b"part: " + ENCODINGS[how](part) + b" end\n")


def test_words_of_a_key_file_may_stand_anywhere(tmp_path: Path) -> None:
    """A key file in text has names in it; only long pieces of it count."""
    (tmp_path / "drone.secret").write_text('{"purpose": "pqtunnel-control-of-the-drone-agent"}')
    (tmp_path / "a.log").write_text("the pqtunnel-control of the-drone-agent is up\n")
    assert search(tmp_path, ["a.log"], [tmp_path / "drone.secret"]) == []


@QUICK
@given(st.binary(max_size=4000))
def test_other_bytes_are_no_key(tmp_path: Path, content: bytes) -> None:
    assert leak(tmp_path, KEY, content + content.hex().encode() + base64.b64encode(content)) == []


def test_a_pem_key_is_found_by_its_body(tmp_path: Path) -> None:
    label = "PRIVATE" + " KEY"
    body = wrapped(base64.b64encode(KEY), 64).decode()
    (tmp_path / "tls.key.pem").write_text(f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    (tmp_path / "a").write_bytes(b"dump " + KEY)
    (tmp_path / "b").write_bytes(b"body " + base64.b64encode(KEY))
    (tmp_path / "c").write_bytes(b"nothing of it")
    hits = search(tmp_path, ["a", "b", "c"], [tmp_path / "tls.key.pem"])
    assert {hit.path for hit in hits} == {"a", "b"}
    assert {hit.secret for hit in hits} == {"tls.key.pem"}


def test_public_halves_are_not_secret(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    (folder / "gcs").mkdir(parents=True)
    for name in ("gcs/ca.cert.pem", "gcs/gcs.identity.json", "pins.json", "drone_id.hex"):
        (folder / name).write_bytes(KEY.hex().encode())
    (folder / "psk.secret").write_bytes(KEY)
    assert [path.name for path in key_files([folder])] == ["psk.secret"]


def test_a_key_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        search(tmp_path, [], [tmp_path / "gone.secret"])


def test_padding_is_no_secret() -> None:
    assert secret_values(b"-" * 40) == []
    assert secret_values(b"0" * 64) == []
    assert secret_values(b"short") == []
