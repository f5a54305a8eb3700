"""Where submissions are marked: in threads of this machine, each with its own sandbox, or on the workers of a Dask cluster.

Both are executors of `work`, so whoever grades does not see the difference. Threads serve well here: student code runs in the
sandboxes' own processes, and a thread that waits for one holds nothing up.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from autograder import __version__
from autograder.oracle import Kit, Marked, Setup, mark
from autograder.registry import CourseError
from autograder.sandbox import Sandbox, choose_tier

RETRIES = 3  # a submission whose cluster worker was lost is given to others this often
CONNECT_S = 10.0

_mine = threading.local()  # each thread's sandbox, and what it was set up for
_all: list[Sandbox] = []


def work(kit: Kit, unsafe: bool, data: bytes | None, unreadable: str) -> Marked:
    """Mark one submission in this thread's sandbox, which stays warm for the next."""
    if getattr(_mine, "setup", None) != kit.setup:
        warm_up(kit.setup, unsafe)
    return mark(kit, _mine.sandbox, data, unreadable)


def warm_up(setup: Setup, unsafe: bool, together: threading.Barrier | None = None) -> None:
    """Give this thread a warm sandbox; `together` with the other threads, so that each gets one."""
    if hasattr(_mine, "sandbox"):
        _mine.sandbox.close()
    _mine.sandbox, _mine.setup = setup.sandbox(choose_tier(unsafe=unsafe)), setup
    _all.append(_mine.sandbox)
    if together is not None:
        together.wait()
    _mine.sandbox.warm_up()


@contextmanager
def here(setup: Setup, *, workers: int, unsafe: bool) -> Iterator[Executor]:
    """`workers` threads on this machine, whose sandboxes begin to warm up at once.

    Raises SandboxUnavailable where nothing isolates and not `unsafe`.
    """
    choose_tier(unsafe=unsafe)
    together = threading.Barrier(workers)
    executor = ThreadPoolExecutor(workers, thread_name_prefix="attn")
    try:
        for _ in range(workers):
            executor.submit(warm_up, setup, unsafe, together)
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
        while _all:
            _all.pop().close()


@contextmanager
def cluster(kit: Kit, *, scheduler: str) -> Iterator[tuple[Executor, Any]]:
    """The workers of the Dask cluster at `scheduler` ("tcp://host:8786"). Raises CourseError where it cannot be used.

    The kit holds the hidden probes: the cluster must be yours, and its network trusted (or its addresses `tls://`).
    """
    try:
        from distributed import Client
    except ImportError:
        raise CourseError("expected Dask for --scheduler. Install it: pip install 'attention-course[cluster]'.") from None
    try:
        client: Any = Client(scheduler, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise CourseError(f"expected a Dask scheduler at {scheduler}, but {error}. Start one: dask scheduler.") from None
    with client:
        client.wait_for_workers(1, timeout=60)
        others = {worker: found for worker, found in client.run(_version).items() if found != __version__}
        if others:
            raise CourseError(f"expected autograder {__version__} on every worker, got {others}. Install it there.")
        scattered = client.scatter(kit, broadcast=True, hash=False)
        yield client.get_executor(retries=RETRIES, pure=False), scattered


def _version() -> str:
    return __version__
