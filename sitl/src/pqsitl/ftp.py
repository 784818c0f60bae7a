"""MAVLink FTP, reading only: the parameter table and the stored plans as files (MAVLink FTP protocol).

A file is made when it is opened and does not change while it is read. Everything that would write, and
every name that there is not, gets the NAK that the protocol has for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pymavlink.dialects.v20 import ardupilotmega as mav

PAYLOAD_BYTES, HEAD_BYTES, DATA_BYTES = 251, 12, 239
MAX_SESSIONS = 4
BURST_PACKETS = 64
_HEAD = struct.Struct("<HBBBBBBI")
NONE, TERMINATE, RESET, LIST, OPEN_READ, READ, BURST = 0, 1, 2, 3, 4, 5, 15
WRITING = frozenset({6, 7, 8, 9, 10, 11, 12, 13})
"""Create, write, remove, make and remove a folder, open to write, truncate, rename."""
ACK, NAK = 128, 129
INVALID_SIZE, INVALID_SESSION, END_OF_FILE, UNKNOWN_COMMAND, PROTECTED, NOT_FOUND = 3, 4, 6, 7, 9, 10

Key = tuple[int, int, int]
Answers = tuple[list[mav.MAVLink_message], list[mav.MAVLink_message]]


class FtpServer:
    """Answers FILE_TRANSFER_PROTOCOL; `files` maps a path to the maker of its bytes (given the query)."""

    def __init__(self, files: dict[str, Callable[[str], bytes]]) -> None:
        self._files = files
        self._open: dict[Key, bytes] = {}

    def handle(self, message: mav.MAVLink_file_transfer_protocol_message) -> Answers:
        """Messages to send at once, and those of a burst, which want pacing."""
        payload = bytes(message.payload)
        sequence, session, opcode, size, _, _, _, offset = _HEAD.unpack_from(payload)
        partner = (message.get_srcSystem(), message.get_srcComponent())
        key = (*partner, session)
        data = payload[HEAD_BYTES : HEAD_BYTES + size]

        def answer(
            code: int, body: bytes = b"", at: int = offset, step: int = 1, last: bool = False
        ) -> mav.MAVLink_message:
            head = _HEAD.pack((sequence + step) & 0xFFFF, session, code, len(body), opcode, last, 0, at)
            return mav.MAVLink_file_transfer_protocol_message(
                0, *partner, (head + body).ljust(PAYLOAD_BYTES, b"\0")
            )

        def refuse(reason: int) -> Answers:
            return [answer(NAK, bytes([reason]))], []

        if size > DATA_BYTES:
            return refuse(INVALID_SIZE)
        if opcode in (NONE, TERMINATE, RESET):
            for other in [k for k in self._open if k == key or (opcode == RESET and k[:2] == partner)]:
                if opcode != NONE:
                    del self._open[other]
            return [answer(ACK)], []
        if opcode == LIST:
            listing = self._listing(_text(data), offset)
            return [answer(ACK, listing)] if isinstance(listing, bytes) else refuse(listing)[0], []
        if opcode == OPEN_READ:
            path, _, query = _text(data).partition("?")
            maker = self._files.get(path)
            if maker is None:
                return refuse(NOT_FOUND)
            self._open.pop(key, None)
            while len(self._open) >= MAX_SESSIONS:
                del self._open[next(iter(self._open))]
            self._open[key] = maker(query)
            return [answer(ACK, len(self._open[key]).to_bytes(4, "little"))], []
        if opcode in WRITING:
            return refuse(PROTECTED)
        if opcode not in (READ, BURST):
            return refuse(UNKNOWN_COMMAND)
        content = self._open.get(key)
        if content is None:
            return refuse(INVALID_SESSION)
        if offset >= len(content):
            return refuse(END_OF_FILE)
        length = size or DATA_BYTES
        if opcode == READ:
            return [answer(ACK, content[offset : offset + length])], []
        starts = range(offset, len(content), length)[:BURST_PACKETS]
        return [], [
            answer(ACK, content[at : at + length], at, number + 1, at == starts[-1])
            for number, at in enumerate(starts)
        ]

    def _listing(self, path: str, skip: int) -> bytes | int:
        """Entries of a folder from the `skip`-th on, or why not."""
        if path in ("", "."):
            entries = [f"D{folder}" for folder in sorted({name.partition("/")[0] for name in self._files})]
        else:
            names = [name for name in sorted(self._files) if name.startswith(f"{path}/")]
            entries = [f"F{n.partition('/')[2]}\t{len(self._files[n](''))}" for n in names]
            if not names:
                return NOT_FOUND
        if skip >= len(entries):
            return END_OF_FILE
        return b"".join(entry.encode("ascii") + b"\0" for entry in entries[skip:])[:DATA_BYTES]


def _text(data: bytes) -> str:
    """A path as the server knows it: no NUL at the end, no slash around it."""
    return data.split(b"\0")[0].decode("ascii", "replace").strip("/")
