"""A class of hostile submissions with honest ones between, by what they are hostile to: used by tests, and to measure.

`python -m tests.hostile_class 300 --workers 2` grades one and says how long it took and who lost marks.
"""

import argparse
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import Lesson, find_lesson
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.grade import grade_assignment
from autograder.grading.ledger import ClassReport
from autograder.grading.trials import course_copy, demo
from autograder.sandbox.run_submission import MAX_RESTARTS
from tests import armed, sample

LESSON = sample.LESSON
HONEST = "honest"

SPIN = 'with attack.on("spin"):\n    while True: pass'
SLEEP = 'import time; attack("sleep", time.sleep, 9999)'
SHUT = 'import signal; attack("shut", signal.pthread_sigmask, signal.SIG_BLOCK, range(1, 64))'
END = 'import os; attack("end", os._exit, 1)'
KILL = 'import os; attack("kill", os.kill, -1, 9)'
WORK = 'import time\nuntil = time.time() + 4.5\nwith attack.on("work"):\n    while time.time() < until: pass'
PRINT = 'attack("print", print, "x" * 10**6)'
# What follows says how far it has come again and again, not at the end: on a busy machine its time may be over before.
# Processes come and go as fast as they may: whoever counts them by user has few left for the others.
FORKS = """
import os, time
def pulse(seconds):
    until, made = time.time() + seconds, 0
    while time.time() < until:
        try:
            if os.fork() == 0:
                time.sleep(0.2); os._exit(0)
            made += 1
            attack.after("processes", made)
        except OSError: pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]: pass
        except OSError: pass
pulse({seconds})
"""
THREADS = """
import threading, time
def pulse(seconds):
    until, started = time.time() + seconds, 0
    while time.time() < until:
        made = []
        try:
            for _ in range(60):
                made.append(threading.Thread(target=time.sleep, args=(0.05,))); made[-1].start()
                started += 1
        except RuntimeError: pass
        attack.after("threads", started)
        for one in made:
            if one.ident: one.join()
pulse({seconds})
"""
HOGS = """
import os, time
hogs = 0
for _ in range(50):
    try:
        if os.fork() == 0:
            while True: pass
        hogs += 1
        attack.after("hogs", hogs)
    except OSError: break
time.sleep({seconds})
"""
DISK = """
import os
kept, refused = [], 0
for number in range(400):
    try:
        kept.append(os.open(f"f{{number % 100}}_{{number}}", os.O_CREAT | os.O_RDWR))
        os.posix_fallocate(kept[-1], 0, 8 << 20)
    except OSError:
        try: os.write(kept[-1], bytes(8 << 20))
        except OSError:
            if not refused: attack.after("disk", "full")
            refused += 1
        os.close(kept.pop())
if not refused: attack.after("disk", "not full")
print("filled")
"""
MEMORY = """
kept = []
with attack.on("memory"):
    try:
        while True:
            kept.append(bytearray(64 << 20))
            attack.after("taken", len(kept))
    finally: kept.clear()  # what a cell keeps, the answers could not take
"""
DEEP = """
import os
with attack.on("deep"):
    for _ in range(1500):
        os.mkdir("d"); os.chdir("d")
"""
TREES = """
import os
with attack.on("trees"):
    for number in range(150):
        os.makedirs(f"t{number}/" + "/".join("d" * 60))
"""
SOME = r"[1-9]\d*"


def cell(source: str) -> Any:
    """A further code cell."""
    return nbformat.v4.new_code_cell(source)


def in_answers(body: str) -> Callable[[Any, Lesson], None]:
    """`body` in each answer, where the names of its points of attack begin with "answer:"."""
    body = re.sub(r"(\battack(\.on|\.after)?\(\")", r"\1answer: ", body)

    def change(notebook: Any, lesson: Lesson) -> None:
        for exercise in lesson.in_code():
            inner = "\n".join("    " + line for line in body.strip().splitlines())
            demo.set_answer(notebook, exercise.id, f"def {exercise.id}(*given, **named):\n{inner}\n    return 0")

    return change


def in_cells(*sources: str) -> Callable[[Any, Lesson], None]:
    """Further cells with these sources, before the answers."""
    return lambda notebook, _lesson: notebook.cells.__setitem__(slice(1, 1), [cell(source) for source in sources])


