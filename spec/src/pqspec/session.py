"""The data plane of one endpoint, sans-IO: seal, open, replay, epochs, keepalive.

One `Session` lives as long as a cell; each handshake, rekeys included, installs an epoch into it. At most
three epochs live at once: the previous (late packets are still delivered), the current, and at the GCS the
next, which becomes current with its first authenticated packet: made before the old one breaks. In `plain`
mode the one epoch has neither keys nor tag.

Times are monotonic nanoseconds given by the caller. What the addresses of packets mean is in `path`.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import MutableMapping
from typing import Final

from pqspec.replay import Judged, ReplayWindow
from pqtunnel import packet
from pqtunnel.errors import SequenceExhausted, SessionError, SessionNotReady
from pqtunnel.handshake.established import Epoch, Established, Role
from pqtunnel.primitives.interfaces import AeadKey, Primitives
from pqtunnel.session import COUNTERS, SILENCE_NS

KEEPALIVE_NS: Final = 1_000_000_000
RETIRE_NS: Final = 2_000_000_000
REKEY_PACKETS: Final = 1 << 31
REKEY_AGE_NS: Final = 600_000_000_000
HARD_STOP_PACKETS: Final = (1 << 32) - 1
FAILED_TAG_LIMIT: Final = 1 << 36
"""Integrity limit of the weakest AEAD here (RFC 9001 §6.6: ChaCha20-Poly1305); beyond it a key opens
nothing."""
RTT_LIMIT_NS: Final = 10_000_000_000
"""No path is slower than this: a wrong estimate must not keep old keys for long."""
PLAIN_AEAD: Final = "null"
_RETIRED_MEMORY: Final = 16

_TX_COUNTER: Final = {kind: "tx_" + name.replace("-", "_") for kind, name in packet.TYPE_NAMES.items()}
_RX_COUNTER: Final = {kind: "rx_" + name.replace("-", "_") for kind, name in packet.TYPE_NAMES.items()}


class Received:
    """One datagram's outcome. `kind` is a packet type, or 0 when it was dropped for `reason` (already
    counted). `newest`: a new highest sequence of the epoch that is sent on; `first`: that epoch's first
    authentic packet."""

    __slots__ = ("epoch", "first", "kind", "newest", "payload", "reason", "sequence")

    def __init__(
        self,
        kind: int,
        payload: bytes,
        epoch: int,
        sequence: int,
        reason: str = "",
        *,
        newest: bool = False,
        first: bool = False,
    ) -> None:
        self.kind = kind
        self.payload = payload
        self.epoch = epoch
        self.sequence = sequence
        self.reason = reason
        self.newest = newest
        self.first = first

    def __repr__(self) -> str:
        name = packet.TYPE_NAMES.get(self.kind, f"dropped {self.reason}")
        return f"Received({name}, {len(self.payload)} bytes, epoch={self.epoch}, sequence={self.sequence})"


def _as_it_is(nonce: bytes, payload: bytes, header: bytes) -> bytes:
    return payload


class _NoTag(Exception):
    """Never raised: there is no tag that could fail."""


_PLAIN: Final = AeadKey(_as_it_is, _as_it_is, _NoTag)


class _Epoch:
    """Keys, sequence and window of one epoch, both directions."""

    __slots__ = (
        "data_word", "epoch", "failed_tags", "id", "installed_ns", "invalid_tag", "is_plain", "iv_bytes",
        "nibble", "open", "receive_iv", "retire_ns", "rx_index", "seal", "send_iv", "sent", "take_sequence",
        "tx_index", "window",
    )  # fmt: skip

    def __init__(self, established: Established, primitives: Primitives, now_ns: int) -> None:
        aead = established.suite.aead
        self.is_plain = aead.token == PLAIN_AEAD
        if self.is_plain:
            sealer = opener = _PLAIN
        else:
            provider = primitives.aead(aead.token)
            sealer, opener = (
                provider.new(established.keys.send_key),
                provider.new(established.keys.receive_key),
            )
        self.seal = sealer.seal
        self.open = opener.open
        self.invalid_tag = opener.invalid_tag
        self.send_iv = int.from_bytes(established.keys.send_iv, "big")
        self.receive_iv = int.from_bytes(established.keys.receive_iv, "big")
        self.iv_bytes = aead.nonce_bytes or 8
        self.epoch = established.epoch
        self.nibble = established.epoch & 0xF
        self.rx_index = established.rx_index
        self.tx_index = established.tx_index
        self.data_word = packet.first_word(packet.DATA, established.epoch, established.tx_index)
        self.id = established.session_id
        # Taking a number is one indivisible step of the interpreter: however many threads seal, no two
        # packets can share a nonce.
        self.take_sequence = itertools.count().__next__
        self.sent = 0
        self.window = ReplayWindow()
        self.failed_tags = 0
        self.installed_ns = now_ns
        self.retire_ns: int | None = None


class Session:
    """Data plane of one endpoint.

    Any thread may seal, install, or ask; one thread receives (the replay window belongs to it).
    """

    def __init__(self, role: Role, counters: MutableMapping[str, int], primitives: Primitives) -> None:
        self.role: Role = role
        self._counters = counters
        self._primitives = primitives
        self._by_index: dict[int, _Epoch] = {}
        self._retired: deque[int] = deque(maxlen=_RETIRED_MEMORY)
        self._current: _Epoch | None = None
        self._next: _Epoch | None = None
        self._switch = threading.Lock()
        """Held while the table of epochs changes; neither sealing nor opening takes it."""
        self._last_heard_ns = 0
        self._last_sent_ns = 0
        self._sent_seen = -1
        self._retire_after_ns = RETIRE_NS
        self._least_bytes = packet.OVERHEAD_BYTES
        for name in COUNTERS:
            counters.setdefault(name, 0)
        self._dropped = {
            reason: Received(0, b"", 0, 0, reason)
            for reason in ("bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch")
        }

    @property
    def can_send(self) -> bool:
        """True once an epoch may be sent on. At the GCS: after the first authenticated packet."""
        return self._current is not None

    @property
    def epoch(self) -> int | None:
        """32-bit number of the epoch sent on, None before the first."""
        return self._current.epoch if self._current is not None else None

    @property
    def sent_on(self) -> int | None:
        """Receiver index of the epoch sent on, None before the first: numbers of epochs come again when a
        drone restarts, living indices do not."""
        return None if self._current is None else self._current.rx_index

    @property
    def live_epochs(self) -> int:
        """How many epochs can be received on: at most three."""
        return len(self._by_index)

    @property
    def is_plain(self) -> bool:
        """True when the newest installed epoch has neither keys nor tag."""
        return self._least_bytes == packet.HEADER_BYTES

    @property
    def failed_tags(self) -> int:
        """Tags that failed under the keys that live now."""
        return sum(entry.failed_tags for entry in self._by_index.values())

    def index_is_free(self, index: int) -> bool:
        """False for an index that lives, or retired so lately that packets may still carry it."""
        return index not in self._by_index and index not in self._retired

    def set_rtt(self, rtt_ns: int) -> None:
        """From the next switch on, the epoch before it receives for three of these, at least 2 s."""
        self._retire_after_ns = max(RETIRE_NS, 3 * min(max(0, rtt_ns), RTT_LIMIT_NS))

    def install(self, established: Epoch, now_ns: int) -> None:
        """Take in the keys of a completed handshake.

        The drone sends on them at once. The GCS receives on them at once (it installs before it sends
        FinishedGcs) and sends on them from the first authenticated packet on; both send on a plain epoch at
        once. Raises SessionError when the receiver index is taken, the role is not this session's, or plain
        and sealed epochs would live together.
        """
        if not isinstance(established, Established):
            raise SessionError("a native epoch is taken in by a native session")
        if established.role != self.role:
            raise SessionError(f"keys of the {established.role} cannot serve the {self.role}")
        entry = _Epoch(established, self._primitives, now_ns)
        with self._switch:
            if entry.rx_index in self._by_index:
                raise SessionError(
                    f"receiver index {entry.rx_index:#08x} is taken", hint="Draw it by new_index."
                )
            if any(other.is_plain != entry.is_plain for other in self._by_index.values()):
                raise SessionError(
                    "plain and sealed epochs cannot live together", hint="Prepare the cell anew."
                )
            if self._next is not None:
                self._drop(self._next)
                self._next = None
            self._by_index[entry.rx_index] = entry
            self._least_bytes = packet.HEADER_BYTES if entry.is_plain else packet.OVERHEAD_BYTES
            self._last_heard_ns = now_ns
            if self.role == "drone" or entry.is_plain:
                self._promote(entry, now_ns)
            else:
                self._next = entry

    def close(self) -> None:
        """Forget every key. Nothing can be sent or received until the next install."""
        with self._switch:
            for entry in list(self._by_index.values()):
                self._drop(entry)
            self._current = self._next = None

    def seal_data(self, payload: bytes) -> tuple[bytes, int, int]:
        """(datagram, epoch, sequence) of one plaintext datagram.

        Raises SessionNotReady, SequenceExhausted, and SessionError above MAX_PLAINTEXT_BYTES.
        """
        entry = self._current
        if entry is None:
            raise SessionNotReady("no epoch may be sent on yet")
        if len(payload) > packet.MAX_PLAINTEXT_BYTES:
            raise SessionError(
                f"plaintext of {len(payload)} bytes does not fit one datagram", code="oversize"
            )
        sequence = entry.take_sequence()
        if sequence >= HARD_STOP_PACKETS:
            raise SequenceExhausted(f"epoch {entry.epoch} has sent {HARD_STOP_PACKETS} packets")
        entry.sent = sequence + 1
        header = packet.pack_words(entry.data_word, sequence)
        nonce = (entry.send_iv ^ sequence).to_bytes(entry.iv_bytes, "big")
        datagram = header + entry.seal(nonce, payload, header)
        counters = self._counters
        counters["tx_data"] += 1
        counters["tx_data_bytes"] += len(datagram)
        return datagram, entry.epoch, sequence

    def seal_control(self, packet_type: int, payload: bytes = b"") -> bytes:
        """One sealed control datagram. Raises as `seal_data`."""
        entry = self._current
        if entry is None:
            raise SessionNotReady("no epoch may be sent on yet")
        if packet_type == packet.DATA or packet_type not in packet.TYPE_NAMES:
            raise SessionError(f"packet type {packet_type} is not a control type")
        sequence = entry.take_sequence()
        if sequence >= HARD_STOP_PACKETS:
            raise SequenceExhausted(f"epoch {entry.epoch} has sent {HARD_STOP_PACKETS} packets")
        entry.sent = sequence + 1
        header = packet.header(packet_type, entry.epoch, entry.tx_index, sequence)
        nonce = (entry.send_iv ^ sequence).to_bytes(entry.iv_bytes, "big")
        self._counters[_TX_COUNTER[packet_type]] += 1
        return header + entry.seal(nonce, payload, header)

    def receive(self, datagram: bytes, now_ns: int) -> Received:
        """Open one datagram. Never raises on anything the network can send: what is not authentic and fresh
        is dropped under a counted reason, and moves nothing."""
        if len(datagram) < self._least_bytes:
            return self._drop_packet("bad_header")
        word, low32 = packet.unpack_words(datagram)
        packet_type = word >> 28
        if not packet.DATA <= packet_type <= packet.PATH_RESPONSE:
            return self._drop_packet("bad_header")
        index = word & 0xFF_FFFF
        entry = self._by_index.get(index)
        if entry is None:
            return self._drop_packet("old_epoch" if index in self._retired else "unknown_index")
        if word >> 24 & 0xF != entry.nibble:
            return self._drop_packet("bad_header")
        if entry.retire_ns is not None and now_ns > entry.retire_ns:
            self._drop(entry)
            return self._drop_packet("old_epoch")
        window = entry.window
        sequence = expected = window.next_sequence
        judged = Judged.FRESH
        if low32 != sequence & packet.SEQUENCE_MASK:  # not simply the next one, which is never a replay
            sequence = window.reconstruct(low32)
            judged = window.judge(sequence, now_ns)
            if judged is Judged.REPLAY:
                return self._drop_packet("replay")
        if entry.failed_tags >= FAILED_TAG_LIMIT:
            return self._drop_packet("auth_failed")
        try:
            payload = entry.open(
                (entry.receive_iv ^ sequence).to_bytes(entry.iv_bytes, "big"), datagram[8:], datagram[:8]
            )
        except entry.invalid_tag:
            entry.failed_tags += 1
            return self._drop_packet("auth_failed")
        if judged is Judged.COPY:
            window.accept_copy(sequence)
            return self._drop_packet("duplicate")
        window.accept(sequence, now_ns)
        self._last_heard_ns = now_ns
        if entry is self._next:
            with self._switch:
                if entry is self._next:  # still: another handshake may just have replaced it
                    self._promote(entry, now_ns)
        current = entry is self._current
        counters = self._counters
        if packet_type == packet.DATA:
            counters["rx_ok"] += 1
            counters["rx_ok_bytes"] += len(datagram)
            if not current:
                counters["rx_late"] += 1
        else:
            counters[_RX_COUNTER[packet_type]] += 1
        return Received(
            packet_type,
            payload,
            entry.epoch,
            sequence,
            newest=current and sequence >= expected,
            first=current and expected == 0,
        )

    def expire(self, now_ns: int) -> None:
        """Let go of the previous epoch's keys once its time is over. Without it they live until a late packet
        or the next rekey."""
        with self._switch:
            for entry in list(self._by_index.values()):
                if entry.retire_ns is not None and now_ns > entry.retire_ns:
                    self._drop(entry)

    def keepalive_due(self, now_ns: int) -> bool:
        """True when nothing was sent for 1 s; the shell asks at least every 250 ms."""
        entry = self._current
        if entry is None:
            return False
        if entry.sent != self._sent_seen:
            self._sent_seen = entry.sent
            self._last_sent_ns = now_ns
            return False
        return now_ns - self._last_sent_ns >= KEEPALIVE_NS

    def silent(self, now_ns: int) -> bool:
        """True when an installed epoch has heard nothing authentic for 3 s; the drone then dials again. Never
        in plain mode, where nothing is authentic and nobody can be dialled."""
        return bool(self._by_index) and not self.is_plain and now_ns - self._last_heard_ns >= SILENCE_NS

    def rekey_due(self, now_ns: int) -> bool:
        """True from 2^31 packets or 10 minutes on the epoch that is sent on; never in plain mode."""
        entry = self._current
        if entry is None or entry.is_plain:
            return False
        return entry.sent >= REKEY_PACKETS or now_ns - entry.installed_ns >= REKEY_AGE_NS

    def _promote(self, entry: _Epoch, now_ns: int) -> None:
        """Send on `entry` from now on; the epoch before it keeps receiving for 2 s or 3 RTT, older ones
        end."""
        self._next = None
        previous = self._current
        for other in list(self._by_index.values()):
            if other is not entry and other is not previous:
                self._drop(other)
        if previous is not None:
            previous.retire_ns = now_ns + self._retire_after_ns
        self._sent_seen = -1
        self._last_sent_ns = now_ns
        self._current = entry

    def _drop(self, entry: _Epoch) -> None:
        if self._by_index.pop(entry.rx_index, None) is not None:
            self._retired.append(entry.rx_index)

    def _drop_packet(self, reason: str) -> Received:
        self._counters[reason] += 1
        return self._dropped[reason]
