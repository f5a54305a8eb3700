"""Tensors on another device, which is pretended: what would fail on a GPU fails, and what is right there passes."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from autograder import Case, Exercise
from autograder.authoring.course import find_lesson
from autograder.authoring.verify import grade
from autograder.diagnosis.explain import make_report
from autograder.judging.records import ExerciseRecord
from autograder.packs import make_pack, record_json
from autograder.sandbox.codec import probe_from_wire, probe_to_wire
from autograder.sandbox.wire import WireError


def exercise(slug: str, name: str) -> Exercise:
    return next(each for each in find_lesson(slug).exercises() if isinstance(each, Exercise) and each.id == name)


@pytest.fixture(scope="module")
def padding() -> ExerciseRecord:
    return make_pack.make_record("masking", exercise("padding_and_packing", "padding_mask"), 0, naming="listed")


def failing(record: ExerciseRecord, answer: Callable[..., Any]) -> list[str]:
    return [case.name for case in grade(record, answer).cases if not case.passed]


def _filled(lengths: torch.Tensor, m: int) -> torch.Tensor:
    keep = torch.zeros(len(lengths), 1, m, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        keep[b, 0, :length] = True
    return keep


def _filled_by_tensors(lengths: torch.Tensor, m: int) -> torch.Tensor:
    keep = torch.zeros(len(lengths), 1, m, device=lengths.device)
    for b in range(len(lengths)):
        keep[b, 0, : lengths[b]].fill_(1)
    return keep > 0


def _listed(lengths: torch.Tensor, m: int) -> torch.Tensor:
    return torch.tensor([[[j < n for j in range(m)]] for n in lengths.tolist()], device=lengths.device)


RIGHT: dict[str, Callable[..., Any]] = {
    "made there": lambda lengths, m: torch.arange(m, device=lengths.device) < lengths[:, None, None],
    "moved there": lambda lengths, m: torch.arange(m).to(lengths.device) < lengths[:, None, None],
    "moved to a tensor": lambda lengths, m: torch.arange(m).to(lengths) < lengths[:, None, None],
    "of the same kind": lambda lengths, m: lengths.new_ones(len(lengths), 1, m).cumsum(-1) <= lengths[:, None, None],
    "back and forth": lambda lengths, m: (torch.arange(m) < lengths.cpu()[:, None, None]).to(lengths.device),
    "from a table": lambda lengths, m: torch.ones(m + 1, m, device=lengths.device).tril(-1).bool()[lengths][:, None],
    "stacked": lambda lengths, m: torch.stack([torch.arange(m, device=n.device) < n for n in lengths])[:, None],
    "filled": _filled,
    "filled by tensors": _filled_by_tensors,
    "of a list": _listed,
}
WRONG: dict[str, Callable[..., Any]] = {
    "made on the CPU": lambda lengths, m: torch.arange(m) < lengths[:, None, None],
    "returned on the CPU": lambda lengths, m: torch.arange(m) < lengths.cpu()[:, None, None],
    "filled on the CPU": lambda lengths, m: torch.tensor(_listed(lengths.cpu(), m).tolist()),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_what_is_made_or_moved_there_passes(answer: Callable[..., Any], padding: ExerciseRecord) -> None:
    assert failing(padding, answer) == []


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_what_stays_on_the_cpu_fails_there_alone(answer: Callable[..., Any], padding: ExerciseRecord) -> None:
    assert failing(padding, answer) == ["lengths on another device"]


def _packed_on_the_cpu(documents: torch.Tensor) -> torch.Tensor:
    n = len(documents)
    return (documents[:, None] == documents) & torch.ones(n, n).tril().bool()


def _angles_on_the_cpu(pos: torch.Tensor, d: int, base: float) -> torch.Tensor:
    wide = torch.promote_types(pos.dtype, torch.float32)
    return torch.as_tensor(pos[..., None].to(wide) * base ** -(torch.arange(0, d, 2, dtype=wide) / d))


@pytest.mark.parametrize(
    ("slug", "name", "answer"),
    [
        ("padding_and_packing", "padding_mask", WRONG["made on the CPU"]),
        ("padding_and_packing", "packed_mask", _packed_on_the_cpu),
        ("positions", "rope_angles", _angles_on_the_cpu),
    ],
)
def test_every_exercise_that_asks_for_any_device_says_what_to_do(slug: str, name: str, answer: Callable[..., Any]) -> None:
    record = make_pack.make_record(slug, exercise(slug, name), 0, naming="listed")
    result = grade(record, answer)
    assert result.score == pytest.approx(0.9 * record.points, abs=0.01)
    assert "device=" in make_report(result).advice


def test_an_input_that_is_changed_there_is_seen(padding: ExerciseRecord) -> None:
    def answer(lengths: torch.Tensor, m: int) -> torch.Tensor:
        keep = RIGHT["made there"](lengths.clone(), m)
        lengths.add_(1)
        return torch.as_tensor(keep)

    seen = grade(padding, answer).cases[-1].observation
    assert seen.mutated == ("lengths",)


def test_a_device_is_pretended_for_tensors_without_gradients_and_without_a_limit_of_room() -> None:
    asked = exercise("padding_and_packing", "padding_mask")
    case = next(case for case in asked.cases if case.elsewhere)
    for wrong in (dataclasses.replace(case, grad=("lengths",)), dataclasses.replace(case, room=2.0)):
        with pytest.raises(ValueError, match="no `grad` and no `room`, for a case that is `elsewhere`"):
            dataclasses.replace(asked, cases=(Case("core", case.make), wrong))
    with pytest.raises(ValueError, match="expected tensors"):
        dataclasses.replace(asked, tensors=False)


def test_packs_and_the_sandbox_keep_where_a_case_is_asked(padding: ExerciseRecord) -> None:
    arrays: list[Any] = []
    again = record_json.from_json(record_json.to_json(padding, arrays), arrays)
    assert isinstance(again, ExerciseRecord)
    assert [case.probe.elsewhere for case in again.cases] == [False, False, False, True]
    header, sent = probe_to_wire(again.cases[-1].probe)
    assert probe_from_wire(header, sent).elsewhere
    with pytest.raises(WireError, match="expected a ProbeFields"):
        probe_from_wire({**header, "elsewhere": "yes"}, sent)
