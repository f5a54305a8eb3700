"""Workshop 13b: a state of fixed size, what it can hold, how it is written to, and chunks."""

import math

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from solutions import a_state_instead_of_a_cache as ref


def _tokens(n: int, d_k: int, d_v: int):
    def make(draw: Draw):
        return {"Q": draw.normal(n, d_k), "K": draw.normal(n, d_k), "V": draw.normal(n, d_v)}

    return make


def _many_tokens(draw: Draw):
    """700 tokens: their (n, n) matrix has 40 times the bytes of the inputs, all states one after the other 5 times."""
    return {"Q": draw.normal(700, 16), "K": draw.normal(700, 16, scale=0.05), "V": draw.normal(700, 16)}


def _with_a_state(
    *,
    write=lambda S, k, v: S + k[:, None] * v,
    read=lambda q, before, after, i: q @ after,
    start=lambda K, V: V.new_zeros(K.shape[-1], V.shape[-1]),
):
    """Linear attention with one part replaced by a mistake."""

    def answer(Q, K, V):
        S = start(K, V)
        O = torch.empty_like(V)
        for i in range(len(Q)):
            before, S = S, write(S, K[i], V[i])
            O[i] = read(Q[i], before, S, i)
        return O

    return answer


def _the_matrix(Q, K, V):
    return (Q @ K.mT).tril() @ V


def _all_states(Q, K, V):
    return torch.einsum("nk,nkv->nv", Q, (K[:, :, None] * V[:, None, :]).cumsum(0))


def _softmax_kept(Q, K, V):
    keep = torch.ones(len(Q), len(K), dtype=torch.bool).tril()
    return torch.softmax((Q @ K.mT).masked_fill(~keep, -math.inf), -1) @ V


def _not_causal(Q, K, V):
    return Q @ (K.mT @ V)


def _in_chunks(Q, K, V):
    S, out = V.new_zeros(K.shape[-1], V.shape[-1]), []
    for q, k, v in zip(Q.split(8), K.split(8), V.split(8), strict=True):
        out.append(q @ S + (q @ k.mT).tril() @ v)
        S = S + k.mT @ v
    return torch.cat(out)


def _in_place(Q, K, V):
    S = torch.zeros(K.shape[1], V.shape[1], dtype=V.dtype)
    rows = []
    for q, k, v in zip(Q, K, V, strict=True):
        S += torch.outer(k, v)
        rows.append(q @ S)
    return torch.stack(rows)


