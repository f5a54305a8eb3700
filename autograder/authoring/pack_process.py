"""Make a lesson's visible pack in a separate process, so that only the lesson and the engine decide its bytes.

In: a lesson. Out: its `.probes.npz`. The process computes in one thread, with a fixed order of sets, and has run nothing
before, because the number of threads affects the last digits of a sum, and a library that another lesson loaded can change
what is observed.

    python -m autograder.authoring.pack_process LESSON FILE
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import autograder
from autograder.authoring.course import CourseError, Lesson, course_root, find_lesson, search_path
from autograder.packs import pack_file

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class PackMakers(AbstractContextManager["PackMakers"]):
    """Makes the packs of `lessons` in `folder`, several at a time. A context manager: leaving the block stops unfinished work."""

    def __init__(self, lessons: Sequence[Lesson], folder: Path):
        self._running: list[subprocess.Popen[str]] = []
        self._stopped = False
        self._executor = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._files: dict[str, Future[Path]] = {
            lesson.slug: self._executor.submit(self._make, lesson, folder / f"{lesson.slug}{pack_file.SUFFIX}")
            for lesson in lessons
        }

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for process in self._running:
            process.kill()
        self._executor.shutdown(cancel_futures=True)

    def wait(self, lesson: Lesson) -> Path:
        """Return the file of the lesson's pack once it is made. Raises CourseError if it cannot be made."""
        return self._files[lesson.slug].result()

    def _make(self, lesson: Lesson, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        home = Path(autograder.__file__).parent.parent
        env = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONHASHSEED": "0"}
        env |= {"ATTN_COURSE": str(course_root()), "PYTHONPATH": search_path(home)}
        command = [sys.executable, "-P", "-m", "autograder.authoring.pack_process", lesson.name, str(path)]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._running.append(process)
        if self._stopped:
            process.kill()
        _, errors = process.communicate()
        self._running.remove(process)
        if process.returncode != 0:
            raise CourseError(errors.strip() or f"{lesson.name}: making its pack ended with exit status {process.returncode}")
        return path


def main(words: Sequence[str]) -> int:
    """Make the pack of the lesson in the first word and write it to the file in the second. Returns an exit status."""
    try:
        pack_file.save(find_lesson(words[0]).pack(), Path(words[1]))
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
