"""Workshop 10c: what rotary positions do to absorbed attention, and how latents and values live with them."""

import math

import torch
from attention_course.toy_decoder import apply_rope

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from course.exercises.latent.positions import MLA_DECOUPLED
from course.exercises.latent.probes import top_left_weights
from solutions import latents_and_positions as ref
from solutions.latent import causal_weights

PREDICT_ROTATION = Prediction(
    "predict_rotation",
    title="Predict: the best single matrix",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "nearly all of it: 98 %",
        "b": "about half",
        "c": "about a fifth",
        "d": "nothing at all",
    },
    holds="c",
    reveal="**c**, 19 %. The fast pairs turn many times within 4,096 tokens, so their mean is nearly zero and nothing of them can be "
    "absorbed. RoPE's slowest pairs hardly move in that time, and a fixed matrix keeps most of them. With 8 tokens it would keep 87 %, "
    "so a demonstration on a short text can look harmless.",
)


# ---------------------------------------------------------------------------------------------- YaRN's factors


def _grown(a, factor, log=math.log):
    return 0.1 * a * log(factor) + 1.0


def _scaling(factor: float, mscale: float, mscale_all_dim: float):
    return lambda draw: {"factor": factor, "mscale": mscale, "mscale_all_dim": mscale_all_dim}


def _drawn_scaling(draw: Draw):
    return {
        "factor": float(draw.rng.uniform(3.0, 60.0)),
        "mscale": float(draw.rng.uniform(0.9, 1.6)),
        "mscale_all_dim": float(draw.rng.uniform(0.2, 0.7)),
    }


def _factors(
    *,
    log=math.log,
    content=lambda m, all_dim: all_dim**2,
    position=lambda m, all_dim: m**2,
    short=lambda m, all_dim, factor: 1.0 if factor <= 1 else None,
):
    """The pair with one part replaced by a mistake: each from g(mscale) and g(mscale_all_dim)."""

    def answer(factor, mscale, mscale_all_dim):
        m, all_dim = (_grown(a, factor, log) for a in (mscale, mscale_all_dim))
        fixed = short(m, all_dim, factor)
        if fixed is not None:
            m = all_dim = fixed
        return content(m, all_dim), position(m, all_dim)

    return answer


def _by_parts(factor, mscale, mscale_all_dim):
    g = [0.1 * a * math.log(max(factor, 1.0)) + 1.0 for a in (mscale, mscale_all_dim)]
    amplitude, scale = g[0] / g[1], g[1] * g[1]
    return scale, amplitude * amplitude * scale


SCORE_FACTORS = Exercise(
    "score_factors",
    title="Two parts, two factors",
    kind="use",
    points=1.5,
    difficulty=2,
    minutes=7,
    reference=ref.score_factors,
    recipe=Made(_factors),
    tolerance=Tolerance(rtol=1e-4, atol=0.0),
    outputs=(0.5, 0.5),
    cases=(
        Case("DeepSeek-V3", _scaling(40.0, 1.0, 1.0)),
        Case("the position part alone", _scaling(40.0, 1.0, 0.0)),
        Case("two settings that differ", _drawn_scaling),
        Case("two others", _drawn_scaling),
        Case("a text no longer than those of training", _scaling(0.5, 1.3, 0.4), edge=0.2),
    ),
    hints=(
        "The scale divides the sum of both parts, so both feel it. Which factors does a rotated query carry into its product with a rotated key?",
        "The content part feels the scale alone. The position part feels it too, and one factor from the query and one from the key "
        "besides. What remains when you multiply these three?",
        "With `a = g(mscale) / g(mscale_all_dim)` and `s = g(mscale_all_dim) ** 2`, the position part is multiplied by `a * a * s`, in "
        "which something cancels. Take care of a `factor` of at most 1.",
    ),
    misconceptions=(
        Misconception(
            "content_takes_mscale",
            "let `mscale` multiply the content part",
            "The content part is not rotated, so only the softmax scale reaches it, and that depends on `mscale_all_dim`.",
            Instead(content=lambda m, all_dim: m**2),
        ),
        Misconception(
            "content_left_alone",
            "left the content part as it is",
            "The softmax scale divides the sum of both parts, so its factor multiplies content as well.",
            Instead(content=lambda m, all_dim: 1.0),
        ),
        Misconception(
            "scale_forgotten_for_positions",
            "gave the position part the factors of query and key, and left out the softmax scale",
            "The scale acts on the sum of both parts. Multiply by $g(\\text{mscale\\_all\\_dim})^2$ as well.",
            Instead(position=lambda m, all_dim: (m / all_dim) ** 2),
        ),
        Misconception(
            "one_rotated_vector",
            "counted the factor of a rotated vector once, although query and key both carry it",
            "A score is a product of two rotated vectors, so $g(\\text{mscale}) / g(\\text{mscale\\_all\\_dim})$ enters twice.",
            Instead(position=lambda m, all_dim: m * all_dim),
        ),
        Misconception(
            "same_for_both",
            "gave the position part the factor of the content part",
            "This holds only where `mscale` and `mscale_all_dim` are equal, as in the released models. In general rotated vectors carry a "
            "factor of their own.",
            Instead(position=lambda m, all_dim: all_dim**2),
        ),
        Misconception(
            "not_squared",
            "took g once and not squared",
            "Both the scale and the pair of rotated vectors contain g twice.",
            Instead(content=lambda m, all_dim: all_dim, position=lambda m, all_dim: m),
        ),
        Misconception(
            "short_texts_scaled",
            "let a `factor` below 1 shrink the scores",
            "For a factor of at most 1 nothing is stretched, and g is 1.",
            Instead(short=lambda m, all_dim, factor: None),
        ),
        Misconception(
            "decimal_logarithm",
            "took the logarithm to base 10",
            "YaRN's formula has the natural logarithm, `math.log`.",
            Instead(log=math.log10),
        ),
    ),
    variants=(Variant("scale_and_amplitude", _by_parts),),
)


