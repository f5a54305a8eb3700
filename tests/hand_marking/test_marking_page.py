"""`attn mark` without a browser: what it asks, what it writes, what it loses (nothing), and whom it lets in (nobody else)."""

import csv
import http.client
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from autograder.authoring.course import CourseError, course_root, lessons
from autograder.authoring.readme_tables import hand_points
from autograder.cli import main
from autograder.hand_marking import answers, opened, questions, rubric, run, trail
from autograder.hand_marking.answers import Answer, grouped, shown
from autograder.hand_marking.marking_session import Desk, RequestError
from autograder.hand_marking.store import ConflictError, Store, Verdict
from autograder.notebooks import pictures
from tests import sample
from tests.hand_marking.marking_class import LESSON, QUESTION, api, make, marks, serving

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

HOSTILE = (
    '<script>fetch("http://x.example")</script> <img src=x onerror=alert(1)> [a](javascript:alert(1)) '
    '$\\href{javascript:alert(1)}{x}$ <form action="http://x.example"><button>go</button></form> '
    "![](http://x.example/p.png) <svg onload=alert(1)>"
)
SAME = "The weights are one-hot; the derivative is zero."
CLASS = {
    "ada": SAME,
    "ben": f"  {SAME}\n",
    "cyd": "The weights are one-hot; the derivative is infinite.",
    "dan": HOSTILE,
    "eve": "",
    "fay": {"written_convex": "Only the other one."},
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with sample.in_use():
        return make(tmp_path_factory.mktemp("prepared") / "course", CLASS)


@pytest.fixture
def root(prepared: Path, tmp_path: Path, sample_course: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "course", symlinks=True))


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store(api(root), LESSON) as opened:
        yield opened


def desk_of(root: Path, store: Store, **options: Any) -> Desk:
    return Desk(root, store, **options)


def seen(store: Store, *students: str) -> dict[str, str]:
    return {row.id: row.version for row in store.rows(QUESTION) if row.student in students}


def test_every_scheme_of_the_course_becomes_buttons_that_add_up_to_the_points() -> None:
    for lesson in lessons():
        if not hand_points(lesson):
            continue
        for question in questions.read(course_root(), lesson.name).values():
            assert sum(item.points for item in question.rubric) == question.points, question.name
            assert len(question.rubric) > 1, question.name
            assert question.model, question.name


def test_a_scheme_that_gives_nothing_for_each_part_is_one_item() -> None:
    assert rubric.items("0 points for each part without a reason.", 2.0, parts=2) == [
        rubric.Item("0 points for each part without a reason", 2.0)
    ]


def test_answers_that_say_the_same_are_one_and_blank_ones_come_first() -> None:
    said = {
        "a": Answer("k = 1."),
        "b": Answer(" k  = 1"),
        "c": Answer("K = 1"),
        "d": Answer("write here"),
        "e": Answer("k = 1 is"),
    }
    groups = grouped(said, "write here")
    assert [set(group.members) for group in groups[:2]] == [{"d"}, {"a", "b"}]
    assert groups[0].blank
    assert next(group for group in groups if group.members == ("c",)).like
    assert (
        len(grouped({"a": Answer("It grows as n²."), "b": Answer("It grows as n2."), "c": Answer("2¹⁰"), "d": Answer("210")}))
        == 4
    )
    pictured = {"a": Answer("see", ("aaaa",)), "b": Answer("see", ("bbbb",))}
    assert len(grouped(pictured)) == 2


def test_nothing_in_a_hostile_answer_is_live() -> None:
    (group,) = grouped({"a": Answer(HOSTILE, ('x" onerror="alert(1)',))})
    text = shown(replace(group, answer=Answer(HOSTILE)))
    assert not re.search(r"<(?!/?(?:p|a|code|em|strong|span|math|m\w+)\b)[a-z/!]", text), text
    assert "href" not in re.sub(r'href="(?:https?:|mailto:|#)', "", text.replace("\\href", "")), text
    assert "onerror=" not in re.sub(r">[^<]*<", "><", text)


