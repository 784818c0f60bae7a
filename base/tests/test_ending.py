"""How a process ends: signals without locks, the end of standard input where asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from pqbase.ending import Ending, watch_stdin
from tools import ended
from waiting import LIMIT_S

SOURCE = os.pathsep.join(sys.path)
WAITS = """
import sys
from pqbase.ending import Ending
ending = Ending(with_stdin=len(sys.argv) > 1)
print("ready", flush=True)
ending.wait()
print("ended", flush=True)
"""


def waiting(*arguments: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WAITS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_the_end_of_standard_input_ends_a_process_that_was_told_so() -> None:
    child = waiting("--stop-with-stdin")
    assert child.stdin is not None
    child.stdin.write("this is no end\n")
    child.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    said, _ = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, said) == (0, "ended\n")


@pytest.mark.skipif(
    sys.platform == "win32", reason="no signal reaches a process of Windows that ends cleanly"
)
def test_without_being_told_only_a_signal_ends_it() -> None:
    child = waiting()
    assert child.stdin is not None
    child.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child.send_signal(signal.SIGTERM)
    assert child.wait(LIMIT_S) == 0


IN_THE_LOCK = """
import signal
from pqbase.ending import Ending
ending = Ending()
with ending._over._cond:
    signal.raise_signal(signal.SIGTERM)
ending.wait()
print("ended")
"""


def test_a_signal_that_comes_while_the_event_is_locked_ends_it() -> None:
    """The handler runs in the thread that waits, sometimes between two waits: it must take no lock."""
    done = ended([sys.executable, "-c", IN_THE_LOCK], LIMIT_S, env={**os.environ, "PYTHONPATH": SOURCE})
    assert (done.returncode, done.stdout) == (0, "ended\n")


def test_no_standard_input_at_all_is_an_end() -> None:
    ours, theirs = os.pipe()
    os.close(theirs)
    os.close(ours)
    over = threading.Event()
    watch_stdin(over.set, ours)
    assert over.wait(LIMIT_S)


def test_the_end_of_standard_input_is_a_stop_and_bytes_before_it_are_none() -> None:
    ours, theirs = os.pipe()
    stopped = threading.Event()
    watch_stdin(stopped.set, ours)
    os.write(theirs, b"not yet")
    assert not stopped.wait(0.2)
    os.close(theirs)
    assert stopped.wait(LIMIT_S)
    os.close(ours)


def test_a_wait_with_a_limit_says_whether_it_was_asked_to_end() -> None:
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        ending = Ending()
        assert ending.wait(0.0) is False
        assert ending.wait(0.3) is False
        signal.raise_signal(signal.SIGTERM)
        assert ending.wait(60.0) is True
        assert ending.wait(0.0) is True
    finally:
        for number, handler in before:
            signal.signal(number, handler)
