"""docs/PROTOCOL.md says what the code does: tables, constants, step names and the quoted vector."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from core_kit import MLKEM
from transcript_vectors import CASES

from pqspec import replay
from pqtunnel import packet, rekey, wire
from pqtunnel.endpoint.dialer import CONNECT_TIMEOUT_S
from pqtunnel.endpoint.dialling import REDIAL_BACKOFF_S
from pqtunnel.endpoint.rekeyer import ATTEMPTS
from pqtunnel.handshake.limits import BASE_DEADLINE_S
from pqtunnel.suites import ALL_AEADS, ALL_KEMS, ALL_SIGS
from pqtunnel.trace import DRONE_STEPS, GCS_STEPS

PATH = Path(__file__).resolve().parents[3] / "docs" / "PROTOCOL.md"
REGISTRY = Path(__file__).resolve().parents[2] / "link/src/registry.rs"


@pytest.fixture(scope="module")
def text() -> str:
    if not PATH.exists():
        pytest.skip("docs/ is not part of this tree")
    return PATH.read_text("utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """First cell → further cells of every table row."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) > 2:
            found[cells[0]] = cells[1:]
    return found


def test_registry_tables(text: str) -> None:
    table = rows(text)
    for kem in ALL_KEMS.values():
        sizes = (kem.level, kem.public_key_bytes, kem.ciphertext_bytes, kem.shared_secret_bytes)
        assert table[kem.token] == [f"{kem.code:02x}", *map(str, sizes), f"{kem.allowance_s:g}"]
    for sig in ALL_SIGS.values():
        size = f"≤ {sig.signature_bytes}" if sig.variable_length else str(sig.signature_bytes)
        assert table[sig.token] == [
            f"{sig.code:02x}",
            str(sig.level),
            str(sig.public_key_bytes),
            size,
            f"{sig.allowance_s:g}",
        ]
    for aead in ALL_AEADS.values():
        assert table[aead.token] == [
            f"{aead.code:02x}",
            str(aead.key_bytes),
            str(aead.nonce_bytes),
            str(aead.tag_bytes),
        ]


def test_the_table_of_what_pqlink_alone_has(text: str) -> None:
    table = rows(text)
    found = re.findall(r'kem\("(\w+)", KemKind::HqcV5, 0x(\w\w), ([\d, ]+)\)', REGISTRY.read_text("utf-8"))
    assert len(found) == 3
    for token, code, numbers in found:
        level, public, _secret, ciphertext, shared, allowance = numbers.split(", ")
        assert table[token] == [code, level, public, ciphertext, shared, allowance]
        assert token not in ALL_KEMS


def test_frame_and_packet_tables(text: str) -> None:
    assert (wire.CHALLENGE_BODY_BYTES, wire.HELLO_BODY_BYTES, wire.GCS_FINISHED_BODY_BYTES) == (65, 101, 32)
    kem, sig = MLKEM.kem, MLKEM.sig
    hello = wire.body_length_bounds(wire.SERVER_HELLO, MLKEM)[1]
    assert hello == 11 + kem.public_key_bytes + sig.signature_bytes
    assert wire.body_length_bounds(wire.CLIENT_KEM, MLKEM)[1] == 36 + kem.ciphertext_bytes
    for row in ("1 | Challenge | GCS | 65", "2 | Hello | drone | 101", "5 | FinishedGcs | GCS | 32"):
        assert f"| {row} |" in text
    for number, name in packet.TYPE_NAMES.items():
        assert f"| {number} | {name} |" in text
    assert f"{replay.WINDOW_PACKETS:,}" in text and f"{packet.OVERHEAD_BYTES} bytes more" in text


def test_timers(text: str) -> None:
    words = " ".join(text.split())
    assert f"from the beginning of connect: {BASE_DEADLINE_S:g} s, plus the suite's allowance" in words
    assert f"of it connecting may take {CONNECT_TIMEOUT_S:g} s" in words
    pauses = f"{rekey.BACKOFF_NS / 1e9:g} s · 2^k (k from 0; at most {rekey.BACKOFF_LIMIT_NS / 1e9:g} s)"
    assert f"at most {ATTEMPTS} tries in all, with pauses of {pauses}, ± {rekey.JITTER:.0%}" in (
        words.replace(" %", "%")
    )
    *first, last = (f"{pause_s:g}" for pause_s in REDIAL_BACKOFF_S)
    assert f"no sooner than {', '.join(first)} and from then on {last} s, each times 1 to 1.5" in words


def test_step_and_counter_names(text: str) -> None:
    for step in (*DRONE_STEPS, *GCS_STEPS):
        assert f"`{step}`" in text, step
    import pqtunnel.errors as errors

    counters = {
        value.counter
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.HandshakeError)
    }
    assert all(f"`{counter}`" in text for counter in counters)


def test_quoted_vector(text: str) -> None:
    vector = json.loads(CASES[0].path.read_text("utf-8"))
    block = text.split("<!-- vector:")[1].split("```")[1]
    quoted: dict[str, str] = {}
    name = ""
    for line in block.strip().splitlines():
        match = re.match(r"(\w+)?\s+([0-9a-f]+)$", line)
        if match:
            name = match.group(1) or name
            quoted[name] = quoted.get(name, "") + match.group(2)
    assert quoted.pop("challenge") == vector["frames"]["challenge"]
    assert quoted.pop("packet") == vector["packets"]["drone_data_sequence_1"]
    assert set(quoted) == {"psk", "kem_secret", "th2", "drone_key", "drone_iv", "plaintext"}
    assert all(vector[name] == value for name, value in quoted.items())
