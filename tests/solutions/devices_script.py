"""Every reference of a PyTorch exercise on the pretend device: prints a JSON line for each, {"name": …, "problem": … or ""}."""

import inspect
import json
import sys
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from autograder.authoring.course import lessons
from autograder.judging.script import PARTS, Construct, Keeps, Read, script_from_data
from autograder.judging.values import Code, decode
from autograder.packs import make_pack
from tests.solutions.pretend_device import NAME, There, back, move, pretend


def call(reference: Any, values: dict[str, Any]) -> Any:
    if set(values) != PARTS:
        return reference(**values)
    script = script_from_data(values)
    made = reference(**script.init)
    if script.weights is not None:
        if any(isinstance(x, There) for x in script.weights.values()):
            made = made.to(device=f"{NAME}:0") if hasattr(made, "to") else made
        made.load_state_dict(script.weights)
    results = []
    for step in script.calls:
        if isinstance(step, Keeps):
            continue  # it counts by data pointers, and the device has none
        if isinstance(step, Read):
            results.append(getattr(made, step.attribute))
            continue
        method = "__class__" if isinstance(step, Construct) else step.method
        member = made if method == "__call__" else getattr(made, method)
        results.append(member(**step.arguments))
    return results


def problem(reference: Any, values: dict[str, Any]) -> str:
    """What goes wrong on the device, or ""."""
    try:
        expected = call(reference, values)
    except Exception:
        return ""  # a case that is meant to raise
    try:
        with pretend():
            got = back(call(reference, move(values)))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    for a, b in zip(tree_leaves(expected), tree_leaves(got), strict=True):
        if isinstance(a, torch.Tensor) and not torch.allclose(a.double(), b.double(), atol=1e-4, equal_nan=True):
            return "other numbers than on the CPU"
    return ""


def main() -> None:
    for lesson in lessons():
        for exercise in lesson.in_code():
            if not exercise.tensors:
                continue
            record = make_pack.make_record(lesson.slug, replace(exercise, misconceptions=(), variants=()), 0)
            # what counts memory by data pointers is looked through: the device has none
            reference = inspect.unwrap(exercise.reference)
            # a function that a probe hands over is the probe's affair: it may make tensors where it likes
            own = [case for case in record.cases if not any(isinstance(leaf, Code) for leaf in case.probe.inputs.flat())]
            found = [problem(reference, decode(case.probe.inputs)) for case in own]
            print(json.dumps({"name": f"{lesson.slug}.{exercise.id}", "problem": next(filter(None, found), "")}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
