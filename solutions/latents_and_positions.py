"""Workshop 10c: YaRN's factors on the two parts of a score, and rows that are rotated keys and values at once."""

import math

import torch
from attention_course.toy_decoder import apply_rope
from jaxtyping import Float
from torch import Tensor

from solutions.latent import causal_weights


def score_factors(
    factor: float | int,
    mscale: float | int,
    mscale_all_dim: float | int,
) -> tuple[float, float]:
    r"""By what YaRN multiplies the two parts of a score in DeepSeek's models, as a pair
    (content, position).

    Let $g(a) = 0.1\,a \ln(\text{factor}) + 1$, or 1 if `factor` is at most 1. The code
    multiplies every rotated query and every rotated key by
    $g(\text{mscale}) / g(\text{mscale\_all\_dim})$, and the softmax scale
    $1/\sqrt{d + d_{rope}}$ by $g(\text{mscale\_all\_dim})^2$. The queries and latents
    of the content part are not multiplied.

    >>> score_factors(1.0, 1.0, 1.0)
    (1.0, 1.0)
    >>> content, position = score_factors(40.0, 1.0, 0.0)
    >>> content, round(position, 4)
    (1.0, 1.8739)

    Source: `DeepseekV3Attention` and `DeepseekV3YarnRotaryEmbedding` in the code that
    DeepSeek published with V3; Peng et al. (2023), "YaRN", section 3.4.
    """

    def grown(a: float | int) -> float:
        return 1.0 if factor <= 1 else 0.1 * a * math.log(factor) + 1.0

    return grown(mscale_all_dim) ** 2, grown(mscale) ** 2


def attend_rotated(
    Q: Float[Tensor, "head new d"],
    rows: Float[Tensor, "key d"],
    start: int,
) -> Float[Tensor, "head new d"]:
    r"""Causal attention to rows that are keys and values at once, stored rotated.

    Row $j$ of `rows` is $x_j R_j$, where $x_j$ is a vector that the model made and
    $R_j$ rotates it to its position, as `apply_rope` does. The positions of all
    tokens are `start`, `start + 1`, and so on. The queries $q_i$ in `Q` are **not**
    rotated yet, and they belong to the last `new` tokens. Return for each head and
    query

    $$o_i = \sum_j a_{ij}\, x_j R_{j-i}, \qquad
    a_{ij} = \operatorname{softmax}_j \frac{(q_i R_i) \cdot (x_j R_j)}{\sqrt d},$$

    which depends on offsets $j - i$ only, so the same text gives the same output at
    every `start`.

    >>> Q, x = torch.zeros(1, 1, 2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> for start in (0, 500):
    ...     stored = apply_rope(x, start + torch.arange(2))
    ...     print(attend_rotated(Q, stored, start).round(decimals=3))
    tensor([[[ 0.7700, -0.4210]]])
    tensor([[[ 0.7700, -0.4210]]])

    Source: the attention of DeepSeek-V4 in Hugging Face's transformers.
    """
    new, n = Q.shape[-2], rows.shape[-2]
    pos = torch.arange(start + n - new, start + n, device=Q.device)
    A = causal_weights(apply_rope(Q, pos) @ rows.mT / math.sqrt(Q.shape[-1]))
    # x_j R_(j-i) is row j, rotated back by i; the same i for the whole sum
    return apply_rope(A @ rows, -pos)
