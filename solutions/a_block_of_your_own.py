"""Workshop 05c: a normalisation, a transformer block, and the loop that trains a model made of blocks."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def best_losses(
    pairs: Float[Tensor, "before after"],
) -> tuple[float, float, float]:
    """The lowest mean losses, in nats, of three ways to guess the next character.

    `pairs[i, j]` counts how often character j comes right after character i in a text.
    Each way gives every possible next character a probability, and its loss is the
    mean of $-\\ln p$ over all pairs of the text, where p belongs to the character that
    really comes next. The three ways know

    1. only how many characters there are,
    2. also how frequent each of them is as the next character,
    3. also which character comes right before.

    >>> best_losses(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))  # always the other one
    (0.6931471824645996, 0.6931471824645996, 0.0)

    Source: Shannon (1951), "Prediction and Entropy of Printed English".
    """
    nothing = torch.full_like(pairs, 1 / len(pairs))
    frequency = (pairs.sum(0) / pairs.sum()).expand_as(pairs)
    before = pairs / pairs.sum(1, keepdim=True)
    seen = pairs > 0  # a pair that never occurs adds nothing
    share = (pairs / pairs.sum())[seen]

    def loss(guess: Tensor) -> float:
        return (share * -torch.log(guess[seen])).sum().item()

    return loss(nothing), loss(frequency), loss(before)


def rms_norm(
    X: Float[Tensor, "... token d"],
    gain: Float[Tensor, "d"],
    eps: float = 1e-6,
) -> Float[Tensor, "... token d"]:
    """Bring the vectors of all tokens to the same size, each by itself.

    Divide each vector by the root mean square of its features, then multiply feature by
    feature with `gain`. Add `eps` at the place where it keeps both the result and its
    gradient finite for a vector of zeros.

    >>> rms_norm(torch.tensor([[3.0, 4.0], [300.0, 400.0]]), torch.ones(2))
    tensor([[0.8485, 1.1314],
            [0.8485, 1.1314]])

    Source: Zhang and Sennrich (2019), "Root Mean Square Layer Normalization", eq. 4.
    """
    return X * torch.rsqrt(X.square().mean(-1, keepdim=True) + eps) * gain


def block(
    X: Float[Tensor, "... token d"],
    attend: Callable[[Tensor], Tensor],
    gain_1: Float[Tensor, "d"],
    gain_2: Float[Tensor, "d"],
    W_up: Float[Tensor, "d hidden"],
    W_down: Float[Tensor, "hidden d"],
) -> Float[Tensor, "... token d"]:
    """The residual stream after one block of attention and an MLP.

    `attend` is multi-head attention, with its own matrices in it. It takes one vector
    for each token and returns another. The MLP multiplies by `W_up`, applies `F.gelu`
    and multiplies by `W_down`. `gain_1` belongs to attention and `gain_2` to the MLP.

    >>> X, gain = torch.tensor([[3.0, 4.0]]), torch.ones(2)
    >>> block(X, torch.zeros_like, gain, gain, torch.zeros(2, 8), torch.zeros(8, 2))
    tensor([[3., 4.]])

    Source: Xiong et al. (2020), "On Layer Normalization in the Transformer
    Architecture", figure 1 (b).
    """
    X = X + attend(rms_norm(X, gain_1))
    return X + F.gelu(rms_norm(X, gain_2) @ W_up) @ W_down


def train(
    model: nn.Module,
    batches: Iterable[Int[Tensor, "text place"]],
    rate: float,
) -> list[float]:
    """Train `model` to name the next character, and return the loss of every step.

    Each batch holds texts of n + 1 characters, as numbers. The model reads n of them
    and returns logits (text, place, character), a guess at every place. A step takes
    the mean cross-entropy of all its guesses, before the step changes the model.
    Make one step of `torch.optim.AdamW` with learning rate `rate` for each batch, and
    go through `batches` once.

    >>> model = nn.Embedding.from_pretrained(torch.zeros(3, 3), freeze=False)
    >>> losses = train(model, torch.tensor([[[0, 1, 2]], [[0, 1, 2]]]), rate=1.0)
    >>> [round(loss, 2) for loss in losses]
    [1.1, 0.24]

    Source: Radford et al. (2018), "Improving Language Understanding by Generative
    Pre-Training", section 3.1.
    """
    adam = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for batch in batches:
        loss = F.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses
