"""Workshop 07e: several tokens in one step: what a draft yields, how long it should be, and how to sample with it."""

import torch
from jaxtyping import Float
from torch import Tensor


def verify(
    draft: list[int],
    logits: Float[Tensor, "new vocab"],
) -> tuple[list[int], int]:
    """Return the tokens that a step yields, and how many tokens the caches must forget.

    The step processed the newest token of the text and, behind it, the draft. So there
    is one row of `logits` more than there are tokens in the draft. The tokens that the
    step yields are those that greedy decoding would choose one by one. Afterwards the
    caches hold all of them but the newest.

    >>> logits = torch.eye(5)[[3, 1, 4, 0]]  # the best tokens are 3, 1, 4 and 0
    >>> verify([3, 1, 2], logits)
    ([3, 1, 4], 1)

    Source: Saxena (2023), "Prompt Lookup Decoding".
    """
    best = logits.argmax(-1).tolist()
    right = 0
    while right < len(draft) and draft[right] == best[right]:
        right += 1
    return best[: right + 1], len(draft) - right


def best_draft_length(a: float, times: list[float]) -> int:
    """Return the draft length that yields the most tokens per second.

    A step with `k` tokens in its draft takes the time `times[k]`, and the list begins
    with a step that has no draft. Each token of a draft is right with the probability
    `a`, whatever happened to the others, but one behind a wrong token is worth nothing.
    Every step yields one token beside the accepted ones.

    >>> best_draft_length(0.5, [1.0, 1.6, 1.7])
    2

    Source: Leviathan et al. (2023), "Fast Inference from Transformers via Speculative
    Decoding", section 3.
    """
    tokens = [sum(a**i for i in range(k + 1)) for k in range(len(times))]
    return max(range(len(times)), key=lambda k: tokens[k] / times[k])


def judge(
    p: Float[Tensor, " vocab"], q: Float[Tensor, " vocab"], token: int
) -> tuple[Float[Tensor, ""], Float[Tensor, " vocab"]]:
    """Return the chance to accept a drafted token, and the probabilities to draw from
    if it is rejected.

    The token was drawn from the probabilities `q`. With this rule, what is written has
    the probabilities `p`, as if there were no draft. `p` and `q` differ.

    >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0])
    >>> judge(p, q, 1)
    (tensor(0.5000), tensor([1., 0.]))

    Source: Leviathan et al. (2023), appendix A.1; Chen et al. (2023), theorem 1.
    """
    missing = p - torch.minimum(p, q)  # accepted tokens have made the minimum
    return (p[token] / q[token]).clamp(max=1), missing / missing.sum()
