"""Heads with positions: one to be repaired, one to be designed, and what trained ones look at."""

import math

import numpy as np
import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Of, Property, Variant
from course.exercises.positions import probes
from course.exercises.positions.rotary import ROTATION
from solutions import positions as ref

# ---------------------------------------------------------------------------------------------- repair


def _layer(n: int, d_model: int, H: int, d_k: int, d_v: int, *, lead: tuple[int, ...] = (), rising: bool = True):
    def make(draw: Draw):
        narrow = d_model**-0.5
        return {
            "X": draw.normal(*lead, n, d_model),
            "Wq": draw.normal(d_model, H * d_k, scale=2 * narrow),
            "Wk": draw.normal(d_model, H * d_k, scale=narrow),
            "Wv": draw.normal(d_model, H * d_v, scale=narrow),
            "Wo": draw.normal(H * d_v, d_model, scale=(H * d_v) ** -0.5),
            "H": H,
            "pos": probes.positions(draw, n) if rising else probes.positions(draw, n)[::-1].copy(),
        }

    return make


def _split(X, H):
    return X.unflatten(-1, (H, -1)).transpose(-3, -2)


def _merge(Y):
    return Y.transpose(-3, -2).flatten(-2)


def _every_hth_column(X, H):
    """Head h gets the columns h, h + H, h + 2 H, …"""
    return X.unflatten(-1, (-1, H)).movedim(-1, -3)


def _woven(Y):
    return Y.movedim(-3, -1).flatten(-2)


def _cut_elsewhere(X, H):
    """Rows cut into heads by a reshape alone: tokens and heads are mixed up."""
    return X.reshape(*X.shape[:-2], H, X.shape[-2], -1)


def _merged_without_transpose(Y):
    return Y.reshape(*Y.shape[:-3], Y.shape[-2], -1)


def _rotary(
    *, turn_q=True, turn_k=True, turn_v=False, keep=lambda n: torch.ones(n, n).tril() > 0, width=lambda d, X, H: d,
    order="split", rope=ref.apply_rope, split=_split, merge=_merge,
):  # fmt: skip
    """Causal heads with one part replaced by a mistake."""

    def answer(X, Wq, Wk, Wv, Wo, H, pos):
        turns = turn_q, turn_k, turn_v
        if order == "turn":  # as found: turned before the features are split into heads
            parts = [split(rope(X @ W, pos) if t else X @ W, H) for W, t in zip((Wq, Wk, Wv), turns, strict=True)]
        else:
            parts = [rope(split(X @ W, H), pos) if t else split(X @ W, H) for W, t in zip((Wq, Wk, Wv), turns, strict=True)]
        Q, K, V = parts
        S = Q @ K.mT / math.sqrt(width(Q.shape[-1], X, H))
        A = torch.softmax(S.masked_fill(~keep(X.shape[-2]), -math.inf), dim=-1)
        return merge(A @ V) @ Wo, A

    return answer


def _one_head_after_another(X, Wq, Wk, Wv, Wo, H, pos):
    keep = torch.ones(len(pos), len(pos)).tril() > 0
    O, A = [], []
    for wq, wk, wv in zip(Wq.chunk(H, 1), Wk.chunk(H, 1), Wv.chunk(H, 1), strict=True):
        q, k = ref.apply_rope(X @ wq, pos), ref.apply_rope(X @ wk, pos)
        S = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -math.inf)
        A.append(torch.softmax(S, dim=-1))
        O.append(A[-1] @ (X @ wv))
    return torch.cat(O, dim=-1) @ Wo, torch.stack(A, dim=-3)


def _builtin(X, Wq, Wk, Wv, Wo, H, pos):
    Q, K, V = (_split(X @ W, H) for W in (Wq, Wk, Wv))
    Q, K = ref.apply_rope(Q, pos), ref.apply_rope(K, pos)
    eye = torch.eye(len(pos), dtype=X.dtype).expand(*Q.shape[:-1], -1)
    A = torch.nn.functional.scaled_dot_product_attention(Q, K, eye, is_causal=True)
    return _merge(A @ V) @ Wo, A


