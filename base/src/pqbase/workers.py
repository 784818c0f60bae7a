"""Workers of Dask for tasks: processes of this machine, or those of a scheduler that is there already.

Dask does a task again when its worker dies. That is right for a function whose result its inputs decide, and
it would falsify a measurement: what measures never comes here. Dask is imported when workers are asked for;
nothing else needs it.

What another build would give is not asked for: each worker, and the scheduler, which reads the tasks, must
have the sources and libraries that this process has, when a study begins and again at each task.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from pqbase.errors import PqError
from pqbase.tasks import Build, Here, Ingredients, Plain, Runner, Task, call, unlike

INSTALL = "python3 -m pip install --require-hashes -r requirements/workers.txt"
START = "dask worker ADDRESS --nthreads 1, in an environment of this tree (docs/WORKERS.md)"
#: what carries tasks and results
LIBRARIES = ("dask", "distributed", "cloudpickle", "msgpack", "tornado")
EXIT_USAGE, EXIT_ENVIRONMENT = 2, 4
#: what a worker's environment gets beside ours. Dask's own list also has malloc give memory back at once,
#: which doubled the processor time of scoring
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
CONNECT_S = 15
#: workers of a scheduler that was just started come by then
FIRST_WORKER_S = 15
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", re.ASCII)
_LOOPBACK = re.compile(r"(127\.[0-9.]+|localhost|\[::1\])", re.ASCII)


class WorkersError(PqError):
    """Workers that are not there, went away or are of another build. exit_code: as published."""

    code = "workers"

    def __init__(self, code: str, what: str, why: str, hint: str, exit_code: int = EXIT_ENVIRONMENT) -> None:
        super().__init__(what, hint, code, why=why)
        self.exit_code = exit_code


class _Future(Protocol):
    key: str

    def result(self) -> bytes: ...

    def release(self) -> None: ...


class _Client(Protocol):
    def submit(self, function: Callable[..., bytes], *inputs: object, key: str, priority: int) -> _Future: ...

    def run(
        self, function: Callable[..., Build | str], on_error: str
    ) -> dict[str, Build | str | Exception]: ...

    def run_on_scheduler(self, function: Callable[..., Build | str]) -> Build | str: ...

    def scheduler_info(self, n_workers: int) -> dict[str, dict[str, dict[str, object]]]: ...

    def wait_for_workers(self, n_workers: int, timeout: float) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Where:
    """Either so many workers of this process's own, or those of a scheduler."""

    workers: int | None = None
    scheduler: str | None = None

    @classmethod
    def asked(cls, workers: int | None, scheduler: str | None) -> Where | None:
        """What the options ask for, None where neither is given. Raises WorkersError (2)."""
        if workers is None and scheduler is None:
            return None
        if workers is not None and scheduler is not None:
            raise WorkersError(
                "both-workers",
                "--workers does not go with --scheduler",
                "the one starts workers on this machine, the other asks those that a scheduler has",
                "leave one of them out",
                EXIT_USAGE,
            )
        if workers is not None and not 1 <= workers <= 256:
            raise WorkersError(
                "bad-workers",
                f"--workers {workers} is no number of workers",
                "1 to 256 processes of this machine",
                "--workers 2",
                EXIT_USAGE,
            )
        found = _ADDRESS.fullmatch(scheduler) if scheduler is not None else None
        if scheduler is not None and (found is None or not 1 <= int(found[3]) <= 65535):
            raise WorkersError(
                "bad-scheduler",
                f"--scheduler {scheduler} is no address",
                "it is tcp://HOST:PORT or tls://HOST:PORT, as `dask scheduler` prints it",
                "--scheduler tcp://127.0.0.1:8786",
                EXIT_USAGE,
            )
        return cls(workers, scheduler)


def add_options(parser: argparse._ActionsContainer) -> None:
    """`--workers` and `--scheduler`, as every study has them."""
    parser.add_argument("--workers", type=int, metavar="N", help="share the work among N processes here")
    parser.add_argument(
        "--scheduler",
        metavar="URL",
        help="share it among the workers of a Dask scheduler, tcp://… or tls://…",
    )


def refused(args: argparse.Namespace, what: str, hint: str) -> None:
    """Raises WorkersError (2) where one of the options is given: `what` measures."""
    for option in ("workers", "scheduler"):
        if getattr(args, option) is not None:
            raise WorkersError(
                "measured-alone",
                f"--{option} does not go with {what}",
                "workers share the machine and do lost work again; what is measured is measured once, alone",
                hint,
                EXIT_USAGE,
            )


@contextlib.contextmanager
def runner_of(where: Where | None, say: Callable[[str], None]) -> Iterator[Runner]:
    """This process where no workers are asked for. Raises WorkersError."""
    if where is None:
        yield Here()
        return
    dask = _dask()
    with contextlib.ExitStack() as held:
        if where.scheduler is not None:
            if where.scheduler.startswith("tcp://") and not _LOOPBACK.match(where.scheduler[6:]):
                say(f"{where.scheduler}: whoever reaches it can run programs there; tls:// asks who it is")
            client, told = _joined(dask, where.scheduler, held), f"by the workers of {where.scheduler}"
        else:
            count = where.workers or 1
            client, told = _started(dask, count, held), f"by {count} worker{'s' if count > 1 else ''}"
        yield _Workers(client, told, where.scheduler or "the scheduler of this process", dask)


