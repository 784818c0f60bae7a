"""What an agent swears to: a chain over all that it hands out in a run, signed by a key that it made for it.

Every entry of the chain is a line of JSON that holds the SHA-256 of the line before; the first holds the
digest of the plan. A line is written when a cell is prepared, when it stops (its counters and the answers
of its windows), when the last page of a stream is handed out, and when the controller tells the digest of
all files of an attempt and the head of the other end's chain. So nothing is hashed while a window is open or
a handshake is under way. The head is signed as an in-toto Statement in a DSSE envelope.

The private key is made here, is never written or handed out, and is dropped when the run ends.
docs/ATTESTATION.md has the format.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pqbase.documents import Json, texts_of
from pqbase.text import canonical_json
from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.errors import TunnelError

SCHEMA: Final = "pqlab/attestation/v1"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "tag:pqlab,2026:attestation/v1"
PAYLOAD: Final = "application/vnd.in-toto+json"
#: records under one digest: a changed one is found to within so many
BLOCK_LINES: Final = 256
_HEX: Final = frozenset("0123456789abcdef")


class NotAttestingError(TunnelError):
    """The agent holds no chain of this run: it was started again, or the run has ended."""

    code = "not_attesting"
    hint = "call attest with op `begin`"


def pre_authentication(kind: str, payload: bytes) -> bytes:
    """What DSSE signs: `DSSEv1 SP LEN(type) SP type SP LEN(payload) SP payload` (DSSE protocol, v1.0)."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


class Chain:
    """One segment: the lines since the key was made. Not safe across threads; `Attestation` locks.

    earlier: head of the segment before (64 hex), None for a run's first. Lines that the controller has are
    dropped, so that a campaign's chain does not grow in the agent's memory.
    """

    def __init__(self, role: str, run_id: str, segment: int, plan_sha256: str, earlier: str | None) -> None:
        self.run_id, self.segment, self.plan_sha256 = run_id, segment, plan_sha256
        self._role = role
        self._earlier = earlier
        self._key: Ed25519PrivateKey | None = Ed25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw().hex()
        self.count = 0
        self.head = plan_sha256
        self._whole = hashlib.sha256()
        self._lines: list[str] = []
        self._dropped = 0
        self.add(
            "begin",
            schema=SCHEMA,
            run_id=run_id,
            role=role,
            segment=segment,
            plan_sha256=plan_sha256,
            public_key=self.public_key,
            earlier=earlier,
        )

    def add(self, entry: str, **facts: object) -> None:
        """One more line. Raises NotAttestingError after the end."""
        if self._key is None:
            raise NotAttestingError("the chain of this run has ended")
        row = {"n": self.count, "prev": self.head, "t_ns": time.time_ns(), "entry": entry, **facts}
        line = json.dumps(row, separators=(",", ":"))
        raw = line.encode()
        self.head = hashlib.sha256(raw).hexdigest()
        self._whole.update(raw + b"\n")
        self._lines.append(line)
        self.count += 1

    def since(self, count: int) -> list[str]:
        """Lines from number `count` on, which is how many the controller has; those before are dropped."""
        if not self._dropped <= count <= self.count:
            raise ParamsError(f"attest: 'since' must be {self._dropped} to {self.count}, not {count}")
        del self._lines[: count - self._dropped]
        self._dropped = count
        return list(self._lines)

    def signed(self, *, last: bool = False) -> Json:
        """The DSSE envelope over the chain as it stands; `last` drops the key."""
        if self._key is None:
            raise NotAttestingError("the chain of this run has ended")
        statement = {
            "_type": STATEMENT,
            "subject": [
                {
                    "name": f"attestation/{self._role}-{self.segment}.ndjson",
                    "digest": {"sha256": self._whole.hexdigest()},
                }
            ],
            "predicateType": PREDICATE,
            "predicate": {
                "run_id": self.run_id,
                "role": self._role,
                "segment": self.segment,
                "entries": self.count,
                "head": self.head,
                "plan_sha256": self.plan_sha256,
                "earlier": self._earlier,
                "public_key": self.public_key,
                "ended": last,
            },
        }
        payload = canonical_json(statement)
        signature = self._key.sign(pre_authentication(PAYLOAD, payload))
        if last:
            self._key = None
        return {
            "payloadType": PAYLOAD,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [
                {"keyid": key_id(self.public_key), "sig": base64.b64encode(signature).decode()},
            ],
        }


def key_id(public_key: str) -> str:
    """Short name of a public key (64 hex): SHA-256 of its bytes, first 16 hex."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]


class _Stream:
    """The digests of a stream while its pages are handed out. events: kept until the last page, because the
    controller sorts them by time among its own; tlog: the pieces are base64 of one file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handed_out = 0
        self._count = 0
        self._open: list[str] = []
        self._digests: list[str] = []
        self._file = hashlib.sha256()

    def page(self, lines: list[str]) -> None:
        self.handed_out += len(lines)
        if self.name == "tlog":
            for piece in lines:
                data = base64.b64decode(piece, validate=True)
                self._file.update(data)
                self._count += len(data)
            return
        # a line may hold the end of one: in the file it is two, and there they are counted
        fresh = "\n".join(lines).split("\n") if lines else []
        self._count += len(fresh)
        self._open += fresh
        if self.name != "events":
            self._close(BLOCK_LINES)

    def done(self) -> Json:
        """Facts of the chain's entry."""
        if self.name == "tlog":
            return {"stream": self.name, "bytes": self._count, "sha256": [self._file.hexdigest()]}
        if self.name == "events":
            rows = sorted(map(json.loads, self._open), key=lambda row: int(row["t_ns"]))
            self._open = [canonical_json(row).decode() for row in rows]
        self._close(BLOCK_LINES)
        self._close(1)
        return {"stream": self.name, "lines": self._count, "sha256": self._digests}

    def _close(self, least: int) -> None:
        """Digests of whole blocks; of what is left, too, where `least` is 1."""
        while len(self._open) >= least:
            block, self._open = self._open[:BLOCK_LINES], self._open[BLOCK_LINES:]
            self._digests.append(hashlib.sha256("".join(f"{line}\n" for line in block).encode()).hexdigest())


