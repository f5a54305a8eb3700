"""A round of the course on a real JupyterHub: release, fetch, submit, collect, grade, mark by hand, feedback, fetch feedback.

The hub runs `course/hub` with three changes: passwords from this file instead of PAM's, every server under the account that
runs the tests (so nothing keeps the users' *files* apart here; the hub and its logins do), and free ports on loopback.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autograder.sandbox.isolation_tiers import available_tiers
from tests.waiting import WAIT_S, wait_for_server

pytestmark = [
    pytest.mark.hub,
    pytest.mark.browser,
    pytest.mark.timeout(2 * WAIT_S),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # SQLAlchemy 2.1, about nbgrader's own queries
]

LESSON = "00_start_here"
PASSWORDS = {"grace": "one for the instructor", "ada": "one for Ada", "bob": "another for Bob"}
WRONG = "def average_pool(V):\n    return V.mean(axis=1)"
RIGHT = "def average_pool(V):\n    return V.mean(axis=0)"
WORDS = "Good for repeated measurements of one thing; bad where few items matter for the question."

COMMENT = "Say which items matter, and why."
DIAGNOSIS = "averaged the entries inside each row"

SETTINGS = """
import os
from jupyterhub.auth import Authenticator

c = get_config()
load_subconfig("jupyterhub_config.py", path={recipe!r})

class Passwords(Authenticator):
    async def authenticate(self, handler, data):
        known = {passwords!r}.get(data["username"])
        return data["username"] if known is not None and data["password"] == known else None

