"""Whole handshakes: a relay between two honest ends, and each end against a peer that holds real keys.

The primitives are the tests' doubles: they count what was asked of them, so that "nothing dear before the
MAC" is a number here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core_kit import CountingRng, FakePrimitives, Lab, basis_of, deliver, from_session
from reader import Reader, altered

from pqspec.handshake.machine import HandshakeMachine
from pqspec.handshake.transcript import signed_message, transcript_1, transcript_2
from pqspec.keyschedule import PskKeys, mac
from pqtunnel import wire
from pqtunnel.errors import HandshakeError, KeyMaterialError
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.suites import by_wire, get
from targets import Target, either, scene

SUITES = [get("cs-mlkem512-aesgcm-mldsa44"), get("cs-mlkem512-chacha20poly1305-falcon512")]


@dataclass
class _World:
    """Identities, a finished handshake to replay and rekey from, and the count of dear work since `begin`."""

    lab: Lab = field(default_factory=Lab)
    recorded: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        def wiretap(_sender: str, frame: bytes) -> bytes:
            self.recorded.append(frame)
            return frame

        self.old_drone, self.old_gcs = self.lab.handshake(SUITES[0], wiretap)
        self.psk_keys = PskKeys.derive(self.lab.psk.psk)
        pairs = {suite.sig.token: self.lab.primitives.sig(suite.sig.token).generate() for suite in SUITES}
        self.drone_secrets = {token: pair[1] for token, pair in pairs.items()}
        self.drone_public = {token: pair[0] for token, pair in pairs.items()}
        self.begin()

    def begin(self) -> None:
        """Forget the counts; randomness starts again, so that a run depends on its input alone."""
        assert isinstance(self.lab.primitives, FakePrimitives)
        self.primitives = self.lab.primitives
        self.primitives._rng.calls = 0
        for scheme in (*self.primitives.kems.values(), *self.primitives.sigs.values()):
            scheme.__dict__.update(
                {name: 0 for name, value in vars(scheme).items() if isinstance(value, int)}
            )
        self.lab.drone_counters.clear()
        self.lab.gcs_counters.clear()

    def did(self, name: str) -> int:
        """How often a primitive was used: generated, encapsulated, decapsulated, signed, verified."""
        both = (*self.primitives.kems.values(), *self.primitives.sigs.values())
        return sum(getattr(scheme, name, 0) for scheme in both)


WORLD = _World()


def _same(drone: Established, gcs: Established) -> None:
    assert (drone.keys.send_key, drone.keys.send_iv) == (gcs.keys.receive_key, gcs.keys.receive_iv)
    assert (drone.keys.receive_key, drone.keys.receive_iv) == (gcs.keys.send_key, gcs.keys.send_iv)
    assert (drone.epoch, drone.session_id, drone.suite) == (gcs.epoch, gcs.session_id, gcs.suite)
    assert (drone.rx_index, drone.tx_index) == (gcs.tx_index, gcs.rx_index)
    assert drone.rekey_secret == gcs.rekey_secret and drone.exporter == gcs.exporter


def _erased(machine: HandshakeMachine) -> None:
    assert not any(getattr(machine, "_kem_secret", b"")), "a KEM secret outlives its handshake"
    assert getattr(machine, "_secrets", None) is None, "secrets outlive a handshake"
    assert getattr(machine, "_pair", None) is None, "a key pair outlives its handshake"


def relay(data: bytes) -> None:
    """Two honest ends; every frame passes through the fuzzer, which also holds an older recorded handshake.

    One changed bit anywhere: the drone never establishes, and the GCS does only if what changed came after.
    """
    reader, world = Reader(data), WORLD
    world.begin()
    choice = reader.u8()
    suite, rekeys, held = SUITES[choice & 1], bool(choice & 2), bool(choice & 4)
    signs = bool(choice & 8)
    drone = world.lab.drone(
        suite,
        epoch=7,
        rng=CountingRng(b"d"),
        rekey=from_session(world.old_drone) if rekeys else None,
        signing_keys=world.drone_secrets if signs else None,
    )
    gcs = world.lab.gcs(
        rng=CountingRng(b"g"),
        rekey_basis=basis_of(world.old_gcs) if held else None,
        drone_keys=(lambda _key_id: world.drone_public) if signs else None,
    )
    drone.start()
    frame, sender, touched = b"".join(gcs.start()), "gcs", []
    over: dict[str, bytes] = {"drone": b"", "gcs": b""}  # more than one frame came: a stream keeps the rest
    failed: HandshakeError | None = None
    while frame:
        receiver: HandshakeMachine = drone if sender == "gcs" else gcs
        given = altered(reader, frame)
        if reader.u8() == 0xAA:
            given = world.recorded[reader.u8() % len(world.recorded)]
        given = over[sender] + given
        over[sender] = given[len(frame) :]
        if given[: len(frame)] != frame:
            touched.append(frame[0] & 15)
        before = world.did("decapsulated"), world.did("generated"), world.did("encapsulated")
        try:
            answer = deliver(receiver, given)
        except HandshakeError as error:
            failed = error
            _erased(receiver)
            assert receiver.established is None and not receiver.done
            after = world.did("decapsulated"), world.did("generated"), world.did("encapsulated")
            assert after == before or not touched, "dear work for a frame that was changed"
            # The authenticated refusal is the one answer that goes back; it ends the drone's attempt too.
            answer = [getattr(error, "answer", b"") or b""]
            frame, sender = b"".join(answer), "drone" if sender == "gcs" else "gcs"
            if not frame:
                break
            continue
        # A Challenge authenticates nobody; every other frame is bound to the transcript.
        assert not touched or touched[-1] == wire.CHALLENGE, f"a changed {touched[-1]} was taken"
        frame, sender = b"".join(answer), "drone" if sender == "gcs" else "gcs"
    if not touched and (not rekeys or held):
        assert failed is None and drone.established and gcs.established
        _same(drone.established, gcs.established)
    elif not touched:
        assert failed is not None and failed.code == "session_unknown", f"{failed!r}"
    else:
        assert drone.established is None, f"the drone established although {touched} was changed"
        if gcs.established is not None:
            assert touched == [wire.GCS_FINISHED], f"the GCS established although {touched} was changed"
        else:
            assert world.did("decapsulated") == 0, "decapsulated for a handshake that was refused"
    for machine in (drone, gcs):
        if machine.error is not None:
            _erased(machine)
    counted = {**world.lab.drone_counters, **world.lab.gcs_counters}
    assert failed is None or counted.get(failed.counter, 0) >= 1, "a refusal that no counter shows"


def hostile_drone(data: bytes) -> None:
    """A thief of one PSK against the GCS: Hellos of any content with a right MAC, then any ciphertext.

    Whatever it asks for, the GCS speaks only accepted suites at or above its floor, decapsulates only after
    a right FinishedDrone, and gives a rekey only the session that this drone made.
    """
    reader, world = Reader(data), WORLD
    world.begin()
    shape = reader.u8()
    accepted = None if shape & 1 else (SUITES[0].id,)
    level = (1, 3, 5)[shape >> 1 & 3] if shape >> 1 & 3 < 3 else 1
    psk_keys, owner = world.psk_keys, world.lab.psk.key_id
    if shape & 8:  # the other drone's key: it may make sessions, and touch none of the first drone's
        thief = DronePsk(b"drone-02", bytes(reversed(range(32))))
        psk_keys, owner = PskKeys.derive(thief.psk), thief.key_id
    gcs = world.lab.gcs(
        accepted=accepted, min_level=level, rng=CountingRng(b"g"), rekey_basis=basis_of(world.old_gcs)
    )
    challenge = b"".join(gcs.start())
    code = SUITES[reader.u8() & 1].wire_code if shape & 16 else reader.exactly(3)
    old = world.old_gcs.session_id if shape & 32 else reader.exactly(16) if shape & 64 else bytes(16)
    hello = wire.Hello(
        version=wire.VERSION if shape & 128 else reader.u8(),
        purpose=reader.u8() % 4,
        suite_code=code,
        flags=reader.u8() if reader.u8() & 1 else 0,
        drone_id=owner if reader.u8() < 250 else reader.exactly(8),
        nonce=reader.exactly(32),
        epoch=reader.u32(),
        rx_index=reader.u32() & 0xFF_FFFF,
        old_session=old,
        mac=b"",
    )
    unauthenticated = hello.encode_unauthenticated()
    right_mac = reader.u8() < 240
    tag = mac(psk_keys.hello, challenge, unauthenticated) if right_mac else reader.exactly(32)
    try:
        frames = b"".join(deliver(gcs, unauthenticated + tag))
    except HandshakeError:
        assert gcs.established is None and not gcs.done
        assert world.did("generated") + world.did("signed") + world.did("decapsulated") == 0, (
            "refused, and yet dear"
        )
        _erased(gcs)
        return
    suite = by_wire(code)
    assert right_mac and hello.drone_id == owner and hello.version == wire.VERSION, (
        "no right Hello, yet an answer"
    )
    assert suite is not None and suite.level >= level and (accepted is None or suite.id in accepted)
    rekey = hello.purpose == wire.PURPOSE_REKEY
    assert not rekey or (old == world.old_gcs.session_id and owner == world.old_gcs.peer_key_id)
    assert not rekey or hello.epoch > world.old_gcs.epoch, "an epoch went backwards"
    server = wire.parse_server_hello(frames[wire.HEADER_BYTES :], suite)
    ciphertext = altered(reader, b"\x5a" * suite.kem.ciphertext_bytes)
    th1 = transcript_1(challenge, unauthenticated + tag, server.signed_part)
    right = reader.u8() < 200
    finished = (
        mac(psk_keys.drone_finished, transcript_2(th1, server.signature, ciphertext)) if right else bytes(32)
    )
    try:
        deliver(gcs, wire.encode_client_kem(ciphertext, finished))
    except HandshakeError:
        assert world.did("decapsulated") == 0 and gcs.established is None
    else:
        assert right and len(ciphertext) == suite.kem.ciphertext_bytes, "a wrong FinishedDrone passed"
        assert world.did("decapsulated") == 1 and gcs.established is not None
        assert gcs.established.epoch == hello.epoch and gcs.established.peer_key_id == owner
    _erased(gcs)


def hostile_gcs(data: bytes) -> None:
    """A drone against a peer that is not the GCS, or that is and lies: it never establishes without a right
    FinishedGcs, and encapsulates only to a key that the pinned key has signed in this very transcript."""
    reader, world = Reader(data), WORLD
    world.begin()
    shape = reader.u8()
    suite = SUITES[shape & 1]
    try:
        basis = RekeyFrom(reader.exactly(16), reader.u8(), reader.exactly(32)) if shape & 2 else None
    except KeyMaterialError:
        basis = None  # a session id of zeros names none
    drone = world.lab.drone(suite, epoch=300, rng=CountingRng(b"d"), rekey=basis)
    drone.start()
    gcs_id = world.lab.identity.public.key_id if shape & 4 else reader.exactly(32)
    challenge = altered(reader, wire.Challenge(wire.VERSION, reader.exactly(32), gcs_id).encode())
    try:
        hello = b"".join(deliver(drone, challenge))
    except HandshakeError:
        assert drone.established is None
        return
    assert challenge[5 + 32 : 5 + 64] == world.lab.identity.public.key_id, "an unpinned GCS got a Hello"
    if shape & 8:  # an answer to a rekey that only the real GCS can give
        try:
            deliver(drone, altered(reader, wire.encode_session_unknown(reader.exactly(32))))
        except HandshakeError as error:
            assert error.code != "session_unknown", "a forged refusal was believed"
        else:
            raise AssertionError("SessionUnknown continued a handshake")
        assert drone.established is None
        return
    key = reader.take(8).ljust(suite.kem.public_key_bytes, b"k")
    part = wire.server_hello_signed_part(reader.u32() & 0xFF_FFFF, key)
    secret = world.lab.identity.secrets[suite.sig.token]
    other = reader.u8()  # mostly signs the right transcript
    th1 = transcript_1(challenge, hello, part) if other < 200 else reader.exactly(64)
    signature = world.lab.primitives.sig(suite.sig.token).sign(secret, signed_message(th1))
    sent = wire.server_hello_header(part, signature) + part + wire.prefixed(signature)
    given = altered(reader, sent)
    try:
        client = b"".join(deliver(drone, given))
    except HandshakeError:
        assert world.did("encapsulated") == 0 and drone.established is None
        _erased(drone)
        return
    assert given[: len(sent)] == sent and other < 200, "a ServerHello nobody signed was taken"
    assert world.did("encapsulated") == 1 and client
    try:
        deliver(drone, altered(reader, wire.encode_gcs_finished(reader.exactly(32))))
    except HandshakeError:
        assert drone.established is None
        _erased(drone)
        return
    raise AssertionError("the drone established on a FinishedGcs nobody could make")


def _seeds(*firsts: int) -> dict[str, bytes]:
    return {f"seed-{first:02x}": bytes((first,)) + bytes(24) for first in firsts}


def _relay_seeds() -> dict[str, bytes]:
    flips = {
        f"seed-flip-{frame}-{choice}": bytes((choice,)) + bytes(2) * frame + b"\x03\x00\x20\x01\x00"
        for frame in range(5)
        for choice in (0, 8)
    }
    return {
        **_seeds(0, 1, 2, 3, 6, 7, 8, 9, 14),
        **flips,
        "seed-replay": b"\x00\x00\xaa\x02\x00\xaa\x01\x00\xaa\x03",
    }


def _drone_seeds() -> dict[str, bytes]:
    new = b"\x01\x00\x00" + bytes(32 + 4 + 4)
    rekey = b"\x02\x00\x00" + bytes(32) + b"\x00\x00\x00\x09" + bytes(4)
    return {
        "seed-new": b"\x91\x00" + new,
        "seed-rekey": b"\xb1\x00" + rekey,
        "seed-thief": b"\xb9\x00" + rekey,
        "seed-any-suite": b"\x81\x02\x01\x01" + new,
        "seed-wrong-mac": b"\x91\x00" + new + b"\xff" + bytes(32),
        "seed-wrong-finished": b"\x91\x00" + new + b"\x00\x00\xff",
    }


def _gcs_seeds() -> dict[str, bytes]:
    rekey = b"\x06" + b"\x07" * 16 + b"\x05" + b"\x09" * 32
    return {
        **_seeds(4, 5, 0),
        "seed-rekey": rekey + bytes(80),
        "seed-unknown": b"\x0e" + rekey[1:] + bytes(80),
    }


TARGETS = {
    "handshake": Target(
        "handshakes: a relay between two honest ends, the GCS against a thief, the drone against a liar",
        either(relay, hostile_drone, hostile_gcs),
        lambda: scene(0, _relay_seeds()) | scene(1, _drone_seeds()) | scene(2, _gcs_seeds()),
        (
            "spec/src/pqspec/handshake/*.py",
            "spec/src/pqspec/keyschedule.py",
            "tunnel/src/pqtunnel/handshake/*.py",
            "tunnel/src/pqtunnel/wire.py",
        ),
        limit=512,
    ),
}
