"""A cell that calls an exercise before it is written."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from autograder.workspace.in_cells import missing_exercise

STUB = 'raise NotImplementedError("not written yet")'


@pytest.fixture
def shell() -> InteractiveShell:
    made = InteractiveShell()
    missing_exercise.explain_in(made)
    return made


@pytest.mark.parametrize(
    ("cell", "call"),
    [
        (f"def softmax(x):\n    {STUB}", "max(map(softmax, [1, 2]))"),
        (f"class softmax:\n    def __init__(self, x):\n        {STUB}", "softmax(1)"),
    ],
)
def test_two_lines_name_the_exercise_that_is_missing(
    cell: str, call: str, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell(cell)
    ran = shell.run_cell(call)
    assert isinstance(ran.error_in_exec, NotImplementedError)  # "run all" stops here
    said = capsys.readouterr()
    assert (said.out + said.err).splitlines() == [
        "This cell needs your `softmax`, which is not written yet.",
        "Write softmax in its cell, run that cell, then run this one.",
    ]


def test_an_error_of_another_origin_keeps_its_traceback(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell('def f():\n    raise NotImplementedError("no kernel for this dtype")')
    shell.run_cell("f()")
    said = capsys.readouterr()
    assert "Traceback" in said.out + said.err
    assert "no kernel for this dtype" in said.out + said.err
