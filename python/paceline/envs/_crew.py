"""The environments of a vector: in this process (Local), or in worker processes (Processes, the parent of _worker.py).

    crew.send([(worker, environments, message), ...])    starts the work
    crew.receive()                                       waits until a worker answers

A finished environment is in crew.done, in the order of completion. Its results are in notes,
observations and failures until the crew's owner removes them. If a process dies, all of its
environments are reported as failures and stay in broken until the process is started again.

A message is sent or received whole: an exception during a message (Ctrl-C) ends that process.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import math
import mmap
import multiprocessing
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterable
from multiprocessing import connection, reduction, resource_tracker
from typing import Any

from .. import _lib
from ..errors import CallbackError, ConfigError
from ..spaces import Infos
from . import _spawn, _worker
from ._table import Table
from ._worker import Failure, Job, Made, Stepper

Message = tuple["Worker", list[int], Any]

# Milliseconds between checks whether a silent process is alive. The end of its pipe shows its death
# at once, unless a process that the environment started holds the pipe open.
_LOOK = 1000
# Bytes that may be unread in a worker's pipe. It is below Linux's buffer (208 kB), so that send
# never waits for a worker that itself waits for the parent to read.
_UNREAD = 1 << 17
_PER_MESSAGE = 1 << 10


def error(failures: Iterable[Failure], results: Any = None) -> CallbackError:
    """The exception for the environments that failed in one call. See workers."""
    ordered = sorted(failures, key=lambda failure: failure.environment)
    first = ordered[0]
    err = CallbackError(f"environment {first.environment}: {first.text}")
    err.index, err.indices = first.environment, tuple(failure.environment for failure in ordered)
    err.traceback, err.results = first.trace, results
    err.__cause__ = first.cause
    if first.trace and first.cause is None and hasattr(err, "add_note"):  # Python 3.11
        err.add_note(first.trace)
    return err


class Worker:
    """The environments of one process, and the process, if there is one."""

    def __init__(self, indices: list[int], functions: bytes = b"") -> None:
        self.indices, self.functions = indices, functions
        self.process: Any = None
        self.conn: Any = None
        self.fd = -1
        # The reason why there is no process; "" while it runs.
        self.dead: str | None = None
        self.under_way: set[int] = set()
        self.unread = 0


def _pickled(name: str, value: Any) -> bytes:
    """The pickled value for a process. name: the argument's name in an error message."""
    try:
        return _spawn.pickled(value)
    except Exception as err:
        raise ConfigError(f"{name}: cannot be sent to a process: {' '.join(str(err).split())}") from err


class Crew:
    """The environments of a vector, the messages to them and their results."""

    table: Table
    metadata: Infos
    render_mode: str | None
    observation_space: Any
    action_space: Any

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.owner = [worker for worker in workers for _ in worker.indices]
        self.num_envs = len(self.owner)
        self.done: collections.deque[int] = collections.deque()
        self.notes: dict[int, list[Any]] = {}
        self.observations: dict[int, Any] = {}
        self.failures: dict[int, Failure] = {}
        # Environments that must be reset.
        self.broken: dict[int, Failure] = {}
        self.stopped = False  # by close or at exit, maybe while another thread waits

    def message(self, worker: Worker, indices: list[int], verb: str, name: str = "", *payload: Any) -> Message:
        """The message that asks a worker for an action (verb) in some of its environments. name: the payload's name in errors."""
        raise NotImplementedError

    def read(self, note: Any) -> Any:
        """The value of a note or an observation."""
        raise NotImplementedError

    def send(self, messages: list[Message]) -> None:
        """Starts the work of environments, none of which may be under way."""
        raise NotImplementedError

    def receive(self) -> None:
        """Waits until a worker answers or dies. At least one environment must be under way."""
        raise NotImplementedError

    def restart(self, workers: list[Worker]) -> None:
        """Replaces dead processes. Each of their environments stays broken until its reset."""
        raise NotImplementedError

    def stop(self, timeout: float | None = 5.0) -> None:
        """Closes the environments."""
        raise NotImplementedError

    def wait(self, indices: Iterable[int]) -> None:
        """Waits until none of the environments is under way."""
        for i in indices:
            while i in self.owner[i].under_way:
                self.receive()

    def forget(self, indices: Iterable[int]) -> dict[int, Failure]:
        """Drops the results of finished environments; returns their failures."""
        gone = set(indices)
        self.done = collections.deque(i for i in self.done if i not in gone)
        for i in gone:
            self.notes.pop(i, None)
            self.observations.pop(i, None)
        return {i: self.failures.pop(i) for i in gone if i in self.failures}

    def check_running(self) -> None:
        if self.stopped:
            _lib.refuse_closed("environments")

    @property
    def expected(self) -> int:
        """The number of environments that are under way or whose results have not been removed."""
        return len(self.done) + sum(len(worker.under_way) for worker in self.workers)

    def _described(self, made: list[Made]) -> None:
        """Keeps the environments' spaces; raises ConfigError if they differ."""
        self.metadata, self.render_mode, kinds = made[0]
        _, self.observation_space, self.action_space = kinds[0]
        self._check(made)

    def _check(self, made: list[Made]) -> None:
        for answer in made:
            for i, *spaces in answer.spaces:
                for name, space, wanted in zip(("observation", "action"), spaces, (self.observation_space, self.action_space)):
                    if space != wanted:
                        raise ConfigError(f"environment {i}: {name} space {space}, must be that of environment 0, {wanted}")


