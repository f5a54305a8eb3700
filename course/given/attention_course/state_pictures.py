"""The pictures of workshop 13b: a state that is written to, and what models recall."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from attention_course.drawing import Drawing
from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, MARKERS, figure, show

_KEYS = ("cat", "dog", "cow")
_WRITES = (("cat", (3, 0, 1)), ("dog", (1, 2, 0)), ("cow", (0, 4, 1)), ("cat", (0, 2, 2)))
Write = Callable[..., Any]


def writes(rules: Mapping[str, Write]) -> Moving:
    """States after each of four writes, by rule; the keys are at right angles, so that each row of a state is one reading."""

    def draw(write: int) -> Drawing:
        states = []
        for rule in rules.values():
            S = torch.zeros(len(_KEYS), 3)
            for key, value in _WRITES[:write]:
                S = rule(S, torch.eye(len(_KEYS))[_KEYS.index(key)], torch.tensor(value, dtype=torch.float32), 1.0)
            states.append(S)
        d = Drawing(alt=f"States after {write} writes.")
        done = [f"{key}: {' '.join(map(str, value))}" for key, value in _WRITES]
        row = d.tokens(done, role="input", strong=[write - 1] if write else [])
        above: Any = row[0]
        for name, S in zip(rules, states, strict=True):
            again = _KEYS.index("cat") if write == len(_WRITES) else -1
            entries = [[f"{x:.0f}" for x in line] for line in S.tolist()]
            marked = [(again, j) for j in range(3)] if again >= 0 else []
            part = d.matrix(
                S.numpy(),
                name,
                role="value",
                rows=list(_KEYS),
                entries=entries,
                vmax=6.0,
                cell=(42, 30),
                highlight=marked,
                **({"below": above, "align": "start", "gap": 46} if above is row[0] else {"right_of": above, "gap": 90}),
            )
            above = part
        return d

    return slider(
        draw,
        write=list(range(len(_WRITES) + 1)),
        start={"write": len(_WRITES)},
        labels={"write": "writes done"},
        alt="Four writes, cat 3 0 1, dog 1 2 0, cow 0 4 1 and cat again, 0 2 2, into two states. After the last one, the row of "
        "cat holds 3 2 3 in the sum, and 0 2 2 under the delta rule.",
    )


def recalled(found: Mapping[str, Sequence[float]], pairs: Sequence[int], trained: int) -> None:
    """Plot the share of right answers against the number of keys, for each kind of memory."""
    fig, ax = figure(height=3.2)
    for i, (name, shares) in enumerate(found.items()):
        ax.plot(pairs, shares, marker=MARKERS[i], color=COLOURS[i], label=name)
    ax.axvline(trained, color="0.5", linestyle=":")
    ax.text(trained + 0.3, 0.03, "trained up to here", color="0.35", va="bottom")
    ax.set(xlabel="keys in a text", ylabel="last value right", ylim=(0, 1.03), xticks=list(pairs))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1.0)  # above: beside, it would leave a phone
    ends = "; ".join(
        f"{name}, {shares[0]:.2f} with {pairs[0]} keys, {shares[-1]:.2f} with {pairs[-1]}" for name, shares in found.items()
    )
    show(fig, alt=f"The share of last values that each model recalls. {ends}.")
