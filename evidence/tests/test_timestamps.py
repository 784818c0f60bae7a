"""Time stamps over what was sealed, by an authority that the test makes: no network, no real one."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from alone_kit import run_alone
from bundle_kit import make_sealed

from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, EXIT_USAGE, LabError, UsageError
from pqevidence.verify import timestamps
from pqevidence.verify.command import carry_out
from pqevidence.verify.export import export
from pqevidence.verify.timestamps import TAGS, Stamps, stamped

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")

_CONFIG = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[root]
basicConstraints = critical, CA:true
[stamping]
extendedKeyUsage = critical, timeStamping
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256, sha512
"""


def _run(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Authority:
    """A root and a key that stamps."""

    folder: Path

    @property
    def root(self) -> str:
        return str(self.folder / "root.pem")

    def stamp(self, data: Path) -> str:
        """A reply over that file, as an authority's server would send it."""
        reply = data.with_name(f"{data.name}.{self.folder.name}.tsr")
        query = self.folder / "query"
        _run("ts", "-query", "-data", str(data), "-sha512", "-cert", "-out", str(query))
        _run(
            "ts",
            "-reply",
            "-config",
            str(self.folder / "conf"),
            "-queryfile",
            str(query),
            "-signer",
            str(self.folder / "signer.pem"),
            "-inkey",
            str(self.folder / "signer.key"),
            "-out",
            str(reply),
        )
        return str(reply)


def _authority(folder: Path) -> Authority:
    folder.mkdir()
    conf = folder / "conf"
    conf.write_text(_CONFIG.format(name=folder.name, folder=folder))
    (folder / "serial").write_text("01\n")
    new = ("req", "-config", str(conf), "-newkey", "rsa:2048", "-nodes")
    key, request = str(folder / "signer.key"), str(folder / "request")
    root, root_key = str(folder / "root.pem"), str(folder / "root.key")
    _run(*new, "-x509", "-days", "30", "-extensions", "root", "-keyout", root_key, "-out", root)
    _run(*new, "-subj", f"/CN={folder.name} stamps", "-keyout", key, "-out", request)
    _run(
        "x509",
        "-req",
        "-in",
        request,
        "-CA",
        root,
        "-CAkey",
        root_key,
        "-CAcreateserial",
        "-days",
        "30",
        "-extfile",
        str(conf),
        "-extensions",
        "stamping",
        "-out",
        str(folder / "signer.pem"),
    )
    return Authority(folder)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return _authority(tmp_path_factory.mktemp("tsa") / "one")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("good"))


@pytest.fixture
def promise(tmp_path: Path) -> Path:
    path = tmp_path / "promise.json"
    path.write_text('{"schema_version": "pqlab/commitment/v1", "plan_sha256": "00"}\n')
    return path


def _began(root: Path, into: Path, year: int) -> Path:
    """A copy of the bundle whose run began in that year; what is stamped today is before it, or after."""
    copied = into / root.name
    shutil.copytree(root, copied)
    run = json.loads((copied / "data" / "run.json").read_text())
    run["started_ns"] = int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9
    (copied / "data" / "run.json").write_text(json.dumps(run))
    return copied


def test_a_stamp_over_the_bundle_says_when_it_was_there(
    good: Path, authority: Authority, tmp_path: Path
) -> None:
    tags = tmp_path / TAGS
    shutil.copy(good / TAGS, tags)
    said = stamped(good, (), Stamps((authority.stamp(tags),), authority.root))
    assert said.status == "ok" and said.observed.startswith(f"1 time stamps, {TAGS} existed at 20")


def test_a_promise_that_was_stamped_before_the_run(
    good: Path, promise: Path, authority: Authority, tmp_path: Path
) -> None:
    stamps = Stamps((authority.stamp(promise),), authority.root)
    said = stamped(_began(good, tmp_path, 2200), [str(promise)], stamps)
    assert said.status == "ok" and "promise.json existed at" in said.observed


def test_a_promise_that_was_stamped_after_the_run_began(
    good: Path, promise: Path, authority: Authority, tmp_path: Path
) -> None:
    stamps = Stamps((authority.stamp(promise),), authority.root)
    said = stamped(_began(good, tmp_path, 2001), [str(promise)], stamps)
    assert said.status == "fail" and "after the run began (2001-" in said.observed


def test_other_bytes_than_were_stamped(good: Path, promise: Path, authority: Authority) -> None:
    reply = authority.stamp(promise)
    promise.write_text(promise.read_text() + " ")
    said = stamped(good, [str(promise)], Stamps((reply,), authority.root))
    assert said.status == "fail" and "neither of a file of --sealed nor of this bundle" in said.observed


def test_an_authority_that_nobody_trusts(
    good: Path, promise: Path, authority: Authority, tmp_path: Path
) -> None:
    other = _authority(tmp_path / "other")
    said = stamped(good, [str(promise)], Stamps((other.stamp(promise),), authority.root))
    assert said.status == "fail"


@pytest.mark.parametrize("damage", [b"", b"no reply", None])
def test_a_damaged_reply(good: Path, promise: Path, authority: Authority, damage: bytes | None) -> None:
    reply = Path(authority.stamp(promise))
    content = bytearray(reply.read_bytes())
    content[-20] ^= 1
    reply.write_bytes(bytes(content) if damage is None else damage)
    said = stamped(good, [str(promise)], Stamps((str(reply),), authority.root))
    assert said.status == "fail"


def test_usage(promise: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Stamps.of(None, None) is None
    for replies, trusted in (([str(promise)], None), (None, authority.root), (["absent"], authority.root)):
        with pytest.raises(UsageError):
            Stamps.of(replies, trusted)
    monkeypatch.setattr(timestamps.shutil, "which", lambda _name: None)
    with pytest.raises(LabError) as caught:
        Stamps.of([str(promise)], authority.root)
    assert caught.value.exit_code == EXIT_ENVIRONMENT


def test_the_command_and_the_checker_that_stands_alone_print_it(
    good: Path, promise: Path, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = tmp_path / TAGS
    shutil.copy(good / TAGS, tags)
    reply = authority.stamp(tags)
    assert carry_out(good, "it", as_json=False, strict=False, stamps=Stamps((reply,), authority.root)) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "time_stamped" in line)
    assert line.startswith("[x] time_stamped: 1 time stamps")
    export(tmp_path / "verify.pyz")
    alone = run_alone(tmp_path / "verify.pyz", str(good), "--tsr", reply, "--tsa", authority.root)
    assert alone.returncode == 0 and line in alone.stdout
    wrong = authority.stamp(promise)
    alone = run_alone(tmp_path / "verify.pyz", str(good), "--tsr", wrong, "--tsa", authority.root)
    assert alone.returncode == EXIT_CHECK
    assert run_alone(tmp_path / "verify.pyz", str(good), "--tsr", reply).returncode == EXIT_USAGE
