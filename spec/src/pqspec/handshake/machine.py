"""What both ends' state machines share: awaiting one frame at a time, refusing, counting, erasing."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import ClassVar

from pqtunnel.errors import BadLength, HandshakeError, PrimitiveFailed, SessionError, TimedOut, TunnelError
from pqtunnel.handshake import limits
from pqtunnel.handshake.established import Established
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer
from pqtunnel.wire import PURPOSE_NEW, check_header

Rng = Callable[[int], bytes]


class HandshakeMachine:
    """One end of one handshake. Owns no socket and no clock; the shell drives it:

        send(start()); while not done: length = on_header(read(4)); send(on_body(read(length)))

    Every refusal is counted once under its own name, wipes what is secret, and ends the machine.
    """

    _steps_by_awaited: ClassVar[dict[int, tuple[str, str]]]
    """Frame type awaited → (wait step, send step that follows it)."""

    def __init__(
        self,
        *,
        suite: Suite | None,
        primitives: Primitives,
        rng: Rng,
        tracer: Tracer,
        counters: MutableMapping[str, int],
        min_level: int,
        rx_index: int,
    ) -> None:
        self.suite = suite
        self.established: Established | None = None
        self.handshake_id = ""
        self.error: HandshakeError | None = None
        self._primitives = primitives
        self._rng = rng
        self._tracer = tracer
        self._counters = counters
        self._min_level = min_level
        self._rx_index = rx_index
        self.purpose = PURPOSE_NEW
        self._awaited: int | None = None
        self._answered: int | None = None
        self._alternative: int | None = None
        self._drone_signs = False
        self._announced: tuple[int, int] | None = None

    @property
    def done(self) -> bool:
        """True once nothing more is awaited and the epoch is established."""
        return self.established is not None and self._awaited is None

    @property
    def deadline_s(self) -> float:
        """Total seconds allowed from accept: 5 plus the suite's crypto allowance once the suite is known."""
        return limits.BASE_DEADLINE_S + (self.suite.crypto_allowance_s if self.suite is not None else 0.0)

    @property
    def wait_step(self) -> str:
        """Trace step under which the shell waits for the next frame."""
        return self._steps_by_awaited[self._awaited][0] if self._awaited is not None else ""

    @property
    def send_step(self) -> str:
        """Trace step under which the shell sends what the last call returned."""
        return self._steps_by_awaited[self._answered][1] if self._answered is not None else ""

    def on_header(self, header: bytes) -> int:
        """Length of the body to read next. Raises HandshakeError before any of it need be stored."""
        awaited = self._require_awaited()
        try:
            self._announced = check_header(
                header, awaited, self.suite, self._alternative, drone_signs=self._drone_signs
            )
        except HandshakeError as error:
            raise self._refuse(error) from None
        return self._announced[1]

    def on_body(self, body: bytes | bytearray | memoryview) -> list[bytes]:
        """Process the awaited body; returns buffers to send in order (together whole frames, maybe none).

        Raises HandshakeError. A primitive that fails is a HandshakeError too, with the cause chained.
        """
        awaited = self._require_awaited()
        try:
            if self._announced is None:
                raise BadLength("a body came before its header")
            frame_type, length = self._announced
            if len(body) != length:
                raise BadLength(f"body of {len(body)} bytes, the header announced {length}")
            self._announced = None
            buffers = self._handle(frame_type, bytes(body))
        except HandshakeError as error:
            raise self._refuse(error) from error.__cause__
        except PrimitiveFailed as error:
            raise self._refuse(HandshakeError(str(error), hint=error.hint)) from error
        self._answered = awaited
        return buffers

    def fail_timeout(self) -> HandshakeError:
        """Give up because the deadline passed; returns the error, counted, for the shell to raise or log."""
        return self._refuse(
            TimedOut(f"no answer within {self.deadline_s:.1f} s (in {self.wait_step or 'start'})")
        )

    def disown(self, error: TunnelError) -> HandshakeError:
        """The shell cannot install what was established, and sends nothing of it: this handshake did not
        complete. Returns the error, counted, for the shell to raise."""
        if self.established is not None:
            self._counters["hs_completed"] -= 1
        if isinstance(error, HandshakeError):
            return self._refuse(error)
        return self._refuse(HandshakeError(str(error), code=error.code, hint=error.hint))

    def abort(self) -> None:
        """End without a verdict (connection lost): erase secrets, await nothing. The shell counts what it
        saw."""
        self._awaited = None
        self._wipe()

    def _handle(self, frame_type: int, body: bytes) -> list[bytes]:
        raise NotImplementedError

    def _wipe(self) -> None:
        """Erase secrets that are no longer needed; safe to call twice."""
        raise NotImplementedError

    def _count(self, name: str) -> None:
        self._counters[name] = self._counters.get(name, 0) + 1

    def _refuse(self, error: HandshakeError) -> HandshakeError:
        if self.error is None:
            self.error = error
            self._count(error.counter)
        self.established = None
        self.abort()
        return error

    def _require_awaited(self) -> int:
        if self._awaited is None:
            raise SessionError("this handshake has ended or not started", hint="Start a new handshake.")
        return self._awaited

    def _identify(self, challenge_nonce: bytes) -> None:
        self.handshake_id = self._tracer.handshake_id = challenge_nonce[:8].hex()