def test_a_formula_is_typeset_and_a_broken_one_is_shown_as_it_is_written() -> None:
    def made(text: str) -> str:
        return shown(grouped({"a": Answer(text)})[0])

    assert "<math" in made("It is $a_j = 1$.")
    assert "\\frac{" in made("It is $\\frac{$ or so.")
    assert "<pre" in shown(grouped({"a": Answer("x = 1 < 2", code=True)})[0])


def test_a_mark_reaches_the_gradebook_with_its_comment_and_leaves_a_line(root: Path, store: Store) -> None:
    desk = desk_of(root, store)
    desk.mark("grace", QUESTION, seen(store, "ada", "ben"), Verdict(1.5, "Why?", (1, 1, 0)))
    assert marks(root)["ada"] == marks(root)["ben"] == (1.5, "Why?")
    assert marks(root)["cyd"] == (None, "")
    desk.mark("linus", QUESTION, seen(store, "ada"), Verdict(2.0))
    last = store.trail(QUESTION)[-1]
    assert (last.marker, last.student, last.before["score"], last.after["score"]) == ("linus", "ada", 1.5, 2.0)
    rows = list(csv.DictReader(trail(root, LESSON).splitlines()))
    assert [(row["marker"], row["student"], row["before"], row["after"]) for row in rows][-1] == ("linus", "ada", "1.5", "2")
    desk.mark("linus", QUESTION, seen(store, "ada"), Verdict(None))
    assert marks(root)["ada"] == (None, "")


def test_a_mark_that_another_gave_meanwhile_is_not_overwritten_and_nothing_of_the_request_is_written(
    root: Path, store: Store
) -> None:
    before = seen(store, "ada", "cyd")
    with Store(api(root), LESSON) as other:  # as a second process has it
        desk_of(root, other).mark("linus", QUESTION, seen(other, "ada"), Verdict(1.0, "half"))
    with pytest.raises(ConflictError) as conflict:
        desk_of(root, store).mark("grace", QUESTION, before, Verdict(2.0))
    assert [(row.student, row.score) for row in conflict.value.rows] == [("ada", 1.0)]
    assert marks(root)["ada"] == (1.0, "half")
    assert marks(root)["cyd"] == (None, "")
    assert len(store.trail()) == 1


def test_what_formgrader_wrote_is_seen_and_stands_in_the_trail_as_what_was_before(root: Path, store: Store) -> None:
    from nbgrader.api import Gradebook as Tables

    before = seen(store, "ada")
    with Tables(f"sqlite:///{root / 'gradebook.db'}", "attention") as book:
        grade = book.find_grade(QUESTION, LESSON, LESSON, "ada")
        grade.manual_score, grade.needs_manual_grade = 0.5, False
        book.db.commit()
    desk = desk_of(root, store)
    with pytest.raises(ConflictError):
        desk.mark("grace", QUESTION, before, Verdict(2.0))
    members = [member for group in desk.state("grace", QUESTION)["groups"] for member in group["members"]]
    assert [(member["score"], member["by"]) for member in members if member["score"] is not None] == [(0.5, "formgrader")]
    desk.mark("grace", QUESTION, seen(store, "ada"), Verdict(2.0))
    assert store.trail()[-1].before["score"] == 0.5


def test_two_markers_are_given_different_answers_until_none_waits(root: Path, store: Store) -> None:
    desk, given = desk_of(root, store), []
    for turn in range(20):
        marker = ("grace", "linus")[turn % 2]
        group = desk.take(marker, QUESTION, "")
        if group is None:
            continue
        assert group != desk.take(("linus", "grace")[turn % 2], QUESTION, group)
        members = desk.group(marker, QUESTION, group).members
        now = {row.id: row.version for row in store.rows(QUESTION) if row.id in members}
        desk.mark(marker, QUESTION, now, Verdict(1.0))
        given += members
    assert len(given) == len(set(given)) == len(CLASS) - 1  # who left it as it was has 0 already
    assert {name for name, (score, _) in marks(root).items() if score is None} == {"fay"}


