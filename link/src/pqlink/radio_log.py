"""What telemetry radios say of themselves in ArduPilot's logs, as a trace of the direction they receive.

RAD in dataflash logs (.bin, .log), RADIO_STATUS in telemetry logs (.tlog): about once a second signal and
noise (the radio's own units), free share of its send buffer, and `rxerrors`, a counter of packets it could
not read. Neither rate nor delay is in them, nor how many packets the other end sent: whoever knows it
says so, or it stays unknown. Packets of which the radio heard nothing at all are not counted: the loss is a
lower bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final

from pqlink.errors import TraceError
from pqlink.trace import ms_text, trace_text

_COUNTER: Final = 1 << 16
_US_NS: Final = 1000
#: dataflash: two bytes before each message, its type behind them; type 128 describes the others
_DATAFLASH: Final = b"\xa3\x95"
_FMT: Final = 128
_FMT_LAYOUT: Final = struct.Struct("<BB4s16s64s")
#: letters of dataflash formats as struct knows them (ArduPilot, libraries/AP_Logger/README.md)
_LETTERS: Final = {
    "a": "64s", "b": "b", "B": "B", "h": "h", "H": "H", "i": "i", "I": "I", "f": "f", "d": "d", "n": "4s",
    "N": "16s", "Z": "64s", "c": "h", "C": "H", "e": "i", "E": "I", "L": "i", "M": "B", "q": "q", "Q": "Q",
    "g": "e",
}  # fmt: skip
#: message → last byte of its checksum (MAVLink common.xml and ardupilotmega.xml); both have one layout
_CRC_EXTRA: Final = {109: 185, 166: 21}
_RADIO_STATUS: Final = 109
_STATUS: Final = struct.Struct("<HHBBBBB")


@dataclass(frozen=True)
class Status:
    """One report. t_ns: of the log's own clock; the rest as the radio counts it."""

    t_ns: int
    rssi: int
    remrssi: int
    txbuf: int
    noise: int
    remnoise: int
    rxerrors: int
    fixed: int


#: kept beside the trace for people
_NOTES: Final = ("rssi", "remrssi", "txbuf", "noise", "remnoise", "rxerrors", "fixed")


@dataclass(frozen=True)
class Given:
    """What the log cannot tell and the user knows; None stays unknown.

    packets_hz: packets a second that the other end sent; rate_bit_s, delay_ms: of the whole log.
    """

    packets_hz: float | None = None
    rate_bit_s: int | None = None
    delay_ms: Decimal | None = None


def read_log(content: bytes) -> dict[str, list[Status]]:
    """Reports by radio: `RAD`, or system and component (`51:68`) in a telemetry log. Raises TraceError."""
    if content[:2] == _DATAFLASH:
        found = {"RAD": list(_dataflash(content))}
    elif content[:4] == b"FMT,":
        found = {"RAD": list(_dataflash_text(content))}
    else:
        found = _telemetry_log(content)
    found = {radio: reports for radio, reports in found.items() if reports}
    if not found:
        raise TraceError(
            "no radio reports in this log",
            hint="RAD or RADIO_STATUS come from SiK and RFD radios; others keep still",
        )
    return found


def from_reports(reports: Sequence[Status], given: Given, meta: dict[str, str]) -> str:
    """The text of the trace. Raises TraceError where nothing of it is known, or the counter runs away."""
    if len(reports) < 2:
        raise TraceError("one report tells nothing: its counter has nothing to be compared with")
    if given.packets_hz is None and given.rate_bit_s is None and given.delay_ms is None:
        raise TraceError(
            "the log tells signal, noise and a counter of errors, and no share of loss, rate or delay",
            hint="say what you know: --packets-hz (sent by the other end), --rate-bit-s, --delay-ms",
        )
    names = ["rate_bit_s"] if given.rate_bit_s is not None else []
    names += ["delay_ms"] if given.delay_ms is not None else []
    names += ["loss_pct"] if given.packets_hz is not None else []
    rows = []
    for report, following in pairwise(reports):
        if following.t_ns <= report.t_ns:
            raise TraceError(
                f"reports go back in time at {report.t_ns / 1e9:.3f} s", hint="cut the log: --from-s, --to-s"
            )
        values = [str(given.rate_bit_s)] if given.rate_bit_s is not None else []
        values += [f"{given.delay_ms:f}"] if given.delay_ms is not None else []
        values += [_loss(report, following, given.packets_hz)] if given.packets_hz is not None else []
        rows.append(
            [ms_text(report.t_ns - reports[0].t_ns), *values, *(str(getattr(report, n)) for n in _NOTES)]
        )
    end = ms_text(reports[-1].t_ns - reports[0].t_ns)
    return trace_text(meta, [*names, *(f"x_{name}" for name in _NOTES)], rows, end)


def _loss(report: Status, following: Status, packets_hz: float) -> str:
    errors = (following.rxerrors - report.rxerrors) % _COUNTER
    due = packets_hz * (following.t_ns - report.t_ns) / 1e9
    if errors > due:
        raise TraceError(
            f"at {report.t_ns / 1e9:.3f} s {errors} errors came while {due:.1f} packets were due",
            hint="a higher --packets-hz; or, where the radio began anew, cut the log there: --from-s, --to-s",
        )
    return f"{100 * errors / due:.4f}"


