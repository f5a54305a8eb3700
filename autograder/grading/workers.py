"""Mark submissions in threads on this machine, each with its own sandbox, or on the workers of a Dask cluster.

Both run `work` behind Python's `Executor` interface, so the caller doesn't notice the difference. Threads are enough on one
machine, because student code runs in the sandboxes' own processes and a thread that waits for them blocks no other.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from autograder import __version__
from autograder.authoring.course import CourseError
from autograder.grading import rehearsal
from autograder.grading.marking.mark_submission import Fixed, Marked, mark
from autograder.grading.marking.read_submission import Handed
from autograder.grading.marking.scheme import MarkScheme, Setup, given_paths, setup_for
from autograder.sandbox.budget import PURSE_S, Purse
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import choose_tier, likely_tier
from autograder.sandbox.submission_limits import Limits

RETRIES = 3  # how often a submission is reassigned when its cluster worker is lost
CONNECT_S = 10.0


_mine = threading.local()  # each thread's sandbox, with its setup and tier
_all: list[Sandbox] = []
# one core stays free for this process, which makes the scheme meanwhile, so the first mark comes sooner
_warming = threading.Semaphore(max(1, (os.cpu_count() or 1) - 1))


def work(
    scheme: MarkScheme,
    unsafe: bool,
    handed: Handed,
    purse: Purse | None = None,
    fixed: Fixed | None = None,
    final: bool = False,
) -> Marked:
    """Mark one submission in this thread's sandbox. `purse` holds the time that the class may still use on this machine.

    If `fixed` is given, the submission is marked again, in a new sandbox, so that the files, process numbers and counters
    that it saw the first time are gone.
    """
    sandbox = _sandbox(scheme, unsafe)
    if fixed is not None:
        sandbox.close()  # marking then starts a new one
    fixed = fixed or Fixed()
    try:
        return mark(scheme, sandbox, handed, purse, fixed, final=final)
    except SystemError:  # CPython counts the depth of syntax trees for all threads together, so two that parse can clash
        sandbox.close()
        return mark(scheme, sandbox, handed, None, fixed, final=final)


def _sandbox(scheme: MarkScheme, unsafe: bool) -> Sandbox:
    """Return this thread's sandbox, which stays warm for the next submission."""
    if getattr(_mine, "ready", None) != (scheme.setup, tier := choose_tier(unsafe=unsafe)):
        warm_up(scheme.setup, tier)
    sandbox: Sandbox = _mine.sandbox
    return sandbox


def warm_up(setup: Setup, tier: str, together: threading.Barrier | None = None) -> None:
    """Give this thread a warm sandbox in `tier`. Threads that wait for each other at `together` get one each."""
    if hasattr(_mine, "sandbox"):
        _mine.sandbox.close()
    _mine.sandbox, _mine.ready = setup.sandbox(tier), (setup, tier)
    _all.append(_mine.sandbox)
    if together is not None:
        together.wait()
    with _warming:
        _mine.sandbox.warm_up()


@contextmanager
def here(setup: Setup, *, workers: int, unsafe: bool) -> Iterator[Executor]:
    """Yield an executor with `workers` threads on this machine. Their sandboxes begin to warm up at once.

    Raises SandboxUnavailable if no isolation works, unless `unsafe`.
    """
    together = threading.Barrier(workers)
    executor = ThreadPoolExecutor(workers, thread_name_prefix="attn")
    try:
        for _ in range(workers):
            executor.submit(warm_up, setup, likely_tier(), together)  # if the guess is wrong, `work` makes another sandbox
        choose_tier(unsafe=unsafe)
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
        while _all:
            _all.pop().close()


@contextmanager
def cluster(scheme: MarkScheme, *, scheduler: str) -> Iterator[tuple[Executor, Any]]:
    """Yield an executor on the Dask cluster at `scheduler` ("tcp://host:8786"), and a handle on the scheme, which is sent there.

    Raises CourseError if the cluster cannot be used. The scheme holds the hidden probes, so the cluster must be yours and
    its network trusted (or its addresses `tls://`).
    """
    try:
        from distributed import Client
    except ImportError:
        raise CourseError("expected Dask for --scheduler. Install it: pip install 'attention-course[cluster]'.") from None
    try:
        client: Any = Client(scheduler, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]  # distributed's Client has no types
    except (OSError, ValueError) as error:
        raise CourseError(f"expected a Dask scheduler at {scheduler}, but {error}. Start one: dask scheduler.") from None
    with client:
        client.wait_for_workers(1, timeout=60)
        others = {worker: installed for worker, installed in client.run(_version).items() if installed != __version__}
        if others:
            raise CourseError(f"expected autograder {__version__} on every worker, got {others}. Install it there.")
        scattered = client.scatter(scheme, broadcast=True, hash=False)
        yield client.get_executor(retries=RETRIES, pure=False), scattered


def _version() -> str:
    return __version__


def rehearse(scheme: MarkScheme, unsafe: bool, data: bytes, requires: tuple[str, ...]) -> list[str]:
    """Return the problems that keep this thread's sandbox from marking fairly: see `rehearsal.problems`."""
    return rehearsal.problems(scheme, _sandbox(scheme, unsafe), data, requires)


class Workers:
    """Marks submissions in this machine's threads or on the cluster at `scheduler`, started when there is something to do."""

    def __init__(self, stack: ExitStack, released: Any, limits: Limits, unsafe: bool, workers: int | None, scheduler: str | None):
        self._stack, self._unsafe, self._scheduler = stack, unsafe, scheduler
        self._setup = setup_for(released, limits, given_paths())
        self._workers = workers or os.cpu_count() or 1
        self._purse = None if scheduler else Purse(PURSE_S * self._workers)
        self._executor: Executor | None = None
        self._scheme: Any = None
        self.ahead = 256 if scheduler else 2 * self._workers  # at most this many submissions are read ahead of the writing

    def start(self) -> None:
        """Start this machine's threads. A cluster's workers wait for the scheme."""
        if self._executor is None and self._scheduler is None:
            self._executor = self._stack.enter_context(here(self._setup, workers=self._workers, unsafe=self._unsafe))

    def mark(self, scheme: MarkScheme, handed: Handed, fixed: Fixed | None = None, *, final: bool = False) -> "Future[Marked]":
        """Queue a submission for marking and return the future.

        A submission that is marked again, with what was `fixed`, may use all its seconds, whatever the class has used. After
        a `final` marking it is not marked again.
        """
        purse = self._purse if fixed is None else None
        return self._ready(scheme).submit(work, self._scheme or scheme, self._unsafe, handed, purse, fixed, final)

    def rehearse(self, scheme: MarkScheme, requires: tuple[str, ...]) -> "Future[list[str]]":
        """Queue the lesson's own answers for marking and return the future: see `autograder.grading.rehearsal`."""
        executor, data = self._ready(scheme), rehearsal.answered(scheme)
        return executor.submit(rehearse, self._scheme or scheme, self._unsafe, data, requires)

    def _ready(self, scheme: MarkScheme) -> Executor:
        if self._executor is None and self._scheduler is not None:
            self._executor, self._scheme = self._stack.enter_context(cluster(scheme, scheduler=self._scheduler))
        self.start()
        assert self._executor is not None
        return self._executor