def _turned_before_the_transpose(X, Wq, Wk, Wv, Wo, H, pos):
    """Right too: heads inside, and positions with an axis for them."""
    Q, K = (ref.apply_rope((X @ W).unflatten(-1, (H, -1)), pos[:, None]).transpose(-3, -2) for W in (Wq, Wk))
    return _builtin_from(Q, K, _split(X @ Wv, H), Wo)


def _builtin_from(Q, K, V, Wo):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    A = torch.softmax(S + torch.full_like(S, -math.inf).triu(1), dim=-1)
    return _merge(A @ V) @ Wo, A


ROTARY_MHA = Exercise(
    "rotary_mha",
    title="Find the bug: heads with rotary positions",
    points=2,
    reference=ref.rotary_mha,
    recipe=Made(_rotary),
    tensors=True,
    tolerance=ROTATION,
    kind="bug",
    difficulty=3,
    minutes=9,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    cases=(
        Case("three tokens, two heads", _layer(3, 5, 2, 4, 6), grad=("X",)),
        Case("three heads", _layer(5, 7, 3, 6, 4)),
        Case("a batch", _layer(4, 6, 3, 4, 2, lead=(2,))),
        Case("positions that fall", _layer(4, 5, 2, 4, 6, rising=False), edge=0.1),
    ),
    hints=(
        "Every line is right by itself. Follow one number: with which angle does the first feature of head 1 turn?",
        "The frequencies are $b^{-2i/d}$, and $d$ is the width of what is handed to `apply_rope`. Which width is it here, and "
        "which should it be?",
        "Change the order of two steps: what `apply_rope` receives must already have the shape (..., H, n, d_k). The values do not "
        "turn.",
    ),
    misconceptions=(
        Misconception(
            "as_found",
            "turn with the angles of the given code: the first feature of head 1 turns more slowly than the first of head 0",
            "Every head has all of its clocks, fast ones and slow ones. Which width does `apply_rope` see, and which should it?",
            Instead(order="turn"),
        ),
        Misconception(
            "values_turned",
            "turned the values as well",
            "Only queries and keys turn: nothing undoes a turn in a sum of values.",
            Instead(turn_v=True),
        ),
        Misconception(
            "queries_only",
            "turned the queries and not the keys",
            "The turns leave a difference only if both are turned.",
            Instead(turn_k=False),
        ),
        Misconception(
            "positions_ignored",
            "numbered the rows 0, 1, 2, … and did not look at `pos`",
            "A row's place in the tensor is not its position in the text. Hand `pos` on to `apply_rope`.",
            Before(lambda pos, **_: {"pos": torch.arange(len(pos))}),
        ),
        Misconception(
            "nothing_turned",
            "turned nothing any more",
            "Queries and keys turn, each head by itself.",
            Instead(turn_q=False, turn_k=False),
        ),
        Misconception(
            "mask_lost",
            "lost the mask: your rows look at later rows",
            "Keep the line with `tril`: row $i$ looks at the rows up to $i$.",
            Instead(keep=lambda n: torch.ones(n, n) > 0),
        ),
        Misconception(
            "mask_of_positions",
            "compared the positions in the mask: a row then sees those that stand further left in the text, not the rows up to its own",
            "Row $i$ looks at the *rows* up to $i$, wherever they stand: `tril()` of the row numbers.",
            Instead(keep=Of(lambda pos, **_: lambda n: pos[:, None] >= pos[None, :])),
        ),
        Misconception(
            "mask_without_itself",
            "forbade each row to look at itself; the first row then has nothing to look at",
            "Row $i$ looks at the rows **up to** $i$: `tril()`, without `diagonal=-1`.",
            Instead(keep=lambda n: torch.ones(n, n).tril(-1) > 0),
        ),
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled by the width of the tokens",
            "A head's score is a sum over its own $d_k$ features: divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: X.shape[-1]),
        ),
        Misconception(
            "scaled_by_all_heads",
            "divided the scores by the root of the width of all heads together",
            "A head's score is a sum over its own $d_k$ features: divide by $\\sqrt{d_k}$.",
            Instead(width=lambda d, X, H: H * d),
        ),
        Misconception(
            "half_split",
            "turned queries and keys in the half-split layout: feature $i$ of a head with feature $i + d/2$",
            "Neighbours form a pair here, the features $2i$ and $2i + 1$ of a head: `apply_rope` turns them.",
            Instead(rope=ref.rotate_half_rope),
        ),
        Misconception(
            "every_hth_column",
            "gave a head every $H$-th feature: those of the heads are side by side",
            "Cut a row into `(H, -1)`, in this order: head 0 has the first $d_k$ features, head 1 the next.",
            Instead(split=_every_hth_column),
            also=(Instead(split=_every_hth_column, merge=_woven),),
        ),
        Misconception(
            "cut_without_transpose",
            "cut the rows into heads by a reshape alone: that mixes up tokens and heads",
            "Cut the last axis into (H, width), and then exchange the axes of tokens and heads.",
            Instead(split=_cut_elsewhere),
            also=(Instead(split=_cut_elsewhere, merge=_merged_without_transpose),),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up tokens and heads",
            "First bring the axis of the heads behind that of the tokens, (…, n, H, d_v), and then flatten the last two.",
            Instead(merge=_merged_without_transpose),
        ),
    ),
    variants=(
        Variant("one_head_after_another", _one_head_after_another),
        Variant("builtin_attention", _builtin),
        Variant("turned_before_the_transpose", _turned_before_the_transpose),
    ),
)