# ---------------------------------------------------------------------------------------------- rows that are rotated back


def _stored(heads: int, new: int, n: int, d: int):
    def make(draw: Draw):
        start = draw.integer(5, 60)
        rows = torch.as_tensor(draw.normal(n, d, scale=1.2))
        return {
            "Q": draw.normal(heads, new, d, scale=1.2),
            "rows": apply_rope(rows, start + torch.arange(n)).numpy(),
            "start": start,
        }

    return make


def _places(Q, rows, start):
    n = rows.shape[-2]
    return torch.arange(start + n - Q.shape[-2], start + n)


def _rotated(
    *,
    query=lambda Q, rows, start: _places(Q, rows, start),
    back=lambda Q, rows, start: -_places(Q, rows, start),
    keys=lambda rows, start: rows,
    values=lambda rows, start: rows,
    weigh=causal_weights,
    width=lambda d: d,
):
    """An answer with its own positions of queries and outputs (None: not rotated), keys, values, weights, or width under the root."""

    def answer(Q, rows, start):
        at, to = query(Q, rows, start), back(Q, rows, start)
        asks = Q if at is None else apply_rope(Q, at)
        A = weigh(asks @ keys(rows, start).mT / math.sqrt(width(Q.shape[-1])))
        out = A @ values(rows, start)
        return out if to is None else apply_rope(out, to)

    return answer


def _row_by_row(Q, rows, start):
    """Every row is rotated for each query, to its offset."""
    heads, new, d = Q.shape
    out = torch.zeros_like(Q)
    for i, p in enumerate(_places(Q, rows, start).tolist()):
        seen = rows[: len(rows) - new + i + 1]
        towards = apply_rope(seen, torch.full((len(seen),), -p))  # x_j R_(j-i): also what the plain query asks
        for h in range(heads):
            out[h, i] = torch.softmax(towards @ Q[h, i] / d**0.5, dim=0) @ towards
    return out


def _complex(Q, rows, start):
    """The rotation as a product of complex numbers."""
    d = Q.shape[-1]
    theta = 10_000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    turn = torch.exp(1j * _places(Q, rows, start)[:, None] * theta)
    q, x = (torch.view_as_complex(z.double().unflatten(-1, (-1, 2)).contiguous()) for z in (Q, rows))
    A = causal_weights(((q * turn) @ x.mH).real / d**0.5)
    out = (A.to(x.dtype) @ x) / turn
    return torch.view_as_real(out).flatten(-2).to(Q.dtype)


