"""Archive and unpack: the same bundle comes out, byte for byte, or nothing does."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hostile_archives
import pytest
from bundle_kit import last_json, make_sealed
from hostile_archives import HOSTILE

from pqevidence.bundle.archive import archive
from pqevidence.bundle.half import half_made
from pqevidence.bundle.tarball import ArchiveError
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, EXIT_INTERRUPTED, EXIT_USAGE, LabError
from pqlab.cli.main import main
from waiting import LIMIT_S


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("sealed"), bulk=False)


@pytest.fixture(scope="module")
def good(sealed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(sealed, tmp_path_factory.mktemp("good") / "good.tar.zst").file


def contents(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_round_trip_is_byte_equal(sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sent.tar.zst"
    assert main(["archive", str(sealed), "--out", str(file), "--json"]) == 0
    told = last_json(capsys)
    assert told["files_count"] == len(contents(sealed))
    assert told["archive_bytes"] == file.stat().st_size
    assert main(["unpack", str(file), "--out", str(tmp_path / "there"), "--json"]) == 0
    told = last_json(capsys)
    bundle = tmp_path / "there" / sealed.name
    assert contents(bundle) == contents(sealed)
    assert str(told["next"]).startswith("./pqlab verify ") and str(told["next"]).endswith(sealed.name)
    assert [p.name for p in (tmp_path / "there").iterdir()] == [sealed.name]
    assert main(["verify", str(bundle)]) == main(["verify", str(sealed)])


def test_the_same_bundle_gives_the_same_file(sealed: Path, good: Path, tmp_path: Path) -> None:
    other = tmp_path / "under-another-name"
    shutil.copytree(sealed, other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    again = archive(other, tmp_path / "again.tar.zst").file
    assert again.read_bytes() == good.read_bytes()


def test_any_tar_can_read_it(sealed: Path, good: Path) -> None:
    import tarfile

    import zstandard

    with good.open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(stream)) as tar:
        infos = tar.getmembers()
    assert [info.name for info in infos] == sorted(info.name for info in infos)
    assert {(info.mtime, info.uid, info.gid, info.uname, info.mode) for info in infos} == {
        (0, 0, 0, "", 0o644)
    }
    assert {info.name.partition("/")[2] for info in infos} == set(contents(sealed))


def test_an_archive_of_plain_tar_is_taken(sealed: Path, tmp_path: Path) -> None:
    entries = hostile_archives.good_entries(sealed)
    folder = hostile_archives.odd_entry(f"{sealed.name}/data/", b"5")
    top = hostile_archives.odd_entry(f"{sealed.name}/", b"5")
    stream = hostile_archives.tar_of([top, folder, *entries])
    done = unpack(io.BytesIO(hostile_archives.packed(stream)), tmp_path)
    assert contents(done.bundle) == contents(sealed)


#: frame descriptor and window size of a zstd frame: what they say beside the checksum changes no content
WINDOW = (4, 5)


def test_any_byte_flipped_in_an_archive_is_refused(sealed: Path, good: Path, tmp_path: Path) -> None:
    rng, content = random.Random(20260301), good.read_bytes()
    size = len(content)
    places = [*range(12), *(rng.randrange(size) for _ in range(60)), *range(size - 4, size)]
    for at in places:
        bit = 1 << rng.randrange(8)
        flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        if at in WINDOW:
            continue
        with pytest.raises(ArchiveError):
            unpack(io.BytesIO(flipped), tmp_path / "there")
        assert not list((tmp_path / "there").glob("*")), f"bit {bit} of byte {at} left something"
    for at in WINDOW:  # a larger window, or a reserved bit: refused, or the very same bundle
        for bit in range(8):
            flipped = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            try:
                found = unpack(io.BytesIO(flipped), tmp_path / "there").bundle
            except ArchiveError:
                continue
            assert contents(found) == contents(sealed)
            shutil.rmtree(found)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused_by_name(
    name: str, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, make = HOSTILE[name]
    file, out = tmp_path / "in" / "hostile.tar.zst", tmp_path / "deep" / "out"
    file.parent.mkdir()
    make(sealed, file)
    assert main(["unpack", str(file), "--out", str(out), "--json"]) == EXIT_CHECK
    caught = capsys.readouterr()
    assert json.loads(caught.out.splitlines()[-1])["error"]["code"] == code
    assert [line[:8] for line in caught.err.splitlines()] == [
        "error: " + caught.err[7],
        "  why:  ",
        "  next: ",
    ]
    left = [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()]
    assert left == ["in/hostile.tar.zst"]
    assert not out.exists() or list(out.iterdir()) == []


def test_the_base_of_the_hostile_ones_is_good(sealed: Path, tmp_path: Path) -> None:
    stream = hostile_archives.tar_of(hostile_archives.good_entries(sealed))
    done = unpack(io.BytesIO(hostile_archives.packed(stream)), tmp_path)
    assert contents(done.bundle) == contents(sealed)


def test_a_bomb_stops_at_the_limit(sealed: Path, tmp_path: Path) -> None:
    bomb = hostile_archives.zeros(sealed.name, files=3, size=4 << 20)
    assert len(bomb) < 20_000
    with pytest.raises(ArchiveError, match="more than 8,388,608 bytes") as caught:
        unpack(io.BytesIO(bomb), tmp_path, max_total_bytes=8 << 20)
    assert caught.value.code == "archive-too-large" and "--max-gib" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(sealed: Path, good: Path, tmp_path: Path) -> None:
    (tmp_path / sealed.name).mkdir()
    with good.open("rb") as content, pytest.raises(LabError) as caught:
        unpack(content, tmp_path)
    assert caught.value.code == "exists" and list((tmp_path / sealed.name).iterdir()) == []
    (tmp_path / "there.tar.zst").write_text("mine")
    with pytest.raises(LabError) as caught:
        archive(sealed, tmp_path / "there.tar.zst")
    assert caught.value.code == "exists" and (tmp_path / "there.tar.zst").read_text() == "mine"


def test_a_changed_bundle_is_not_archived(sealed: Path, tmp_path: Path) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    (root / "data" / "report.md").write_text("better")
    with pytest.raises(ArchiveError, match=r"data/report\.md is not as it was sealed") as caught:
        archive(root, tmp_path / "x.tar.zst")
    assert caught.value.code == "archive-fixity"
    (root / "data" / "report.md").unlink()
    with pytest.raises(ArchiveError, match="is missing"):
        archive(root, tmp_path / "x.tar.zst")
    (root / "tagmanifest-sha512.txt").unlink()
    with pytest.raises(ArchiveError, match="not sealed"):
        archive(root, tmp_path / "x.tar.zst")
    assert [p.name for p in tmp_path.iterdir()] == [sealed.name]


def test_two_at_once_and_what_a_killed_one_left(tmp_path: Path) -> None:
    target = tmp_path / "made"
    with half_made(target) as folder:
        (folder / "piece").write_text("x")
        with pytest.raises(LabError) as caught, half_made(target):
            pass
        assert caught.value.code == "busy" and (folder / "piece").exists()
    left = tmp_path / ".made.half" / "old"
    left.mkdir(parents=True)
    (left / "piece").write_text("x")
    with half_made(target) as folder:
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def slow_child(tmp_path: Path, verb: str, sealed: Path, good: Path) -> subprocess.Popen[str]:
    """The verb in a process of its own, made slow after its first file so that a signal meets it half-way."""
    arguments = {
        "unpack": ["unpack", str(good), "--out", str(tmp_path / "out")],
        "archive": ["archive", str(sealed), "--out", str(tmp_path / "out" / "file.tar.zst")],
    }[verb]
    slow = (
        "import sys, time; from pqevidence.bundle import archive, unpack\n"
        "for module, name in ((archive, '_copy'), (unpack, '_write')):\n"
        "    def wait(*a, _inner=getattr(module, name)):\n"
        "        out = _inner(*a); print('one', flush=True); time.sleep(5); return out\n"
        "    setattr(module, name, wait)\n"
        "from pqlab.cli.main import main\n"
        f"sys.exit(main({arguments!r}))"
    )
    (tmp_path / "out").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", slow],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stdout.readline() == "one\n"
    return child


@pytest.mark.parametrize("verb", ["archive", "unpack"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_half_way_leaves_nothing_half(
    verb: str, how: signal.Signals, sealed: Path, good: Path, tmp_path: Path
) -> None:
    child = slow_child(tmp_path, verb, sealed, good)
    child.send_signal(how)
    child.communicate(timeout=LIMIT_S)
    assert child.returncode == (EXIT_INTERRUPTED if how == signal.SIGINT else -signal.SIGKILL)
    shown = [p.name for p in (tmp_path / "out").iterdir() if not p.name.endswith(".half")]
    assert shown == []
    if how == signal.SIGINT:
        assert list((tmp_path / "out").iterdir()) == []
    # and the next one works and clears what was left
    if verb == "unpack":
        assert main(["unpack", str(good), "--out", str(tmp_path / "out")]) == 0
        assert contents(tmp_path / "out" / sealed.name) == contents(sealed)
    else:
        assert main(["archive", str(sealed), "--out", str(tmp_path / "out" / "file.tar.zst")]) == 0
        assert (tmp_path / "out" / "file.tar.zst").read_bytes() == good.read_bytes()
    assert not list((tmp_path / "out").glob(".*"))


# --- signatures ---


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ann and bob have keys; the list of allowed signers names ann's alone."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("ann", "bob"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
        )
    (folder / "signers").write_text("ann@lab " + (folder / "ann.pub").read_text())
    return folder


def check_options(keys: Path, identity: str = "ann@lab") -> list[str]:
    return ["--verify-signature", str(keys / "signers"), "--identity", identity]


@pytest.fixture
def signed(sealed: Path, keys: Path, tmp_path: Path) -> Path:
    file = tmp_path / "signed.tar.zst"
    assert main(["archive", str(sealed), "--out", str(file), "--sign", str(keys / "ann")]) == 0
    return file


def test_a_signature_holds(
    signed: Path, sealed: Path, good: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert signed.read_bytes() == good.read_bytes()
    assert main(["unpack", str(signed), "--out", str(tmp_path / "o"), "--json", *check_options(keys)]) == 0
    assert last_json(capsys)["signed_by"] == "ann@lab"
    assert contents(tmp_path / "o" / sealed.name) == contents(sealed)


def refused(
    file: Path, options: list[str], out: Path, capsys: pytest.CaptureFixture[str], exit_code: int
) -> str:
    capsys.readouterr()
    assert main(["unpack", str(file), "--out", str(out), "--json", *options]) == exit_code
    assert not out.exists()
    error = last_json(capsys)["error"]
    assert isinstance(error, dict)
    return str(error["code"])


def test_signatures_that_do_not_hold(
    signed: Path, sealed: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    ann, beside = check_options(keys), signed.with_name(signed.name + ".sig")
    assert refused(signed, check_options(keys, "bob@lab"), out, capsys, EXIT_CHECK) == "bad-signature"
    # by a key that is not ann's
    by_bob = tmp_path / "bob.tar.zst"
    assert main(["archive", str(sealed), "--out", str(by_bob), "--sign", str(keys / "bob")]) == 0
    assert refused(by_bob, ann, out, capsys, EXIT_CHECK) == "bad-signature"
    # of another file
    other = tmp_path / "other.tar.zst"
    other.write_bytes(signed.read_bytes() + b"\0")
    shutil.copy(beside, other.with_name(other.name + ".sig"))
    assert refused(other, ann, out, capsys, EXIT_CHECK) == "bad-signature"
    # made for another purpose
    mail = tmp_path / "mail.tar.zst"
    shutil.copy(signed, mail)
    subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-f", str(keys / "ann"), "-n", "email", str(mail)], check=True
    )
    assert refused(mail, ann, out, capsys, EXIT_CHECK) == "bad-signature"
    beside.write_text("no signature")
    assert refused(signed, ann, out, capsys, EXIT_CHECK) == "bad-signature"
    beside.unlink()
    assert refused(signed, ann, out, capsys, EXIT_ENVIRONMENT) == "no-signature"


def test_what_a_signature_needs(
    signed: Path,
    sealed: Path,
    keys: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "o"
    assert refused(signed, check_options(keys)[:2], out, capsys, EXIT_USAGE) == "half-a-signature-check"
    nobody = ["--verify-signature", str(tmp_path / "nobody"), "--identity", "ann@lab"]
    assert refused(signed, nobody, out, capsys, EXIT_ENVIRONMENT) == "no-signers"
    for key, code in ((tmp_path / "no-key", "no-key"), (keys / "signers", "sign-failed")):
        with pytest.raises(LabError) as caught:
            archive(sealed, tmp_path / "x.tar.zst", key)
        assert caught.value.code == code
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(signed, check_options(keys), out, capsys, EXIT_ENVIRONMENT) == "no-ssh-keygen"
    with pytest.raises(LabError) as caught:
        archive(sealed, tmp_path / "x.tar.zst", keys / "ann")
    assert caught.value.code == "no-ssh-keygen" and "openssh-client" in caught.value.hint
    assert not list(tmp_path.glob("x.tar.zst*")) and not list(tmp_path.glob(".x*"))


def test_a_signature_that_is_not_checked_is_mentioned(
    signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["unpack", str(signed), "--out", str(tmp_path / "o")]) == 0
    assert "was not checked" in capsys.readouterr().out
