"""Heads to be designed, judged by what they do; what a head contributes; and what its circuit would cost."""

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from course.exercises.multi_head.attention import FLOAT32
from solutions import multi_head as ref


def _nothing(draw: Draw) -> dict[str, object]:
    return {}


# ---------------------------------------------------------------------------------------------- who and what


def _who_and_what(*, loud=30.0, asks=(0, 0), finds=((1,), (2,)), into=((6, 1.0), (9, 1.0)), values=slice(3, 6)):
    """Two heads: which flag asks, which flags are found, where and with which factor each head writes."""

    def answer():
        Wq, Wk = torch.zeros(12, 2, dtype=torch.float64), torch.zeros(12, 2, dtype=torch.float64)
        Wv, Wo = torch.zeros(12, 6, dtype=torch.float64), torch.zeros(6, 12, dtype=torch.float64)
        for h in range(2):
            Wq[asks[h], h] = loud
            for flag in finds[h]:
                Wk[flag, h] = 1.0
            Wv[values, 3 * h : 3 * h + 3] = torch.eye(3, dtype=torch.float64)
            place, factor = into[h]
            Wo[3 * h : 3 * h + 3, place : place + 3] = factor * torch.eye(3, dtype=torch.float64)
        return Wq, Wk, Wv, Wo

    return answer


def _wide_heads():
    """Wider heads than needed, loud keys in place of loud queries, the rest random."""
    draw = torch.Generator().manual_seed(0)
    Wq, Wk = torch.zeros(12, 8, dtype=torch.float64), torch.zeros(12, 8, dtype=torch.float64)
    Wv, Wo = torch.zeros(12, 12, dtype=torch.float64), torch.zeros(12, 12, dtype=torch.float64)
    Wq[0, 0] = Wq[0, 5] = 2.0
    Wk[1, 0] = Wk[2, 5] = 40.0
    Wk[1, 2] = Wk[2, 7] = 3.0  # in features in which no query asks
    turn = torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))[0]
    Wv[3:6, 0:3] = Wv[3:6, 6:9] = turn
    Wo[0:3, 6:9] = Wo[6:9, 9:12] = turn.T
    return Wq, Wk, Wv, Wo


WHO_AND_WHAT = Exercise(
    "who_and_what",
    title="Keep two things apart",
    points=3,
    reference=ref.who_and_what,
    recipe=Made(_who_and_what),
    tensors=True,
    tolerance=Tolerance(rtol=0.0, atol=0.005),
    kind="design",
    behaviour="attention_course.designs:who_and_what",
    difficulty=4,
    minutes=20,
    cases=(Case("five sentences", _nothing),),
    hints=(
        "One head for *who*, one for *what*. For each say three things: what does the verb ask for, what is handed over, and where is "
        "it written?",
        "A score is a product: let the flag *verb* make the query and the flag *acts* make the key, both in the one feature of head 0. "
        "The values are features 3 to 5 in both heads. The place is a matter of each head's own rows of $W_O$.",
        "With $d_k = 1$, `Wq` and `Wk` have two columns, one a head, and one or two entries each that are not 0. With $d_v = 3$, `Wv` "
        "holds the 3 × 3 identity twice, and so does `Wo`. Make the queries large (30), or the softmax will not decide.",
    ),
    misconceptions=(
        Misconception(
            "one_average",
            "let both heads look for both words: each place receives the average of the two",
            "Head 0 must find the word that acts and not the other: give its key the flag 1 alone.",
            Instead(finds=((1, 2), (1, 2))),
        ),
        Misconception(
            "exchanged",
            "exchanged the two: the word acted on stands in *who*",
            "The head that looks for flag 1 (acts) must write into features 6 to 8.",
            Instead(finds=((2,), (1,))),
        ),
        Misconception(
            "both_into_one_place",
            "let both heads write into the same place, where what they found is added up",
            "Each head has its own rows of `Wo`: the first $d_v$ rows lead to features 6 to 8, the next to 9 to 11.",
            Instead(into=((6, 1.0), (6, 1.0))),
        ),
        Misconception(
            "into_its_meaning",
            "wrote over the verb's own meaning (features 3 to 5)",
            "The free places begin at feature 6: *who* at 6, *what* at 9.",
            Instead(into=((3, 1.0), (6, 1.0))),
        ),
        Misconception(
            "too_soft",
            "built the right heads, but their scores are too small: the softmax gives the other words a share",
            "Multiply the queries (or the keys) by a large number, 30 for instance.",
            Instead(loud=1.0),
        ),
        Misconception(
            "roles_of_query_and_key_exchanged",
            "exchanged query and key: the words that act ask, and the verb, which should learn from them, has no question at all",
            "The verb asks: flag 0 belongs into `Wq`. What is found belongs into `Wk`.",
            lambda: (lambda q, k, v, o: (k * 30, q / 30, v, o))(*_who_and_what()()),
        ),
        Misconception(
            "one_head_only",
            "used the first head alone: the place *what* stays empty",
            "The second column of `Wq` and `Wk`, and the second half of `Wv` and `Wo`, belong to the second head.",
            Instead(into=((6, 1.0), (9, 0.0))),
        ),
    ),
    variants=(
        Variant("wide_heads", _wide_heads),
        Variant("heads_in_the_other_order", _who_and_what(finds=((2,), (1,)), into=((9, 1.0), (6, 1.0)))),
    ),
)


# ---------------------------------------------------------------------------------------------- after minus before


