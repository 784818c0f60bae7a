"""bootstrap.sh and the make targets, as far as they can be checked without an engine or root."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tools import ended
from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]
MIRROR = "http://mirror.example/debian"
KEYRING = "/usr/share/keyrings/example.gpg"


def sourced(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines with bootstrap.sh's functions loaded, as the other scripts load them."""
    return ended(
        ["sh", "-c", f'PQLAB_SELF="{ROOT}/bootstrap.sh"; PQLAB_SOURCED=1; . "$PQLAB_SELF"\n{script}'],
        LIMIT_S,
        env={**os.environ, **env},
    )


def apt_folder(folder: Path, name: str, text: str) -> str:
    (folder / "sources.list.d").mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


DEB822 = f"""# the vendor's comment
Types: deb
URIs: http://other.example/tools
Suites: tools-bookworm
Components: main

Types: deb
URIs: {MIRROR}
Suites: bookworm bookworm-updates
Components: main
Signed-By: {KEYRING}

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("name", "text", "suite", "expected"),
    [
        ("sources.list.d/debian.sources", DEB822, "bookworm", f"{MIRROR}|{KEYRING}"),
        ("sources.list.d/debian.sources", DEB822, "bookworm-updates", f"{MIRROR}|{KEYRING}"),
        (
            "sources.list.d/debian.sources",
            DEB822,
            "bookworm-security",
            "http://security.example/debian-security|",
        ),
        ("sources.list.d/debian.sources", DEB822, "trixie", ""),
        (
            "sources.list.d/debian.sources",
            DEB822.replace("Suites: bookworm b", "Enabled: no\nSuites: bookworm b"),
            "bookworm",
            "",
        ),
        ("sources.list", f"deb {MIRROR} bookworm main contrib\n", "bookworm", f"{MIRROR}|"),
        (
            "sources.list",
            f"deb [arch=amd64 signed-by={KEYRING}] {MIRROR} bookworm main\n",
            "bookworm",
            f"{MIRROR}|{KEYRING}",
        ),
        ("sources.list", f"# deb {MIRROR} bookworm main\ndeb-src {MIRROR} bookworm main\n", "bookworm", ""),
    ],
)
def test_mirror_is_the_hosts_own(tmp_path: Path, name: str, text: str, suite: str, expected: str) -> None:
    folder = apt_folder(tmp_path, name, text)
    done = sourced(f"mirror {suite}", PQLAB_APT_ETC=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected


def test_only_the_named_packages_may_come_from_the_next_release(tmp_path: Path) -> None:
    folder = apt_folder(tmp_path, "sources.list.d/debian.sources", DEB822)
    state = tmp_path / "state"
    done = sourced("os_value() { echo bookworm; }; apt_prepare", PQLAB_APT_ETC=folder, PQLAB_STATE=str(state))
    assert done.returncode == 0, done.stderr
    sources = (state / "apt/sources.list.d/lab.sources").read_text(encoding="utf-8")
    assert f"URIs: {MIRROR}\nSuites: bookworm bookworm-updates trixie\n" in sources
    assert "Suites: bookworm-security" in sources
    pins = (state / "apt/preferences.d/lab").read_text(encoding="utf-8")
    everything, named = pins.strip().split("\n\n")
    assert "Package: *" in everything and "Pin-Priority: -1" in everything
    assert "libc6" not in named and "docker.io" in named


def test_no_mirror_is_an_environment_error_with_a_next_step(tmp_path: Path) -> None:
    folder = apt_folder(tmp_path, "sources.list", "")
    done = sourced("apt_prepare", PQLAB_APT_ETC=folder, PQLAB_STATE=str(tmp_path / "state"))
    assert done.returncode == 4
    assert re.search(r"error: .*\n  why:  .*\n  next: ", done.stderr)


def test_a_failing_step_shows_its_output_and_ends_with_4(tmp_path: Path) -> None:
    done = sourced(f'LOGS={tmp_path}; STEPS=1; step "make it" sh -c "echo the reason; exit 7"')
    assert done.returncode == 4
    assert "the reason" in done.stdout
    assert "ended with 7" in done.stderr and "next: " in done.stderr


def test_packages_are_never_installed_without_root() -> None:
    done = sourced("is_root() { false; }; may_install docker.io")
    assert done.returncode == 4
    assert "missing on this machine: docker.io" in done.stderr


def test_unknown_command_is_a_usage_error() -> None:
    done = subprocess.run(["sh", ROOT / "bootstrap.sh", "engin"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: ./bootstrap.sh" in done.stderr


def test_help_lists_every_target_but_the_inner_one() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    done = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  ([a-z0-9-]+) +\S", done.stdout, re.MULTILINE))
    assert listed == set(phony.group(1).split()) - {"engine"}


def test_every_locked_requirement_carries_a_hash_and_no_address() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        text = lock.read_text(encoding="utf-8")
        requirements = re.findall(r"^[A-Za-z0-9].*==.*$", text, re.MULTILINE)
        assert requirements, lock.name
        assert all(line.endswith("\\") for line in requirements), lock.name
        assert "://" not in text and "--find-links" not in text, lock.name


def test_dockerfiles_name_no_frontend_and_copy_the_source_last() -> None:
    for dockerfile in sorted((ROOT / "images").glob("*/Dockerfile")):
        text = dockerfile.read_text(encoding="utf-8")
        assert "# syntax=" not in text, dockerfile
        source = [m.start() for m in re.finditer(r"^COPY \w+/src ", text, re.MULTILINE)]
        installs = [m.start() for m in re.finditer("pip install", text)]
        assert not source or not installs or max(installs) < min(source), dockerfile
