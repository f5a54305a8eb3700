"""A chapter of several notebooks: a core and workshops that share one module of exercises, each an assignment of its own."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from autograder.authoring import book, course, lesson_links, make_release, readme_tables
from autograder.authoring.course import CourseError, Lesson, find_lesson, find_lessons, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.scaffold import init
from autograder.cli import main
from autograder.notebooks.roles import exercise_of, grade_id
from autograder.packs import pack_file
from autograder.plugins.preprocessors import LeadOn
from autograder.workspace import folder as workspace
from autograder.workspace import index, learner_status, progress, update
from autograder.workspace.in_cells import overview

CELLS = """
### Exercise {label}.1: {title}

Write it.

```{{code-cell}} ipython3
:nbgrader: {{grade_id: {name}, solution: true}}

from solutions.{module} import {name}
```

```{{code-cell}} ipython3
:nbgrader: {{grade_id: {name}_check, grade: true}}

check("{name}")
```
"""
TREBLE = '''

def treble(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Three times each entry."""
    return 3 * x
'''
EXERCISE = """
    Exercise(
        "treble",
        title="Treble the entries",
        points=2,
        reference=ref.treble,
        cases=(Case("a vector", lambda draw: {"x": draw.normal(5)}),),
        hints=("What happens to one entry?", "Multiply by a number.", "Multiply by 3."),
        misconceptions=(Misconception("cubed", "cubed the entries", "Trebling multiplies by 3.", lambda x: x**3),),
        difficulty=1,
        minutes=2,
    ),
)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A course of one chapter: the core `01_first` asks `double`, the workshop `01b_more` asks `treble`."""
    init(tmp_path, "A small course")
    root = tmp_path / "course"
    answers, exercises = tmp_path / "solutions" / "first.py", root / "exercises" / "first.py"
    answers.write_text(answers.read_text() + TREBLE)
    exercises.write_text(exercises.read_text().rpartition(")")[0] + EXERCISE.lstrip("\n"))
    core = (root / "lessons" / "01_first.md").read_text()
    head = core.partition("### Exercise")[0].replace("# First", "# More").replace("to double", "to treble")
    asked = CELLS.format(label="01b", title="Treble", name="treble", module="first")
    (root / "lessons" / "01b_more.md").write_text(head + asked)
    monkeypatch.setenv("ATTN_COURSE", str(root))
    course.course_root.cache_clear()
    yield root
    course.course_root.cache_clear()


def _asked(lesson: Lesson) -> list[str]:
    return [exercise.id for exercise in lesson.exercises()]


@pytest.mark.parametrize("word", ["01b", "1b", "more", "01b_more"])
def test_a_workshop_is_found_by_its_label_its_slug_and_its_name(root: Path, word: str) -> None:
    assert find_lesson(word).name == "01b_more"


def test_a_chapters_number_names_its_core_and_with_a_star_all_its_notebooks(root: Path) -> None:
    assert [lesson.name for lesson in lessons()] == ["01_first", "01b_more"]
    assert find_lesson("01").name == "01_first"
    assert [lesson.name for lesson in find_lessons("01*")] == ["01_first", "01b_more"]
    assert [lesson.name for lesson in find_lessons("01")] == ["01_first"]
    with pytest.raises(CourseError, match="there is no lesson 07"):
        find_lessons("07*")


def test_each_notebook_has_the_exercises_that_its_cells_check_in_that_order(root: Path) -> None:
    assert [_asked(lesson) for lesson in lessons()] == [["double"], ["treble"]]
    path = root / "lessons" / "01b_more.md"
    path.write_text(path.read_text() + CELLS.format(label="01b", title="Double", name="double", module="first"))
    assert _asked(find_lesson("01b")) == ["treble", "double"]


def test_a_module_named_as_the_workshop_wins(root: Path) -> None:
    own = (root / "exercises" / "first.py").read_text().replace('"double"', '"doubled"')
    (root / "exercises" / "more.py").write_text(own)
    assert _asked(find_lesson("01b")) == ["doubled", "treble"]


def test_the_check_names_an_exercise_that_no_notebook_asks_and_one_that_two_ask(root: Path) -> None:
    path = root / "lessons" / "01b_more.md"
    text = path.read_text()
    assert course.shared_out(lessons()) == []
    path.write_text(text.partition("### Exercise")[0])
    (nowhere,) = course.shared_out(lessons())
    assert nowhere.startswith("course/exercises/first: `treble` is asked in none of 01, 01b")
    path.write_text(text + CELLS.format(label="01b", title="Double", name="double", module="first"))
    (twice,) = course.shared_out(lessons())
    assert twice.startswith("course/exercises/first: `double` is asked in 01 and 01b")


def test_a_workshop_without_a_core_or_a_module_of_its_own_says_what_is_missing(root: Path) -> None:
    (root / "lessons" / "01b_more.md").rename(root / "lessons" / "02b_more.md")
    with pytest.raises(CourseError, match="or a core notebook 02_"):
        find_lesson("02b").exercises()


def test_two_notebooks_with_one_label_are_refused(root: Path) -> None:
    (root / "lessons" / "01b_again.md").write_text("# Again\n")
    with pytest.raises(CourseError, match=r"one lesson 01b, found 01b_again\.md and 01b_more\.md"):
        lessons()


def test_a_kind_that_contradicts_the_name_is_refused(root: Path) -> None:
    path = root / "lessons" / "01b_more.md"
    path.write_text(path.read_text().replace("jupytext:", "kind: core\njupytext:", 1))
    with pytest.raises(CourseError, match="expected `kind: workshop` for the name 01b"):
        _ = find_lesson("01b").about


def test_front_matter_is_read_and_what_is_wrong_in_it_is_named(root: Path) -> None:
    path = root / "lessons" / "01b_more.md"
    text = path.read_text()
    stated = 'kind: workshop\nneeds: [01, 08]\nquestion: "Why: three?"\npart: attention\n'
    path.write_text(text.replace("jupytext:", f"{stated}jupytext:", 1))
    about = find_lesson("01b").about
    assert (about.kind, about.needs, about.question) == ("workshop", ("01", "08"), "Why: three?")
    path.write_text(text.replace("jupytext:", "kind: worksop\njupytext:", 1))
    with pytest.raises(CourseError, match="Invalid enum value 'worksop'"):
        _ = find_lesson("01b").about
    assert find_lesson("01").about.kind is None


def test_every_notebook_is_built_released_and_opened_as_an_assignment_of_its_own(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "01*"]) == 0
    assert make_release.check(lessons()) == []
    for name, exercise in (("01_first", "double"), ("01b_more", "treble")):
        folder = root / "release" / name
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        assert [asked for cell in notebook.cells if (asked := exercise_of(cell))] == [exercise]
        assert list(pack_file.load(folder / f"{name.partition('_')[2]}{pack_file.SUFFIX}").exercises) == [exercise]
    home = workspace.prepare(tmp_path / "work")
    assert workspace.names(home) == ["01_first", "01b_more"]
    assert workspace.find(home, "01b") == "01b_more"
    assert workspace.resolve(home, "01b.treble") == ("01b_more", "treble")
    path = workspace.notebook(home, "01b_more")
    notebook = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if grade_id(cell) == "treble").source = "def treble(x):\n    return 3 * x"
    nbformat.write(notebook, path)
    capsys.readouterr()
    assert main(["check", "01b", "--workspace", str(home)]) == 0
    assert "Correct" in capsys.readouterr().out
    assert main(["lab", "01b", "--prepare", "--workspace", str(home)]) == 0
    assert "01b_more/01b_more.ipynb" in capsys.readouterr().out


ANSWERS = {"double": "def double(x):\n    return x + x", "treble": "def treble(x):\n    return x + x + x"}


@pytest.fixture
def solved(root: Path, tmp_path: Path) -> Path:
    """A workspace in which the first edition, one notebook with both exercises, is solved; then the course is split in two."""
    split = {path: path.read_text() for path in (root / "lessons").glob("*.md")}
    whole = split[root / "lessons" / "01_first.md"]
    (root / "lessons" / "01b_more.md").unlink()
    second = CELLS.format(label="01", title="Treble", name="treble", module="first").replace("01.1", "01.2")
    (root / "lessons" / "01_first.md").write_text(whole.replace("## What you now know", f"{second}\n## What you now know"))
    assert main(["build"]) == 0
    home = workspace.prepare(tmp_path / "work")
    path = workspace.notebook(home, "01_first")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = ANSWERS.get(str(grade_id(cell)), cell.source)
    nbformat.write(notebook, path)
    assert main(["check", "01", "--workspace", str(home)]) == 0
    for place, text in split.items():
        place.write_text(text)
    assert main(["build"]) == 0
    return home


def _sources(home: Path, lesson: str) -> dict[str, str]:
    cells = nbformat.read(workspace.notebook(home, lesson), as_version=4).cells
    return {str(grade_id(cell)): cell.source for cell in cells if grade_id(cell) in ANSWERS}


def test_the_answers_of_a_first_edition_go_to_the_notebooks_that_ask_them_now(solved: Path) -> None:
    (done,) = update.update(solved)
    assert (done.lesson, done.kept, done.moved, done.own) == ("01_first", ["double"], {"treble": "01b_more"}, 0)
    assert _sources(solved, "01_first") == {"double": ANSWERS["double"]}
    assert _sources(solved, "01b_more") == {"treble": ANSWERS["treble"]}
    assert "x + x + x" not in workspace.notebook(solved, "01_first").read_text()
    assert "x + x + x" in done.backup.read_text()
    assert {place: entry.status for place, entry in progress.read(solved).items()} == {
        ("01_first", "double"): "pass",
        ("01b_more", "treble"): "pass",
    }
    assert update.update(solved) == []
    assert main(["check", "01b", "--workspace", str(solved)]) == 0


def test_what_the_new_notebook_holds_already_is_not_overwritten(solved: Path) -> None:
    workspace.prepare(solved)
    path = workspace.notebook(solved, "01b_more")
    notebook = nbformat.read(path, as_version=4)
    own = "def treble(x):\n    return 3 * x"
    next(cell for cell in notebook.cells if grade_id(cell) == "treble").source = own
    nbformat.write(notebook, path)
    (done,) = update.update(solved)
    assert done.moved == {}
    assert "both are kept" in done.notes[-1]
    assert _sources(solved, "01b_more") == {"treble": own}
    assert "x + x + x" in workspace.notebook(solved, "01_first").read_text()


def test_an_answer_whose_exercise_is_gone_is_kept_in_a_file_and_said(solved: Path, root: Path) -> None:
    for folder in ("lessons/01b_more.md", "release/01b_more", "source/01b_more"):
        path = root / folder
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (done,) = update.update(solved)
    assert done.moved == {}
    assert "`treble` is asked no more" in done.notes[-1]
    assert ANSWERS["treble"] in (solved / update.KEPT).read_text()


def test_an_update_that_is_cut_short_before_answers_moved_is_finished_the_next_time(
    solved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(update, "_move_answers", _killed)
        with pytest.raises(KeyboardInterrupt):
            update.update(solved)
    assert "x + x + x" in workspace.notebook(solved, "01_first").read_text()
    (done,) = update.update(solved)
    assert done.moved == {"treble": "01b_more"}
    assert _sources(solved, "01b_more") == {"treble": ANSWERS["treble"]}


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def two_chapters(root: Path) -> Path:
    """The course of `root` with a second workshop, `01c_rest`, and a second core, `02_second`; 01b states its kind and needs."""
    exercises, texts = root / "exercises", root / "lessons"
    alone = (exercises / "first.py").read_text().partition('    Exercise(\n        "treble"')[0] + ")\n"
    core = (texts / "01_first.md").read_text()
    for name, title, label in (("02_second", "Second", "02"), ("01c_rest", "Rest", "01c")):
        (exercises / f"{name.partition('_')[2]}.py").write_text(alone)
        (texts / f"{name}.md").write_text(core.replace("# First", f"# {title}").replace("Exercise 01.1", f"Exercise {label}.1"))
    more = texts / "01b_more.md"
    said = "kind: workshop\nquestion: Why three?\nneeds: [01]\n"
    more.write_text(more.read_text().replace("jupytext:", f"{said}jupytext:", 1))
    return root


def test_a_notebook_leads_to_the_next_core_with_the_workshops_of_its_chapter_beside_it(two_chapters: Path) -> None:
    last = {}
    for lesson in lessons():
        notebook = nbformat.v4.new_notebook()
        last[lesson.label] = LeadOn().preprocess(notebook, {"nbgrader": {"notebook": lesson.name}})[0].cells[-1].source
    core, more, rest = (f"[{x.label} {x.title}](../{x.name}/{x.name}.ipynb)" for x in map(find_lesson, ("02", "01b", "01c")))
    assert last["01"].startswith(f"**Next:** {core}. Workshops of this chapter, if you like: {more}, {rest}.")
    assert last["01b"].startswith(f"**Next:** {core}. Other workshops of this chapter, if you like: {rest}.")
    assert last["02"].startswith("**That was the last lesson.** In a cell")


def test_in_the_term_table_a_chapter_is_a_week_and_the_core_path_has_a_sum(two_chapters: Path) -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in readme_tables.term_table(lessons()).splitlines()[2:]]
    assert [row[:2] for row in rows] == [
        ["1", "`01_first`"],
        ["", "`01b_more` (workshop, needs 01)"],
        ["", "`01c_rest` (workshop)"],
        ["2", "`02_second`"],
        ["", "core path"],
        ["", "with all workshops"],
    ]
    points = [float(row[2]) for row in rows]
    assert points[4] == points[0] + points[3]
    assert points[5] == sum(points[:4])


@pytest.mark.slow
def test_the_index_and_the_status_group_by_chapter_and_lead_along_the_core_path(
    two_chapters: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build"]) == 0
    assert make_release.check(lessons()) == []
    home = workspace.prepare(tmp_path / "work")
    said = workspace.about(home, "01b_more")
    assert (said["kind"], said["question"], said["needs"], said["minutes"]) == ("workshop", "Why three?", ["01"], 5)
    first = overview.contents(home)
    assert (first.following[0], first.beside) == ("01 First", ())
    _solve(home, "01_first", "double")
    now = overview.contents(home)
    assert now.following == ("02 Second", "02_second/02_second.ipynb")
    assert now.beside == (("01b More", "01b_more/01b_more.ipynb"), ("01c Rest", "01c_rest/01c_rest.ipynb"))
    assert learner_status.next_notebook(home, None) == Path("02_second/02_second.ipynb")
    steps = [text for text, _ in overview.next_step(home / "01_first", "double")]
    assert steps[1:4] == ["next lesson: 02 Second", "or the workshop 01b More", "or the workshop 01c Rest"]
    (output,) = next(cell for cell in workspace.load(index.write(home)).cells if cell.get("id") == index.CELL).outputs
    table = output.data["text/markdown"]
    assert "| **[01 First](01_first/01_first.ipynb)** |" in table
    assert "| &emsp;[01b More](01b_more/01b_more.ipynb) · 5 minutes · needs 01<br>&emsp;Why three? |" in table
    capsys.readouterr()
    assert main(["status", "--workspace", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "1 of 2 lessons of the core path done" in shown
    assert "  · 01b More" in shown
    assert "needs 01" in shown
    assert "Next: double in lesson 02" in shown
    _solve(home, "02_second", "double")
    assert overview.contents(home).following[0] == "01b More"  # the core path is done: a workshop is next
    path = two_chapters / "lessons" / "01b_more.md"
    path.write_text(
        path.read_text().replace("needs: [01]", "needs: [01, 07]").replace("### Exercise", "[x](05_x.md)\n\n### Exercise")
    )
    problems = "\n".join(make_release.check([find_lesson("01b")]))
    assert "a notebook of the course, got '05_x'" in problems
    assert "labels of notebooks of the course, got '07'" in problems


def _solve(home: Path, lesson: str, exercise: str) -> None:
    notebook = nbformat.read(workspace.notebook(home, lesson), as_version=4)
    next(cell for cell in notebook.cells if grade_id(cell) == exercise).source = ANSWERS[exercise]
    nbformat.write(notebook, workspace.notebook(home, lesson))
    assert main(["check", lesson, "--workspace", str(home)]) == 0


def test_a_link_to_another_lessons_text_leads_to_its_notebook(two_chapters: Path) -> None:
    path = two_chapters / "lessons" / "01b_more.md"
    path.write_text(
        path.read_text().replace("### Exercise", "See [second](02_second.md#Twice) and [more](05_none.md).\n\n### Exercise")
    )
    lesson = find_lesson("01b")
    text = "\n".join(cell.source for cell in read_lesson(lesson).cells if cell.cell_type == "markdown")
    assert "[second](../02_second/02_second.ipynb#Twice)" in text
    (problem,) = lesson_links.broken_links(lesson, lessons())
    line = path.read_text().splitlines().index("See [second](02_second.md#Twice) and [more](05_none.md).") + 1
    assert problem.startswith(
        f"course/lessons/01b_more.md, line {line}: expected a link to a notebook of the course, got '05_none'"
    )


def test_messages_name_the_files_of_a_course_whose_folder_has_another_name(
    two_chapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = two_chapters.rename(two_chapters.parent / "lectures")
    monkeypatch.setenv("ATTN_COURSE", str(other))
    course.course_root.cache_clear()
    path = other / "lessons" / "01b_more.md"
    path.write_text(path.read_text().replace("### Exercise", "[x](05_none.md) $\\zeta$\n\n### Exercise").replace("[01]", "[07]"))
    lesson = find_lesson("01b")
    wide = other / "lessons" / "01_first.md"
    wide.write_text(
        wide.read_text().replace("```{code-cell}", "```{code-cell}\n" + "wide" * 23 + " = 0\n```\n\n```{code-cell}", 1)
    )
    said = [
        *lesson_links.broken_links(lesson, lessons()),
        *lesson_links.wrong_needs(lesson, lessons()),
        *make_release.wide_lines(find_lesson("01")),
    ]
    assert [line.partition(":")[0].partition(",")[0] for line in said] == [
        "lectures/lessons/01b_more.md",
        "lectures/lessons/01b_more.md",
        "lectures/lessons/01_first.md",
    ]


@pytest.mark.parametrize(
    ("needs", "problem"),
    [
        ("[01, 07]", "expected labels of notebooks of the course, got '07'."),
        ("[01b]", "expected an order without a circle, got 01b needs 01b."),
        ("[02]", "expected an order without a circle, got 01b needs 02 needs 01c needs 01b."),
    ],
)
def test_what_a_notebook_needs_exists_and_does_not_need_it(two_chapters: Path, needs: str, problem: str) -> None:
    assert [wrong for lesson in lessons() for wrong in lesson_links.wrong_needs(lesson, lessons())] == []
    for name, wanted in (("02_second", "[01c]"), ("01c_rest", "[01b]")):
        path = two_chapters / "lessons" / f"{name}.md"
        path.write_text(path.read_text().replace("jupytext:", f"needs: {wanted}\njupytext:", 1))
    path = two_chapters / "lessons" / "01b_more.md"
    path.write_text(path.read_text().replace("needs: [01]", f"needs: {needs}"))
    (wrong,) = lesson_links.wrong_needs(find_lesson("01b"), lessons())
    assert wrong.startswith(f"course/lessons/01b_more.md: needs: {problem}")


def test_the_book_shows_workshops_below_their_core_and_turns_pages_along_the_core_path(
    two_chapters: Path, tmp_path: Path
) -> None:
    path = two_chapters / "lessons" / "01b_more.md"
    path.write_text(path.read_text().replace("### Exercise", "See [second](02_second.md).\n\n### Exercise"))
    for lesson in lessons():  # not executed: the pages are only to be linked
        lesson.path.write_text(lesson.path.read_text().replace("### Exercise", "## A part\n\n### Exercise", 1))
        place = two_chapters / "source" / lesson.name
        place.mkdir(parents=True)
        nbformat.write(read_lesson(lesson), place / f"{lesson.name}.ipynb")
    book.build(lessons(), tmp_path / "site")
    pages = {path.stem: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    turned = {name: text.partition('class="related-pages"')[2] for name, text in pages.items()}
    assert 'class="next-page" href="02_second.html"' in turned["01_first"]
    assert 'class="prev-page" href="01_first.html"' in turned["02_second"]
    assert 'class="next-page" href="01c_rest.html"' in turned["01b_more"]
    assert "Workshops of this chapter" in pages["01_first"]
    assert "Workshops of this chapter" not in pages["02_second"]
    assert '<a class="reference internal" href="02_second.html">' in pages["01b_more"].partition("<article")[2]
    contents = pages["index"].partition("<article")[2].partition("</article")[0]
    found = re.finditer(r'internal" href="(\d\w+)\.html"', contents)
    levels = [(contents[: one.start()].count("<ul") - contents[: one.start()].count("</ul"), one[1]) for one in found]
    assert levels == [(1, "01_first"), (2, "01b_more"), (2, "01c_rest"), (1, "02_second")]
