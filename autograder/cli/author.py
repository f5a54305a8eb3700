"""Define the commands for authors: build, verify, style, book, lite, init, new-lesson."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from autograder.authoring.course import CourseError, Lesson, course_root, find_lessons, learners_course, lessons, settings
from autograder.cli.common import Add, one_thread

_LESSONS = "lessons (default: all); '03*' names all notebooks of a chapter"


def register(add: Add) -> None:
    """Add these commands to the parser."""
    build = add("build", _build, "Make source notebooks and releases from the lessons.")
    build.add_argument("lessons", nargs="*", help=_LESSONS)
    build.add_argument("--check", action="store_true", help="change nothing; say what differs from its source")
    build.add_argument(
        "--search", action="store_true", help="with --check: make each pack again and compare all of it (as slow as building)"
    )
    build.add_argument(
        "--packs", type=Path, metavar="DIR", help="write packs made anew into DIR, and nothing else: they are the same everywhere"
    )
    build.add_argument("--again", action="store_true", help="execute lessons again even where their sources did not change")

    verify = add("verify", _verify, "Examine the grader: references, blanks, misconceptions, variants.")
    verify.add_argument("lessons", nargs="*", help=_LESSONS)
    verify.add_argument("--json", action="store_true", help="print JSON")
    verify.add_argument(
        "--thorough",
        action="store_true",
        help="with 100 drawings of the inputs, 30 where a lesson is heavy (minutes for each lesson), instead of 3",
    )
    verify.add_argument(
        "--blind",
        type=Path,
        metavar="FILE",
        help="what is said of the labelled answers in FILE, or of those to the lessons and exercises named",
    )

    style = add(
        "style",
        _style,
        "Say what a lesson's text still lacks: alternative texts, headings, short sentences, sources, symbols, limits.",
    )
    style.add_argument("lessons", nargs="*", help=_LESSONS)
    style.add_argument(
        "--only", choices=["figure", "exercise", "sentence", "claim", "symbol", "prose", "limit"], help="one of the rules"
    )

    book = add("book", _book, "Make a site of the executed lessons, solutions folded, readable without a network.")
    book.add_argument("--to", type=Path, default=None, help="folder to write (default: course/book; without a clone ./book)")

    book.add_argument("--live", action="store_true", help="exercises that need NumPy alone are answered and checked in the page")
    book.add_argument("--pyodide", type=Path, metavar="DIR", help="Pyodide for --live (default: ATTN_PYODIDE, or its CDN)")
    book.add_argument("--repository", default="", metavar="URL", help="on GitHub: pages lead to it, to Colab and to Binder")
    book.add_argument("--address", default="", metavar="URL", help="where the site will be published, for cards of other sites")
    book.add_argument("--lite", action="store_true", help="with --live: also the site of `attn lite`, in its folder lite/")
    book.add_argument("--serve", nargs="?", type=int, const=8899, metavar="PORT", help="then serve the site to this machine")

    lite = add("lite", _lite, "Make a JupyterLite site of the notebooks that need NumPy alone: JupyterLab in a browser tab.")
    lite.add_argument("folder", type=Path, metavar="DIR", help="where to write it; what is there is replaced")
    lite.add_argument("--pyodide", type=Path, metavar="DIR", help="Pyodide (default: ATTN_PYODIDE, or its CDN)")

    init = add("init", _init, "Make a small course of your own, ready to build.")
    init.add_argument("folder", type=Path, help="where: the course goes into FOLDER/course, its answers into FOLDER/solutions")
    init.add_argument("--title", default="", help="title of the course (default: from the folder's name)")

    new = add("new-lesson", _new_lesson, "Write the files of a new lesson, ready to build.")
    new.add_argument("name", help="NN_slug, for example 12_linear_attention; 12b_delta_rule for a workshop")


def _chosen(words: Sequence[str]) -> list[Lesson]:
    return list(dict.fromkeys(lesson for word in words for lesson in find_lessons(word)) if words else lessons())


def _build(arguments: argparse.Namespace) -> int:
    if arguments.check:  # executed lessons keep all threads, because some of them measure times
        one_thread()
    from autograder.authoring import make_release, readme_tables, style
    from autograder.cli.instructor_output import counted, print_step, steps_bar

    chosen = _chosen(arguments.lessons)
    if arguments.check:
        problems = make_release.check(chosen, search=arguments.search)
        problems += [line for lesson in chosen for line in style.lines(lesson)] if settings().style.enforced else []
        stale = [] if arguments.lessons else readme_tables.refresh(chosen, write=False)
        problems += [f"{path}: its generated tables are out of date: run `attn build`" for path in stale]
        print("\n".join(problems) if problems else f"{len(chosen)} lessons: everything generated agrees with its source.")
        return 1 if problems else 0
    finished = 0
    with steps_bar(f"building {counted(len(chosen), 'notebook')}", len(chosen)) as steps:
        if arguments.packs is not None:
            for finished, path in enumerate(make_release.write_packs(chosen, arguments.packs), start=1):
                print(path, flush=True)
                steps.count(finished, len(chosen))
        else:
            for step in make_release.build(chosen, again=arguments.again):
                print_step(step)
                if step.finished:
                    finished += 1
                    steps.count(finished, len(chosen))
    if not arguments.lessons and arguments.packs is None:
        readme_tables.refresh(chosen, write=True)
    return 0


def _style(arguments: argparse.Namespace) -> int:
    from autograder.authoring import style

    lines = [line for lesson in _chosen(arguments.lessons) for line in style.lines(lesson, arguments.only)]
    print("\n".join([*lines, f"{len(lines) or 'nothing'} to mend"]))
    return 1 if lines else 0


def _verify(arguments: argparse.Namespace) -> int:
    one_thread()
    from autograder.authoring.readme_tables import has_score
    from autograder.authoring.verify import HIDDEN_LIKE_SEEDS, Verdict, seeds_of, verify_lesson

    if arguments.blind is not None:
        return _blind(arguments)
    verdicts: list[Verdict] = []
    for lesson in _chosen(arguments.lessons):
        verdicts += verify_lesson(lesson, seeds=seeds_of(lesson) if arguments.thorough else HIDDEN_LIKE_SEEDS)
    counts = ("misconceptions", "caught", "variants", "variants_full")
    total = {"exercises": len(verdicts), **{name: sum(getattr(v, name) for v in verdicts) for name in counts}}
    total["blank_zero"] = all(v.blank_zero for v in verdicts)
    if arguments.json:
        print(json.dumps(total))
    else:
        from autograder.cli.instructor_output import print_verdicts

        print_verdicts(verdicts, total)
    if not arguments.lessons and not has_score(verdicts):
        print("README.md: its mutation score is out of date: run `attn build`", file=sys.stderr)
        return 1
    return 1 if any(v.problems for v in verdicts) else 0


def _blind(arguments: argparse.Namespace) -> int:
    from autograder.cli.instructor_output import print_blind
    from autograder.grading.trials import unseen_answers
    from autograder.sandbox.isolation_tiers import choose_tier

    answers = unseen_answers.chosen(unseen_answers.read(arguments.blind), arguments.lessons)
    verdicts = list(unseen_answers.ask(answers, choose_tier()))
    if arguments.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    else:
        print_blind(verdicts)
    return 0


def _book(arguments: argparse.Namespace) -> int:
    from autograder.authoring import book

    folder = arguments.to or (course_root() / "book" if _is_clone() else Path("book").resolve())
    if arguments.live:
        from autograder.live import site

        place = {"repository": arguments.repository, "address": arguments.address, "lite": "lite" if arguments.lite else ""}
        written = site.build(book.chapters(), folder, pyodide_folder=arguments.pyodide, **place)
        if arguments.lite:
            from autograder.live import lite

            lite.build(book.chapters(), folder / "lite", pyodide_folder=arguments.pyodide)
    else:
        written = book.build(book.chapters(), folder, repository=arguments.repository, address=arguments.address)
    print(f"wrote {len(written)} pages; open {written[-1]}")
    if arguments.serve is not None:
        from autograder.live import serve

        with serve.server(folder, arguments.serve) as running:
            print(f"open http://127.0.0.1:{running.server_address[1]}/ (Ctrl-C ends the server)", flush=True)
            running.serve_forever()
    return 0


def _lite(arguments: argparse.Namespace) -> int:
    from autograder.authoring import book
    from autograder.live import lite

    _is_clone()
    notebooks = lite.build(book.chapters(), arguments.folder, pyodide_folder=arguments.pyodide)
    print(f"wrote {len(notebooks)} notebooks; serve {arguments.folder} with any web server")
    return 0


def _is_clone() -> bool:
    """Return whether there is a course here. If not, make this process use the installed course from now on."""
    try:
        course_root()
    except CourseError:
        os.environ["ATTN_COURSE"] = str(learners_course())
        return False
    return True


def _init(arguments: argparse.Namespace) -> int:
    from autograder.authoring.scaffold import init

    folder = arguments.folder
    for path in init(folder, arguments.title or folder.resolve().name.replace("_", " ").replace("-", " ").capitalize()):
        print(f"wrote {path}")
    print(f"next: cd {folder}, then `attn build`, `attn verify`, `attn lab`; another lesson: `attn new-lesson 02_name`")
    return 0


def _new_lesson(arguments: argparse.Namespace) -> int:
    from autograder.authoring.scaffold import new_lesson

    for path in new_lesson(arguments.name):
        print(f"wrote {path}")
    print(f"next: edit them, then `attn build {arguments.name}` and `attn verify {arguments.name}`")
    return 0
