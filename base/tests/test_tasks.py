"""Tasks: one key for equal inputs and builds, results in one order, what is kept is whole."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pqbase import tasks
from pqbase.errors import PqError
from pqbase.tasks import Here, Ingredients, Kept, Plain, Task, carry_out, unlike
from pqbase.workers import INSTALL, Where, WorkersError, runner_of

MADE_OF = Ingredients(("pqbase",))
BUILD = {"python": "3.11.7", "sources of pqbase": "0" * 64}


def task(*inputs: Plain) -> Task:
    return Task("pqbase.text:canonical_json", inputs, f"task {inputs}")


def test_a_key_is_of_function_build_and_inputs() -> None:
    one = task("a", 1, 2.5, None, True, b"raw", ["x", {"y": b"z"}])
    assert one.key(BUILD) == task("a", 1, 2.5, None, True, b"raw", ("x", {"y": b"z"})).key(BUILD)
    assert len(one.key(BUILD)) == 64
    others = [
        task("a", 1, 2.5, None, True, b"rax", ["x", {"y": b"z"}]),
        task("a", 1, 2.5, None, True, "raw", ["x", {"y": b"z"}]),
        task("a", 1, 2.5, None, True, b"raw", ["x", {"y": b"w"}]),
        Task("pqbase.text:utc_text", one.inputs, one.label),
    ]
    assert one.key(BUILD) not in {other.key(BUILD) for other in others}
    assert one.key({**BUILD, "python": "3.13.5"}) != one.key(BUILD)
    assert Task(one.function, one.inputs, "another label").key(BUILD) == one.key(BUILD)


def test_a_build_says_in_what_it_is_another() -> None:
    ours = MADE_OF.build()
    assert unlike(ours, ours) is None
    assert unlike({**ours, "python": "2.7"}, ours) == f"python 2.7, here {ours['python']}"
    assert "numpy 9, here none" in str(unlike({**ours, "numpy": "9"}, ours))
    assert ours["sources of pqbase"][:12] in str(unlike({**ours, "sources of pqbase": "f" * 64}, ours))


def test_every_byte_of_the_sources_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someone").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    seen = set()
    for name, content in (("__init__.py", ""), ("table.json", "1"), ("table.json", "2"), ("other.json", "2")):
        (tmp_path / "someone" / name).write_text(content)
        seen.add(tasks._sources_sha256("someone"))
    assert len(seen) == 4
    (tmp_path / "someone" / "__init__.pyc").write_text("byte code")
    assert tasks._sources_sha256("someone") in seen
    with pytest.raises(ModuleNotFoundError):
        tasks._sources_sha256("nobody_of_this_name")


class Backwards:
    """Whoever is last is done first."""

    told = "backwards"

    def stream(self, todo: Mapping[str, Task], made_of: Ingredients) -> Iterator[tuple[str, bytes]]:
        yield from reversed(list(Here().stream(todo, made_of)))


def test_results_come_in_the_order_of_the_tasks_and_have_one_digest() -> None:
    asked = [task(3), task(1), task(2), task(1)]
    told: list[list[str]] = [[], []]
    here = list(carry_out(asked, MADE_OF, Here(), told[0].append))
    assert here == [b"3", b"1", b"2", b"1"]
    assert list(carry_out(asked, MADE_OF, Backwards(), told[1].append)) == here
    assert told[0][-1].startswith("3 tasks in this process; sha256 of their results ")
    assert told[1][-1].split()[-1] == told[0][-1].split()[-1]
    assert told[0][:-1] == ["[1/3] task (3,)", "[2/3] task (1,)", "[3/3] task (2,)"]
    other: list[str] = []
    list(carry_out(asked[:2], MADE_OF, Here(), other.append))
    assert other[-1].split()[-1] != told[0][-1].split()[-1]


def test_sources_of_a_function_must_be_in_its_key() -> None:
    with pytest.raises(ValueError, match="sources of json are in no key"):
        list(carry_out([Task("json:dumps", (1,), "x")], MADE_OF, Here(), print))


def test_a_second_try_takes_up_what_was_done(tmp_path: Path) -> None:
    asked = [task(1), task(2), task(3)]

    class Dies:
        told = "dying"

        def stream(self, todo: Mapping[str, Task], made_of: Ingredients) -> Iterator[tuple[str, bytes]]:
            done = Here().stream(todo, made_of)
            yield next(done)
            yield next(done)
            raise WorkersError("scheduler-lost", "gone", "killed", "again")

    keep = tmp_path / "tasks"
    with pytest.raises(WorkersError):
        list(carry_out(asked, MADE_OF, Dies(), print, keep))
    assert len(list(keep.iterdir())) == 2
    damaged = keep / asked[0].key(MADE_OF.build())
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"9")
    told: list[str] = []
    assert list(carry_out(asked, MADE_OF, Here(), told.append, keep)) == [b"1", b"2", b"3"]
    assert told[0] == "1 of 3 tasks were done before"
    assert not keep.exists()


def test_nothing_is_kept_where_nobody_asks(tmp_path: Path) -> None:
    kept = Kept(None)
    kept.write("key", b"result")
    kept.forget("key")
    assert kept.read("key") is None and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("workers", "scheduler", "said"),
    [
        (0, None, "--workers 0 is no number"),
        (257, None, "--workers 257 is no number"),
        (2, "tcp://127.0.0.1:8786", "--workers does not go with --scheduler"),
        (None, "127.0.0.1:8786", "no address"),
        (None, "http://127.0.0.1:8786", "no address"),
        (None, "tcp://127.0.0.1", "no address"),
        (None, "tcp://127.0.0.1:70000", "no address"),
        (None, "tcp://a b:1", "no address"),
    ],
)
def test_where_there_can_be_no_workers(workers: int | None, scheduler: str | None, said: str) -> None:
    with pytest.raises(WorkersError, match=said) as told:
        Where.asked(workers, scheduler)
    assert told.value.exit_code == 2 and told.value.hint


def test_without_dask_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(WorkersError) as told, runner_of(Where(workers=2), print):
        raise AssertionError("there is no Dask")
    assert told.value.exit_code == 4 and told.value.hint == INSTALL
    root = Path(__file__).resolve().parents[2]
    assert (root / INSTALL.split()[-1]).is_file()
    with runner_of(None, print) as runner:
        assert isinstance(runner, Here)


class Odd(PqError):
    """Made from other words than it is told in."""

    def __init__(self, number: int) -> None:
        super().__init__(f"{number} is odd", "an even one", "odd", why="it is")
        self.number = number


def test_errors_come_through_to_another_process_as_they_are() -> None:
    error = Odd(3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Odd and (again.number, again.code) == (3, "odd")
    assert again.text() == error.text() and str(again) == str(error)
    lost = pickle.loads(pickle.dumps(WorkersError("lost", "what", "why", "next", 4)))
    assert (lost.code, lost.exit_code, lost.hint) == ("lost", 4, "next")
