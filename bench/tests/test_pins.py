"""Every peer is pinned by version and hash."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1]
PEERS = ("awslc", "boringtun", "dtls13", "mavlink-signed", "rosenpass")
CRATES = ["load", *(f"peers/{name}" for name in PEERS)]


@pytest.mark.parametrize("folder", CRATES)
def test_every_crate_has_its_checksum(folder: str) -> None:
    lock = tomllib.loads((BENCH / folder / "Cargo.lock").read_text())
    packages = [package for package in lock["package"] if "source" in package]
    assert packages
    assert [package["name"] for package in packages if "checksum" not in package] == []
    assert {package["source"].partition("+")[0] for package in packages} == {"registry"}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("awslc", "rustls"),
        ("boringtun", "boringtun"),
        ("dtls13", "dimpl"),
        ("mavlink-signed", "mavlink-core"),
        ("rosenpass", "rosenpass"),
    ],
)
def test_the_peer_itself_is_pinned_exactly(folder: str, name: str) -> None:
    wanted = tomllib.loads((BENCH / "peers" / folder / "Cargo.toml").read_text())["dependencies"][name]
    assert wanted["version"].startswith("=")


def test_the_go_module_is_in_the_sums() -> None:
    module = (BENCH / "peers/wireguard-go/go.mod").read_text()
    line = next(line for line in module.splitlines() if "golang.zx2c4.com/wireguard " in line)
    version = line.split()[-1]
    sums = (BENCH / "peers/wireguard-go/go.sum").read_text()
    assert f"golang.zx2c4.com/wireguard {version} h1:" in sums


def test_the_load_generators_lock_follows_the_core() -> None:
    """It is built on the core's sockets: a new dependency there has to be in this lock too."""
    core = tomllib.loads((BENCH.parent / "tunnel/core/Cargo.toml").read_text())
    lock = tomllib.loads((BENCH / "load/Cargo.lock").read_text())
    mine = next(package for package in lock["package"] if package["name"] == "pq-core")
    names = {dependency.partition(" ")[0] for dependency in mine["dependencies"]}
    for section in (core["dependencies"], *(t["dependencies"] for t in core["target"].values())):
        for name, wanted in section.items():
            real = wanted.get("package", name) if isinstance(wanted, dict) else name
            optional = isinstance(wanted, dict) and wanted.get("optional", False)
            assert real in names or optional, f"run: cd bench/load && cargo update --workspace ({real})"


def test_the_name_that_is_printed_is_the_version_that_is_pinned() -> None:
    folder = BENCH / "peers/awslc"
    wanted = tomllib.loads((folder / "Cargo.toml").read_text())["dependencies"]["rustls"]["version"]
    lock = tomllib.loads((folder / "Cargo.lock").read_text())
    aws_lc = next(package["version"] for package in lock["package"] if package["name"] == "aws-lc-rs")
    assert f'"rustls {wanted[1:]}, aws-lc-rs {aws_lc}"' in (folder / "src/main.rs").read_text()