class Attestation:
    """The agent's method `attest`, and what its other methods tell it. Without a run that attests, what it
    is told costs a look at one name."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._lock = threading.Lock()
        self._chain: Chain | None = None
        self._cell_id = ""
        self._windows: dict[str, Json] = {}
        self._streams: dict[str, _Stream] = {}

    # ------------------------------------------------------------------ what the other methods tell

    def prepared(self, cell_id: str, suite_id: str) -> None:
        """A cell begins."""
        if self._chain is None:
            return
        with self._lock:
            self._cell_id, self._windows, self._streams = cell_id, {}, {}
            self._add("cell", cell_id=cell_id, suite_id=suite_id)

    def answered(self, window: str, answer: Json) -> None:
        """What opening or closing a window was answered with. Kept, not hashed: a window may be open."""
        if self._chain is not None:
            self._windows[window] = {**self._windows.get(window, {}), **answer}

    def stopped(self, cell_id: str, counters: Json) -> None:
        """A cell ended, with these counters."""
        if self._chain is None:
            return
        with self._lock:
            windows = {name: digest(told) for name, told in sorted(self._windows.items())}
            self._windows = {}
            self._add("stop", cell_id=cell_id, counters_sha256=digest(counters), windows_sha256=windows)

    def handed_out(self, cell_id: str, stream: str, since: int, page: Json) -> None:
        """A page of a stream of a cell that has stopped, as it is answered."""
        if self._chain is None:
            return
        with self._lock:
            if since == 0:
                self._streams[stream] = _Stream(stream)
            known = self._streams.get(stream)
            if cell_id != self._cell_id or known is None or known.handed_out != since:
                self._streams.pop(stream, None)  # read from the middle: nothing to swear to
                return
            known.page(texts_of(page, "lines"))
            if page["end"]:
                self._add("stream", cell_id=cell_id, **self._streams.pop(stream).done())

    def _add(self, entry: str, **facts: object) -> None:
        if self._chain is not None:
            self._chain.add(entry, **facts)

    # ------------------------------------------------------------------ the method

    def handle(self, params: object) -> Json:
        """`begin` a run's chain (or take it up again), swear to an `attempt`, `end` it."""
        given = Params("attest", params)
        operations: dict[str, Callable[[Params], Json]] = {
            "begin": self._begin,
            "attempt": self._attempt,
            "end": self._end,
        }
        operation = given.text("op")
        if operation not in operations:
            raise ParamsError(f"attest: no op {operation!r}", hint="ops: " + ", ".join(operations))
        with self._lock:
            return operations[operation](given)

    def _begin(self, given: Params) -> Json:
        run_id, plan_sha256 = given.text("run_id"), _hex(given, "plan_sha256")
        segment = given.whole("segment", least=1, most=10_000)
        earlier = _hex(given, "earlier") if given.text_or_null("earlier") is not None else None
        lost = given.texts("lost", most=10_000)
        since = given.whole("since", 0, least=0, most=1 << 40)
        given.done()
        chain = self._chain
        if chain is not None and (chain.run_id, chain.plan_sha256) == (run_id, plan_sha256):
            chain.add("resumed", lost=list(lost))
            # who asks for this very segment never got its beginning
            return self._told(chain, since if segment > chain.segment else 0)
        self._chain = chain = Chain(self._role, run_id, segment, plan_sha256, earlier)
        self._cell_id, self._windows, self._streams = "", {}, {}
        if lost:
            chain.add("resumed", lost=list(lost))
        return self._told(chain, 0)

    def _attempt(self, given: Params) -> Json:
        chain = self._of(given.text("run_id"))
        cell_id, files, peer = given.text("cell_id"), _hex(given, "files_sha256"), _hex(given, "peer")
        since = given.whole("since", least=0, most=1 << 40)
        given.done()
        chain.add("attempt", cell_id=cell_id, files_sha256=files, peer=peer)
        return self._told(chain, since)

    def _end(self, given: Params) -> Json:
        chain = self._of(given.text("run_id"))
        peer, documents = _hex(given, "peer"), _hex(given, "documents_sha256")
        since = given.whole("since", least=0, most=1 << 40)
        given.done()
        chain.add("end", documents_sha256=documents, peer=peer)
        told = self._told(chain, since, last=True)
        self._chain = None
        return told

    def _of(self, run_id: str) -> Chain:
        if self._chain is None or self._chain.run_id != run_id:
            raise NotAttestingError(f"this agent holds no chain of run {run_id}")
        return self._chain

    def _told(self, chain: Chain, since: int, *, last: bool = False) -> Json:
        return {
            "segment": chain.segment,
            "since": since,
            "lines": chain.since(since),
            "head": chain.head,
            "public_key": chain.public_key,
            "envelope": chain.signed(last=last),
        }


def digest(value: object) -> str:
    """SHA-256 of a value as JSON with one spelling, after the round trip that it makes to the controller."""
    return hashlib.sha256(canonical_json(json.loads(json.dumps(value)))).hexdigest()


def _hex(given: Params, name: str) -> str:
    value = given.text(name)
    if len(value) != 64 or not set(value) <= _HEX:
        raise ParamsError(f"attest: {name!r} must be a SHA-256 in hex, not {value!r:.80}")
    return value