def test_names_are_hidden_unless_asked_for(root: Path, store: Store) -> None:
    hidden = json.dumps(desk_of(root, store).state("grace", QUESTION))
    told = json.dumps(desk_of(root, store, names=True).state("grace", QUESTION))
    assert [f'"{name}"' in hidden for name in CLASS] == [False] * len(CLASS)
    assert [f'"{name}"' in told for name in CLASS] == [True] * len(CLASS)
    assert not any(label in CLASS for label, _ in desk_of(root, store).trail("grace", QUESTION))


def test_the_class_list_shares_the_answers_out_and_those_that_are_nobodys_are_everybodys(root: Path) -> None:
    (root / "students.csv").write_text("id,marker\nada,grace\nben,grace\ncyd,linus\n")
    with Store(api(root), LESSON) as store:
        counts = {who: desk_of(root, store).overview(who)[0]["answers"] for who in ("grace", "linus", "ken")}
        nobodys = len(CLASS) - 3
        assert counts == {"grace": 2 + nobodys, "linus": 1 + nobodys, "ken": len(CLASS)}
        assert desk_of(root, store, everybody=True).overview("grace")[0]["answers"] == len(CLASS)
        with pytest.raises(RequestError):
            desk_of(root, store).mark("grace", QUESTION, seen(store, "cyd"), Verdict(1.0))


def test_the_table_of_questions_has_no_mean_before_a_person_gave_a_mark(root: Path, store: Store) -> None:
    desk = desk_of(root, store)
    assert desk.overview("grace")[0]["mean"] is None
    desk.mark("grace", QUESTION, seen(store, "ada"), Verdict(1.0))
    assert desk.overview("grace")[0]["mean"] is not None


def test_an_answer_with_a_pasted_picture_is_shown_without_the_pictures_address(tmp_path: Path) -> None:
    cell = {
        "cell_type": "markdown",
        "metadata": {"nbgrader": {"solution": True, "grade": True, "grade_id": "essay"}},
        "source": pictures.shown("Here it is.", 1),
        "attachments": {"picture-1.png": {"image/png": "QUJD"}},
    }
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert answers.read(tmp_path / "a.ipynb") == {"essay": Answer("Here it is.", ("QUJD",))}


@pytest.mark.parametrize(
    "verdict", [Verdict(2.5), Verdict(-1.0), Verdict(float("nan")), Verdict(1.0, "x" * 5000), Verdict(1.0, "", (2, 0))]
)
def test_a_mark_that_makes_no_sense_is_refused(verdict: Verdict, root: Path, store: Store) -> None:
    with pytest.raises(RequestError):
        desk_of(root, store).mark("grace", QUESTION, seen(store, "ada"), verdict)
    assert marks(root)["ada"] == (None, "")


