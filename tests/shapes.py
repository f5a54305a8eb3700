"""Sixty and more shapes in which a right submission of lesson 01 comes back, each with what a fair person would make of it.

Every shape begins with the same answers, all of them right, and does to them what a platform, an editor or a person does. The
table `SHAPES` says which exercises are lost all the same, what the student is told, and which questions a person has to mark.
"""

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests import sample

LESSON = sample.LESSON
NAME = f"{LESSON}.ipynb"
WRITTEN = ("written_where", "written_convex")
Files = dict[str, bytes]
Make = Callable[["Work"], Files]


@dataclass(frozen=True)
class Shape:
    """`lost`: exercises without marks; `told`: words on the student's page; `waits`: questions for a person; `older`: a file."""

    make: Make
    lost: tuple[str, ...] = ()
    told: str = ""
    waits: tuple[str, ...] = WRITTEN
    older: str = ""


SHAPES: dict[str, Shape] = {}


def shape(**named: Any) -> Callable[[Make], Make]:
    """Enter a shape into the table, under its function's name."""

    def enter(make: Make) -> Make:
        SHAPES[make.__name__] = Shape(make, **named)
        return make

    return enter


class Work:
    """A right submission as JSON, and a hand that edits it."""

    def __init__(self, perfect: str, released: str, other: str):
        self.nb, self.released, self.other = json.loads(perfect), json.loads(released), other
        for cell in [*self.nb["cells"], *self.released["cells"]]:
            cell["source"] = "".join(cell["source"])
        for name in WRITTEN:
            self.cell(name)["source"] = f"My own words on {name}, two lines of them,\nas one writes."

    def cell(self, name: str) -> dict[str, Any]:
        return next(cell for cell in self.nb["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)

    def at(self, name: str) -> int:
        return int(self.nb["cells"].index(self.cell(name)))

    def source(self, name: str) -> str:
        return "".join(self.cell(name)["source"])

    def stub(self, name: str) -> None:
        """Put the release's own text back."""
        found = next(c for c in self.released["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == name)
        self.cell(name)["source"] = found["source"]

    def insert(self, index: int, source: str, kind: str = "code", **more: Any) -> None:
        extra = {"outputs": [], "execution_count": None} if kind == "code" else {}
        self.nb["cells"].insert(index, {"cell_type": kind, "metadata": {}, "source": source, **extra, **more})

    def helped(self, name: str = "gaussian", by: str = "helper_of_mine") -> str:
        """Have the answer `name` call a helper; returns the helper's source."""
        source = self.source(name)
        self.cell(name)["source"] = f"def {name}(*given, **named):\n    return {by}(*given, **named)"
        return source.replace(f"def {name}(", f"def {by}(", 1)

    def answers(self) -> list[str]:
        """The answer cells for code, in order."""
        marks = [cell["metadata"].get("nbgrader", {}) for cell in self.nb["cells"]]
        kinds = [cell["cell_type"] for cell in self.nb["cells"]]
        return [mark["grade_id"] for mark, kind in zip(marks, kinds, strict=True) if mark.get("solution") and kind == "code"]

    def forget(self) -> None:
        """What a platform does that knows no nbgrader: metadata and ids are gone."""
        for cell in self.nb["cells"]:
            cell["metadata"] = {}
            cell.pop("id", None)

    def file(self, name: str = NAME, **options: Any) -> Files:
        return {name: json.dumps(self.nb, **options).encode()}


def script(work: Work, head: str = "", *, text: bool = False) -> bytes:
    """The notebook as a script, each cell under `head`."""
    parts = []
    for cell in work.nb["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            parts.append(f"{head}\n{source}\n" if head else f"{source}\n")
        elif text:
            parts.append(f"{head} [markdown]\n" + "\n".join(f"# {line}" for line in source.split("\n")) + "\n")
        else:
            parts.append("\n".join(f"# {line}" for line in source.split("\n")) + "\n")
    return "\n".join(parts).encode()


def photo(kind: str = "PNG") -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 30, 30)).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


# ---------------------------------------------------------------------------------------------- names of files


@shape()
def as_released(work: Work) -> Files:
    return work.file()


@shape(told="read from Copy of 01_soft_lookup.ipynb")
def copy_of(work: Work) -> Files:
    return work.file(f"Copy of {NAME}")


@shape(told="read from Kopie von")
def kopie_von(work: Work) -> Files:
    return work.file(f"Kopie von {NAME}")


@shape(told="read from 01_soft_lookup (1).ipynb")
def downloaded_twice(work: Work) -> Files:
    return work.file(f"{LESSON} (1).ipynb")


@shape(told="read from 01_soft_lookup - Copy.ipynb")
def windows_copy(work: Work) -> Files:
    return work.file(f"{LESSON} - Copy.ipynb")


@shape(told="read from 01_soft_lookup-Copy1.ipynb")
def jupyter_copy(work: Work) -> Files:
    return work.file(f"{LESSON}-Copy1.ipynb")


@shape(told="read from 01_soft_lookup_Ann_Smith.ipynb")
def own_name_in_the_files_name(work: Work) -> Files:
    return work.file(f"{LESSON}_Ann_Smith.ipynb")


@shape(told="read from homework FINAL.ipynb")
def another_name_altogether(work: Work) -> Files:
    return work.file("homework FINAL.ipynb")


@shape(told="read from Untitled.ipynb")
def untitled(work: Work) -> Files:
    return work.file("Untitled.ipynb")


@shape(told="read from 01_SOFT_LOOKUP.IPYNB")
def shouted_name(work: Work) -> Files:
    return work.file(f"{LESSON.upper()}.IPYNB")


@shape(told="read from 01_soft_lookup.ipynb")
def in_a_folder_of_its_own(work: Work) -> Files:
    return work.file(f"my work/{NAME}")


@shape(told="read from 01_soft_lookup.ipynb.txt")
def mailed_as_text(work: Work) -> Files:
    return work.file(f"{NAME}.txt")


@shape(told="read from 01_soft_lookup.json")
def browser_says_json(work: Work) -> Files:
    return work.file(f"{LESSON}.json")


@shape(told="the latest of 2", older=f"{LESSON} (1).ipynb")
def two_versions(work: Work) -> Files:
    blank = json.dumps(work.released).encode()
    return {f"{LESSON} (1).ipynb": blank, **work.file(f"{LESSON} (2).ipynb")}


@shape()
def checkpoints_beside(work: Work) -> Files:
    return {**work.file(), f".ipynb_checkpoints/{LESSON}-checkpoint.ipynb": b"{}", ".DS_Store": b"x"}


# ---------------------------------------------------------------------------------------------- platforms and editors


@shape(told="lost its cells' metadata")
def colab(work: Work) -> Files:
    work.forget()
    for number, cell in enumerate(work.nb["cells"]):
        cell["metadata"] = {"id": f"x{number}Yz", **({"outputId": "q"} if cell["cell_type"] == "code" else {})}
    work.nb["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}
    return work.file()


@shape()
def colab_that_kept_the_marks(work: Work) -> Files:
    for number, cell in enumerate(work.nb["cells"]):
        cell["metadata"]["id"] = f"x{number}Yz"
        cell.pop("id", None)
    return work.file()


@shape(told="lost its cells' metadata")
def colab_with_a_mounted_drive(work: Work) -> Files:
    work.forget()
    work.insert(0, "from google.colab import drive\ndrive.mount('/content/drive')")
    return work.file(f"Copy of {NAME}")


@shape(told="lost its cells' metadata")
def kaggle(work: Work) -> Files:
    work.forget()
    start = "import os\nfor folder, _, names in os.walk('/kaggle/input'):\n    for name in names:\n        print(name)"
    work.insert(0, start)
    for number, cell in enumerate(work.nb["cells"]):
        cell["metadata"] = {"_uuid": f"{number}", "_cell_guid": f"{number}", "trusted": True, "execution": {"iopub.status": "ok"}}
    return work.file()


@shape()
def vs_code(work: Work) -> Files:
    for number, cell in enumerate(work.nb["cells"]):
        cell["metadata"]["vscode"] = {"languageId": "python"}
        cell["id"] = f"{number:08x}"
    return work.file(indent=1)


@shape(told="lost its cells' metadata")
def deepnote(work: Work) -> Files:
    work.forget()
    for number, cell in enumerate(work.nb["cells"]):
        cell["metadata"] = {"cell_id": f"{number}", "deepnote_cell_type": cell["cell_type"]}
    return work.file()


@shape(told="missing answer cells: written_where", waits=())
def colab_where_all_text_was_deleted(work: Work) -> Files:
    work.nb["cells"] = [cell for cell in work.nb["cells"] if cell["cell_type"] == "code"]
    work.forget()
    return work.file()


@shape()
def ids_alone_are_left(work: Work) -> Files:
    for cell in work.nb["cells"]:
        cell["metadata"] = {}
    return work.file()


@shape(told="lost its cells' metadata")
def the_format_of_2014(work: Work) -> Files:
    work.forget()
    for cell in work.nb["cells"]:
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source")
            cell["language"] = "python"
    return {NAME: json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": work.nb["cells"]}]}).encode()}


@shape()
def byte_order_mark(work: Work) -> Files:
    return {NAME: b"\xef\xbb\xbf" + work.file()[NAME]}


@shape()
def utf_16(work: Work) -> Files:
    return {NAME: work.file()[NAME].decode().encode("utf-16")}


@shape()
def windows_line_ends(work: Work) -> Files:
    for cell in work.nb["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    return work.file()


@shape(told="lost its cells' metadata")
def windows_line_ends_without_marks(work: Work) -> Files:
    for cell in work.nb["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n") + "\r\n"
    work.forget()
    return work.file()


@shape()
def large_outputs(work: Work) -> Files:
    for cell in work.nb["cells"][:6]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 500_000}]
    return work.file()


@shape()
def widgets_and_tags(work: Work) -> Files:
    work.nb["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    for cell in work.nb["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "hide"]
        cell["metadata"]["collapsed"] = True
    return work.file()


# ---------------------------------------------------------------------------------------------- no notebook


@shape(told="read from the script 01_soft_lookup.py", waits=())
def script_by_nbconvert(work: Work) -> Files:
    return {f"{LESSON}.py": b"#!/usr/bin/env python\n# coding: utf-8\n\n" + script(work, "# In[ ]:\n")}


@shape(told="read from the script copy_of_01_soft_lookup.py", waits=())
def script_by_colab(work: Work) -> Files:
    head = b'# -*- coding: utf-8 -*-\n"""Copy of 01_soft_lookup\n\nOriginal file is located at\n    https://example.org\n"""\n\n'
    return {f"copy_of_{LESSON}.py": head + script(work)}


@shape(told="read from the script 01_soft_lookup.py")
def script_by_an_editor(work: Work) -> Files:
    return {f"{LESSON}.py": script(work, "# %%", text=True)}


@shape(told="read from the script answers.py", waits=())
def bare_functions(work: Work) -> Files:
    answers = "\n\n".join(work.source(name) for name in work.answers())
    head = "from collections.abc import Callable\n\nimport numpy as np\nfrom jaxtyping import Float\n\n\n"
    return {"answers.py": f"{head}{answers}\n".encode()}


EVERYTHING = ("*",)


@shape(lost=EVERYTHING, told="it is a web page printed from a notebook", waits=())
def html_export(work: Work) -> Files:
    return {f"{LESSON}.html": b"<!DOCTYPE html><html><body>def gaussian</body></html>"}


@shape(lost=EVERYTHING, told="it is a PDF, which holds no code", waits=())
def pdf(work: Work) -> Files:
    return {f"{LESSON}.pdf": b"%PDF-1.7"}


@shape(lost=EVERYTHING, told="it is a document of an office program", waits=())
def office_document(work: Work) -> Files:
    return {"Lab 1.docx": b"PK\x03\x04"}


@shape(lost=EVERYTHING, told="it is a link", waits=())
def link_to_a_drive(work: Work) -> Files:
    return {"my notebook.url": b"[InternetShortcut]\nURL=https://example.org\n"}


@shape(lost=EVERYTHING, told="it is a picture of the work", waits=())
def photos_alone(work: Work) -> Files:
    return {"IMG_2041.jpg": b"\xff\xd8\xff", "IMG_2042.jpg": b"\xff\xd8\xff"}


@shape(lost=EVERYTHING, told="it is an archive with no notebook in it", waits=())
def archive_within(work: Work) -> Files:
    return {"lab.zip": b"PK\x03\x04"}


@shape(told="in lab.zip")
def archive_left_packed(work: Work) -> Files:
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in work.file().items():
            archive.writestr(f"lab 3/{name}", data)
    return {"lab.zip": inside.getvalue()}


@shape(lost=EVERYTHING, told="it is an archive, or a document", waits=())
def archive_renamed(work: Work) -> Files:
    return {NAME: b"PK\x03\x04 and more"}


@shape(lost=EVERYTHING, told="it is a web page; open it in JupyterLab", waits=())
def web_page_renamed(work: Work) -> Files:
    return {NAME: b"\n<!DOCTYPE html><html>GitHub</html>"}


@shape(lost=EVERYTHING, told="it is empty", waits=())
def empty_file(work: Work) -> Files:
    return {NAME: b""}


@shape(lost=EVERYTHING, told="it is cut off", waits=())
def upload_cut_off(work: Work) -> Files:
    data = work.file()[NAME]
    return {NAME: data[: len(data) // 2]}


@shape(lost=EVERYTHING, told="two versions of it were merged", waits=())
def merge_conflict(work: Work) -> Files:
    lines = work.file(indent=1)[NAME].split(b"\n")
    return {
        NAME: b"\n".join([*lines[:20], b"<<<<<<< HEAD", *lines[20:25], b"=======", *lines[20:25], b">>>>>>> mine", *lines[25:]])
    }


@shape(lost=EVERYTHING, told="is it another lesson", waits=())
def another_lesson(work: Work) -> Files:
    return {NAME: work.other.encode()}


@shape(lost=EVERYTHING, waits=())
def untouched(work: Work) -> Files:
    return {NAME: json.dumps(work.released).encode()}


@shape(lost=EVERYTHING, told="found no file", waits=())
def nothing_in_the_folder(work: Work) -> Files:
    return {}


# ---------------------------------------------------------------------------------------------- answers in other places


@shape(told="the answer to 'gaussian' was found in another cell")
def answer_below_the_stub(work: Work) -> Files:
    work.insert(work.at("gaussian") + 1, work.source("gaussian"))
    work.stub("gaussian")
    return work.file()


@shape(told="the answer to 'gaussian' was found in another cell")
def answer_above_the_stub(work: Work) -> Files:
    work.insert(work.at("gaussian"), work.source("gaussian"))
    work.stub("gaussian")
    return work.file()


@shape(told="was found in another cell")
def draft_and_final_at_the_end(work: Work) -> Files:
    source = work.source("gaussian")
    work.stub("gaussian")
    work.insert(len(work.nb["cells"]), "def gaussian(q, K):\n    return None  # a draft")
    work.insert(len(work.nb["cells"]), source)
    return work.file()


@shape(told="was found in another cell")
def all_answers_in_one_cell_at_the_end(work: Work) -> Files:
    names = work.answers()
    sources = [work.source(name) for name in names]
    for name in names:
        work.stub(name)
    work.insert(len(work.nb["cells"]), "SCALE = 1\n\n\n" + "\n\n\n".join(sources))
    return work.file()


@shape(told="was found in another cell")
def all_answers_in_one_cell_at_the_top(work: Work) -> Files:
    names = work.answers()
    sources = [work.source(name) for name in names]
    for name in names:
        work.stub(name)
    work.insert(0, "import math\n\n\n" + "\n\n\n".join(sources))
    return work.file()


@shape()
def stubs_deleted_and_answers_in_own_cells(work: Work) -> Files:
    for name in work.answers():
        place, source = work.at(name), work.source(name)
        del work.nb["cells"][place]
        work.insert(place, source)
    return work.file()


@shape(told="occurs more than once")
def stub_and_answer_under_one_name(work: Work) -> Files:
    place = work.at("gaussian")
    answer = json.loads(json.dumps(work.nb["cells"][place]))
    work.stub("gaussian")
    work.nb["cells"].insert(place + 1, {**answer, "id": "pasted"})
    return work.file()


@shape(told="occurs more than once")
def answer_pasted_twice(work: Work) -> Files:
    place = work.at("gaussian")
    work.nb["cells"].insert(place + 1, {**json.loads(json.dumps(work.nb["cells"][place])), "id": "pasted"})
    return work.file()


@shape()
def answer_moved_to_the_end(work: Work) -> Files:
    work.nb["cells"].append(work.nb["cells"].pop(work.at("gaussian")))
    return work.file()


@shape()
def cells_in_reverse(work: Work) -> Files:
    work.nb["cells"].reverse()
    return work.file()


@shape(told="stood in a cell of text")
def answer_turned_into_text(work: Work) -> Files:
    cell = work.cell("gaussian")
    cell["cell_type"] = "markdown"
    return work.file()


@shape(told="stood in a cell of text")
def answer_turned_raw(work: Work) -> Files:
    work.cell("gaussian")["cell_type"] = "raw"
    return work.file()


@shape(told="stood in a cell of text")
def answer_fenced_in_text(work: Work) -> Files:
    cell = work.cell("gaussian")
    cell["cell_type"], cell["source"] = "markdown", f"```python\n{work.source('gaussian')}\n```"
    return work.file()


@shape(told="the locked cell 'gaussian_check' was changed")
def answer_in_the_check(work: Work) -> Files:
    work.cell("gaussian_check")["source"] = f'{work.source("gaussian")}\n\n\ncheck("gaussian")'
    work.stub("gaussian")
    return work.file()


@shape(told="what you added to it was kept")
def helper_in_a_check(work: Work) -> Files:
    helper = work.helped()
    work.cell("normalize_check")["source"] = f'{helper}\n\n\ncheck("normalize")'
    return work.file()


@shape(told="what you added to it was kept")
def helper_in_the_set_up(work: Work) -> Files:
    helper = work.helped()
    work.cell("setup")["source"] = f"{work.source('setup')}\n\n\n{helper}"
    return work.file()


@shape()
def helper_in_a_cell_at_the_end(work: Work) -> Files:
    work.insert(len(work.nb["cells"]), work.helped())
    return work.file()


@shape()
def checks_deleted(work: Work) -> Files:
    work.nb["cells"] = [
        c for c in work.nb["cells"] if not c["metadata"].get("nbgrader", {}).get("grade_id", "").endswith("_check")
    ]
    return work.file()


@shape()
def set_up_deleted(work: Work) -> Files:
    del work.nb["cells"][work.at("setup")]
    return work.file()


@shape()
def text_of_the_lesson_deleted(work: Work) -> Files:
    work.nb["cells"] = [c for c in work.nb["cells"] if c["cell_type"] == "code" or c["metadata"].get("nbgrader")]
    return work.file()


@shape(told="the locked cell 'setup' was changed: the lesson")
def set_up_reformatted(work: Work) -> Files:
    work.cell("setup")["source"] = "# mine\n" + work.source("setup").replace("import numpy as np", "import numpy as np  # !")
    return work.file()


@shape(told="is called 'gausian', and was read as 'gaussian'")
def answer_misspelt(work: Work) -> Files:
    work.cell("gaussian")["source"] = work.source("gaussian").replace("def gaussian(", "def gausian(")
    return work.file()


@shape(lost=("gaussian",), told="missing answer cells: gaussian")
def answer_deleted(work: Work) -> Files:
    del work.nb["cells"][work.at("gaussian")]
    return work.file()


# ---------------------------------------------------------------------------------------------- what answers lean on


@shape(told="imports pandas, which is not installed here")
def pandas_imported_and_not_used(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"import pandas as pd\n\n\n{work.source('gaussian')}"
    return work.file()


@shape(lost=("gaussian",), told="imports pandas, which is not installed here")
def pandas_used(work: Work) -> Files:
    source = "import pandas as pd\n\n\ndef gaussian(q, K):\n    return pd.DataFrame(K).apply(lambda row: row.sum(), axis=1)"
    work.cell("gaussian")["source"] = source
    return work.file()


@shape(lost=("gaussian",), told="its cell stopped: No module named")
def pandas_wanted_within(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"if True:\n    import pandas as pd\n\n\n{work.source('gaussian')}"
    return work.file()


@shape(lost=("gaussian",), told="'gaussian' imports 'pandas.core', which the grader doesn't have")
def pandas_wanted_in_the_function(work: Work) -> Files:
    work.cell("gaussian")["source"] = (
        "def gaussian(q, K):\n    import math, numpy as np\n    from pandas.core import frame\n    return frame"
    )
    return work.file()


@shape(told="imports google.colab")
def drive_mounted_in_an_answer(work: Work) -> Files:
    head = "from google.colab import drive\n\ndrive.mount('/content/drive')\n\n\n"
    work.cell("gaussian")["source"] = f"{head}{work.source('gaussian')}"
    return work.file()


@shape()
def magics_in_an_answer(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"%matplotlib inline\n%config InlineBackend\n{work.source('gaussian')}"
    work.cell("normalize")["source"] = f"%%time\n{work.source('normalize')}"
    return work.file()


@shape()
def pip_in_an_answer(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"!pip install numpy\n{work.source('gaussian')}"
    return work.file()


@shape(told="lost its cells' metadata")
def magics_without_marks(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"%%time\n{work.source('gaussian')}"
    work.forget()
    return work.file()


@shape()
def module_beside_the_notebook(work: Work) -> Files:
    helper = work.helped()
    work.cell("gaussian")["source"] = f"from my_utils import helper_of_mine\n\n\n{work.source('gaussian')}"
    head = "from jaxtyping import Float\nimport numpy as np\n\n\n"
    return {**work.file(), "my_utils.py": f"{head}{helper}\n".encode()}


@shape(lost=("gaussian",), told="imports my_utils, which is not installed here")
def module_left_at_home(work: Work) -> Files:
    work.helped()
    work.cell("gaussian")["source"] = f"from my_utils import helper_of_mine\n\n\n{work.source('gaussian')}"
    return work.file()


@shape(told="data.csv was not read")
def data_beside_the_notebook(work: Work) -> Files:
    return {**work.file(), "data.csv": b"1,2\n"}


@shape()
def a_module_that_would_hide_numpy(work: Work) -> Files:
    return {**work.file(), "numpy.py": b"raise SystemExit"}


@shape()
def warnings_and_prints(work: Work) -> Files:
    source = f"import warnings\n\nwarnings.warn('careful')\nprint('here')\n\n\n{work.source('gaussian')}"
    work.cell("gaussian")["source"] = source
    return work.file()


@shape()
def own_test_that_fails_below_the_answer(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"{work.source('gaussian')}\n\n\nassert False, 'why?'"
    return work.file()


@shape(lost=("gaussian",), told="its cell stopped: division by zero")
def cell_that_stops_before_its_answer(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"1 / 0\n\n\n{work.source('gaussian')}"
    return work.file()


@shape(lost=("gaussian",), told="its cell stopped: ")
def syntax_error(work: Work) -> Files:
    work.cell("gaussian")["source"] = work.source("gaussian").replace("):", ")", 1).replace("-> Float", ">- Float", 1)
    return work.file()


@shape(lost=("gaussian",), told="its cell stopped: ")
def syntax_error_without_marks(work: Work) -> Files:
    work.cell("gaussian")["source"] = work.source("gaussian") + "\n    return ((("
    work.forget()
    return work.file()


@shape(lost=("gaussian",), told="its cell stopped: ")
def input_asked_for(work: Work) -> Files:
    work.cell("gaussian")["source"] = f"name = input('your name? ')\n\n\n{work.source('gaussian')}"
    return work.file()


@shape()
def own_experiments_that_fail(work: Work) -> Files:
    work.insert(5, "plt.nothing()\nnot python at all (")
    work.insert(25, "raise ValueError('try')")
    return work.file()


@shape()
def annotations_removed(work: Work) -> Files:
    source = re.sub(r'Float\[np\.ndarray, "[^"]*"\]', "object", work.source("gaussian"))
    work.cell("gaussian")["source"] = source
    return work.file()


# ---------------------------------------------------------------------------------------------- written answers


def unanswered(work: Work, name: str = "written_where") -> None:
    work.stub(name)


@shape(told="the text beside question 'written_where'")
def words_in_a_new_cell_below(work: Work) -> Files:
    unanswered(work)
    work.insert(work.at("written_where") + 1, "It lies between the two, because weights are positive.", "markdown")
    return work.file()


@shape(told="the text beside question 'written_where'")
def words_in_a_new_cell_above(work: Work) -> Files:
    unanswered(work)
    work.insert(work.at("written_where"), "It lies between the two, because weights are positive.", "markdown")
    return work.file()


@shape(told="the text beside question 'written_where'")
def words_in_a_code_cell_below(work: Work) -> Files:
    unanswered(work)
    work.insert(work.at("written_where") + 1, "It lies between the two, because weights are positive and sum to one.")
    return work.file()


@shape(told="the text beside question 'written_where'")
def words_in_the_lessons_own_text(work: Work) -> Files:
    unanswered(work)
    text = work.nb["cells"][work.at("written_where") - 1]
    text["source"] = "".join(text["source"]) + "\n\nMy answer: it lies between the two."
    return work.file()


@shape(told="stood in a cell of another kind")
def words_in_a_cell_turned_to_code(work: Work) -> Files:
    work.cell("written_where")["cell_type"] = "code"
    return work.file()


@shape(told="stood in a cell of another kind")
def words_in_a_raw_cell(work: Work) -> Files:
    work.cell("written_where")["cell_type"] = "raw"
    return work.file()


@shape(told="the text beside question 'written_where'")
def words_that_go_on_in_a_second_cell(work: Work) -> Files:
    work.insert(work.at("written_where") + 1, "And one thing more, as I forgot it.", "markdown")
    return work.file()


@shape(waits=("written_convex",))
def one_question_left_blank(work: Work) -> Files:
    unanswered(work)
    return work.file()


@shape(told="data:image/png;base64")
def photo_pasted(work: Work) -> Files:
    cell = work.cell("written_where")
    cell["source"], cell["attachments"] = "![image.png](attachment:image.png)", {"image.png": {"image/png": photo()}}
    return work.file()


@shape(told="data:image/png;base64")
def photo_pasted_in_colab(work: Work) -> Files:
    work.cell("written_where")["source"] = f"See ![image.png](data:image/jpeg;base64,{photo('JPEG')})"
    work.forget()
    return work.file()


@shape(told="a picture in 'written_where' is not shown")
def photo_that_is_none(work: Work) -> Files:
    cell = work.cell("written_where")
    made = base64.b64encode(b"<svg onload=alert(1)>" * 4).decode()
    cell["attachments"] = {"image.png": {"image/png": made}}
    return work.file()


@shape(told="'photo.jpg', which is not in the notebook")
def photo_beside_the_notebook(work: Work) -> Files:
    work.cell("written_where")["source"] = "![my notes](photo.jpg)"
    return {**work.file(), "photo.jpg": b"\xff\xd8\xff"}
