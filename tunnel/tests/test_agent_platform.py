"""What differs by platform: on what an agent runs, files in use, the interpreter it accepts."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import ssl
import struct
import sys
import time
from pathlib import Path

import pytest

from pqbase import patience
from pqspec.shell import sockets
from pqtunnel import interpreter
from pqtunnel.agent import machine
from pqtunnel.agent.upkeep import CountersFile
from pqtunnel.config import ConfigError
from pqtunnel.endpoint.identity_files import load_drone, load_gcs
from pqtunnel.errors import KeyMaterialError
from pqtunnel.primitives.oqs_library import library_path
from pqtunnel.primitives.providers import provider_facts, tree_sha256
from pqtunnel.rpc import TlsFiles
from waiting import LIMIT_S


def elf(proc: Path, machine_number: int, order: str = "little") -> Path:
    folder = proc / "thread-self"
    folder.mkdir(parents=True, exist_ok=True)
    head = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + bytes(10) + bytes(2)
    (folder / "exe").write_bytes(head + machine_number.to_bytes(2, "little" if order == "little" else "big"))
    return proc


@pytest.mark.parametrize(
    ("number", "told", "expected"),
    [
        (62, "aarch64", "qemu-user"),  # the kernel runs an x86-64 program, we believe to be on Arm
        (183, "x86_64", "qemu-user"),
        (62, "x86_64", None),
        (3, "x86_64", None),  # a 32-bit userland is no emulation
        (183, "aarch64", None),
        (40, "aarch64", None),
        (9999, "aarch64", None),  # unknown: no claim
    ],
)
def test_emulation_is_seen_by_what_the_kernel_runs(
    tmp_path: Path, number: int, told: str, expected: str | None
) -> None:
    assert machine.emulator(told, elf(tmp_path, number)) == expected


def test_no_evidence_of_emulation_is_no_claim(tmp_path: Path) -> None:
    assert machine.emulator("aarch64", tmp_path) is None
    elf(tmp_path, 62)
    (tmp_path / "thread-self/exe").write_bytes(b"#!/bin/sh")
    assert machine.emulator("aarch64", tmp_path) is None


@pytest.mark.parametrize("played", [{"wine": "10.0"}, {"emulated": "qemu-user"}])
def test_a_played_machine_is_never_of_ring_hardware(played: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="played by another one") as caught:
        machine.check_ring("hardware", played)
    assert "PQ_RING=lab" in caught.value.hint
    machine.check_ring("lab", played)
    machine.check_ring("hardware", {})


def test_counters_json_is_replaced_once_its_reader_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    file = CountersFile(tmp_path / "counters.json", notes.append)
    refusals = [PermissionError(13, "Access is denied")] * 3
    replace = Path.replace

    def reluctant(self: Path, target: Path) -> Path:
        if refusals:
            raise refusals.pop()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", reluctant)
    monkeypatch.setattr(patience.patiently, "__kwdefaults__", {"platform": "win32"})
    file.write({"t_ns": 1})
    assert (json.loads(file.path.read_bytes()), notes) == ({"t_ns": 1}, [])
    monkeypatch.setattr(patience.patiently, "__kwdefaults__", {"platform": "linux"})
    refusals.append(PermissionError(13, "Access is denied"))
    file.write({"t_ns": 2})
    assert len(notes) == 1 and "cannot be written" in notes[0]


@pytest.mark.parametrize(
    ("version", "largest", "word"),
    [((3, 10), 2**63 - 1, "python_too_old"), ((3, 13), 2**31 - 1, "python_32_bit")],
)
def test_an_interpreter_that_will_not_do_is_one_sentence(
    version: tuple[int, int], largest: int, word: str
) -> None:
    text = interpreter.refusal(version, largest)
    assert text is not None and word in text and "\n  next: " in text
    assert interpreter.refusal((3, 11), 2**63 - 1) is None


def test_a_taken_udp_port_is_one_sentence_with_the_next_step() -> None:
    first = sockets.bound("127.0.0.1", 0, "PQ_SEALED_PORT")
    port = first.getsockname()[1]
    with pytest.raises(sockets.PortTakenError, match="PQ_SEALED_PORT") as caught:
        sockets.bound("127.0.0.1", port, "PQ_SEALED_PORT")
    assert "PQ_*_PORT" in caught.value.hint
    first.close()
    sockets.bound("127.0.0.1", port, "PQ_SEALED_PORT").close()


def test_a_refused_datagram_does_not_end_the_next_receive() -> None:
    """WSAECONNRESET on Windows, nothing on Linux for a socket without a peer."""
    sock = sockets.bound("127.0.0.1", 0, "PQ_SEALED_PORT")
    closed = sockets.bound("127.0.0.1", 0, "PQ_SEALED_PORT")
    nobody = closed.getsockname()
    closed.close()
    sock.settimeout(LIMIT_S)
    for _ in range(3):
        sock.sendto(b"to nobody", nobody)
    time.sleep(0.05)
    sock.sendto(b"to myself", sock.getsockname())
    view = memoryview(bytearray(100))
    length, _, _, source = sockets.receiver(sock)((view,), 128)
    assert bytes(view[:length]) == b"to myself" and source == sock.getsockname()
    sock.close()


def test_the_reset_option_has_the_layout_of_this_platform() -> None:
    from pqtunnel.endpoint.acceptor import _LINGER_RESET

    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_LINGER_RESET))
    on, seconds = struct.unpack("HH" if sys.platform == "win32" else "ii", told)
    assert (on != 0, seconds) == (True, 0)


@pytest.mark.native
def test_key_files_may_have_the_line_ends_of_windows_and_a_folder_any_name(
    key_folder: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(key_folder, tmp_path / "Schlüssel der Station")
    texts = [path for path in root.rglob("*") if path.suffix in (".json", ".hex", ".pem")]
    assert len(texts) > 8
    for path in texts:
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    assert load_drone(root / "drone").trusted[0].key_id == load_gcs(root / "gcs").identity.public.key_id
    for role in ("drone", "gcs"):
        TlsFiles.in_folder(root / role).context(ssl.Purpose.CLIENT_AUTH)


@pytest.mark.native
def test_a_secret_that_was_copied_as_text_is_refused_in_one_sentence(
    key_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(key_folder / "drone", tmp_path / "drone")
    secret = folder / "psk.secret"
    secret.chmod(0o600)
    secret.write_bytes(b"\r\n" + secret.read_bytes())
    with pytest.raises(KeyMaterialError) as caught:
        load_drone(folder)
    assert "\n" not in str(caught.value) and caught.value.hint


@pytest.mark.native
def test_the_library_that_computes_is_known_by_its_digest() -> None:
    liboqs = provider_facts()["liboqs"]
    path = library_path()
    assert path is not None and path.is_file() and str(path) == liboqs["path"]
    assert liboqs["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert b"OQS_KEM_keypair" in path.read_bytes()


def test_a_tree_has_one_digest_whatever_the_platform_sorts_first(tmp_path: Path) -> None:
    digest = hashlib.sha256()
    for name in ("B.py", "a/c.py", "a-b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
        digest.update(len(name).to_bytes(4, "big") + name.encode())
        digest.update(len(name).to_bytes(8, "big") + name.encode())
    assert tree_sha256(tmp_path) == digest.hexdigest()