c.JupyterHub.authenticator_class = Passwords
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r}
c.Spawner.args = ["--allow-root"]
c.Spawner.environment.update({environment!r})
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
"""


@dataclass
class Hub:
    """A running hub: its address, the course's folder, the folder of homes, and the variables of an instructor's shell."""

    url: str
    course: Path
    homes: Path
    environment: dict[str, str]

    @property
    def gradebook(self) -> str:
        """The address of the course's gradebook."""
        return f"sqlite:///{self.course / 'gradebook.db'}"


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory,
    copy_clone: Callable[[Path], Path],
    new_port: Callable[[], int],
    lean: Path,
    hub_path: str,
) -> Iterator[Hub]:
    """The recipe's hub, with nobody logged in."""
    if not any(tier.available and tier.name != "none" for tier in available_tiers()):
        pytest.skip("neither bubblewrap nor Landlock isolates on this machine")
    root = tmp_path_factory.mktemp("hub")
    clone, homes, exchange = copy_clone(root / "clone"), root / "homes", root / "exchange"
    for folder in (exchange, *(homes / name for name in PASSWORDS)):
        folder.mkdir(parents=True)
    python = {"PATH": hub_path, "PYTHONPATH": f"{lean}{os.pathsep}{clone}"}
    ports = {name: new_port() for name in ("port", "hub_port", "proxy_port")}
    recipe = shutil.move(clone / "course" / "hub", root / "recipe")
    settings = root / "test_config.py"
    settings.write_text(
        SETTINGS.format(recipe=str(recipe), passwords=PASSWORDS, homes=f"{homes}/{{username}}", environment=python, **ports)
    )
    environment = {**os.environ, **python, "ATTN_COURSE": str(clone / "course"), "ATTN_EXCHANGE": str(exchange)}
    command = [sys.executable, "-m", "jupyterhub", "-f", str(settings)]
    with (root / "hub.log").open("w") as out:
        server = subprocess.Popen(command, cwd=root, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{ports['port']}"
        wait_for_server(f"{url}/hub/api/", server, root / "hub.log")
        yield Hub(url, clone / "course", homes, environment)
    finally:
        server.send_signal(signal.SIGINT)  # the hub ends the users' servers and the proxy
        server.wait(WAIT_S)


def log_in(hub: Hub, browser: Any, name: str, password: str) -> Any:
    """A page of `name`'s own browser, after the login form was sent: their server starts meanwhile."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(90_000)  # three servers start at once
    page.goto(f"{hub.url}/hub/login")
    page.fill("#username_input", name)
    page.fill("#password_input", password)
    page.click("#login_submit")
    return page


def ask(page: Any, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON answer of the page's own server, asked as JupyterLab asks it."""
    script = """async ([method, path, body]) => {
        const token = (document.cookie.match(/_xsrf=([^;]+)/) || [])[1];
        const headers = {"X-XSRFToken": token, "Content-Type": "application/json"};
        const answer = await fetch(path, {method, headers, body: body && JSON.stringify(body)});
        return [answer.status, await answer.text()];
    }"""
    status, text = page.evaluate(script, [method, path, body])
    assert status < 400, (status, text[:500])
    return json.loads(text) if text else None


def press(page: Any, selector: str, said: str) -> str:
    """Click `selector` in the formgrader, and read and close the box that answers; it must contain `said`."""
    page.locator(selector).click()
    box = page.locator(".modal.in .modal-content")
    box.wait_for()
    text = box.inner_text()
    assert said in text, text
    box.locator("button.close").first.click()
    page.locator(".modal.in").wait_for(state="detached")
    return text


def work(page: Any, name: str, answer: str) -> None:
    """Write the answers into the fetched notebook and save it, through the server's contents API."""
    path = f"/user/{name}/api/contents/{LESSON}/{LESSON}.ipynb"
    answers = {"predict_shape": 'predict_shape = "b"', "average_pool": answer, "written_average": WORDS}
    content = ask(page, "GET", path)["content"]
    for cell in content["cells"]:
        key = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = answers.get(key, cell["source"])
    ask(page, "PUT", path, {"type": "notebook", "format": "json", "content": content})


@dataclass
class Round:
    """A round in play: everybody's page, what boxes, commands and feedback said, and a folder for screenshots."""

    hub: Hub
    grace: Any
    ada: Any
    bob: Any
    shots: Path
    said: dict[str, str] = field(default_factory=dict)


ROW = f"tr:has(td.name:has-text('{LESSON}'))"
COURSE = {"course_id": "attention", "assignment_id": LESSON}


def release_and_submit(term: Round) -> None:
    """The instructor releases; Ada fetches and submits in JupyterLab's assignment list, Bob by the same addresses."""
    grace, ada, bob = term.grace, term.ada, term.bob
    press(grace, f"{ROW} .release a", "Successfully released")
    ada.get_by_role("menuitem", name="Nbgrader").click()
    ada.get_by_role("menuitem", name="Assignment List").click()
    ada.get_by_role("button", name="Fetch", exact=True).click()
    submit = ada.get_by_role("button", name="Submit", exact=True)
    submit.wait_for()
    work(ada, "ada", WRONG)
    submit.click()
    ada.get_by_role("button", name="Fetch Feedback").wait_for()
    ada.screenshot(path=term.shots / "assignment_list.png")
    bob.wait_for_url("**/user/bob/lab**")
    ask(bob, "POST", "/user/bob/assignments/fetch", COURSE)
    work(bob, "bob", RIGHT)
    ask(bob, "POST", "/user/bob/assignments/submit", COURSE)


def collect_and_grade(term: Round) -> None:
    """The instructor collects, grades Ada by the command and Bob by the formgrader's button."""
    grace, hub = term.grace, term.hub
    grace.reload()
    press(grace, f"{ROW} .collect a", "Successfully collected")
    command = [sys.executable, "-m", "autograder.cli", "grade", LESSON, "--student", "ada"]
    done = subprocess.run(command, cwd=hub.course, env=hub.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    term.said["attn grade"] = done.stdout
    grace.goto(f"{hub.url}/user/grace/formgrader/manage_submissions/{LESSON}")
    term.said["button"] = press(grace, "tr:has-text('bob') .autograde a", "Successfully autograded")
    grace.screenshot(path=term.shots / "submissions.png")


def mark_by_hand(term: Round) -> None:
    """The instructor gives points and a comment on the written question, in the formgrader: Ada half, Bob full credit."""
    from nbgrader.api import Gradebook

    grace, hub = term.grace, term.hub
    with Gradebook(hub.gradebook) as gradebook:
        papers = {paper.student.id: paper.id for paper in gradebook.notebook_submissions(LESSON, LESSON)}
    for student in ("ada", "bob"):
        grace.goto(f"{hub.url}/user/grace/formgrader/submissions/{papers[student]}")
        cell = grace.locator(".nbgrader_cell", has=grace.locator("#written_average"))
        cell.locator(".score").wait_for()
        grace.wait_for_load_state("networkidle")
        with grace.expect_response(lambda answer: "/api/grade/" in answer.url and answer.request.method == "PUT"):
            if student == "ada":
                term.said["formgrader"] = grace.locator("#notebook").first.inner_text()
                cell.locator("textarea.comment").fill(COMMENT)
                cell.locator("input.score").fill("0.5")
                cell.locator("input.score").press("Tab")
            else:
                cell.locator("button.full-credit").click()
        grace.wait_for_load_state("networkidle")
        grace.screenshot(path=term.shots / f"formgrader_{student}.png", full_page=True)


def give_feedback(term: Round) -> None:
    """The instructor makes and releases everybody's feedback; both students fetch theirs, and Ada opens it."""
    grace, ada, bob, hub = term.grace, term.ada, term.bob, term.hub
    grace.goto(f"{hub.url}/user/grace/formgrader/manage_assignments")
    press(grace, f"{ROW} .generate-feedback a", "Success")
    press(grace, f"{ROW} .release-feedback a", "Success")
    ada.get_by_role("button", name="Fetch Feedback").click()
    ada.get_by_text("(view feedback)").wait_for()
    ask(bob, "POST", "/user/bob/assignments/fetch_feedback", COURSE)
    for name, page in (("ada", ada), ("bob", bob)):
        (found,) = (hub.homes / name / LESSON / "feedback").glob(f"*/{LESSON}.html")
        page.goto(f"{hub.url}/user/{name}/files/{found.relative_to(hub.homes / name).as_posix()}")
        term.said[f"feedback of {name}"] = page.locator("body").inner_text()
        page.screenshot(path=term.shots / f"feedback_{name}.png", full_page=True)


@pytest.fixture(scope="module")
def term(browser: Any, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Round:
    """One round, played once; what each rule below asks about it."""
    pages = [log_in(hub, browser, name, PASSWORDS[name]) for name in ("grace", "ada", "bob")]
    term = Round(hub, *pages, shots=tmp_path_factory.mktemp("shots"))
    for step in (release_and_submit, collect_and_grade, mark_by_hand, give_feedback):
        step(term)
    return term


def test_the_hub_lets_nobody_in_with_anothers_password(browser: Any, hub: Hub) -> None:
    page = log_in(hub, browser, "ada", PASSWORDS["bob"])
    assert "Invalid username or password" in page.locator(".login_error").inner_text()
    page.context.close()


def test_points_from_the_sandbox_and_points_given_by_hand_arrive_in_the_gradebook(term: Round) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(term.hub.gradebook) as gradebook:
        papers = gradebook.notebook_submissions(LESSON, LESSON)
        found = {
            paper.student.id: {grade.name: (grade.auto_score, grade.manual_score) for grade in paper.grades} for paper in papers
        }
        comments = {comment.comment for paper in papers for comment in paper.comments if comment.comment}
        totals = {paper.student.id: paper.score for paper in papers}
    assert found == {
        "ada": {"predict_shape_check": (0.5, None), "average_pool_check": (0.0, None), "written_average": (None, 0.5)},
        "bob": {"predict_shape_check": (0.5, None), "average_pool_check": (1.0, None), "written_average": (None, 1.0)},
    }
    assert totals == {"ada": 1.0, "bob": 2.5}
    assert comments == {COMMENT}


def test_the_formgraders_button_grades_as_the_command_does(term: Round) -> None:
    for said in (term.said["attn grade"], term.said["button"]):
        assert re.search(r"sandbox: (bubblewrap|landlock)", said)
    assert "averaged_within_rows" in term.said["attn grade"]


def test_the_instructor_sees_the_diagnosis_while_marking(term: Round) -> None:
    assert DIAGNOSIS in term.said["formgrader"]
    assert WORDS in term.said["formgrader"]


def test_a_student_sees_score_diagnosis_and_comment_in_the_fetched_feedback(term: Round) -> None:
    ada, bob = term.said["feedback of ada"], term.said["feedback of bob"]
    assert "Score: 1.0 / 2.5" in ada
    assert DIAGNOSIS in ada
    assert COMMENT in ada
    assert "Score: 2.5 / 2.5" in bob
    assert DIAGNOSIS not in bob
    assert COMMENT not in bob


def test_a_student_reaches_neither_the_formgrader_nor_anothers_server(term: Round) -> None:
    assert term.ada.goto(f"{term.hub.url}/user/ada/formgrader").status == 404
    assert term.ada.goto(f"{term.hub.url}/user/bob/api/contents").status == 403
    assert term.ada.goto(f"{term.hub.url}/user/grace/formgrader").status == 403
