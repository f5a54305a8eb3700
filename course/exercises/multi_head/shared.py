"""What the exercises of this lesson share: tolerances, weights, and attention with a mistake in it."""

from autograder import Draw, Tolerance
from solutions import multi_head as ref

BUILTIN = ("multi_head_attention_forward", "MultiheadAttention")
FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more


def weights(draw: Draw, d_model: int, H: int, d_k: int, d_v: int, d_out: int = 0):
    """Weights that make scores of standard deviation near 1.5: neither saturated nor flat."""
    narrow = d_model**-0.5
    return {
        "W_Q": draw.normal(d_model, H * d_k, scale=1.5 * narrow),
        "W_K": draw.normal(d_model, H * d_k, scale=narrow),
        "W_V": draw.normal(d_model, H * d_v, scale=narrow),
        "W_O": draw.normal(H * d_v, d_out or d_model, scale=(H * d_v) ** -0.5),
    }


def attend(Q, K, V, keep, scale=None):
    """Masked attention of heads `(..., H, n, d)`; `scale` other than 1/sqrt(d_k) where a mistake wants one."""
    factor = 1.0 if scale is None else scale * Q.shape[-1] ** 0.5
    return ref.masked_sdpa(factor * Q, K, V, keep)


def attend_masked_late(Q, K, V, keep, scale=None):
    """The mask acts on the weights, which are not normalised again."""
    _, A = attend(Q, K, V, None, scale)
    A = A if keep is None else A * keep
    return A @ V, A
