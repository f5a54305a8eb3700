"""What an answer may use: room for what it makes, and no automatic differentiation where all is by hand."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder import Case, Draw, Exercise, Keeps, Misconception
from autograder.authoring.verify import grade
from autograder.judging import call_limits
from autograder.judging.call_answer import observe
from autograder.judging.observation import Probe
from autograder.judging.script import Script, script_to_data
from autograder.judging.values import decode, encode
from autograder.packs import make_pack
from autograder.packs.record_json import from_json, to_json
from autograder.sandbox.codec import probe_from_wire, probe_to_wire
from autograder.sandbox.wire import WireError


def distances(Q: Any, K: Any) -> Any:
    return (Q**2).sum(-1)[:, None] + (K**2).sum(-1)[None] - 2 * Q @ K.T


def _table(Q: Any, K: Any) -> Any:
    return ((Q[:, None] - K[None]) ** 2).sum(-1)


def _rows(draw: Draw) -> dict[str, Any]:
    return {name: draw.rng.integers(-2, 3, size=(9, 101)).astype(float) for name in "QK"}


def exercise(**more: Any) -> Exercise:
    cases = (Case("small", lambda draw: {name: draw.normal(3, 2) for name in "QK"}), Case("room", _rows, room=2.0, edge=0.3))
    known = (Misconception("table", "formed a table of all differences", "Multiply out.", _table, raises=True),)
    return Exercise("distances", "Distances", 1, distances, cases, ("a", "b", "c"), known, **more)


@pytest.mark.parametrize("tensors", [False, True])
def test_a_table_too_large_loses_the_case_that_has_no_room_for_it(tensors: bool) -> None:
    record = make_pack.make_record("a_lesson", exercise(tensors=tensors), 0)
    assert grade(record, distances).passed
    result = grade(record, _table)
    assert result.score == 0.7
    assert result.diagnosis is not None
    assert [known.id for known in result.diagnosis.known] == ["table"]
    failure = result.cases[1].observation.failure
    assert failure is not None
    assert failure.type == "MemoryError"
    assert failure.line is None or "raise MemoryError" not in failure.line[1]


def test_copies_of_tensors_are_seen_and_views_are_none() -> None:
    probe = Probe(encode({"x": torch.ones(4, 5)}), room=1.0)
    assert observe(lambda x: x.T.expand(3, 5, 4)[0] + 0, probe).failure is None
    assert observe(lambda x: x.repeat(3, 1)[:4] + 0, probe).failure is not None


def test_what_is_by_hand_has_no_gradients() -> None:
    probe = Probe(encode({"x": torch.ones(4)}), by_hand=True)

    def slope(x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        (x**2).sum().backward()
        assert x.grad is not None
        return x.grad

    assert observe(slope, Probe(probe.inputs)).failure is None
    assert observe(slope, probe).failure is not None
    with torch.enable_grad():
        assert observe(slope, probe).failure is not None
    assert observe(lambda x: 2 * x, probe).failure is None


class _Keeps:
    """Keeps a table that it was given, a vector of its own, and what `more` makes of the vector."""

    __slots__ = ("rest", "table")

    def __init__(self, table: Any, more: Callable[[Any], Any] = lambda vector: None) -> None:
        vector = table[0] + 1.0
        self.table, self.rest = table, {"own": [vector, vector[:2]], "more": more(vector)}


@pytest.mark.parametrize("table", [np.ones((3, 5)), torch.ones(3, 5)])
def test_what_an_object_keeps_is_counted_once_and_not_what_it_was_given(table: Any) -> None:
    assert call_limits.kept(_Keeps(table), {"table": table}) == 5
    assert call_limits.kept(_Keeps(table), None) == 20
    assert call_limits.kept(_Keeps(table, lambda vector: vector.reshape(5, 1)), [table]) == 5
    assert call_limits.kept(_Keeps(table, lambda vector: (vector + 1, _Keeps(table))), [table]) == 15


@pytest.mark.parametrize("numbers", [4, 5])
def test_a_script_may_ask_whether_little_is_kept(numbers: int) -> None:
    script = Script({"table": torch.ones(3, 5)}, None, (Keeps(numbers),))
    seen = observe(_Keeps, Probe(encode(script_to_data(script)))).value
    assert seen is not None
    assert decode(seen) == (numbers == 5,)


def test_limits_survive_the_file_and_the_wire() -> None:
    record = make_pack.make_record("a_lesson", exercise(), 0)
    arrays: list[Any] = []
    again = from_json(to_json(record, arrays), arrays)
    assert [case.probe.room for case in again.cases] == [0.0, 2.0]
    probe = Probe(encode({"x": np.ones(2)}), room=1.5, by_hand=True)
    header, sent = probe_to_wire(probe)
    found = probe_from_wire(header, sent)
    assert (found.room, found.by_hand) == (1.5, True)
    with pytest.raises(WireError):
        probe_from_wire({**header, "room": "much"}, sent)


def test_in_a_notebook_nothing_is_written_to_stderr() -> None:
    program = (
        "import torch\n"
        "from autograder.judging.observation import Probe\n"
        "from autograder.judging.call_answer import observe_within\n"
        "from autograder.judging.values import encode\n"
        "probe = Probe(encode({'x': torch.ones(4, 5)}), room=1.0)\n"
        "print([observe_within(20, lambda x: x.repeat(3, 1), probe) for _ in range(3)][-1].failure.type)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert (done.stdout.strip(), done.stderr) == ("MemoryError", "")


def test_a_deadline_that_passes_at_the_first_gradient_spoils_no_later_check() -> None:
    """PyTorch imports much of itself then, and half an import would stay for as long as the kernel runs."""
    program = (
        "import dataclasses\n"
        "from autograder.authoring.course import course_root, find_lesson\n"
        "from autograder.diagnosis.attempt import check_answer\n"
        "from autograder.packs import pack_file\n"
        "lesson = find_lesson('scaled_dot_product')\n"
        "path = course_root() / 'release' / lesson.name / f'{lesson.slug}{pack_file.SUFFIX}'\n"
        "record = pack_file.load(path).exercises['sdpa']\n"
        "right = next(exercise.reference for exercise in lesson.exercises() if exercise.id == 'sdpa')\n"
        "hurried = check_answer(dataclasses.replace(record, timeout_s=0.1), right)\n"
        "print(check_answer(record, right).passed)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == "True", done.stderr
