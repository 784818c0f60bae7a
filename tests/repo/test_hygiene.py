"""The tree holds no key, token, private address, machine path or registry host; the scanner can see one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("hygiene", Path(__file__).with_name("hygiene.py"))
assert _spec is not None and _spec.loader is not None
hygiene = importlib.util.module_from_spec(_spec)
sys.modules["hygiene"] = hygiene
_spec.loader.exec_module(hygiene)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("private key block", "-----BEGIN EC PRIVATE " + "KEY-----"),
        ("token", "ghp_" + "a" * 36),
        ("private address", "peer = 192.168." + "4.7"),
        ("private address", "peer = 10.0." + "0.1:46000"),
        ("machine path", "open('/ho" + "me/someone/x')"),
        ("registry host", "https://pypi.o" + "rg/simple"),
    ],
)
def test_scanner_sees(what: str, line: str) -> None:
    assert [f.what for f in hygiene.scan_text("any.py", line)] == [what]


@pytest.mark.parametrize(
    "line", ["version 10.1.2", "198.18.2.20", "127.0.0.1:48080", "/usr/local/share", "a 1.10.0.1.2 b"]
)
def test_scanner_lets_pass(line: str) -> None:
    assert list(hygiene.scan_text("any.py", line)) == []


def test_tree_is_clean() -> None:
    files = hygiene.tracked_files(staged=False)
    assert len(files) > 50, "the scanner saw too few files to mean anything"
    assert [str(f) for f in hygiene.scan(files)] == []
