"""What the decoder reads while it is trained: the target, shifted by one."""

import torch
import torch.nn.functional as F

from autograder import After, Case, Draw, Exercise, Misconception, Variant
from solutions import cross_attention as ref


def _targets(count: int, places: int):
    return lambda draw: {"targets": draw.rng.integers(2, 42, (count, places)), "start": 1}


def _another_start(draw: Draw):
    return {"targets": draw.rng.integers(2, 40, (3, 5)), "start": 41}


def _first(targets, start):
    return torch.full_like(targets[:, :1], start)


def _in_place(targets, start):
    inputs = targets.clone()
    inputs[:, 1:], inputs[:, 0] = targets[:, :-1], start
    return inputs, targets


SHIFTED = Exercise(
    "shifted",
    title="Find the bug: a perfect loss",
    kind="bug",
    points=1.5,
    difficulty=2,
    minutes=8,
    tensors=True,
    reference=ref.shifted,
    cases=(
        Case("one date", _targets(1, 4)),
        Case("three dates of seven characters", _targets(3, 7)),
        Case("another start", _another_start),
    ),
    hints=(
        "At position $i$ the model has to name target character $i$. Which character does it read at that position, according to the draft?",
        "While it writes, the model has read the start and the characters before position $i$. Training must show it the same, and no more.",
        "The inputs are the start followed by all targets except the last: `torch.cat([first, targets[:, :-1]], dim=1)`.",
    ),
    misconceptions=(
        Misconception(
            "not_shifted",
            "let the decoder read the character that it has to name",
            "The causal mask allows each position to see itself, so the inputs must be shifted: start first, then the earlier characters.",
            lambda targets, start: (targets.clone(), targets),
        ),
        Misconception(
            "shifted_the_other_way",
            "shifted the inputs to the left, so the decoder reads one character too far ahead",
            "At position $i$ the decoder reads the target's character $i - 1$.",
            lambda targets, start: (torch.cat([targets[:, 1:], _first(targets, start)], 1), targets),
        ),
        Misconception(
            "first_overwritten",
            "wrote the start over the first character and left the others in place",
            "Every character moves one place to the right. Only the last one drops out.",
            lambda targets, start: (torch.cat([_first(targets, start), targets[:, 1:]], 1), targets),
        ),
        Misconception(
            "rolled",
            "rolled the targets, so the decoder reads the last character first",
            "`torch.roll` brings the last character to the front. The first input is `start`.",
            lambda targets, start: (targets.roll(1, 1), targets),
        ),
        Misconception(
            "one_too_long",
            "kept all characters behind the start, so the inputs are longer than the answers",
            "The last character of the target is never read. Leave it out of the inputs.",
            lambda targets, start: (torch.cat([_first(targets, start), targets], 1), targets),
        ),
        Misconception(
            "first_answer_dropped",
            "left out the first character of the answers, so the model never learns to begin",
            "The model names the first character when it has read nothing but `start`.",
            lambda targets, start: (targets[:, :-1], targets[:, 1:]),
        ),
        Misconception(
            "both_shifted",
            "shifted the answers together with the inputs",
            "The answers are the targets as they are.",
            After(lambda out, **_: (out[0], out[0].clone())),
        ),
        Misconception(
            "shifted_twice",
            "shifted by two characters",
            "At position $i$ the decoder has read everything up to character $i - 1$.",
            lambda targets, start: (torch.cat([_first(targets, start)] * 2 + [targets[:, :-2]], 1), targets),
        ),
        Misconception(
            "answers_first",
            "returned the answers before the inputs",
            "Return what the decoder reads first.",
            After(lambda out, **_: out[::-1]),
        ),
    ),
    variants=(
        Variant("assigned", _in_place),
        Variant("padded", lambda targets, start: (F.pad(targets, (1, 0), value=start)[:, :-1], targets)),
    ),
)
