"""One reader of HOST:PORT for every package."""

from __future__ import annotations

import pytest

from pqbase.net import host_and_port


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("198.18.1.11:47004", ("198.18.1.11", 47004)),
        ("drone:1", ("drone", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_a_host_and_a_port(text: str, pair: tuple[str, int]) -> None:
    assert host_and_port(text) == pair


@pytest.mark.parametrize(
    "text",
    ["", "host", ":80", "host:", "host:0", "host:65536", "host:-1", "host:+1", "host: 1", "host:\u00b2",
     "host:\u0661", "[]:80", "host:080808080"],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        host_and_port(text)
