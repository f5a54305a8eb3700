"""What heads cost, and where the parameters of a language model are."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from solutions import multi_head as ref

PREDICT_PARAMS = Prediction(
    "predict_params",
    title="Predict: one head or eight",
    points=0.5,
    minutes=1,
    choices={
        "a": "as many parameters and nearly the same work",
        "b": "8 times as many parameters and 8 times the work",
        "c": "an eighth of the parameters, because each head is an eighth as wide",
        "d": "as many parameters and 8 times the work",
    },
    holds="a",
    reveal="**a.** Eight heads of width 64 share the same four 512 × 512 matrices that one head of width 512 would have. The products "
    "with them cost the same, and so do the scores, because n² dot products of length 512 need as many multiplications as 8 n² of length "
    "64. Only the softmax has more to do, with 8 n² weights instead of n².",
)

SMOLLM2 = {"d_model": 576, "H": 9, "G": 3, "d_head": 64, "hidden": 1_536}


def _smollm2(draw: Draw):
    return dict(SMOLLM2)


def _drawn(draw: Draw):
    """Sizes in which no two counts can be confused, and the heads together are not as wide as the tokens."""
    d_head, group = draw.sizes(2, low=3, high=11)
    G = draw.integer(2, 4)
    d_model = group * G * d_head + draw.integer(1, 5)
    return {"d_model": d_model, "H": group * G, "G": G, "d_head": d_head, "hidden": 3 * d_model + 1}


def _as_many_groups_as_heads(draw: Draw):
    return {**_drawn(draw), "H": 5, "G": 5}


def _even(
    *,
    attention=lambda d, H, G, d_head: d * d_head * (2 * H + 2 * G),
    mlp=lambda d, hidden: 3 * d * hidden,
    each=lambda d, H, G, d_head: 2 * H * d_head,
    rounded=math.ceil,
    squared=False,
):
    """The context with one part replaced by a mistake."""

    def answer(d_model, H, G, d_head, hidden):
        matrices = attention(d_model, H, G, d_head) + mlp(d_model, hidden)
        tokens = matrices / each(d_model, H, G, d_head)
        return rounded(math.sqrt(tokens) if squared else tokens)

    return answer


def _by_trying(d_model, H, G, d_head, hidden):
    matrices = 2 * d_model * H * d_head + 2 * d_model * G * d_head + 3 * d_model * hidden
    tokens = 1
    while tokens * H * d_head + tokens * H * d_head < matrices:
        tokens += 1
    return tokens


BREAK_EVEN = Exercise(
    "break_even",
    title="Estimate: when do scores cost as much as matrices?",
    kind="estimate",
    points=1.5,
    difficulty=3,
    minutes=8,
    reference=ref.break_even,
    recipe=Made(_even),
    tolerance=Tolerance(rtol=1e-9, atol=0.0),  # a count
    cases=(
        Case("SmolLM2", _smollm2),
        Case("a small model", _drawn),
        Case("keys for every head", _as_many_groups_as_heads),
    ),
    hints=(
        "Write down what one head multiplies for one token of the context, first for the score and then for the weighted sum.",
        "A score is a dot product of d_head numbers, and a weight multiplies a value of d_head numbers. All H query heads do both, for "
        "every token. The matrices cost the same whatever the context is.",
        "Each token of the context costs 2 · H · d_head multiplications. The matrices cost as many as they have parameters, "
        "d_model · d_head · (2 H + 2 G) and 3 · d_model · hidden. Divide, and round up.",
    ),
    misconceptions=(
        Misconception(
            "scores_only",
            "counted the scores and left out the weighted sums",
            "Each weight also multiplies a value of d_head numbers, which is as much work as the score.",
            Instead(each=lambda d, H, G, d_head: H * d_head),
        ),
        Misconception(
            "heads_of_keys_only",
            "counted one score for each head of keys",
            "Keys are shared, but every one of the H query heads computes scores of its own.",
            Instead(each=lambda d, H, G, d_head: 2 * G * d_head),
        ),
        Misconception(
            "one_head",
            "counted the scores and sums of a single head",
            "All H query heads compare their queries with the context.",
            Instead(each=lambda d, H, G, d_head: 2 * d_head),
        ),
        Misconception(
            "as_wide_as_the_tokens",
            "gave every head queries as wide as the tokens",
            "A query and a key have d_head numbers each.",
            Instead(each=lambda d, H, G, d_head: 2 * H * d),
        ),
        Misconception(
            "mlp_forgotten",
            "compared with the matrices of attention alone",
            "The matrices of the layer are those of attention and the three of the MLP.",
            Instead(mlp=lambda d, hidden: 0),
        ),
        Misconception(
            "attention_forgotten",
            "compared with the MLP alone",
            "The matrices of the layer are the three of the MLP and the four of attention.",
            Instead(attention=lambda d, H, G, d_head: 0),
        ),
        Misconception(
            "keys_for_every_head",
            "gave every query head its own W_K and W_V",
            "There are only `G` heads of keys and values, so W_K and W_V have G · d_head columns.",
            Instead(attention=lambda d, H, G, d_head: 4 * d * H * d_head),
        ),
        Misconception(
            "two_mlp_matrices",
            "counted two matrices in the MLP",
            "This MLP has a third matrix, whose output is multiplied with that of the first one.",
            Instead(mlp=lambda d, hidden: 2 * d * hidden),
        ),
        Misconception(
            "every_pair",
            "let the work of the new token grow with the square of the context",
            "Only the new token asks, so it has one score for each token and head.",
            Instead(squared=True),
        ),
        Misconception(
            "rounded_down",
            "rounded down, so the scores still cost a little less",
            "Return the first number of tokens that is enough.",
            Instead(rounded=math.floor),
        ),
    ),
    variants=(Variant("by_trying", _by_trying),),
)
