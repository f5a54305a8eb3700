"""The silent copy: a step that gives the right numbers and copies the cache for every head."""

import math

import torch
from attention_course.memory import tells_copies

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import latent as ref


def _asks(heads: int, new: int, key: int, d_c: int, *, lead: tuple[int, ...] = ()):
    return lambda draw: {"asks": draw.normal(*lead, heads, new, d_c, scale=1 / math.sqrt(d_c)), "C": draw.normal(*lead, key, d_c)}


def _batched(draw: Draw):
    return _asks(3, 1, 61, 7, lead=(2,))(draw)


def _weights(asks, C, *, weigh=ref.causal_weights, unfold=lambda S, heads, new: S.unflatten(-2, (heads, new))):
    S = unfold(asks.flatten(-3, -2) @ C.mT, *asks.shape[-3:-1])
    return weigh(S)


def _folded(**mistake):
    @tells_copies
    def answer(asks, C):
        A = _weights(asks, C, **mistake)
        return (A.flatten(-3, -2) @ C).unflatten(-2, asks.shape[-3:-1])

    return answer


@tells_copies
def _copying(asks, C):
    shared = C.unsqueeze(-3)
    return ref.causal_weights(asks @ shared.mT) @ shared


@tells_copies
def _copying_once(asks, C):
    A = _weights(asks, C)
    return A @ C.unsqueeze(-3)


@tells_copies
def _expanded(asks, C):
    shared = C.unsqueeze(-3).expand(*asks.shape[:-2], *C.shape[-2:])
    return torch.einsum("...nk,...kc->...nc", ref.causal_weights(torch.einsum("...nc,...kc->...nk", asks, shared)), shared)


def _top_left(S):
    keep = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)


def _heads_as_tokens(S):
    heads, new, n = S.shape[-3:]
    keep = torch.ones(heads * new, n, dtype=torch.bool).tril(n - heads * new)
    return torch.softmax(S.flatten(-3, -2).masked_fill(~keep, -math.inf), dim=-1).unflatten(-2, (heads, new))


@tells_copies
def _loop(asks, C):
    return torch.stack([ref.causal_weights(one @ C.mT) @ C for one in asks.unbind(-3)], dim=-3)


@tells_copies
def _latents_left(asks, C):
    S = (C @ asks.flatten(-3, -2).mT).mT
    A = ref.causal_weights(S.unflatten(-2, asks.shape[-3:-1]))
    return (A.flatten(-3, -2) @ C).unflatten(-2, asks.shape[-3:-1])


@tells_copies
def _einsum(asks, C):
    return torch.einsum("...hnk,...kc->...hnc", ref.causal_weights(torch.einsum("...hnc,...kc->...hnk", asks, C)), C)


ATTEND_LATENTS = Exercise(
    "attend_latents",
    title="Find the silent copy",
    points=2,
    reference=ref.attend_latents,
    recipe=Made(_folded),
    tensors=True,
    kind="bug",
    difficulty=3,
    minutes=12,
    cases=(
        Case("a step of three heads in a batch", _batched),
        Case("a chunk in a batch", _asks(2, 3, 53, 11, lead=(3,))),
        Case("one sequence", _asks(5, 1, 43, 13)),
    ),
    hints=(
        "The values are right; `copied` is not. Which line makes something as large as (batch, head, key, d_c), and which of the two "
        "factors of that product has no head axis of its own?",
        "`torch.matmul` multiplies matrices pair by pair. Where one matrix has to serve several it is copied for each, unless all those "
        "that it serves are one matrix themselves. So let the heads be rows: flatten head and new token into one axis. **Two** products "
        "read the cache.",
        "`asks.flatten(-3, -2)` is (…, head · new, d_c) and meets `C.mT` without a head axis. `causal_weights` needs the head axis back: "
        "`.unflatten(-2, asks.shape[-3:-1])`. The average is the same trick once more, with the weights.",
    ),
    misconceptions=(
        Misconception(
            "latents_copied_for_each_head",
            "got the right values from copies of the latents, one for each head of each sequence",
            "`C.unsqueeze(-3)` makes no copy, but `torch.matmul` does when it stretches that axis. Make the heads rows of one matrix.",
            _copying,
        ),
        Misconception(
            "copied_in_the_average",
            "folded the heads for the scores, but copied the latents for each head when averaging them",
            "Both products read the cache. Fold the weights too: (…, head · new, key) times `C`.",
            tells_copies(
                lambda asks, C: _weights(asks, C).contiguous() @ C.unsqueeze(-3).expand(*asks.shape[:-2], *C.shape[-2:]).clone()
            ),
        ),
        Misconception(
            "heads_masked_as_tokens",
            "put a causal mask over all folded rows, as if the heads were successive tokens",
            "The heads of one token stand at the **same** position. Unfold the scores before `causal_weights`.",
            Instead(weigh=_heads_as_tokens),
        ),
        Misconception(
            "unfolded_in_another_order",
            "unfolded the rows as (new, head), but they were folded as (head, new)",
            "Undo the flattening as you made it: `.unflatten(-2, asks.shape[-3:-1])`.",
            Instead(unfold=lambda S, heads, new: S.unflatten(-2, (new, heads)).transpose(-3, -2)),
        ),
        Misconception(
            "not_causal",
            "let the first of the new tokens look at the later ones",
            "`causal_weights` on scores of shape (…, head, new, key).",
            Instead(weigh=lambda S: torch.softmax(S, dim=-1)),
        ),
        Misconception(
            "mask_from_the_start",
            "aligned the causal mask to the first token, so the newest one sees little more than the start",
            "The queries are the **last** of the tokens: `causal_weights` knows.",
            Instead(weigh=_top_left),
        ),
    ),
    variants=(Variant("loop_over_heads", _loop), Variant("latents_on_the_left", _latents_left), Variant("einsum", _einsum)),
)