class _Dask(Protocol):
    """The parts of `distributed` that are used."""

    Client: Callable[..., _Client]
    LocalCluster: Callable[..., contextlib.AbstractContextManager[object]]
    Security: type
    KilledWorker: type[Exception]
    as_completed: Callable[[Iterable[_Future]], Iterator[_Future]]


def _dask() -> _Dask:
    try:
        import_module = importlib.import_module
        import_module("cryptography")  # who may speak to the workers of this process
        dask: _Dask = import_module("distributed")
    except ImportError as error:
        raise WorkersError("no-dask", "workers need the package distributed", str(error), INSTALL) from error
    for name in ("distributed", "distributed.client"):  # what they tell comes as errors of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return dask


def _started(dask: _Dask, count: int, held: contextlib.ExitStack) -> _Client:
    """Processes that end with this one, on loopback, for who has the key that was made for them."""
    scratch = held.enter_context(tempfile.TemporaryDirectory(prefix="pq-workers-"))
    config = importlib.import_module("dask.config")
    quiet: dict[str, object] = {f"distributed.{end}.http.routes": [] for end in ("scheduler", "worker")}
    held.enter_context(config.set({**quiet, "distributed.nanny.pre-spawn-environ": ONE_THREAD}))
    cluster = held.enter_context(
        dask.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            security=dask.Security.temporary(),  # type: ignore[attr-defined]
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        )
    )
    client = dask.Client(cluster)
    held.callback(client.close)
    return client


def _joined(dask: _Dask, address: str, held: contextlib.ExitStack) -> _Client:
    try:
        client = dask.Client(address, timeout=CONNECT_S, direct_to_workers=False)
    except (OSError, ValueError, TypeError) as error:
        raise WorkersError(
            "no-scheduler",
            f"no scheduler answers at {address}",
            " ".join(str(error).split())[:200] or type(error).__name__,
            f"dask scheduler, then: {START}",
        ) from error
    held.callback(client.close)
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_S)
    except TimeoutError as error:
        raise WorkersError(
            "no-worker",
            f"the scheduler at {address} has no worker",
            f"none came within {FIRST_WORKER_S} s",
            START.replace("ADDRESS", address),
        ) from error
    return client


class _Workers:
    """A runner over a client of Dask."""

    def __init__(self, client: _Client, told: str, name: str, dask: _Dask) -> None:
        self.told, self._client, self._name, self._dask = told, client, name, dask

    def stream(self, tasks: Mapping[str, Task], made_of: Ingredients) -> Iterator[tuple[str, bytes]]:
        whole = Ingredients(made_of.packages, (*made_of.libraries, *LIBRARIES))
        ours = whole.build()
        try:
            self._require_equal(whole, ours)
            futures = [
                self._client.submit(
                    _work, task.function, task.inputs, whole, dict(ours), key=key, priority=-place
                )
                for place, (key, task) in enumerate(tasks.items())
            ]
            for future in self._dask.as_completed(futures):
                key, result = future.key, future.result()
                future.release()
                yield key, result
        except self._dask.KilledWorker as error:
            raise WorkersError(
                "workers-died",
                "a task ended one worker after the other",
                " ".join(str(error).split())[:300],
                "look at the memory of the workers; ask for fewer of them, or begin again without",
            ) from error
        except _lost() as error:
            raise WorkersError(
                "scheduler-lost",
                f"{self._name} does not answer any more",
                "the connection to it was lost",
                "start it again or leave the option out, then the same command: finished tasks are kept",
            ) from error

    def _require_equal(self, whole: Ingredients, ours: Build) -> None:
        """Raises WorkersError that names the first one of another build."""
        probe = _probe(whole)
        found: dict[str, Build | str | Exception] = {}
        try:
            found["the scheduler"] = self._client.run_on_scheduler(probe)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            found["the scheduler"] = error
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        for address, told in self._client.run(probe, on_error="return").items():
            found[f"worker {workers.get(address, {}).get('name', '?')} at {address}"] = told
        for who, told in found.items():
            if isinstance(told, OSError):
                continue  # it went away meanwhile; who comes in its place is asked at its first task
            different = unlike(told, ours) if isinstance(told, Mapping) else str(told) or repr(told)
            if different is not None:
                raise _other_build(who, different)


def _other_build(who: str, different: str) -> WorkersError:
    return WorkersError(
        "other-build",
        f"{who} is of another build",
        different,
        "start it from this tree and its requirements, or end it (docs/WORKERS.md)",
    )


def _probe(whole: Ingredients) -> Callable[[], Build | str]:
    """Asks for the build; travels as code, for who has another tree or none."""
    packages, libraries = whole.packages, whole.libraries

    def build_there() -> Build | str:
        try:
            from pqbase.tasks import Ingredients

            return dict(Ingredients(packages, libraries).build())
        except ImportError as error:
            return str(error)

    return build_there


def _work(function: str, inputs: tuple[Plain, ...], whole: Ingredients, expected: Build) -> bytes:
    """What a worker carries out: it may have come since the others were asked."""
    different = unlike(whole.build(), expected)
    if different is not None:
        raise _other_build(f"worker {_here()}", different)
    return call(function, inputs)


def _here() -> str:
    worker = importlib.import_module("distributed").get_worker()
    return f"{worker.name} at {worker.address}"


def _lost() -> tuple[type[BaseException], ...]:
    """How Dask tells that the scheduler went away."""
    from concurrent.futures import CancelledError

    comm = importlib.import_module("distributed.comm")
    return (CancelledError, comm.CommClosedError, TimeoutError)