# ---------------------------------------------------------------------------------------------- design


def _steps(low: int, high: int, d: int):
    return lambda draw: {"steps": draw.integer(low, high), "d": d}


def _constant(turn, length: float = 8.0):
    """A query turned by `turn(steps)` tokens against a key that is the same everywhere, `length` in every entry."""

    def answer(steps, d):
        key = torch.full((1, d), length, dtype=torch.float64)
        return ref.apply_rope(key, torch.tensor([turn(steps)], dtype=torch.float64))[0], key[0]

    return answer


def _key_turned_instead(steps, d):
    query, key = _constant(lambda s: s)(steps, d)
    return key, query


def _query_turned_by_halves(steps, d):
    key = torch.full((1, d), 8.0, dtype=torch.float64)
    return ref.rotate_half_rope(key, torch.tensor([-steps], dtype=torch.float64))[0], key[0]


def _key_turned_by_halves(steps, d):
    query = 8.0 * (torch.arange(d) < d // 2).double()[None]
    return query[0], ref.rotate_half_rope(query, torch.tensor([steps], dtype=torch.float64))[0]


def _fast_pairs_only(steps, d):
    query, key = _constant(lambda s: -s, 8.0)(steps, d)
    half = torch.arange(d) < d // 2
    return 3 * query * half, key * half


def _random_key(steps, d):
    signs = torch.where(torch.arange(d) % 3 == 0, -9.0, 8.0).double()[None]
    return ref.apply_rope(signs, torch.tensor([-steps]).double())[0], signs[0]


LOOK_BACK = Exercise(
    "look_back",
    title="Design a head that looks back",
    points=2,
    reference=ref.look_back,
    tensors=True,
    kind="design",
    behaviour="attention_course.designs:looks_back",
    difficulty=3,
    minutes=12,
    cases=(
        Case("one token back", lambda draw: {"steps": 1, "d": 32}),
        Case("some tokens back", _steps(2, 4, 32)),
        Case("further, in a wider head", _steps(5, 7, 64)),
    ),
    hints=(
        "Where does a query look that equals the key? Both then turn together. By how much must it be turned beforehand so that it "
        "falls on a key that stands behind?",
        "The score at positions $i$ and $j$ is $q \\cdot R_{j-i}\\,k$. It is largest where $R_{j-i}\\,k$ points along $q$. You want "
        "this at $j - i = -s$. And long vectors make a softmax decide.",
        "Choose any key with large entries, all 8 for instance. The query is that key, turned by `apply_rope` to one position: "
        "which one, and with which sign?",
    ),
    misconceptions=(
        Misconception(
            "looks_at_itself",
            "gave query and key the same direction: the head looks at its own token",
            "At offset 0 both have turned alike. Turn the query beforehand, by the offset that you want.",
            _constant(lambda s: 0),
        ),
        Misconception(
            "looks_ahead",
            "turned query and key against each other the wrong way round: the head looks as far *ahead*",
            "A key `steps` back has turned **less** than your query. So the query starts behind, at position `-steps`, or the key ahead, at `steps`.",
            _constant(lambda s: s),
        ),
        Misconception(
            "one_step_too_many",
            "turned by one token too many",
            "At offset 0 nothing is turned, so `steps` tokens back takes `steps` turns.",
            _constant(lambda s: -s - 1),
        ),
        Misconception(
            "too_soft",
            "found the right token, but the scores lie too close together: the softmax spreads its weight",
            "Scores grow with the product of the lengths: make the entries larger, 8 for instance. And let many pairs take part: fast ones tell a token from its neighbours, slower ones tell one turn of the fast from the next.",
            _constant(lambda s: -s, 1.0),
        ),
        Misconception(
            "half_split",
            "turned one of the two beforehand as the half-split layout would, and the head turns neighbours: the head looks elsewhere",
            "Here the features $2i$ and $2i + 1$ form a pair. `apply_rope` turns them so; by hand, let cosine and sine take turns.",
            _query_turned_by_halves,
            also=(_key_turned_by_halves,),
        ),
    ),
    variants=(
        Variant("the_key_is_turned", _key_turned_instead),
        Variant("fast_pairs_only", _fast_pairs_only),
        Variant("another_key", _random_key),
    ),
)


# ---------------------------------------------------------------------------------------------- use


def _patterns(heads: int, n: int, low: int, high: int):
    def make(draw: Draw):
        A = draw.rng.random((heads, n, n)) ** 2 * np.tri(n)
        return {"A": A / A.sum(-1, keepdims=True), "period": draw.integer(low, high)}

    return make


def _of_rows(rows, found, n):
    return rows


def _of_found(rows, found, n):
    return found


def _of_all(rows, found, n):
    return n


def _roles(A, period, *, back=1, after=1, early=0, count=_of_rows, count_copies=None):
    """Mean weights `back` tokens before, and `after` the copy one period ago; from `early` rows before the first copy.

    Each is a sum divided by a `count` (of the second by another): of the rows, of those `found` to have such a token, of all `n`.
    """
    n, means = A.shape[-1], []
    for rows, offset, divisor in (
        (range(1, n), -back, count),
        (range(period - early, n), after - period, count_copies or count),
    ):
        weights = [A[:, i, i + offset] for i in rows if 0 <= i + offset < n]
        means.append(sum(weights) / divisor(len(rows), len(weights), n))
    return tuple(means)


def _but(**replaced):
    """The right two means, of which one is replaced."""

    def answer(A, period):
        right = dict(zip(("previous", "induction"), ref.head_roles(A, period), strict=True))
        return tuple((right | {name: make(A, period) for name, make in replaced.items()}).values())

    return answer


def _previous_of_the_first_axes(A, period):
    return A.diagonal(-1).mean(-1)


def _induction_of_the_first_axes(A, period):
    return A.diagonal(1 - period)[..., 1:].mean(-1)


def _diagonals(A, period):
    return A.diagonal(-1, -2, -1).mean(-1), A.diagonal(1 - period, -2, -1)[..., 1:].mean(-1)


def _masked(A, period):
    j = torch.arange(A.shape[-1])
    i = j[:, None]
    masks = j == i - 1, (j == i - period + 1) & (i >= period)
    return tuple((A * m).sum((-2, -1)) / m.sum() for m in masks)


HEAD_ROLES = Exercise(
    "head_roles",
    title="What does each head look at?",
    points=1,
    reference=ref.head_roles,
    recipe=_roles,
    tensors=True,
    kind="use",
    difficulty=2,
    minutes=10,
    cases=(
        Case("seven tokens, two heads", _patterns(2, 7, 3, 4)),
        Case("eleven tokens, five heads", _patterns(5, 11, 3, 7)),
    ),
    hints=(
        "The row is the token that looks. At which column stands the token before it? And the token that followed its last copy?",
        "The copy of row $i$ stands at $i - p$, so what followed it stands at $i - p + 1$. Only rows $i \\ge p$ have a copy.",
        "With `i = torch.arange(n)`, `A[:, i[1:], i[:-1]]` are the weights on the token before: one row index and one column "
        "index for each. The others are at the rows `i[period:]`; at which columns?",
    ),
    misconceptions=(
        Misconception(
            "the_copy_itself",
            "measured the weight on the earlier copy of the token, $i - p$, and not on what **followed** it",
            "What followed the copy stands one further on: $i - p + 1$.",
            Instead(after=0),
        ),
        Misconception(
            "before_the_copy",
            "measured the weight on the token **before** the earlier copy",
            "What followed stands at $i - p + 1$, not at $i - p - 1$.",
            Instead(after=-1),
            also=(Instead(after=-1, count_copies=_of_found),),
        ),
        Misconception(
            "itself_for_previous",
            "took the diagonal for the token before",
            "The diagonal is the token itself. The one before stands one column to the left: $j = i - 1$.",
            Instead(back=0),
        ),
        Misconception(
            "rows_and_columns_exchanged",
            "exchanged rows and columns: rows are the tokens that look",
            "The weight of token `i` on token `j` is `A[:, i, j]`.",
            Before(lambda A, **_: {"A": A.mT}),
        ),
        Misconception(
            "all_rows_counted",
            "divided by the number of all rows, also of those that have no token before or no earlier copy",
            "Row 0 does not count in the first mean, and rows below the period do not in the second.",
            Instead(count=_of_all),
            also=(Instead(count=_of_all, count_copies=_of_rows), Instead(count_copies=_of_all)),
        ),
        Misconception(
            "diagonal_of_the_first_axes",
            "took a diagonal of the *first* two axes, of heads and queries",
            "`diagonal` takes axes 0 and 1 unless you name two others: `dim1=-2, dim2=-1`.",
            _but(previous=_previous_of_the_first_axes),
            also=(
                _but(induction=_induction_of_the_first_axes),
                _but(previous=_previous_of_the_first_axes, induction=_induction_of_the_first_axes),
            ),
        ),
        Misconception(
            "a_whole_diagonal",
            "took one row too many for induction: row $p - 1$ looks at token 0 there, and has no earlier copy",
            "The first row with an earlier copy is row $p$: `A.diagonal(1 - period, -2, -1)[..., 1:]`.",
            Instead(early=1),
        ),
        Misconception(
            "order_exchanged",
            "returned the two means in the other order",
            "First the token before, then induction.",
            After(lambda out, **_: out[::-1]),
        ),
        Misconception(
            "two_after_the_copy",
            "measured the weight on the token **two** after the earlier copy",
            "What followed the copy at $i - p$ stands at $i - p + 1$.",
            Instead(after=2),
        ),
        Misconception(
            "two_before",
            "took the token two before for the one before",
            "The one before stands one column to the left: $j = i - 1$.",
            Instead(back=2),
            also=(Instead(back=2, count=_of_found, count_copies=_of_rows),),
        ),
        Misconception(
            "summed",
            "summed the weights over the rows and did not divide",
            "A mean weight lies between 0 and 1: `.mean(-1)` in place of `.sum(-1)`.",
            Instead(count=lambda rows, found, n: 1),
        ),
        Misconception(
            "averaged_over_the_heads",
            "averaged over the heads as well",
            "Each head has a role of its own: one number per head, so only the rows are averaged.",
            After(lambda out, **_: tuple(each.mean() for each in out)),
        ),
    ),
    variants=(
        Variant("diagonals", _diagonals),
        Variant("masks", _masked),
        Variant("row_by_row", _roles),
    ),
)

PREDICT_ABLATION = Exercise(
    "predict_ablation",
    title="Predict: one head of the first layer is switched off",
    points=0.5,
    minutes=2,
    choices={
        "a": "hardly anything: the copying is done in layer 1, and its heads are all still there",
        "b": "it rises somewhat: one head of eight is gone",
        "c": "it rises a great deal: without it the heads of layer 1 do not know where to look",
    },
    holds="c",
    reveal="**c.** A head of layer 1 looks for a token *whose predecessor* is the token it has just read. Who the predecessor was, the "
    "head of layer 0 wrote into every token. Without that, the head of layer 1 has nothing to find. Copying takes two heads in a "
    "row, which is why one layer cannot learn it.",
)
