"""Looking for secrets in the memory of a running process (Linux: /proc/PID/mem)."""

from __future__ import annotations

import io
from pathlib import Path

from pqtunnel.handshake.established import Established

PIECE_BYTES = 1 << 16
UNTOUCHED = bytes(PIECE_BYTES)


def hits(pid: int, secrets: dict[str, bytes]) -> dict[str, int]:
    """How often each secret, or a half of it, stands in a process's writable memory: memory that was given
    back loses its first bytes to the allocator's own notes."""
    found = dict.fromkeys(secrets, 0)
    with (
        Path(f"/proc/{pid}/maps").open(encoding="ascii") as maps,
        Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory,
    ):
        for line in maps:
            span, rights = line.split()[:2]
            if not rights.startswith("rw") or line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                continue
            start, end = (int(place, 16) for place in span.split("-"))
            try:
                content = touched(memory, start, end)
            except OSError:
                if span in Path(f"/proc/{pid}/maps").read_text("ascii"):
                    raise
                continue  # the stack of a thread that ended meanwhile
            for name, secret in secrets.items():
                for form in (secret, swapped(secret)):
                    half = len(form) // 2
                    found[name] += max(content.count(form[:half]), content.count(form[half:]))
    return found


def touched(memory: io.FileIO, start: int, end: int) -> bytes:
    """What stands in a span, but for pieces of nothing but zeros: stacks that were never used are nine tenths
    of it, and no secret lies in them."""
    memory.seek(start)
    pieces = []
    left = end - start
    while left and (piece := memory.read(min(PIECE_BYTES, left))):
        left -= len(piece)
        if piece != UNTOUCHED[: len(piece)]:
            pieces.append(piece)
    return b"".join(pieces)


def swapped(secret: bytes) -> bytes:
    """As words of 8 bytes, the other way round: so Ascon-128a holds its key."""
    return b"".join(secret[at : at + 8][::-1] for at in range(0, len(secret), 8))


def secrets_of(made: list[Established]) -> dict[str, bytes]:
    """Every secret of these epochs that has at least 16 bytes."""
    return {
        f"epoch {one.epoch} {name}": secret
        for one in made
        for name, secret in (
            ("send key", one.keys.send_key),
            ("receive key", one.keys.receive_key),
            ("rekey secret", one.rekey_secret),
            ("exporter", one.exporter),
        )
    }
