"""One tree of errors, told in one shape."""

from __future__ import annotations

from importlib import import_module

import pytest

from pqbase.errors import PqError


class Lost(PqError):
    code = "lost"
    hint = "look for it"


def test_a_kind_gives_code_and_hint_and_one_raise_may_give_others() -> None:
    error = Lost("it is gone")
    assert (error.code, error.hint, str(error)) == ("lost", "look for it", "it is gone")
    error = Lost("it is gone", code="stolen", hint="call somebody", why="the door was open")
    assert str(error) == "it is gone (the door was open)"
    assert list(error.as_dict().values()) == ["stolen", "it is gone", "the door was open", "call somebody"]
    assert (Lost.code, Lost.hint) == ("lost", "look for it")


def test_it_is_told_as_what_why_next() -> None:
    error = Lost("it is gone", why="the door was open")
    assert error.text() == "error: it is gone\n  why:  the door was open\n  next: look for it"
    assert Lost("it is gone").text("pqlab", coded=True) == "pqlab: it is gone [lost]\n  next: look for it"
    assert PqError("it is gone").text() == "error: it is gone"


@pytest.mark.parametrize(
    "name", ["attack", "bench", "detect", "evidence", "link", "sitl", "telemetry", "tunnel"]
)
def test_every_tree_grows_from_it(name: str) -> None:
    module = import_module(f"pq{name}.errors")
    own = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(own) > 2 and all(issubclass(kind, PqError) for kind in own)