LINEAR_ATTENTION = Exercise(
    "linear_attention",
    title="Move two brackets",
    points=1.5,
    difficulty=2,
    minutes=5,
    search=0.3,
    tensors=True,
    reference=ref.linear_attention,
    recipe=Made(_with_a_state),
    tolerance=Tolerance(rtol=1e-4, atol=1e-4),  # sums of 700 products in float32, in another order
    cases=(
        Case("three tokens of one number", _tokens(3, 1, 1)),
        Case("more tokens", _tokens(11, 3, 5)),
        Case("a chunk and a half", _tokens(13, 5, 2)),
        Case("700 tokens, without room for their matrix", _many_tokens, edge=0.3, room=2.0),
    ),
    hints=(
        "Write down o₃ as a sum of three terms. Each term is a product of q₃, a key and a value. Which two of the three can be multiplied "
        "before the query is known?",
        "(q · k) v is the same as q (k vᵀ), and k vᵀ is a matrix with d_k rows and d_v columns. All earlier tokens enter only through the "
        "sum of these matrices.",
        "Start with zeros of shape (d_k, d_v). For each token, first add the outer product of its key and its value, "
        "`K[i, :, None] * V[i]`. Then multiply its query by the sum.",
    ),
    misconceptions=(
        Misconception(
            "too_much_memory",
            "built the whole matrix of scores, or kept the states of all tokens at once",
            "The values are right, but your memory grows with the text by too much. Keep one state of d_k × d_v numbers and overwrite it.",
            _the_matrix,
            also=(_all_states,),
            raises=True,
        ),
        Misconception(
            "softmax_kept",
            "kept the softmax",
            "The weights are the bare scores here. A softmax ties all keys of a query together, so no bracket can move.",
            _softmax_kept,
        ),
        Misconception(
            "scores_scaled",
            "divided by the root of d_k",
            "The weights are the bare dot products.",
            After(lambda O, Q, K, V: O / math.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "reads_before_it_writes",
            "let each token read before it has written, so that it misses its own value",
            "The sum runs over j ≤ i, so token i counts itself. Write first and read afterwards.",
            Instead(read=lambda q, before, after, i: q @ before),
        ),
        Misconception(
            "not_causal",
            "let every token read the state after the last one",
            "Token i may read what the tokens up to i have written, and nothing later.",
            _not_causal,
        ),
        Misconception(
            "last_write_only",
            "replaced the state instead of adding to it",
            "The state is the sum over all tokens so far.",
            Instead(write=lambda S, k, v: k[:, None] * v),
        ),
        Misconception(
            "mean_of_writes",
            "divided by the number of tokens so far",
            "The state is a sum and not a mean.",
            Instead(read=lambda q, before, after, i: q @ after / (i + 1)),
        ),
    ),
    variants=(Variant("in_chunks", _in_chunks), Variant("in_place", _in_place)),
)


def _noise(*, pairs=lambda pairs: pairs - 1, d=lambda d: d):
    """The crosstalk with one part replaced by a mistake."""

    def answer(**given):
        return pairs(given["pairs"]) / d(given["d"])

    return answer


CROSSTALK = Exercise(
    "crosstalk",
    title="Estimate: what else do you read?",
    kind="estimate",
    points=1,
    difficulty=3,
    minutes=6,
    reference=ref.crosstalk,
    recipe=Made(_noise),
    tolerance=Tolerance(rtol=1e-6, atol=1e-9),  # a ratio of two counts
    cases=(
        Case("two pairs, four numbers", lambda draw: {"pairs": 2, "d": 4}),
        Case("the state of the experiment", lambda draw: {"pairs": 32, "d": 32}),
        Case("another state", lambda draw: {"pairs": draw.integer(20, 90), "d": draw.integer(9, 70)}),
        Case("one pair", lambda draw: {"pairs": 1, "d": draw.integer(5, 50)}, edge=0.2),
    ),
    hints=(
        "Read with k₁. What does the pair (k₁, v₁) contribute, and what does the pair (k₂, v₂) contribute?",
        "Pair j contributes (k₁ · kⱼ) vⱼ. What is the mean of (k₁ · kⱼ)² for two random unit vectors? The squared cosines of a unit vector "
        "with the d axes sum to 1.",
        "Each wrong pair adds a vector of mean squared length |v|²/d. Directions are random, so squared lengths add up. How many wrong "
        "pairs are there?",
    ),
    misconceptions=(
        Misconception(
            "own_pair_counted",
            "counted the pair that was asked for as noise",
            "The pair itself contributes exactly v. Only the other pairs are noise.",
            Instead(pairs=lambda pairs: pairs),
        ),
        Misconception(
            "root_of_d",
            "took the size of a cosine, 1/√d, instead of its square",
            "The question asks for squared lengths, and the mean squared cosine is 1/d.",
            Instead(d=lambda d: math.sqrt(d)),
        ),
        Misconception(
            "length_not_squared",
            "took the square root at the end",
            "The question asks for the squared length of the error.",
            After(lambda out, **_: math.sqrt(out)),
        ),
        Misconception(
            "size_of_the_state",
            "divided by the d² numbers of the state",
            "What counts is how far random keys are from right angles, and their mean squared cosine is 1/d.",
            Instead(d=lambda d: d * d),
        ),
        Misconception(
            "pairs_of_pairs",
            "counted all pairs of keys",
            "You read with one key, so only its products with the other keys matter.",
            Instead(pairs=lambda pairs: pairs * (pairs - 1) / 2),
        ),
        Misconception(
            "signal_to_noise",
            "returned the signal divided by the noise",
            "The noise belongs above the line.",
            lambda pairs, d: d / (pairs - 1) if pairs > 1 else math.inf,
        ),
    ),
    variants=(Variant("one_by_one", lambda pairs, d: math.fsum(1 / d for _ in range(pairs - 1))),),
)


def _unit(draw: Draw, *shape: int):
    k = draw.normal(*shape)
    return k / np.linalg.norm(k, axis=-1, keepdims=True)


def _write(d_k: int, d_v: int, b: float | None = None, *, axis: bool = False):
    def make(draw: Draw):
        return {
            "S": draw.normal(d_k, d_v),
            "k": np.eye(d_k)[0] if axis else _unit(draw, d_k),
            "v": draw.normal(d_v),
            "b": float(draw.rng.uniform(0.3, 0.8)) if b is None else b,
        }

    return make


def _rewrite(
    *,
    old=lambda S, k: k @ S,
    wanted=lambda v, old: v - old,
    keep=lambda S, k, b: S,
    strength=lambda b: b,
):
    """The delta rule with one part replaced by a mistake."""

    def answer(S, k, v, b):
        return keep(S, k, b) + strength(b) * k[:, None] * wanted(v, old(S, k))

    return answer


def _as_a_projection(S, k, v, b):
    return (torch.eye(len(k), dtype=S.dtype) - b * torch.outer(k, k)) @ S + b * torch.outer(k, v)


def _in_two_steps(S, k, v, b):
    old = (S * k[:, None]).sum(0)
    new = (1 - b) * old + b * v
    return S - torch.outer(k, old) + torch.outer(k, new)


DELTA_WRITE = Exercise(
    "delta_write",
    title="Design: a write that replaces",
    kind="design",
    points=2,
    difficulty=3,
    minutes=7,
    search=0.3,
    tensors=True,
    reference=ref.delta_write,
    recipe=Made(_rewrite),
    cases=(
        Case("a key along the first axis", _write(2, 1, 1.0, axis=True)),
        Case("another key", _write(5, 3)),
        Case("a wider state", _write(7, 11)),
        Case("nothing written", _write(3, 2, 0.0), edge=0.1),
        Case("all replaced", _write(5, 2, 1.0), edge=0.2),
    ),
    hints=(
        "Reading with k gives `k @ S` before the write. By which vector does this reading have to change?",
        "The change is b (v − kᵀS). Which matrix adds exactly this vector to a reading with k, and nothing to a reading with a query at "
        "right angles to k?",
        "The outer product of k and a vector u reads as (q · k) u, and k · k is 1. Add it to S, with u from the second hint.",
    ),
    misconceptions=(
        Misconception(
            "plain_sum",
            "added the new value without taking the old one away",
            "Reading with k would give the old value plus b v. Take what is there already, `k @ S`, away from v.",
            Instead(wanted=lambda v, old: v),
        ),
        Misconception(
            "error_added",
            "added what was there instead of taking it away",
            "The reading should move from the old value towards v, so the error is v minus the old reading.",
            Instead(wanted=lambda v, old: v + old),
        ),
        Misconception(
            "all_of_the_state_shrunk",
            "shrank the whole state, so other keys lose their values as well",
            "A query at right angles to k has to read what it read before. Change S only along k.",
            Instead(keep=lambda S, k, b: (1 - b) * S, wanted=lambda v, old: v),
        ),
        Misconception(
            "strength_forgotten",
            "replaced the whole value whatever b is",
            "With b = 1/2 the new reading lies halfway between the old value and v.",
            Instead(strength=lambda b: 1.0),
        ),
        Misconception(
            "erased_in_full",
            "erased the old value completely and wrote b times the new one",
            "A share of 1 − b of the old value stays.",
            lambda S, k, v, b: S - k[:, None] * (k @ S) + b * k[:, None] * v,
        ),
        Misconception(
            "written_in_full",
            "erased a share b of the old value and wrote the whole new one",
            "The new value counts b, so both parts carry the factor b.",
            lambda S, k, v, b: S - b * k[:, None] * (k @ S) + k[:, None] * v,
        ),
        Misconception(
            "fades_and_corrects",
            "shrank the state and corrected it as well",
            "The correction already takes the old value away along k. Leave the rest of S alone.",
            Instead(keep=lambda S, k, b: (1 - b) * S),
        ),
        Misconception(
            "only_the_change",
            "returned what has to be added to the state",
            "Return the new state, which is S plus this change.",
            Instead(keep=lambda S, k, b: 0 * S),
        ),
        Misconception(
            "projection_of_the_values",
            "took the mean over the features of the state for the old value",
            "What k reads is kᵀS, one number for each feature of a value.",
            Instead(old=lambda S, k: S.mean(0)),
        ),
    ),
    variants=(Variant("as_a_projection", _as_a_projection), Variant("in_two_steps", _in_two_steps)),
)


def _chunk(n: int, d_k: int, d_v: int, *lead: int, empty: bool = False):
    def make(draw: Draw):
        return {
            "S": draw.normal(*lead, d_k, d_v) * (0.0 if empty else 1.0),
            "Q": draw.normal(*lead, n, d_k),
            "K": _unit(draw, *lead, n, d_k),
            "V": draw.normal(*lead, n, d_v),
            "b": draw.uniform(*lead, n, low=0.2, high=0.95),
        }

    return make


def _solved(
    *,
    rows=lambda b: b[..., None],
    below=-1,
    sign=1,
    wanted=lambda K, V, S: V - K @ S,
    right=lambda b, wanted: b[..., None] * wanted,
    seen=lambda A: A.tril(),
    before=lambda Q, S: Q @ S,
    state=lambda S, K, U, V: S + K.mT @ U,
):
    """A chunk of the delta rule with one part replaced by a mistake."""

    def answer(S, Q, K, V, b):
        earlier = (rows(b) * (K @ K.mT)).tril(below)
        system = sign * earlier + torch.eye(K.shape[-2], dtype=K.dtype)
        U = torch.linalg.solve(system, right(b, wanted(K, V, S)))
        return before(Q, S) + seen(Q @ K.mT) @ U, state(S, K, U, V)

    return answer


def _first_order(S, Q, K, V, b):
    earlier = (b[..., None] * (K @ K.mT)).tril(-1)
    wanted = b[..., None] * (V - K @ S)
    U = wanted - earlier @ wanted
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def _writes_alone(S, Q, K, V, b):
    U = b[..., None] * (V - K @ S)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def _with_an_inverse(S, Q, K, V, b):
    n = K.shape[-2]
    A = torch.eye(n, dtype=K.dtype) + torch.einsum("...i,...id,...jd->...ij", b, K, K).tril(-1)
    U = torch.linalg.inv(A) @ (b[..., None] * (V - K @ S))
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def _token_after_token(S, Q, K, V, b):
    out = []
    for i in range(K.shape[-2]):
        k, error = K[..., i, :, None], V[..., i, None, :] - K[..., i, None, :] @ S
        S = S + b[..., i, None, None] * k * error
        out.append(Q[..., i, None, :] @ S)
    return torch.cat(out, -2), S


DELTA_CHUNK = Exercise(
    "delta_chunk",
    title="All tokens of a chunk at once",
    points=2.5,
    difficulty=4,
    minutes=11,
    search=0.15,
    tensors=True,
    reference=ref.delta_chunk,
    recipe=Made(_solved),
    outputs=(0.5, 0.3),
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # a system of equations, solved in float32
    cases=(
        Case("two tokens", _chunk(2, 3, 1, empty=True)),
        Case("a chunk after others", _chunk(7, 5, 3)),
        Case("in double precision", _chunk(13, 5, 2), double=True),
        Case("a batch", _chunk(5, 3, 2, 2), edge=0.2),
    ),
    hints=(
        "Write the equations of u₁, u₂ and u₃ below each other and move everything unknown to the left. Which matrix stands before the "
        "column of the u's?",
        "Row i has a 1 on the diagonal and bᵢ (kᵢ · kⱼ) in each earlier column j. The right-hand side is bᵢ (vᵢ − kᵢᵀS). "
        "`torch.linalg.solve_triangular(A, B, upper=False)` solves A U = B.",
        "With U known, the delta rule has become a plain sum in which token j writes kⱼ uⱼᵀ. So read the old state, add what "
        "tokens up to your own have written, as in linear attention, and return S plus all writes.",
    ),
    misconceptions=(
        Misconception(
            "writes_dont_see_each_other",
            "computed each error from the state before the chunk, so tokens of a chunk don't correct each other",
            "Token i sees what tokens j < i of the same chunk have written. This is what the system of equations is for.",
            _writes_alone,
        ),
        Misconception(
            "first_order",
            "put the first guess for U back once instead of solving the equations",
            "The correction changes later corrections in turn. Solve the triangular system.",
            _first_order,
        ),
        Misconception(
            "sign_of_the_system",
            "moved the earlier writes to the left without changing their sign",
            "uᵢ = bᵢ(vᵢ − kᵢᵀS) − bᵢ Σ (kᵢ · kⱼ) uⱼ. On the left the sum is added.",
            Instead(sign=-1),
        ),
        Misconception(
            "strength_of_the_column",
            "multiplied the products of keys by the strength of the earlier token",
            "Row i of the system carries its own bᵢ.",
            Instead(rows=lambda b: b[..., None, :]),
        ),
        Misconception(
            "strength_forgotten_on_the_left",
            "left the strengths out of the matrix of the system",
            "Both terms of uᵢ are multiplied by bᵢ.",
            Instead(rows=lambda b: torch.ones_like(b)[..., None]),
        ),
        Misconception(
            "strength_forgotten_on_the_right",
            "left the strengths out of the right-hand side",
            "Both terms of uᵢ are multiplied by bᵢ.",
            Instead(right=lambda b, wanted: wanted),
        ),
        Misconception(
            "itself_counted",
            "counted each token among the tokens before it",
            "Only tokens j < i come earlier. Cut the products off below the diagonal with `.tril(-1)`.",
            Instead(below=0),
        ),
        Misconception(
            "old_state_not_erased",
            "left what the old state holds out of the errors",
            "The error of token i is vᵢ − kᵢᵀS minus what earlier tokens of the chunk have changed.",
            Instead(wanted=lambda K, V, S: V),
        ),
        Misconception(
            "old_state_not_read",
            "read only what this chunk has written",
            "The output also contains the old state, `Q @ S`.",
            Instead(before=lambda Q, S: 0.0),
        ),
        Misconception(
            "reads_the_future",
            "let tokens read what later tokens of the chunk write",
            "Token i reads writes of j ≤ i. Cut the products of queries and keys off above the diagonal.",
            Instead(seen=lambda A: A),
        ),
        Misconception(
            "reads_before_it_writes",
            "let each token read before it has written",
            "Token i writes first and reads afterwards, so the diagonal belongs to the sum.",
            Instead(seen=lambda A: A.tril(-1)),
        ),
        Misconception(
            "values_into_the_state",
            "added the values to the state instead of the corrections",
            "What token j adds to the state is kⱼ uⱼᵀ.",
            Instead(state=lambda S, K, U, V: S + K.mT @ V),
        ),
    ),
    variants=(Variant("with_an_inverse", _with_an_inverse), Variant("token_after_token", _token_after_token)),
)

PREDICT_OVERWRITING = Prediction(
    "predict_overwriting",
    title="Predict: the last value counts",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "all three learn it, since each state is large enough for twelve values",
        "b": "the sum is right about half of the time, decay lies clearly above it, and the delta rule is almost always right",
        "c": "the sum fails, and decay is as good as the delta rule, since it forgets old values",
        "d": "none of them learns it, since a state of fixed size cannot tell first from last",
    },
    holds="b",
    reveal="**b.** A sum is the same in every order, so it can only guess which of two values was the last. Decay makes older values weaker, but "
    "it weakens the values of other keys just as much. Only the delta rule takes away exactly the value that is replaced.",
)

EXERCISES = (LINEAR_ATTENTION, CROSSTALK, DELTA_WRITE, DELTA_CHUNK, PREDICT_OVERWRITING)
