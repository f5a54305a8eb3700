"""The padding mask and the causal mask."""

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import masking as ref

# ---------------------------------------------------------------------------------------------- padding


def _lengths(draw: Draw, m: int, count: int):
    """`count` lengths from 1 to m - 1, at least two of them different."""
    lengths = draw.rng.integers(1, m, count)
    lengths[0] = 1 + int(lengths[-1]) % (m - 1)
    return lengths


def _two_sequences(draw: Draw):
    return {"lengths": _lengths(draw, 5, 2), "m": 5}


def _batch_of_lengths(draw: Draw):
    batch, m = draw.sizes(2, low=5)
    return {"lengths": _lengths(draw, m, batch), "m": m}


def _empty_and_full(draw: Draw):
    m = draw.sizes(1, low=5)[0]
    return {"lengths": np.concatenate([draw.rng.permutation([0, m]), _lengths(draw, m, 2)]), "m": m}


def _real(lengths, m, *, below=torch.lt, from_the_end=False, first=0, on_its_device=True):
    positions = torch.arange(first, first + m, device=lengths.device if on_its_device else None)
    return below(positions.flip(0) if from_the_end else positions, lengths[:, None, None])


def _real_by_loop(lengths, m):
    keep = torch.zeros(len(lengths), 1, m, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        keep[b, 0, :length] = True
    return keep


PADDING_MASK = Exercise(
    "padding_mask",
    title="The padding mask",
    points=1,
    difficulty=2,
    minutes=5,
    reference=ref.padding_mask,
    recipe=_real,
    tensors=True,
    cases=(
        Case("two sequences", _two_sequences),
        Case("a batch", _batch_of_lengths),
        Case("an empty and a full sequence", _empty_and_full, edge=0.1),
        Case("lengths on another device", _two_sequences, edge=0.1, elsewhere=True),
    ),
    hints=(
        "Position $j$ holds a real token if it is among the first `lengths[b]` positions, which start at 0.",
        "Compare all positions `torch.arange(m)` with all lengths at once. Give `lengths` two more axes, so that the comparison "
        "broadcasts to (batch, 1, m).",
        "`torch.arange(m, device=lengths.device)` has the shape (m,) and `lengths[:, None, None]` has the shape (batch, 1, 1). Which "
        "comparison is True for exactly the first `lengths[b]` positions?",
    ),
    misconceptions=(
        Misconception(
            "one_too_many",
            "kept one position too many, so the first blank of each sequence is visible",
            "Positions start at 0, so the last real token is at `lengths[b] - 1`. Compare with `<`.",
            Instead(below=torch.le),
        ),
        Misconception(
            "polarity_flipped",
            "marked the blanks with True and the tokens with False",
            "In this course True means **keep**, although `key_padding_mask` of `nn.MultiheadAttention` means the opposite.",
            After(lambda out, **_: ~out),
        ),
        Misconception(
            "padded_on_the_left",
            "kept the **last** `lengths[b]` positions, as if the blanks were on the left",
            "The tokens come first and the blanks follow, so keep the positions below `lengths[b]`.",
            Instead(from_the_end=True),
        ),
        Misconception(
            "no_query_axis",
            "left out the query axis. Against scores of shape (batch, query, key) the batch axis would be taken for the queries",
            "Return the shape (batch, 1, key). Index `lengths[:, None, None]`, or call `unsqueeze(1)` at the end.",
            After(lambda out, **_: out[:, 0]),
        ),
        Misconception(
            "a_row_for_each_query",
            "made `m` equal rows for each sequence, which fits only scores with as many queries as keys",
            "Leave the query axis at size 1. The shape (batch, 1, key) broadcasts over any number of queries.",
            After(lambda out, lengths, m: out.expand(-1, m, -1)),
        ),
        Misconception(
            "masked_queries",
            "put the positions on the query axis. The shape (batch, key, 1) hides whole rows, and every blank **key** stays visible",
            "Nobody may attend to a blank, so the mask hides keys, and keys are the last axis.",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "masked_queries_too",
            "masked the blanks as queries as well, so their rows are empty and the softmax has nothing to normalise",
            "Mask only the keys, with the shape (batch, 1, key). The loss later ignores what a blank query computes.",
            After(lambda out, **_: out & out.mT),
        ),
        Misconception(
            "one_too_few",
            "hid the last real token of each sequence",
            "Positions start at 0, so compare `torch.arange(m)` with `lengths` itself, without subtracting 1.",
            Instead(first=1),
        ),
        Misconception(
            "ones_and_zeros",
            "returned a mask of the numbers 0 and 1",
            "Return the comparison itself, whose entries are True and False.",
            After(lambda out, **_: out.float()),
        ),
        Misconception(
            "numbers_not_booleans",
            "returned an additive mask with 0 and $-\\infty$ instead of a boolean one",
            "Return the comparison itself, whose entries are True and False.",
            After(lambda out, **_: torch.zeros(out.shape, device=out.device).masked_fill(~out, -torch.inf)),
        ),
        Misconception(
            "positions_on_the_cpu",
            "made the positions on the CPU, although the lengths may be on another device",
            "Pass `device=lengths.device` where you make a tensor.",
            Instead(on_its_device=False),
            also=(lambda lengths, m: _real(lengths.cpu(), m),),
            raises=True,
        ),
    ),
    variants=(
        Variant("loop", _real_by_loop),
        Variant(
            "count_up",
            lambda lengths, m: torch.ones(len(lengths), 1, m, device=lengths.device).cumsum(-1) <= lengths.view(-1, 1, 1),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------- causal


def _square(draw: Draw):
    n = draw.choice((3, 4, 5))
    return {"n_q": n, "n_k": n}


def _chunk(draw: Draw):
    n_q, n_k = sorted(draw.sizes(2))
    return {"n_q": n_q, "n_k": n_k}


def _decode_step(draw: Draw):
    return {"n_q": 1, "n_k": draw.sizes(1, low=3)[0]}


def _more_queries(draw: Draw):
    n_k, n_q = sorted(draw.sizes(2))
    return {"n_q": n_q, "n_k": n_k}


def _triangle(n_q, n_k, *, shift=lambda n_q, n_k: n_k - n_q, ahead=0, upper=False):
    """A triangle whose diagonal is moved by `shift`, and `ahead` beyond that."""
    ones, at = torch.ones(n_q, n_k), shift(n_q, n_k) + ahead
    return (ones.triu(at) if upper else ones.tril(at)).bool()


def _causal_by_loop(n_q, n_k):
    return torch.tensor([[j - (n_k - n_q) <= i for j in range(n_k)] for i in range(n_q)])


CAUSAL_MASK = Exercise(
    "causal_mask",
    title="The causal mask",
    points=2,
    difficulty=3,
    minutes=7,
    reference=ref.causal_mask,
    recipe=_triangle,
    tensors=True,
    cases=(
        Case("as many queries as keys", _square),
        Case("fewer queries than keys", _chunk),
        Case("one query", _decode_step),
        Case("more queries than keys", _more_queries, edge=0.1),
    ),
    hints=(
        "The last query is at the same position as the last key. What is then the position of query $i$?",
        "Query $i$ is at position $i + (n_k - n_q)$, and key $j$ at position $j$. Keep the pairs whose key is not later. You can make both "
        "positions with `torch.arange`, one as a column, and compare them.",
        "`torch.arange(n_q)[:, None] + (n_k - n_q)` holds the positions of the queries as a column. You can also use "
        "`tril`, whose `diagonal` says how far the triangle is shifted.",
    ),
    misconceptions=(
        Misconception(
            "cannot_see_itself",
            "left out the query's own position, so with as many queries as keys the first row is empty",
            "A query may attend to its own position, so the condition is $j \\le i + (n_k - n_q)$, not $<$.",
            Instead(ahead=-1),
        ),
        Misconception(
            "sees_one_ahead",
            "let each query see one position into the future",
            "The diagonal itself is the last to keep, as in `tril(diagonal=n_k - n_q)`, without a `+ 1`.",
            Instead(ahead=1),
        ),
        Misconception(
            "top_left",
            "aligned the triangle at the **top left**, so a query that comes after four stored keys sees only the first of them",
            "The queries are the **last** `n_q` positions, so query $i$ is at $i + (n_k - n_q)$.",
            Instead(shift=lambda n_q, n_k: 0),
        ),
        Misconception(
            "shifted_the_wrong_way",
            "shifted the triangle by $n_q - n_k$ instead of $n_k - n_q$",
            "Keys that come before the first query are visible to every query. With more queries than keys the shift is negative.",
            Instead(shift=lambda n_q, n_k: n_q - n_k),
        ),
        Misconception(
            "never_before_the_first_key",
            "aligned the triangle at the end only for $n_q \\le n_k$. With more queries than keys, the first queries come **before** the "
            "first key and see nothing",
            "Leave out the special case, such as `max(0, …)`. A shift of $n_k - n_q$ is also right when it is negative.",
            Instead(shift=lambda n_q, n_k: max(0, n_k - n_q)),
        ),
        Misconception(
            "window_from_the_query",
            "also hid the oldest keys, so query $i$ sees nothing before key $i$",
            "A causal mask hides only the future. Every query sees all keys from key 0 up to its own position.",
            After(lambda out, **_: out.triu()),
        ),
        Misconception(
            "sees_the_future",
            "kept the upper triangle, so each query sees itself and the future but nothing of the past",
            "Keep the keys at positions up to the query's own, which is the lower triangle, `tril`.",
            Instead(upper=True),
        ),
        Misconception(
            "polarity_flipped",
            "marked what is **forbidden** with True",
            "In this course True means **keep**. Reverse the comparison, or put `~` in front of it.",
            After(lambda out, **_: ~out),
        ),
        Misconception(
            "ones_and_zeros",
            "returned a mask of the numbers 0 and 1",
            "Add `.bool()`, or return a comparison, whose entries are True and False.",
            After(lambda out, n_q, n_k: out.float()),
        ),
        Misconception(
            "numbers_not_booleans",
            "returned an additive mask with 0 and $-\\infty$ instead of a boolean one",
            "Return the comparison itself, whose entries are True and False.",
            After(lambda out, n_q, n_k: torch.zeros(n_q, n_k).masked_fill(~out, -torch.inf)),
        ),
    ),
    variants=(
        Variant("tril", lambda n_q, n_k: torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q)),
        Variant("not_triu", lambda n_q, n_k: ~torch.ones(n_q, n_k).triu(n_k - n_q + 1).bool()),
        Variant("loop", _causal_by_loop),
    ),
)
