"""Write the page that `attn lab` opens: a notebook with all lessons, the state of each, and the next step."""

from pathlib import Path
from typing import Any

from autograder.authoring.course import FILE, CourseError, learners_course
from autograder.authoring.settings import read
from autograder.workspace import folder as workspace
from autograder.workspace import learner_status
from autograder.workspace.in_cells.overview import contents

NAME = "index.ipynb"
CELL = "lessons"  # the id of the cell whose output is written
TEXT = """# {title}

A link opens its lesson. When you come back, run the cell below (Shift+Enter): it shows how far you are, as `attn status` does
in a terminal. In a lesson click the cell where you go on, and choose *Run > Run All Above Selected Cell*: what you wrote is
kept, but Python starts empty.

*state*: begun or done. *in words*: questions that you answer in words, and then compare with our answer; a person gives their
points, no check does, so they are not in the last column.{page}"""
PAGE = " In the list of files stands *{name}* ({title}), to which the lessons lead."
CODE = "from autograder import status\n\nstatus()"


def write(home: Path) -> Path:
    """Make the page in the workspace `home`, or update the table on it. The learner's other cells stay.

    Returns the path to open: the page, or the next lesson if the page is no longer a notebook.
    """
    import nbformat

    path = home / NAME
    try:
        notebook = workspace.load(path) if path.exists() else _new(home)
    except CourseError:
        return home / learner_status.next_notebook(home, None)
    cell = next((each for each in notebook.cells if each.get("id") == CELL and each.cell_type == "code"), None)
    now = contents(home)
    data = {"text/markdown": now._repr_markdown_(), "text/plain": repr(now)}
    if cell is not None and [output.get("data") for output in cell.outputs] != [data]:
        cell.outputs, cell.execution_count = [nbformat.v4.new_output("execute_result", data)], None
        workspace.save(notebook, path)
    return path


def _new(home: Path) -> Any:
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    first = {path.name: path.read_text(encoding="utf-8").partition("\n")[0] for path in sorted(home.glob("*.md"))}
    pages = "".join(PAGE.format(name=name, title=line.lstrip("# ")) for name, line in first.items() if line.startswith("# "))
    paragraphs = TEXT.format(title=read(learners_course() / FILE).title, page=pages).split("\n\n")
    text = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    cells = [new_markdown_cell(text, id="title"), new_code_cell(CODE, id=CELL)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})