def in_last_cells(*sources: str) -> Callable[[Any, Lesson], None]:
    """Further cells with these sources, after the answers, so that these are defined whatever time the cells take."""
    return lambda notebook, _lesson: notebook.cells.extend(cell(source) for source in sources)


def both(*changes: Callable[[Any, Lesson], None]) -> Callable[[Any, Lesson], None]:
    """One after the other."""

    def change(notebook: Any, lesson: Lesson) -> None:
        for one in changes:
            one(notebook, lesson)

    return change


def kinds(seconds: float = 3.0) -> dict[str, Callable[[Any, Lesson], None]]:
    """What each does to a perfect notebook; `seconds` is how long a burst lasts."""
    return {
        "loops_in_answers": in_answers(SPIN),
        "sleeps_in_answers": in_answers(SLEEP),
        "shut_loops_in_answers": in_answers(f"{SHUT}\n{SPIN}"),
        "loops_in_cells": in_cells(*[SPIN] * 12),
        "sleeps_in_cells": in_cells(*[SLEEP] * 12),
        "shut_loops_in_cells": in_cells(*[f"{SHUT}\n{SPIN}"] * 12),
        "works_long": in_cells(*[WORK] * 20),
        "everything_loops": both(in_last_cells(*[SPIN] * 12), in_answers(SPIN)),
        "ends_the_process": both(in_cells(END), in_answers(END)),
        "ends_the_process_too_often": in_cells(*[END] * (MAX_RESTARTS + 2)),  # so it is given up, and no answer is asked
        "kills_all": both(in_cells(KILL), in_answers(KILL)),
        "fork_pulses": both(in_cells(FORKS.format(seconds=seconds)), in_answers(FORKS.format(seconds=0.8))),
        "thread_pulses": both(in_cells(THREADS.format(seconds=seconds)), in_answers(THREADS.format(seconds=0.8))),
        "hogs_in_cells": in_cells(HOGS.format(seconds=seconds)),  # which leave the answers no time
        "hogs_in_answers": in_answers(HOGS.format(seconds=0.8)),
        "fills_the_disk": in_cells(DISK.format()),
        "memory": both(in_cells(MEMORY), in_answers(MEMORY)),
        "deep_folders": in_cells(DEEP),
        "all_its_seconds": both(in_cells(TREES, *[WORK] * 20), in_answers(f"{SHUT}\n{SPIN}")),
        "slow_text": both(
            in_cells("case" + " " * 190_000 + "x", *["(" * 50_000] * 3),
            lambda notebook, _: notebook.cells.extend(
                nbformat.v4.new_markdown_cell("`" * 40 + " " * 19_000 + "x") for _ in range(40)
            ),
        ),
        "output": in_cells(*[PRINT] * 20),
    }


LATE, KILLED = "raised CellTimeout", None  # an answer that is too late is killed, and says nothing afterwards
RAN: Mapping[str, Mapping[str, str | None]] = {
    "loops_in_answers": {"answer: spin": KILLED},
    "sleeps_in_answers": {"answer: sleep": KILLED},
    "shut_loops_in_answers": {"answer: shut": "ran set", "answer: spin": KILLED},
    "loops_in_cells": {"spin": LATE},
    "sleeps_in_cells": {"sleep": LATE},
    "shut_loops_in_cells": {"shut": "ran set", "spin": KILLED},
    "works_long": {"work": f"ran|{LATE}"},
    "everything_loops": {"spin": LATE, "answer: spin": KILLED},
    "ends_the_process": {"end": KILLED, "answer: end": KILLED},
    "ends_the_process_too_often": {"end": KILLED},
    "kills_all": dict.fromkeys(("kill", "answer: kill"), "ran NoneType|refused (EPERM|ESRCH)"),
    "fork_pulses": {"processes": SOME, "answer: processes": SOME},
    "thread_pulses": {"threads": SOME, "answer: threads": SOME},
    "hogs_in_cells": {"hogs": SOME},
    "hogs_in_answers": {"answer: hogs": SOME},
    "fills_the_disk": {"disk": "full"},
    # on a busy machine its time ends before it has all the memory that it may have: an answer is killed then
    "memory": {"memory": "raised (MemoryError|CellTimeout)", "taken": SOME, "answer: memory": KILLED, "answer: taken": SOME},
    "deep_folders": {"deep": "ran"},
    "all_its_seconds": {"trees": "ran", "work": f"ran|{LATE}"},
    "slow_text": {},  # texts that are slow to read, which is done outside the sandbox: nothing runs
    "output": {"print": "ran NoneType"},
}


