"""Reads back what onnxfile writes: wire types alone, enough for the tests to look into a file."""

from __future__ import annotations

import struct

Message = dict[int, list[object]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def message(data: bytes) -> Message:
    """Fields by number; raises on bytes that are left over or missing."""
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: object
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size  # type: ignore[arg-type]
        elif key & 7 == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        else:
            raise AssertionError(f"wire type {key & 7}")
        fields.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return fields


def attributes(node: Message) -> dict[str, object]:
    """Attributes of a node as Python values."""
    found: dict[str, object] = {}
    for raw in node.get(5, []):
        item = message(raw)  # type: ignore[arg-type]
        name, kind = item[1][0].decode(), item[20][0]  # type: ignore[attr-defined]
        if kind == 1:
            found[name] = item[2][0]
        elif kind == 2:
            found[name] = item[3][0]
        elif kind == 3:
            found[name] = item[4][0].decode()  # type: ignore[attr-defined]
        elif kind == 6:
            packed = item[7][0]
            found[name] = list(struct.unpack(f"<{len(packed) // 4}f", packed))  # type: ignore[arg-type]
        elif kind == 7:
            packed, values, at = item[8][0], [], 0
            while at < len(packed):  # type: ignore[arg-type]
                value, at = varint(packed, at)  # type: ignore[arg-type]
                values.append(value)
            found[name] = values
        else:
            found[name] = [text.decode() for text in item[9]]  # type: ignore[attr-defined]
    return found