ATTEND_ROTATED = Exercise(
    "attend_rotated",
    title="Design: rotated rows as keys and values",
    kind="design",
    points=2,
    difficulty=3,
    minutes=10,
    reference=ref.attend_rotated,
    recipe=Made(_rotated),
    tensors=True,
    cases=(
        Case("one new token after two", _stored(2, 1, 3, 4)),
        Case("a few new tokens", _stored(3, 2, 11, 10)),
        Case("a whole text", _stored(2, 7, 7, 6), edge=0.2),
    ),
    hints=(
        "A rotation is linear, so it can be pulled out of a sum, as $W_{UV}$ was in 10b. Write $R_{j-i}$ as a product of two rotations.",
        "$R_{j-i} = R_j R_{-i}$, and row $j$ already contains $R_j$. The other rotation is the same for all $j$, so it can wait until "
        "after the average.",
        "Three steps: weights from the rotated queries and the rows, averages of the rows as they are, and one rotation of each "
        "average. By which position is each of them rotated, and in which direction?",
    ),
    misconceptions=(
        Misconception(
            "not_turned_back",
            "averaged the rotated rows and left the average rotated, so the output depends on where the text begins",
            "Rotate each average back by the position of its query.",
            Instead(back=lambda Q, rows, start: None),
        ),
        Misconception(
            "turned_on",
            "rotated the averages on by the query's position and not back",
            "$R_{j-i} = R_j R_{-i}$ needs the negative position.",
            Instead(back=lambda Q, rows, start: _places(Q, rows, start)),
        ),
        Misconception(
            "turned_back_from_zero",
            "rotated the averages back by 0, 1, 2, … and not by the positions of their queries",
            "The queries belong to the last of the tokens, and the first token stands at `start`.",
            Instead(back=lambda Q, rows, start: -torch.arange(Q.shape[-2])),
        ),
        Misconception(
            "start_forgotten",
            "counted the positions of the queries from 0, although the text begins at `start`",
            "The last token stands at `start + n - 1`, where `n` is the number of rows.",
            Instead(
                query=lambda Q, rows, start: _places(Q, rows, 0),
                back=lambda Q, rows, start: -_places(Q, rows, 0),
            ),
        ),
        Misconception(
            "queries_at_the_start",
            "gave the queries the first positions, from `start` on, although they belong to the last tokens",
            "With `n` rows and `new` queries the first query stands at `start + n - new`.",
            Instead(
                query=lambda Q, rows, start: start + torch.arange(Q.shape[-2]),
                back=lambda Q, rows, start: -(start + torch.arange(Q.shape[-2])),
            ),
        ),
        Misconception(
            "query_not_rotated",
            "did not rotate the queries, so the scores depend on the positions of the keys alone",
            "Rotate `Q` to the positions of its tokens before the product with the rows.",
            Instead(query=lambda Q, rows, start: None),
        ),
        Misconception(
            "rows_rotated_again",
            "rotated the rows once more, although they are stored rotated",
            "Use `rows` as they are. Only queries and averages need a rotation.",
            Instead(
                keys=lambda rows, start: apply_rope(rows, start + torch.arange(len(rows))),
                values=lambda rows, start: apply_rope(rows, start + torch.arange(len(rows))),
            ),
        ),
        Misconception(
            "offsets_lost",
            "averaged the rows without any rotation: that is also the same at every `start`, and it loses the offsets in the values",
            "The task wants $x_j R_{j-i}$ and not $x_j$. It takes one rotation for each query, and none for the rows.",
            Instead(
                values=lambda rows, start: apply_rope(rows, -(start + torch.arange(len(rows)))),
                back=lambda Q, rows, start: None,
            ),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d}$",
            "Divide the scores by $\\sqrt{d}$ before the softmax.",
            Instead(width=lambda d: 1),
        ),
        Misconception(
            "not_causal",
            "let the first of the new tokens attend to the later ones",
            "Use `causal_weights`, whose queries are the last of the tokens.",
            Instead(weigh=lambda S: torch.softmax(S, dim=-1)),
        ),
        Misconception(
            "mask_from_the_start",
            "aligned the causal mask to the first token, so new tokens don't see most of the text",
            "The queries are the last of the tokens, and `causal_weights` takes care of that.",
            Instead(weigh=top_left_weights),
        ),
    ),
    variants=(Variant("row_by_row", _row_by_row), Variant("complex_numbers", _complex)),
)

EXERCISES = (PREDICT_ROTATION, MLA_DECOUPLED, SCORE_FACTORS, ATTEND_ROTATED)