def inert(log: Path) -> list[str]:
    """What is missing in the markers in the file `log` (`tests.armed`) of those that were in a class, a line for each point."""
    found = armed.markers(log)
    return [f"{kind}: {line}" for kind, ran in RAN.items() for line in armed.inert(found[kind], ran)]


def make(root: Path, names: Sequence[str], *, lesson: str = LESSON, seconds: float = 3.0) -> list[str]:
    """A course at `root` with a submission for each of `names`, kinds or `HONEST`; the students.

    `LESSON` is one of the sample course, which has to be in use.
    """
    found, changes = find_lesson(lesson), kinds(seconds)
    course_copy.make(root, [found])
    outcome = nbgrader_api(root).generate_assignment(found.name, force=True, create=True)
    assert outcome["success"], outcome
    students = []
    for number, name in enumerate(names):
        notebook = demo.perfect(root, found)
        if name != HONEST:
            changes[name](notebook, found)
            for each in notebook.cells:
                if re.search(r"\battack(\.on|\.after)?\(", each.source):
                    each.source = armed.armed(name, each.source)
        students.append(f"{number:03d}_{name}")
        demo.submit(root, found, students[-1], notebook)
    return students


def unharmed(report: ClassReport) -> list[str]:
    """What was lost by those who deserve full marks and no flag, a line for each."""
    honest = [row for row in report.rows if row.student.endswith(HONEST)]
    assert honest
    return [
        f"{row.student}: {row.score:g} of {row.points:g}, {row.flags}, {row.problem}"
        for row in honest
        if (row.score, row.flags, row.problem) != (row.points, [], None)
    ]


def main() -> None:
    """Grade a class and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("students", type=int)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--tier", default="")
    parser.add_argument("--kinds", nargs="*", default=None)
    parser.add_argument("--honest", type=int, default=10, help="each so-many-th student is honest; 0: none is")
    parser.add_argument("--lesson", default=LESSON)
    parser.add_argument("--purse", type=float, default=None, help="seconds for each worker; 0: as when others have used it up")
    chosen = parser.parse_args()
    names = chosen.kinds or list(kinds())
    who = [names[number % len(names)] for number in range(chosen.students)]
    for number in range(0, len(who), chosen.honest) if chosen.honest else ():
        who[number] = HONEST
    course = sample.in_use() if chosen.lesson == LESSON else nullcontext()
    with course, TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder) / "course"
        make(root, who, lesson=chosen.lesson)
        if chosen.purse is not None:
            patch.setattr("autograder.grading.workers.PURSE_S", chosen.purse)
        if chosen.tier:
            patch.setattr("autograder.grading.workers.choose_tier", lambda **_: chosen.tier)
            patch.setattr("autograder.grading.workers.likely_tier", lambda: chosen.tier)
        began = time.monotonic()
        report = grade_assignment(root, chosen.lesson, workers=chosen.workers, feedback=True)
        wall = time.monotonic() - began
    seconds: dict[str, float] = defaultdict(float)
    for row in report.rows:
        seconds[row.student[4:]] += row.seconds
    counts = Counter(row.student[4:] for row in report.rows)
    print(json.dumps({"tier": report.tier, "wall_s": round(wall, 1), "each_s": round(wall / len(who), 2)}))
    for name, total in sorted(seconds.items(), key=lambda each: -each[1]):
        scores = {row.score for row in report.rows if row.student[4:] == name}
        print(f"{name:24}{total / counts[name]:8.1f} s each  {counts[name]:4}  scores {sorted(scores)}")
    print("honest students who lost something:", *(unharmed(report) if HONEST in counts else []), sep="\n  ")


if __name__ == "__main__":
    main()
