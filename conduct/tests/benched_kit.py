"""A performance tree without anything native: raw files of every benchmark with times that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from energy_world import World, energy_folder

from pqlab.bench import bundle
from pqtunnel.bench import runner
from pqtunnel.bench.operations import PAYLOADS_BYTES, PUBLISHED_SUITES, file_stem
from pqtunnel.bench.rawfiles import Iteration, document_of, write_whole
from pqtunnel.suites import SUITES

COUNT = 24
SIZES_BYTES = tuple(64 * 2**k for k in range(10))


def iterations(start_ns: int, time_ns: int) -> list[Iteration]:
    """One warm-up and COUNT iterations that spread by a few percent around `time_ns`."""
    rows = []
    for index in range(COUNT + 1):
        spent = time_ns + time_ns * ((index * 7) % 11) // 200 + (time_ns if index == 0 else 0)
        rows.append(Iteration(index, index == 0, start_ns + index * 2 * time_ns, spent, spent + 90, True))
    return rows


def heads() -> list[dict[str, Any]]:
    """What there is to measure, as the bench names it."""
    kems = {suite.kem.token: suite.kem for suite in SUITES.values()}
    sigs = {suite.sig.token: suite.sig for suite in SUITES.values()}
    aeads = {suite.aead.token: suite.aead for suite in SUITES.values()}
    found: list[dict[str, Any]] = []

    def add(category: str, name: str, algorithm: str, operation: str, **sizes: int) -> None:
        found.append(
            {
                "category": category,
                "name": name,
                "algorithm": algorithm,
                "operation": operation,
                "sizes_bytes": sizes,
                "published": True,
            }
        )

    for kem in kems.values():
        for operation in ("keygen", "encapsulate", "decapsulate"):
            add(
                "kem",
                f"{file_stem(kem.name)}_{operation}",
                kem.name,
                operation,
                public_key=kem.public_key_bytes,
                secret_key=kem.secret_key_bytes,
                ciphertext=kem.ciphertext_bytes,
                shared_secret=32,
            )
    for sig in sigs.values():
        for operation in ("keygen", "sign", "verify"):
            add(
                "sig",
                f"{file_stem(sig.name)}_{operation}",
                sig.name,
                operation,
                public_key=sig.public_key_bytes,
                secret_key=sig.secret_key_bytes,
                signature=sig.signature_bytes,
                message=64,
            )
    for aead in aeads.values():
        for operation in ("encrypt", "decrypt"):
            for payload in PAYLOADS_BYTES:
                add(
                    "aead",
                    f"{file_stem(aead.name)}_{operation}_{payload}B",
                    aead.name,
                    operation,
                    payload=payload,
                    tag=16,
                )
    for suite_id in sorted(PUBLISHED_SUITES):
        add("suites", f"{suite_id.replace('-', '_')}_full_handshake", suite_id, "full_handshake")
    for size in SIZES_BYTES:
        add("ladder", f"AES_256_CTR_{size}B", "AES-256-CTR", "encrypt", payload=size)
        add("ladder", f"SHA_256_{size}B", "SHA-256", "hash", payload=size)
    for bits in (2048, 17):
        add(
            "ladder",
            f"RSA_2048_modexp_e{bits}bit",
            "RSA-2048",
            f"modexp, {bits}-bit exponent",
            modulus=256,
            exponent_bits=bits,
        )
    add("ladder", "timer_overhead", "timer", "empty")
    return found


def performance_tree(root: Path) -> None:
    """Write a whole tree as the bench leaves it."""
    facts = {
        "mode": "performance",
        "host": "bench-host",
        "build": "b1",
        "machine": "x86_64",
        "board": None,
        "cpu": "made up",
        "kernel": "6",
        "governor": None,
        "pinned_cpu": 0,
        "load_average": [0.1, 0, 0],
        "timer": "time.perf_counter_ns",
        "timer_overhead_ns": 40,
        "selftest": [],
    }
    write_whole(root / "environment.json", facts)
    names = set()
    start_ns = 1_780_000_000_000_000_000
    for place, head in enumerate(heads()):
        time_ns = 20_000 + 1_700 * place
        document = document_of(
            {**head, "mode": "performance", "host": "bench-host", "build": "b1", "timer_overhead_ns": 40},
            iterations(start_ns, time_ns),
        )
        write_whole(root / "raw" / head["category"] / f"{head['name']}.json", document)
        names.add(f"{head['category']}/{head['name']}.json")
        start_ns += 100 * time_ns
    runner.finish(root, names, COUNT)


def bundle_of(tree: Path, out: Path) -> Path:
    """The bundle of a performance tree alone."""
    bundle.write(tree, None, None, out)
    return out


def powered_bundle(tree: Path, folder: Path) -> Path:
    """The bundle of a performance tree, an energy run of the model and a board's damaged log, in `folder`."""
    folder.mkdir(exist_ok=True)
    world = World()
    energy_folder(
        folder / "run",
        world,
        [
            world.operation("ML-KEM-512 keygen", 20_000_000, 0.3),
            world.operation("ML-DSA-44 sign", 40_000_000, 0.2, "sig"),
            world.operation("AES-256-GCM encrypt", 50_000, 0.0, "aead"),
            *(
                world.operation("Ascon-128a encrypt", 20_000 * payload, 0.3, "aead", payload=payload)
                for payload in (64, 4096)
            ),
        ],
    )
    log = folder / "serial.log"
    log.write_bytes(b"SHA-256 64 bytes: 14 us\nSHA-256 128 byt\nRSA-2048: 219 ms\nSHA-256 256 bytes: 1")
    bundle.write(tree, folder / "run", log, folder / "bundle")
    return folder / "bundle"