def _change(*, loud=50.0, keys=(1, 0), signs=(1.0, -1.0)):
    def answer():
        Wq, Wk, Wv = (torch.zeros(4, 2, dtype=torch.float64) for _ in "qkv")
        Wo = torch.zeros(2, 4, dtype=torch.float64)
        Wq[2] = loud
        for h in range(2):
            Wk[keys[h], h] = 1.0
            Wo[h, 3] = signs[h]
        Wv[3] = 1.0
        return Wq, Wk, Wv, Wo

    return answer


def _soft_but_scaled():
    """Soft heads give (p - q) times the difference, exactly; W_O may divide by it."""
    scores = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    p, q, _ = torch.softmax(scores, dim=0).tolist()
    return _change(loud=1.0, signs=(1 / (p - q), -1 / (p - q)))()


MEASURE_CHANGE = Exercise(
    "measure_change",
    title="Two heads that subtract",
    points=1,
    reference=ref.measure_change,
    recipe=Made(_change),
    tensors=True,
    tolerance=Tolerance(rtol=0.001, atol=0.001),
    kind="design",
    behaviour="attention_course.designs:change",
    difficulty=3,
    minutes=8,
    cases=(Case("five pairs of readings", _nothing),),
    hints=(
        "Weights are never negative. Where else in a head may a sign stand?",
        "Head 0 looks for *after* and its rows of $W_O$ add the reading; head 1 looks for *before* and its rows subtract it.",
        "$d_k = d_v = 1$: the question's flag makes both queries (large ones), flag 1 the key of head 0, flag 0 that of head 1. The "
        "value is the reading in both. The sign is in `Wo`.",
    ),
    misconceptions=(
        Misconception(
            "added",
            "added the two readings",
            "One of the two rows of `Wo` must be negative.",
            Instead(signs=(1.0, 1.0)),
        ),
        Misconception(
            "wrong_sign",
            "computed *before minus after*",
            "Exchange the signs in `Wo`, or what the two heads look for.",
            Instead(signs=(-1.0, 1.0)),
        ),
        Misconception(
            "same_token_twice",
            "let both heads look at the same reading: they cancel",
            "Head 0 finds flag 1, head 1 finds flag 0: their columns of `Wk` differ.",
            Instead(keys=(1, 1)),
        ),
        Misconception(
            "after_only",
            "wrote the reading *after*; nothing is subtracted",
            "The second head's row of `Wo` is empty. It needs a -1.",
            Instead(signs=(1.0, 0.0)),
        ),
        Misconception(
            "too_soft",
            "subtracted weakened readings: each softmax gives the other reading a share",
            "Make the scores larger (or divide by what the shares leave, $p - q$).",
            Instead(loud=1.0),
        ),
    ),
    variants=(
        Variant("soft_heads_and_a_larger_w_o", _soft_but_scaled),
        Variant("minus_first", _change(keys=(0, 1), signs=(-1.0, 1.0))),
    ),
)


# ---------------------------------------------------------------------------------------------- what a head contributes


def _summands(draw: Draw) -> dict[str, object]:
    return {"C": draw.normal(2, 3, 5)}


def _more_summands(draw: Draw) -> dict[str, object]:
    H, n, width = draw.sizes(3, low=3, high=11)
    return {"C": draw.normal(H, n, width) * draw.uniform(H, 1, 1, low=0.3, high=3.0)}


def _leave_one_out(C):
    Y = C.sum(0)
    return torch.stack([(Y - (Y - c)).norm(dim=-1) / Y.norm(dim=-1) for c in C])


HEAD_SHARE = Exercise(
    "head_share",
    title="What would be missing?",
    points=1,
    reference=ref.head_share,
    tensors=True,
    tolerance=FLOAT32,
    kind="use",
    difficulty=2,
    minutes=6,
    cases=(Case("two heads, three tokens", _summands), Case("more heads", _more_summands)),
    hints=(
        "What is the output of the layer, made of the summands? And what would it be without head $h$?",
        "The difference of the two is $C_h$. Lengths are taken over the last axis, one per head and token.",
        "Two norms over the last axis: that of `C`, of shape (H, n), and that of the sum over the heads, of shape (n,). Broadcasting "
        "divides every head's row by the second.",
    ),
    misconceptions=(
        Misconception(
            "shares_that_sum_to_one",
            "divided by the sum of the lengths, so that shares sum to 1",
            "Divide by the length of the **output**, the sum of the vectors. Heads may point against each other.",
            lambda C: C.norm(dim=-1) / C.norm(dim=-1).sum(0),
        ),
        Misconception(
            "what_is_left",
            "measured what is *left* without the head, not what is missing",
            "What is missing is $C_h$ itself.",
            lambda C: (C.sum(0) - C).norm(dim=-1) / C.sum(0).norm(dim=-1),
        ),
        Misconception(
            "not_divided",
            "gave the lengths as they are, not divided by that of the output",
            "Divide by $|Y_i|$, the length of the sum over the heads.",
            lambda C: C.norm(dim=-1),
        ),
        Misconception(
            "squared",
            "divided squared lengths",
            "Lengths, not their squares: `norm(dim=-1)`.",
            lambda C: (C**2).sum(-1) / (C.sum(0) ** 2).sum(-1),
        ),
        Misconception(
            "mean_for_sum",
            "divided by the length of the *mean* over the heads",
            "The output is the sum of the summands.",
            lambda C: C.norm(dim=-1) / C.mean(0).norm(dim=-1),
        ),
    ),
    variants=(Variant("leave_one_out", _leave_one_out),),
)
