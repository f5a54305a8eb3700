"""Run a learner's cells and functions where they cannot reach the marks or anything that decides them. Trusted side.

One warm worker imports everything once, confines itself (`available_tiers`), and forks a process for each submission and
another one for each exercise. This side sends cells and probe *inputs*, receives outputs and arrays, and never unpickles.

    with Sandbox(choose_tier()) as sandbox, sandbox.submission([Cell("a", "def double(x): return 2 * x")]) as submission:
        observations = submission.observe("double", [Probe(encode({"x": np.ones(3)}))], timeout_s=10)
"""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath

from autograder.sandbox.budget import Budget
from autograder.sandbox.process import Host
from autograder.sandbox.run_submission import Cell, Submission
from autograder.sandbox.submission_limits import Limits
from autograder.sandbox.wire import WireError


class Sandbox:
    """A warm worker in `tier` that runs one submission after another. A context manager, for one thread at a time.

    The modules in `preload` are imported before the worker gives up its rights, as far as they are installed. The cells may
    also import the packages in the `given` folders, which are all that the sandbox sees of a course.
    """

    def __init__(
        self,
        tier: str,
        limits: Limits | None = None,
        preload: Sequence[str] = ("numpy", "torch"),
        given: Sequence[str] = (),
    ):
        self.tier, self.limits, self.preload, self.given = tier, limits or Limits(), tuple(preload), tuple(given)
        self.lost = 0  # workers that ended without being asked to
        self._host: Host | None = None
        self._busy = threading.Lock()

    def __enter__(self) -> "Sandbox":
        self.warm_up()
        return self

    def warm_up(self) -> None:
        """Start the worker now instead of with the first submission."""
        self._worker()

    def __exit__(self, *_: object) -> None:
        self.close()

    def memory_bytes(self) -> int:
        """Return the resident memory of the warm worker in bytes, starting the worker if necessary."""
        return self._worker().memory_bytes()

    @property
    def label(self) -> str:
        """Return the tier as reports name it, with "(shared)" if its submissions share something with those in other workers."""
        return f"{self.tier} (shared)" if self.tier == "landlock" and self._worker().shared else self.tier

    def close(self) -> None:
        """End the worker. The next submission starts another one."""
        if self._host is not None:
            self._host.close()
            self._host = None

    @contextlib.contextmanager
    def submission(
        self, cells: Sequence[Cell], files: Mapping[str, bytes] | None = None, budget: Budget | None = None
    ) -> Iterator[Submission]:
        """Run `cells` in a fresh process whose working folder holds `files` (relative path -> content).

        Pass `budget` for a submission that is run more than once: it holds the time left and is charged as time passes.

        Raises SandboxUnavailable if no worker starts, and ValueError for a path outside the folder or for two submissions at
        once.
        """
        for name in files or {}:
            path = PurePosixPath(name)
            if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
                raise ValueError(f"expected a file's path below the working folder, got {name!r}. Pass a relative path.")
        if not self._busy.acquire(blocking=False):
            raise ValueError("expected one submission at a time, got a second. Give each thread its own Sandbox.")
        try:
            running = Submission(self, cells, files or {}, budget or Budget(self.limits.budget_s))
            try:
                running.run()
                yield running
            finally:
                running.close()
        finally:
            self._busy.release()

    def _worker(self) -> Host:
        if self._host is None:
            self._host = Host(self.tier, asdict(self.limits), self.preload, given=self.given)
        return self._host

    def open(self) -> socket.socket:
        """Return the channel to a new submission process, replacing the worker if it is gone."""
        try:
            return self._worker().open()
        except WireError:
            self.lost += 1
            self.close()
            return self._worker().open()

    def cpu_s(self) -> float:
        """Return the worker's processor seconds (`Host.cpu_s`), or 0 without a worker."""
        return 0.0 if self._host is None else self._host.cpu_s()

    def delays(self, first: int) -> dict[int, float]:
        """Return how long each process has waited for a processor (`Host.delays`); empty without a worker."""
        return {} if self._host is None else self._host.delays(first)

    def refused(self) -> dict[str, int]:
        """Return how often each system call was refused (`Host.refused`); empty without a worker."""
        return {} if self._host is None else self._host.refused()

    def sweep(self, *, done: bool = False) -> bool:
        """Remove every trace of the last submission, ending the worker if necessary. Returns whether the worker survives.

        If the submission is `done`, ending the worker doesn't count as losing it, because nothing has to be asked again.
        """
        if self._host is not None and not self._host.sweep():
            self.lost += not done
            self._host.close(at_once=True)
            self._host = None
        return self._host is not None