# ---------------------------------------------------------------------- files


def _dataflash(content: bytes) -> Iterator[Status]:
    """RAD of a binary log. What is no message is passed over, as every reader of these logs does."""
    layouts: dict[int, tuple[int, str, str, list[str]]] = {}
    offset = 0
    while (offset := content.find(_DATAFLASH, offset)) >= 0 and offset + 3 <= len(content):
        kind, body = content[offset + 2], offset + 3
        if kind == _FMT and body + _FMT_LAYOUT.size <= len(content):
            number, length, name, letters, columns = _FMT_LAYOUT.unpack_from(content, body)
            texts = [part.rstrip(b"\0").decode("ascii", "replace") for part in (name, letters, columns)]
            layouts[number] = (length, texts[0], texts[1], texts[2].split(","))
            offset = body + _FMT_LAYOUT.size
            continue
        known = layouts.get(kind)
        if known is None or known[0] < 3 or offset + known[0] > len(content):
            offset += 1
            continue
        length, named, letters_of, columns_of = known
        if named == "RAD":
            layout = struct.Struct("<" + "".join(_LETTERS.get(letter, "?") for letter in letters_of))
            if layout.size != length - 3 or len(columns_of) != len(letters_of):
                raise TraceError("the log describes RAD in a way that does not fit its length")
            yield _of_columns(dict(zip(columns_of, layout.unpack_from(content, body), strict=True)))
        offset += length


def _dataflash_text(content: bytes) -> Iterator[Status]:
    columns: list[str] | None = None
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "FMT" and len(cells) > 5 and cells[3] == "RAD":
            columns = cells[5:]
        elif cells[0] == "RAD":
            if columns is None or len(cells) != len(columns) + 1:
                raise TraceError(f"line {number}: RAD does not fit its description")
            try:
                yield _of_columns({name: int(cell) for name, cell in zip(columns, cells[1:], strict=True)})
            except ValueError as error:
                raise TraceError(f"line {number}: {error}") from error


def _of_columns(row: dict[str, int]) -> Status:
    try:
        return Status(
            t_ns=row["TimeUS"] * _US_NS,
            rssi=row["RSSI"],
            remrssi=row["RemRSSI"],
            txbuf=row["TxBuf"],
            noise=row["Noise"],
            remnoise=row["RemNoise"],
            rxerrors=row["RxErrors"],
            fixed=row["Fixed"],
        )
    except KeyError as error:
        raise TraceError(
            f"RAD of this log has no column {error}", hint="logs of ArduPilot 3.5 and newer have it"
        ) from error


def _telemetry_log(content: bytes) -> dict[str, list[Status]]:
    """RADIO_STATUS by radio; RADIO, its forerunner, where a radio sends nothing else."""
    found: dict[tuple[str, int], list[Status]] = {}
    offset = 0
    while offset + 11 <= len(content):
        time_us = int.from_bytes(content[offset : offset + 8], "big")
        frame = content[offset + 8 :][:300]
        length = _frame_length(frame)
        if length is None:
            raise TraceError(
                f"no MAVLink frame at byte {offset}",
                hint="a .tlog of a ground station, or a .bin or .log of ArduPilot",
            )
        if length > len(frame):
            break  # the recorder was stopped within a frame
        offset += 8 + length
        if (told := _radio_report(frame[:length])) is not None:
            radio, message, fields = told
            rxerrors, fixed, rssi, remrssi, txbuf, noise, remnoise = fields
            report = Status(time_us * _US_NS, rssi, remrssi, txbuf, noise, remnoise, rxerrors, fixed)
            found.setdefault((radio, message), []).append(report)
    newer = {radio for radio, message in found if message == _RADIO_STATUS}
    return {r: rows for (r, message), rows in found.items() if message == _RADIO_STATUS or r not in newer}


def _frame_length(frame: bytes) -> int | None:
    if frame[0] == 0xFD:
        return 12 + frame[1] + (13 if frame[2] & 1 else 0)
    return 8 + frame[1] if frame[0] == 0xFE else None


def _radio_report(frame: bytes) -> tuple[str, int, tuple[int, ...]] | None:
    """(radio, message, fields) of an intact report, else None."""
    newer = frame[0] == 0xFD
    head = 10 if newer else 6
    message = int.from_bytes(frame[7:10], "little") if newer else frame[5]
    if message not in _CRC_EXTRA:
        return None
    body_end = head + frame[1]
    given = int.from_bytes(frame[body_end : body_end + 2], "little")
    if given != _x25(frame[1:body_end] + bytes([_CRC_EXTRA[message]])):
        return None
    system, component = (frame[5], frame[6]) if newer else (frame[3], frame[4])
    payload = frame[head:body_end][: _STATUS.size].ljust(_STATUS.size, b"\0")  # zeros at the end are left out
    return f"{system}:{component}", message, _STATUS.unpack(payload)


def _x25(data: bytes) -> int:
    """CRC-16/MCRF4XX, MAVLink's checksum."""
    crc = 0xFFFF
    for byte in data:
        byte ^= crc & 0xFF
        byte ^= (byte << 4) & 0xFF
        crc = (crc >> 8) ^ (byte << 8) ^ (byte << 3) ^ (byte >> 4)
    return crc
