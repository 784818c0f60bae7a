"""Writes ONNX files: the few protobuf messages a graph of ours needs, and nothing else.

In scope: models, graphs, nodes, float and int64 tensors, as onnx.proto (ONNX IR version 8) numbers their
fields. Not in scope: reading, shape inference, checking: ONNX Runtime refuses a graph that is not valid, and
a parity test holds its answers against the model it came from. Same input, same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IR_VERSION = 8
FLOAT, INT64 = 1, 7
# AttributeProto.AttributeType
_FLOAT, _INT, _STRING, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 6, 7, 8

Attribute = float | int | str | Sequence[float] | Sequence[int] | Sequence[str]
Tensor = NDArray[np.float32] | NDArray[np.int64]


def varint(value: int) -> bytes:
    """A base-128 integer; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def _attribute(name: str, value: Attribute) -> bytes:
    out = _bytes(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _FLOAT)
    if isinstance(value, int):
        return out + _number(3, value) + _number(20, _INT)
    if isinstance(value, str):
        return out + _bytes(4, value) + _number(20, _STRING)
    if not value:
        raise ValueError(f"attribute {name} is an empty list: its type cannot be told")
    if all(isinstance(item, str) for item in value):
        return out + b"".join(_bytes(9, str(item)) for item in value) + _number(20, _STRINGS)
    if all(isinstance(item, int) for item in value):
        return out + _bytes(8, b"".join(varint(int(item)) for item in value)) + _number(20, _INTS)
    packed = struct.pack(f"<{len(value)}f", *(float(item) for item in value))
    return out + _bytes(7, packed) + _number(20, _FLOATS)


def _tensor(name: str, value: Tensor) -> bytes:
    kind = FLOAT if value.dtype == np.float32 else INT64
    data = np.ascontiguousarray(value).astype("<f4" if kind == FLOAT else "<i8").tobytes()
    dims = b"".join(_number(1, size) for size in value.shape)
    return dims + _number(2, kind) + _bytes(8, name) + _bytes(9, data)


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; a dimension that is a name is free."""

    name: str
    shape: tuple[int | str, ...]
    kind: int = FLOAT

    def encode(self) -> bytes:
        """As ValueInfoProto."""
        dims = b"".join(
            _bytes(1, _bytes(2, size) if isinstance(size, str) else _number(1, size)) for size in self.shape
        )
        return _bytes(1, self.name) + _bytes(2, _bytes(1, _number(1, self.kind) + _bytes(2, dims)))


class Graph:
    """A graph under construction: each call adds a node and gives the names of its results."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[bytes] = []
        self._tensors: dict[str, bytes] = {}
        self.parameters_count = 0

    def constant(self, name: str, value: Tensor | Sequence[int] | float) -> str:
        """A tensor of the file; a sequence of integers becomes int64, a number a float32 scalar."""
        if isinstance(value, float):
            array: Tensor = np.array(value, dtype=np.float32)
        elif isinstance(value, np.ndarray):
            array = value
        else:
            array = np.array(value, dtype=np.int64)
        if array.dtype not in (np.float32, np.int64):
            raise ValueError(f"tensor {name}: float32 or int64, not {array.dtype}")
        if name in self._tensors:
            raise ValueError(f"tensor {name} is there already")
        self._tensors[name] = _tensor(name, array)
        if array.dtype == np.float32 and array.size > 1:
            self.parameters_count += int(array.size)
        return name

    def node(
        self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Attribute
    ) -> str:
        """An operator with one output."""
        body = b"".join(_bytes(1, item) for item in inputs) + _bytes(2, output)
        body += _bytes(3, f"{kind}:{output}") + _bytes(4, kind)
        body += b"".join(_bytes(5, _attribute(key, value)) for key, value in attributes.items())
        self._nodes.append(body + (_bytes(7, domain) if domain else b""))
        return output

    def encode(
        self,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        opsets: Mapping[str, int],
        notes: Mapping[str, str],
    ) -> bytes:
        """The whole file (ModelProto); ``notes`` become its metadata."""
        graph = b"".join(_bytes(1, node) for node in self._nodes) + _bytes(2, self.name)
        graph += b"".join(_bytes(5, tensor) for tensor in self._tensors.values())
        graph += b"".join(_bytes(11, port.encode()) for port in inputs)
        graph += b"".join(_bytes(12, port.encode()) for port in outputs)
        model = _number(1, IR_VERSION) + _bytes(2, "pqdetect") + _bytes(7, graph)
        for domain, version in opsets.items():
            model += _bytes(8, (_bytes(1, domain) if domain else b"") + _number(2, version))
        for key, value in notes.items():
            model += _bytes(14, _bytes(1, key) + _bytes(2, value))
        return model
