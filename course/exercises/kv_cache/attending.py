"""Attention of the newest tokens over all that the cache holds: where does the causal mask stand?"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import kv_cache as ref


def _new_and_all(*lead, new, n):
    def make(draw: Draw):
        d_k, d_v = draw.sizes(2, low=2, high=7)
        return {"q": draw.normal(*lead, new, d_k), "K": draw.normal(*lead, n, d_k), "V": draw.normal(*lead, n, d_v)}

    return make


def _masked(shift):
    """Attention whose mask lets query i see key j where j <= i + shift(new, n)."""

    def answer(q, K, V):
        new, n = q.shape[-2], K.shape[-2]
        return ref.attention(q, K, V, torch.ones(new, n, dtype=torch.bool).tril(shift(new, n)))

    return answer


def _own_chunk_only(q, K, V):
    new = q.shape[-2]
    return ref.attend_cached(q, K[..., -new:, :], V[..., -new:, :])


def _row_by_row(q, K, V):
    past = K.shape[-2] - q.shape[-2]
    rows = []
    for i in range(q.shape[-2]):
        seen = slice(0, past + i + 1)
        scores = (K[..., seen, :] @ q[..., i, :, None])[..., 0] / q.shape[-1] ** 0.5
        rows.append((torch.softmax(scores, -1)[..., None] * V[..., seen, :]).sum(-2))
    return torch.stack(rows, dim=-2)


def _positions(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    keep = torch.arange(n)[None, :] <= torch.arange(n - new, n)[:, None]
    return scaled_dot_product_attention(q, K, V, attn_mask=keep)


ATTEND_CACHED = Exercise(
    "attend_cached",
    title="Attention of the newest tokens",
    points=2,
    reference=ref.attend_cached,
    tensors=True,
    cases=(
        Case("two new tokens, one past", _new_and_all(new=2, n=3)),
        Case("one new token", _new_and_all(2, 3, new=1, n=5)),
        Case("a whole prompt", _new_and_all(2, 3, new=5, n=5)),
        Case("a chunk behind a past", _new_and_all(2, 3, new=3, n=7)),
    ),
    hints=(
        "Write the mask for two new tokens and three keys on paper: which of the three may the first new token see?",
        "The query number i stands at position i + (n − new) of the text, and sees every key up to its own position. Make "
        "`keep` of shape (new, n) and call the given `attention`.",
        "`torch.ones(new, n, dtype=torch.bool).tril(n - new)`: the diagonal starts n − new columns further right, so that "
        "the **last** row sees everything.",
    ),
    misconceptions=(
        Misconception(
            "top_left",
            "aligned the causal mask with the **first** keys, so the new tokens see the oldest keys and not themselves",
            "Align it at the lower right: `.tril(n - new)`. Beware `is_causal=True` of PyTorch's builtin: it starts at the upper left.",
            _masked(lambda new, n: 0),
        ),
        Misconception(
            "mask_skipped",
            "used no mask: within the chunk, tokens see what comes after them",
            "A single new token needs no mask, but a prompt or a chunk does: token i of it must not see token i + 1.",
            _masked(lambda new, n: n),
        ),
        Misconception(
            "cannot_see_itself",
            "hid each token from itself",
            "A token sees the past **and itself**: the last query sees all n keys.",
            _masked(lambda new, n: n - new - 1),
        ),
        Misconception(
            "sees_one_ahead",
            "let each token see one token of its future",
            "The last query sees n keys, the one before it n − 1: `.tril(n - new)`.",
            _masked(lambda new, n: n - new + 1),
        ),
        Misconception(
            "own_chunk_only",
            "attended to the new tokens only; the past in `K` and `V` has no effect",
            "All n keys take part; the mask hides no past token.",
            _own_chunk_only,
        ),
    ),
    variants=(Variant("row_by_row", _row_by_row), Variant("builtin_with_positions", _positions)),
)