class Local(Crew):
    """Environments in the caller's process: send steps them one after another before it returns."""

    def __init__(self, functions: list[Callable[[], Any]], autoreset: str) -> None:
        super().__init__([Worker(list(range(len(functions))))])
        self._stepper = _Here(self, autoreset)
        try:
            for i, function in enumerate(functions):
                try:
                    self._stepper.add(i, function)
                except Exception as err:
                    raise error([Failure.of(i, err)._replace(cause=err)]) from err
            self._described([self._stepper.describe()])
            for i, env in enumerate(self.envs):
                if (k := next(k for k, other in enumerate(self.envs) if other is env)) != i:
                    raise ConfigError(f"env: environments {k} and {i} are the same object, must be a new one from each call")
        except BaseException:
            with contextlib.suppress(Exception):  # the constructor's error is the cause
                self.stop()
            raise
        self.table = Table(self.num_envs, self.observation_space, self.action_space)
        self._stepper.use(self.table)

    @property
    def envs(self) -> list[Any]:
        return list(self._stepper.envs.values())

    def message(self, worker: Worker, indices: list[int], verb: str, name: str = "", *payload: Any) -> Message:
        return worker, indices, (verb, payload)

    def read(self, note: Any) -> Any:
        return note

    def send(self, messages: list[Message]) -> None:
        for _, indices, (verb, arguments) in messages:
            for k, i in enumerate(indices):
                try:
                    self._stepper.act(verb, k, i, arguments)
                except Exception as err:
                    self.failures[i] = Failure.of(i, err)._replace(cause=err)
                except BaseException as err:  # Ctrl-C goes to the caller
                    stopped = {j: Failure(j, f"was stopped by {type(err).__name__}", "") for j in indices[k:]}
                    self.failures.update(stopped)
                    self.broken.update(stopped)
                    self.done.extend(stopped)
                    raise
                self.done.append(i)

    def stop(self, timeout: float | None = 0) -> None:
        """Closes all environments, then raises the first exception of a close."""
        self.stopped = True
        envs = {id(env): env for env in self.envs}
        self._stepper.envs.clear()
        errors = []
        for env in envs.values():
            try:
                env.close()
            except Exception as err:
                errors.append(err)
        if errors:
            raise errors[0]


class _Here(Stepper):
    """The Stepper of a Local; it writes its results directly into the crew."""

    def __init__(self, crew: Local, autoreset: str) -> None:
        super().__init__(autoreset)
        self._notes, self._observations = crew.notes, crew.observations

    def note(self, i: int, value: Any) -> None:
        self._notes.setdefault(i, []).append(value)

    def show(self, i: int, obs: Any) -> None:
        self._observations[i] = obs

    def copied(self, obs: Any) -> Any:
        return copy.deepcopy(obs)


