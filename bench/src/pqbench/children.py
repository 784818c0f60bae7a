"""Child processes that always end: each is killed when its block is left, all of them when the bench goes.

The container's init is the last line: when the bench process ends, however it ends, the container ends, and
with it every process and both network namespaces.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Final

from pqbase.documents import Json
from pqbench.errors import ChildFailed

READY: Final = "ready"
END_S: Final = 5.0


class Child:
    """A long-lived process; it says `ready` on a line of its own when it is."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the child
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=dict(environment) if environment is not None else None,
        )

    def line(self) -> str:
        """The next line of its output. Raises ChildFailed at the end of it."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise ChildFailed(f"{self.name} ended: {self.complaints()}")
        return text.strip()

    def wait_ready(self) -> None:
        """Raises ChildFailed when it says anything else first."""
        text = self.line()
        if not text.startswith(READY):
            raise ChildFailed(f"{self.name} said {text!r} instead of {READY!r}: {self.complaints()}")

    def ask(self, **request: object) -> Json:
        """One JSON line there, one back. Raises ChildFailed with the child's own error."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: Json = json.loads(self.line())
        if "error" in answer:
            raise ChildFailed(f"{self.name}: {answer['error']}")
        return answer

    def finish(self) -> str:
        """End its input and return its last line. Raises ChildFailed when it does not end well."""
        output, _ = self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            raise ChildFailed(f"{self.name} ended with {self.process.returncode}: {self.complaints()}")
        return output.strip().splitlines()[-1]

    def complaints(self) -> str:
        """The end of its standard error, on one line."""
        self._errors.seek(0)
        return " ".join(self._errors.read().split())[-400:] or "(it said nothing)"

    def close(self) -> None:
        """Kill it if it lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(END_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()


@contextmanager
def child(name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Child]:
    """A child for the length of a block."""
    made = Child(name, command, environment)
    try:
        yield made
    finally:
        made.close()


def output_of(command: Sequence[str], timeout_s: float = 120.0, given: str | None = None) -> str:
    """Standard output of a command that ends by itself. Raises ChildFailed with its complaint."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, timeout=timeout_s, check=False, input=given
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChildFailed(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        raise ChildFailed(f"{' '.join(command)} ended with {done.returncode}: {said}")
    return done.stdout
