"""Any byte flipped, any file dropped, added, renamed or cut short, any manifest rewritten: detected."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bad_bundles.forge import finish, rebag
from bundle_kit import make_sealed

from pqevidence.errors import EXIT_CHECK
from pqevidence.kernel.view import BundleView
from pqevidence.verify import CHECKS, exit_code, verify_bundle
from pqevidence.verify.run import run_checks

FIXITY = [
    check for check in CHECKS if check.name in ("bagit_structure", "tagmanifest_fixity", "manifest_fixity")
]
FLIPS_A_FILE = 3
SEED = 20260301


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(
        tmp_path_factory.mktemp("sealed"), suites=("cs-mlkem768-aesgcm-mldsa65",), session_s=0.5, bulk=False
    )


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def detected(root: Path) -> bool:
    return exit_code(run_checks(BundleView(root), FIXITY)) == EXIT_CHECK


@contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def test_any_byte_flipped(sealed: Path) -> None:
    rng = random.Random(SEED)
    there = files(sealed)
    assert len(there) > 30
    for path in there:
        content = path.read_bytes()
        for _ in range(FLIPS_A_FILE):
            at, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
            with changed(path, content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]):
                assert detected(sealed), f"{path.relative_to(sealed)}: bit {bit} of byte {at}"
    assert not detected(sealed)


def test_any_file_dropped_added_renamed_or_cut(sealed: Path) -> None:
    for path in files(sealed):
        content, name = path.read_bytes(), path.relative_to(sealed)
        with changed(path, content[:-1]):
            assert detected(sealed), f"{name} cut by a byte"
        aside = path.with_name(path.name + "x")
        path.rename(aside)
        assert detected(sealed), f"{name} renamed"
        path.write_bytes(content)
        assert detected(sealed), f"{aside.name} added"
        aside.unlink()
        path.unlink()
        assert detected(sealed), f"{name} dropped"
        path.write_bytes(content)
    assert not detected(sealed)


def drop_a_line(lines: list[str], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def repeat_a_line(lines: list[str], rng: random.Random) -> None:
    lines.append(rng.choice(lines))


def swap_two_digests(lines: list[str], rng: random.Random) -> None:
    one, other = rng.sample(range(len(lines)), 2)
    first, second = lines[one], lines[other]
    lines[one], lines[other] = second[:128] + first[128:], first[:128] + second[128:]


def change_a_digest(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = ("0" if lines[at][0] != "0" else "1") + lines[at][1:]


def name_another_file(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = lines[at].replace("\n", "x\n")


@pytest.mark.parametrize("name", ["manifest-sha512.txt", "tagmanifest-sha512.txt"])
@pytest.mark.parametrize(
    "rewrite", [drop_a_line, repeat_a_line, swap_two_digests, change_a_digest, name_another_file]
)
def test_any_manifest_rewritten(
    sealed: Path, name: str, rewrite: Callable[[list[str], random.Random], None]
) -> None:
    path = sealed / name
    for seed in range(5):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        rewrite(lines, random.Random(SEED + seed))
        with changed(path, "".join(lines).encode()):
            assert detected(sealed), f"{name}, seed {seed}"


def test_any_byte_flipped_and_every_manifest_written_again(sealed: Path, tmp_path: Path) -> None:
    """Logs and telemetry included: the tables beneath the pages are of other bytes."""
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    content = [check for check in CHECKS if check.name == "raw_fingerprints"]
    pages = [check for check in CHECKS if check.name in ("report_numbers", "report_rebuild", "ro_crate")]
    rng = random.Random(SEED)
    made = ("report.html", "report.md", "ro-crate-metadata.json", "analysis/", "datapackage.json", "format/")
    seen = 0
    for path in files(root / "data"):
        name, before = path.relative_to(root / "data").as_posix(), path.read_bytes()
        at, bit = rng.randrange(len(before)), 1 << rng.randrange(7)
        with changed(path, before[:at] + bytes([before[at] ^ bit]) + before[at + 1 :]):
            rebag(root)
            asked = pages if name.startswith(made) else content
            found = exit_code(run_checks(BundleView(root), asked)) == EXIT_CHECK
            # what the crate says of a file beside its name and size, no check reads
            assert found or name == "ro-crate-metadata.json", f"{name}: bit {bit} of byte {at}"
            seen += name.startswith("cells/")
    assert seen > 10
    rebag(root)
    assert exit_code(run_checks(BundleView(root), [*content, *pages])) != EXIT_CHECK


NUMBERS = ("record.json", "report.html", "report.md", "analysis/")


def test_a_number_changed_and_every_manifest_made_to_fit(sealed: Path, tmp_path: Path) -> None:
    """Whoever writes all tag files again is not stopped by them: the files beneath a number are."""
    rng = random.Random(SEED)
    chosen = [path for path in files(sealed) if any(part in path.as_posix() for part in NUMBERS)]
    chosen = [path for path in chosen if set(path.read_bytes()) & set(b"123456789")]
    for path in rng.sample(chosen, 8):
        root = tmp_path / path.name / sealed.name
        shutil.copytree(sealed, root)
        victim = root / path.relative_to(sealed)
        content = victim.read_bytes()
        digits = [at for at, byte in enumerate(content) if byte in b"123456789"]
        at = rng.choice(digits)
        victim.write_bytes(content[:at] + bytes([content[at] - 1]) + content[at + 1 :])
        (finish if victim.suffix == ".json" else rebag)(root)
        results = verify_bundle(root)
        assert exit_code(results) == EXIT_CHECK, f"{path.relative_to(sealed)}: digit {at}"
        assert not {r.name for r in results if r.status == "fail"} & {check.name for check in FIXITY}
        shutil.rmtree(root)