def hand_in_anew(root: Path, student: str, text: str) -> None:
    """What grading a second submission leaves: the graded notebook, and its row in the gradebook."""
    import nbformat

    from autograder.grading.gradebook import Gradebook
    from autograder.grading.write_results import place
    from autograder.notebooks.roles import grade_id

    path = place(api(root).coursedir, "autograded", student, LESSON)
    notebook = nbformat.read(root / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    next(cell for cell in notebook.cells if grade_id(cell) == QUESTION).source = text
    path.write_text(nbformat.writes(notebook))
    with Gradebook(api(root), LESSON) as book:
        book.put(student, notebook, None)
        book.commit()


def test_a_mark_for_words_that_were_replaced_meanwhile_is_not_written(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desk_of(root, store)
    (shown,) = [group for group in desk.state("grace", QUESTION)["groups"] if len(group["members"]) == 2]
    told = {member["id"]: member["version"] for member in shown["members"]}
    hand_in_anew(root, "ada", "Pay me.")
    with pytest.raises(ConflictError) as conflict:
        desk.mark("grace", QUESTION, told, Verdict(2.0))
    assert [row.student for row in conflict.value.rows] == ["ada"]
    assert marks(root)["ada"] == marks(root)["ben"] == (None, "")
    settle = store._grades.settle  # the last moment: the mark is written, and not yet committed

    def late(*asked: str) -> None:
        settle(*asked)
        for path in root.glob("autograded/ben/*/*.ipynb"):
            path.write_text(path.read_text().replace("one-hot", "two-hot"))

    monkeypatch.setattr(store._grades, "settle", late)
    with pytest.raises(ConflictError):
        desk.mark("grace", QUESTION, seen(store, "ben"), Verdict(2.0))
    assert marks(root)["ben"] == (None, "")
    monkeypatch.undo()
    hand_in_anew(root, "ada", f"  {SAME}")  # the same words: what was shown to grace still stands
    desk.mark("grace", QUESTION, {key: value for key, value in told.items() if key in seen(store, "ada")}, Verdict(2.0))
    assert marks(root)["ada"] == (2.0, "")


def test_a_second_grading_asks_for_a_second_look_and_keeps_the_mark(root: Path, store: Store) -> None:
    desk = desk_of(root, store)
    desk.mark("grace", QUESTION, seen(store, "ada"), Verdict(1.5, "well"))
    hand_in_anew(root, "ada", "Another answer.")
    found = [group for group in desk.state("grace", QUESTION)["groups"] if group["members"][0]["score"] == 1.5]
    assert [(member["waiting"], member["comment"]) for member in found[0]["members"]] == [(True, "well")]
    assert desk.group("grace", QUESTION, found[0]["id"]).answer.text == "Another answer."


class Client:
    """A browser's requests, one header at a time."""

    def __init__(self, address: str):
        self.at = urlsplit(address)
        self.cookies: dict[str, str] = {}
        self.token = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.at.port, timeout=20)
        known = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        sent = {**known, **({"Content-Type": "application/json"} if body is not None else {})}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, None if body is None else json.dumps(body), {k: v for k, v in sent.items() if v})
        answer = connection.getresponse()
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
            assert "samesite=strict" in cookie.lower()
            assert "httponly" in cookie.lower()
        said = answer.read().decode()
        connection.close()
        return answer.status, said, answer.headers

    def enter(self) -> "Client":
        status, _, headers = self.ask("GET", f"{self.at.path}?{self.at.query}")
        assert (status, headers["Refresh"]) == (200, "0; url=/")
        page = self.ask("GET", f"/question/{QUESTION}")[1]
        self.token = re.findall(r'name="token" content="([^"]+)"', page)[0]
        return self


def test_only_the_markers_own_page_gets_in_and_only_it_can_write(root: Path) -> None:
    with serving(root, "grace", "linus") as addresses:
        stranger, grace = Client(addresses["grace"]), Client(addresses["grace"]).enter()
        assert stranger.ask("GET", "/")[0] == 403
        assert stranger.ask("GET", "/enter?token=guess")[0] == 403
        status, page, headers = grace.ask("GET", f"/question/{QUESTION}")
        assert status == 200
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert "Model answer" in page
        state = json.loads(grace.ask("GET", f"/question/{QUESTION}/state")[1])
        member = next(group for group in state["groups"] if len(group["members"]) == 2)["members"][0]
        body = {"seen": {member["id"]: member["version"]}, "score": 1, "comment": "", "given": [1, 0, 1]}
        path, token = f"/question/{QUESTION}/mark", {"X_XSRFToken": grace.token}
        host = f"127.0.0.1:{grace.at.port}"
        refused = [
            grace.ask("POST", path, body),  # no token: another site's form
            grace.ask("POST", path, body, **token, Origin="http://evil.example"),
            grace.ask("POST", path, body, **token, Sec_Fetch_Site="cross-site"),
            grace.ask("POST", path, body, **token, Host="evil.example"),  # a name that was bound to this machine
            grace.ask("GET", f"/question/{QUESTION}/state", Host="evil.example:80"),
            grace.ask("POST", path, body, X_XSRFToken="guess"),
            stranger.ask("POST", path, body, **token),
        ]
        assert [status for status, _, _ in refused] == [403] * len(refused)
        assert marks(root)["ada"] == (None, "")
        for wrong in ({}, {**body, "seen": {"x": "y"}}, {**body, "score": "1"}, {**body, "score": True}, {**body, "given": 3}):
            assert grace.ask("POST", path, wrong, **token)[0] == 404
        assert grace.ask("POST", path, body, Content_Type="text/plain", **token)[0] == 404
        assert grace.ask("GET", "/question/nothing_here/state")[0] == 404
        assert grace.ask("POST", path, body, **token, Origin=f"http://{host}")[0] == 200
        assert sorted(marks(root)[name][0] or 0 for name in ("ada", "ben")) == [0, 1]
        assert grace.ask("POST", path, body, **token)[0] == 409
        linus = Client(addresses["linus"]).enter()
        assert "grace" in linus.ask("GET", f"/question/{QUESTION}/trail")[1]
        assert "linus" in linus.ask("GET", "/")[1]


