"""The slips that only attention knows: each edit does what its sentence says, and each sentence belongs to a slip."""

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_course.operators import HEADS, OPERATORS, SENTENCES, dealt_heads
from torch import Tensor

from autograder.authoring.course import course_root, settings
from autograder.diagnosis.phrase import briefly, say
from autograder.judging.fact import Fact
from autograder.judging.records import NearSlip
from autograder.mutants.call_operators import of_call
from autograder.mutants.course_operators import load
from autograder.mutants.operators import edits
from autograder.mutants.source import Edit, plain_slip, source_of


def masked(s: Any, keep: Any) -> Any:
    return s.masked_fill(~keep, -1.0)


def fused(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def shared(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def weights(s: Any) -> Any:
    return s.softmax(-1)


def weights_of(s: Any) -> Any:
    return torch.softmax(s, dim=-1)


S = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [0.5, 1.0, 0.0]])
KEEP = torch.ones(3, 3).tril().bool()
Q, K, V = (torch.arange(12.0).reshape(1, 3, 4).sin() * number for number in (1, 2, 3))


def _edits(program: Callable[..., Any], name: str) -> list[tuple[Edit, Any]]:
    """The edits by an operator of the course, and the edited programs."""
    source = source_of(program)
    assert source is not None
    found = [edit for edit in edits(source, OPERATORS) if edit.what is not None and _name(edit.what) == name]
    return [(edit, source.build([edit])) for edit in found]


def _name(what: Fact) -> str:
    return plain_slip(what).key.rpartition(":")[2]


def _attended(scores: Tensor) -> Tensor:
    return scores.softmax(-1) @ V


@pytest.mark.parametrize(
    ("program", "given", "name", "expected", "sentence"),
    [
        (masked, (S, KEEP), "mask", S, "left the mask `~keep` out of `s`"),
        (
            fused, (Q, K, V), "no_scale", _attended(Q @ K.mT),
            "left out the scale: the dot products are not divided by the root of their length",
        ),
        (
            fused, (Q, K, V), "scale_by_width", _attended(Q @ K.mT / 4),
            "divided the dot products by their length, not by its root",
        ),
        (
            weights_of, (S,), "causal", S.masked_fill(~KEEP, -math.inf).softmax(-1),
            "let each row of `s` see only the columns up to its own, as if later ones were hidden",
        ),
    ],
)  # fmt: skip
def test_an_edit_does_what_its_sentence_says(
    program: Callable[..., Any], given: tuple[Any, ...], name: str, expected: Tensor, sentence: str
) -> None:
    ((edit, answer),) = _edits(program, name)
    torch.testing.assert_close(answer(*given), expected)
    assert edit.what is not None
    assert say(edit.what) == sentence


def test_a_mask_left_out_is_no_other_omission() -> None:
    (call,) = (node for node in ast.walk(ast.parse("s.masked_fill(~keep, -1.0)")) if isinstance(node, ast.Call))
    keys = [what.key for _, _, what in of_call(call, OPERATORS)]
    assert "slip.call.method" not in keys
    assert "slip.call.method" in [what.key for _, _, what in of_call(call)]


def test_key_value_heads_that_are_not_shared_stop_the_call() -> None:
    q, k = torch.ones(1, 4, 3, 2), torch.ones(1, 2, 3, 2)
    ((edit, answer),) = _edits(shared, "slip.call.option")
    assert edit.what is not None
    assert say(edit.what) == "left out `enable_gqa=` in `scaled_dot_product_attention`"
    assert shared(q, k, k).shape == (1, 4, 3, 2)
    with pytest.raises(RuntimeError):
        answer(q, k, k)


def test_a_causal_mask_is_no_repair() -> None:
    source = source_of(weights_of)
    assert source is not None
    assert [edit for edit in edits(source, OPERATORS.for_repair) if edit.what and _name(edit.what) == "causal"] == []


def test_columns_are_dealt_out_to_the_heads_one_by_one() -> None:
    given = {"X": np.ones((2, 3)), "W_q": np.arange(12).reshape(2, 6), "W_o": np.ones((6, 2)), "H": 3}
    (slip,) = dealt_heads(given)
    assert say(slip.what) == "dealt the columns of `W_q` out like cards, every `H`-th to one part, and not in runs"
    assert slip.step.change(**given)["W_q"].tolist() == [[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]
    assert list(dealt_heads({**given, "H": 4})) == [], "six columns are no four runs"


def test_every_sentence_belongs_to_a_slip_and_every_slip_has_its_sentence() -> None:
    made = [
        *(edit.what for program in (masked, fused, shared, weights, weights_of) for edit in edits(source_of(program), OPERATORS)),  # type: ignore[arg-type]  # they have a text
        *(slip.what for slip in dealt_heads({"W": np.ones((2, 6)), HEADS[1]: 3})),
    ]
    own = {_name(what): plain_slip(what) for what in made if what is not None and ":" in plain_slip(what).key}
    assert own.keys() == {name for name in SENTENCES if not name.endswith(".brief")}
    for name, what in own.items():
        short = SENTENCES.get(f"{name}.brief")
        assert (briefly(NearSlip("~0", what)) == say(what)) == (short is None)


def test_the_course_names_these_operators() -> None:
    assert (course_root() / "given" / settings().operators.replace(".", "/")).with_suffix(".py").is_file()
    assert load(settings().operators) is OPERATORS