class Processes(Crew):
    """The worker processes of a vector and the shared memory."""

    def __init__(self, functions: list[Callable[[], Any]], workers: int, context: str, autoreset: str, each: bool) -> None:
        """Starts the processes; each makes its environments. each: see Job."""
        n = len(functions)
        bounds = [n * w // workers for w in range(workers + 1)]
        super().__init__([Worker(list(range(a, b)), _pickled("env", functions[a:b])) for a, b in itertools.pairwise(bounds)])
        self._forks = context == "fork"
        self._pid = os.getpid()
        self._autoreset, self._each = autoreset, each
        self._fd = -1
        self._poller = select.poll()
        self._by_fd: dict[int, Worker] = {}
        try:
            self._described(self._start(self.workers))
            size = Table(self.num_envs, self.observation_space, self.action_space).size
            self._fd = os.memfd_create("paceline")  # the kernel frees it however this process ends
            os.ftruncate(self._fd, size)
            self.table = Table(self.num_envs, self.observation_space, self.action_space, mmap.mmap(self._fd, size))
            self._put_to_work(self.workers)
        except BaseException:
            self.stop()
            raise

    # ------------------------------------------------------------- starting

    def _start(self, workers: list[Worker]) -> list[Made]:
        """Starts processes and waits until they have made their environments."""
        registered = b"" if self._forks else _spawn.registered()
        for worker in workers:
            self._spawn(worker, registered)
        waiting = {worker.conn: worker for worker in workers}
        made: dict[int, Made] = {}
        failure: Failure | None = None
        while waiting:
            ready = [waiting[conn] for conn in connection.wait(list(waiting), _LOOK / 1000)]
            for worker in ready or [worker for worker in waiting.values() if not _is_alive(worker)]:
                del waiting[worker.conn]
                first = worker.indices[0]
                try:
                    if not ready:
                        raise EOFError
                    answer = pickle.loads(worker.conn.recv_bytes())
                except (EOFError, OSError):
                    text = f"{_exit_text(worker)} before it had made its environments"
                    answer = Failure(first, text + ("" if self._forks else _spawn.hint()), "")
                if isinstance(answer, Made):
                    made[first] = answer
                elif failure is None or answer.environment < failure.environment:
                    failure = answer
            if failure is not None:  # the lowest environment that fails is reported, so wait for the others
                waiting = {conn: worker for conn, worker in waiting.items() if worker.indices[0] < failure.environment}
        if failure is not None:
            raise error([failure])
        return [made[worker.indices[0]] for worker in workers]

    def _spawn(self, worker: Worker, registered: bytes) -> None:
        conn, theirs = multiprocessing.Pipe()
        _worker.ends.add(conn)
        job = Job(worker.functions, worker.indices[0], self.num_envs, self._autoreset, self._each, registered)
        name = f"paceline-{worker.indices[0]}"
        # The child starts with SIGINT blocked and unblocks it once it ignores it. The resource
        # tracker is started before that, because starting it unblocks the signal in this process.
        if not self._forks:
            resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            if self._forks:
                process: Any = multiprocessing.get_context("fork").Process(target=_worker.main, args=(theirs, job), name=name, daemon=False)
                process.start()
            else:
                process = _spawn.Spawned(theirs, job, name)
            worker.process, worker.conn, worker.fd = process, conn, conn.fileno()
            worker.dead, worker.unread = None, 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def _put_to_work(self, workers: list[Worker]) -> None:
        for worker in workers:
            self._by_fd[worker.fd] = worker
            self._poller.register(worker.fd, select.POLLIN)
            try:
                worker.conn.send_bytes(pickle.dumps(("memory", [], b"")))
                reduction.send_handle(worker.conn, self._fd, worker.process.pid)
            except OSError:
                self._end_worker(worker)

    def restart(self, workers: list[Worker]) -> None:
        try:
            self._check(self._start(workers))
            self._put_to_work(workers)
        except BaseException:
            for worker in workers:
                self._end_worker(worker, "ended when it was started again")
            raise

    # -------------------------------------------------------------- messages

    def message(self, worker: Worker, indices: list[int], verb: str, name: str = "", *payload: Any) -> Message:
        return worker, indices, pickle.dumps((verb, indices, _pickled(name, payload) if payload else b""))

    def read(self, note: Any) -> Any:
        return pickle.loads(note)

    def send(self, messages: list[Message]) -> None:
        sent = 0
        try:
            for worker, indices, message in messages:
                while worker.under_way and worker.unread + len(message) > _UNREAD:
                    self.receive()
                worker.under_way.update(indices)
                worker.unread += len(message) + _PER_MESSAGE
                try:
                    worker.conn.send_bytes(message)
                except OSError:
                    self._end_worker(worker)
                sent += 1
        except BaseException as err:
            for worker, indices, _ in messages[sent:]:
                worker.under_way.update(indices)
                self._end_worker(worker, f"was stopped by {type(err).__name__}")
            raise

    def receive(self) -> None:
        self.check_running()
        events = self._poller.poll(_LOOK)
        if events:
            for fd, _ in events:
                self._hear(self._by_fd[fd])
            return
        for worker in self.workers:
            if worker.under_way and not _is_alive(worker):
                self._end_worker(worker)

    def _hear(self, worker: Worker) -> None:
        try:
            back, notes, observations, failures = pickle.loads(worker.conn.recv_bytes())
            for i, note in notes:
                self.notes.setdefault(i, []).append(note)
            self.observations.update(observations)
            self.failures.update((failure.environment, failure) for failure in failures)
            self.done.extend(back)
            worker.under_way.difference_update(back)
            if not worker.under_way:
                worker.unread = 0
        except (EOFError, OSError):
            self._end_worker(worker)
        except BaseException as err:
            self._end_worker(worker, f"was stopped by {type(err).__name__}")
            raise

    # ---------------------------------------------------------------- ending

    def _end_worker(self, worker: Worker, why: str | None = None) -> None:
        """Ends a process. why: the reason in the error message; None if it died by itself."""
        self.check_running()
        # The order makes an interrupted call repeatable.
        if worker.dead is None:
            if self._by_fd.pop(worker.fd, None):
                self._poller.unregister(worker.fd)
            worker.conn.close()
            if why is not None:
                worker.process.kill()
                worker.process.join()
            text = _exit_text(worker) if why is None else f"its worker process {why}"
            self.broken.update((i, Failure(i, text, "")) for i in worker.indices)
            worker.dead = text
            worker.process.close()
        for i in sorted(worker.under_way):
            self.failures[i] = Failure(i, worker.dead, "")
            self.done.append(i)
        worker.under_way.clear()

    def stop(self, timeout: float | None = 5.0) -> None:
        """Asks all processes to end; terminates those still running after timeout seconds, with None waits for their end."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        self.stopped = True
        workers = [worker for worker in self.workers if worker.process is not None and worker.dead is None]
        mine = os.getpid() == self._pid
        for worker in workers:
            try:
                if mine and worker.unread <= _UNREAD:
                    worker.conn.send_bytes(pickle.dumps(("close", [], b"")))
            except OSError:
                pass
            worker.conn.close()  # wakes a worker that waits for this process to read its message
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        # A copy of this object in a forked child then has no process to end.
        for worker in workers if mine else ():
            worker.process.join(None if deadline == math.inf else max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.terminate()
                worker.process.join(1.0)
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.dead = "its worker process was closed"
            worker.process.close()
        self.workers = []


def _is_alive(worker: Worker) -> bool:
    """Whether the worker may still send a message."""
    return worker.process.exitcode is None or (not worker.conn.closed and bool(worker.conn.poll()))


def _exit_text(worker: Worker) -> str:
    worker.process.join(1.0)
    if worker.process.exitcode is None:  # it has closed its end of the pipe
        worker.process.kill()
        worker.process.join()
    return f"its worker process died with exit code {worker.process.exitcode}"