def test_two_pages_open_at_once_in_one_browser_do_not_shut_each_other_out(root: Path) -> None:
    with serving(root, "grace") as one, serving(root, "grace") as other:
        first, second = Client(one["grace"]), Client(other["grace"])
        first.cookies = second.cookies  # as a browser has it: cookies know no port
        first.enter()
        second.enter()
        for client in (first, second):
            assert client.ask("GET", "/")[0] == 200
            assert client.ask("POST", f"/question/{QUESTION}/next", {}, X_XSRFToken=client.token)[0] == 200


def test_the_browser_is_given_a_file_that_nobody_else_can_read_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", asked.append)
    with opened("http://127.0.0.1:1/enter?token=key"):
        (path,) = (tmp_path / "runtime").iterdir()
        assert asked == [path.as_uri()]
        assert path.stat().st_mode & 0o777 == 0o600
        assert 'url=http://127.0.0.1:1/enter?token=key"' in path.read_text()
    assert not path.exists()


def test_a_gradebook_that_another_program_writes_to_loses_nothing_and_says_so(root: Path) -> None:
    with serving(root, "grace") as addresses:
        grace = Client(addresses["grace"]).enter()
        state = json.loads(grace.ask("GET", f"/question/{QUESTION}/state")[1])
        member = next(group for group in state["groups"] if not group["blank"])["members"][0]
        body = {"seen": {member["id"]: member["version"]}, "score": 1, "comment": "", "given": []}
        with closing(sqlite3.connect(root / "gradebook.db")) as other:
            other.execute("BEGIN IMMEDIATE")  # as `attn grade` between two commits
            status, said, _ = grace.ask("POST", f"/question/{QUESTION}/mark", body, X_XSRFToken=grace.token)
            assert (status, "busy" in said) == (503, True)
            other.rollback()
        assert grace.ask("POST", f"/question/{QUESTION}/mark", body, X_XSRFToken=grace.token)[0] == 200
    assert sorted(score or 0 for score, _ in marks(root).values())[-2:] == [0, 1]


def test_the_command_says_what_is_missing(
    sample_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make(tmp_path / "course", {})
    with pytest.raises(CourseError, match="attn grade"):
        run(root, LESSON, ["grace"], lambda _: None)
    with pytest.raises(CourseError, match="printable"):
        run(root, LESSON, ["a\nb"], lambda _: None)
    monkeypatch.setattr("autograder.authoring.course.course_root", lambda: root)
    assert main(["mark", LESSON, "--trail"]) == 0
    assert capsys.readouterr().out.startswith("time,marker")


def test_an_answer_that_cannot_be_read_counts_as_blank(tmp_path: Path) -> None:
    assert answers.read(tmp_path / "none.ipynb") == {}
    (tmp_path / "bad.ipynb").write_text('{"cells": [3]}')
    assert answers.read(tmp_path / "bad.ipynb") == {}
