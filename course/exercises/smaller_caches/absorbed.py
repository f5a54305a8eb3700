"""A decode step of latent attention in which a part of each key stays rotated."""

import math

import torch
from attention_course.memory import tells_copies

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import smaller_caches as ref


def _step(*, n, heads, groups, fast, rest, r):
    """So many tokens that the cache is the largest tensor, unless keys or values are made."""

    def make(draw: Draw):
        return {
            "Q": draw.normal(heads, fast + rest, scale=1.5),
            "C": draw.normal(n, r),
            "K_fast": draw.normal(groups, n, fast, scale=1.5),
            "W_UK": draw.normal(groups, r, rest, scale=1.5 * r**-0.5),
            "W_UV": draw.normal(groups, r, fast + rest, scale=r**-0.5),
        }

    return make


def _grouped(Q, G):
    return Q.unflatten(0, (G, -1))


def _in_turn(Q, G):
    return Q.unflatten(0, (-1, G)).transpose(0, 1)


def _joined(Y):
    return Y.flatten(0, 1)


def _joined_in_turn(Y):
    return Y.transpose(0, 1).flatten(0, 1)


def _first(q, fast):
    return q[..., :fast], q[..., fast:]


def _last(q, fast):
    rest = q.shape[-1] - fast
    return q[..., rest:], q[..., :rest]


def _sum(position, content, d, fast, r):
    return torch.softmax((position + content) / math.sqrt(d), dim=-1)


def _absorbed(*, group=_grouped, join=_joined, cut=_first, weigh=_sum, ask=lambda q, W: q @ W.mT):
    @tells_copies
    def answer(Q, C, K_fast, W_UK, W_UV):
        fast = K_fast.shape[-1]
        rotated, rest = cut(group(Q, len(K_fast)), fast)
        A = weigh(rotated @ K_fast.mT, ask(rest, W_UK) @ C.mT, Q.shape[-1], fast, C.shape[-1])
        return join((A @ C) @ W_UV)

    return answer


def _by_width(width):
    return lambda position, content, d, fast, r: torch.softmax((position + content) / math.sqrt(width(d, fast, r)), dim=-1)


def _two_scales(position, content, d, fast, r):
    return torch.softmax(position / math.sqrt(fast) + content / math.sqrt(d - fast), dim=-1)


def _two_softmaxes(position, content, d, fast, r):
    return (torch.softmax(position / math.sqrt(d), -1) + torch.softmax(content / math.sqrt(d), -1)) / 2


def _content_alone(position, content, d, fast, r):
    return torch.softmax(content / math.sqrt(d), dim=-1)


def _position_alone(position, content, d, fast, r):
    return torch.softmax(position / math.sqrt(d), dim=-1)


def _made(keys, values):
    @tells_copies
    def answer(Q, C, K_fast, W_UK, W_UV):
        fast, q = K_fast.shape[-1], _grouped(Q, len(K_fast))
        with_keys, without = (
            (lambda: q @ torch.cat([K_fast, C @ W_UK], dim=-1).mT),
            (lambda: q[..., :fast] @ K_fast.mT + (q[..., fast:] @ W_UK.mT) @ C.mT),
        )
        S = with_keys() if keys else without()
        A = torch.softmax(S / math.sqrt(Q.shape[-1]), dim=-1)
        return (A @ (C @ W_UV) if values else (A @ C) @ W_UV).flatten(0, 1)

    return answer


@tells_copies
def _head_by_head(Q, C, K_fast, W_UK, W_UV):
    rows, size, fast = [], len(Q) // len(K_fast), K_fast.shape[-1]
    for h, q in enumerate(Q):
        scores = K_fast[h // size] @ q[:fast] + C @ (W_UK[h // size] @ q[fast:])
        rows.append(torch.softmax(scores / math.sqrt(len(q)), 0) @ C @ W_UV[h // size])
    return torch.stack(rows)


@tells_copies
def _by_einsum(Q, C, K_fast, W_UK, W_UV):
    fast, q = K_fast.shape[-1], Q.reshape(len(K_fast), -1, Q.shape[-1]) * Q.shape[-1] ** -0.5
    asks = torch.einsum("gsd,grd->gsr", q[..., fast:], W_UK)
    S = torch.einsum("gsd,gnd->gsn", q[..., :fast], K_fast) + torch.einsum("gsr,nr->gsn", asks, C)
    U = torch.einsum("gsn,nr->gsr", S.softmax(-1), C)
    return torch.einsum("gsr,grd->gsd", U, W_UV).reshape(Q.shape)


ABSORBED_STEP = Exercise(
    "absorbed_step",
    title="Design: a step that rebuilds nothing",
    kind="design",
    points=2,
    difficulty=3,
    minutes=14,
    reference=ref.absorbed_step,
    recipe=Made(_absorbed),
    tensors=True,
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),
    cases=(
        Case("two groups of two heads", _step(n=40, heads=4, groups=2, fast=2, rest=6, r=8)),
        Case("three groups, half of the features rotated", _step(n=40, heads=9, groups=3, fast=4, rest=4, r=10)),
        Case("a narrow latent", _step(n=50, heads=6, groups=3, fast=4, rest=10, r=5)),
        Case("the first token", _step(n=1, heads=4, groups=2, fast=2, rest=4, r=3), edge=0.2),
    ),
    hints=(
        "A score is a dot product over all features of a key. Split the sum into the rotated features and the others. Which of the two sums "
        "can you compute without the key?",
        "The content part is $q \\cdot (c_j W_{UK}) = (q\\, W_{UK}^\\top) \\cdot c_j$, so each query becomes a row as wide as a latent. Add the "
        "position part before the softmax. On the other side of the softmax, first average latents, then multiply by `W_UV`.",
        "`Q.unflatten(0, (G, -1))` has the shape (group, heads of the group, d), and then `@` pairs each group with its own matrix. Where does "
        "a query end to be rotated, and which width belongs under the root if no score may change?",
    ),
    misconceptions=(
        Misconception(
            "decorator_lost",
            "left out the line `@tells_copies` above your function",
            "The decorator adds the last result, which says whether anything large was made. Put it back above `def`.",
            ref.absorbed_step.__wrapped__,
        ),
        Misconception(
            "keys_and_values_made",
            "made something larger than the cache, either keys or values of all tokens or a copy of what is stored for each head",
            "Multiply the query by $W_{UK}^\\top$ and the average of latents by $W_{UV}$. Both are small. `repeat_interleave` makes copies, "
            "so give the queries a group axis instead, and `@` pairs each group with what is stored for it.",
            _made(keys=True, values=True),
            also=(_made(keys=True, values=False), _made(keys=False, values=True)),
        ),
        Misconception(
            "scaled_by_latent",
            "scaled by the root of what is cached, the latent with the rotated features",
            "Absorbing changes no score, so it changes no scale. Divide by $\\sqrt d$, where $d$ is the width of a query.",
            Instead(weigh=_by_width(lambda d, fast, r: r + fast)),
            also=(Instead(weigh=_by_width(lambda d, fast, r: r)),),
        ),
        Misconception(
            "not_scaled",
            "left out the scale",
            "Divide the scores by $\\sqrt d$ before the softmax.",
            Instead(weigh=_by_width(lambda d, fast, r: 1)),
        ),
        Misconception(
            "two_scales",
            "scaled the two parts of a score separately",
            "Both parts belong to one dot product over $d$ features, so add them first and divide the sum by $\\sqrt d$.",
            Instead(weigh=_two_scales),
        ),
        Misconception(
            "two_softmaxes",
            "applied a softmax to each part and averaged the weights",
            "Add the two parts of the score first. One softmax acts on their sum.",
            Instead(weigh=_two_softmaxes),
        ),
        Misconception(
            "position_left_out",
            "scored the content alone, so the rotated features of the keys are never used",
            "Add the dot products of the rotated features with `K_fast`.",
            Instead(weigh=_content_alone),
        ),
        Misconception(
            "content_left_out",
            "scored the rotated features alone, so the latents have no influence on the weights",
            "Add the dot products of the absorbed queries with `C`.",
            Instead(weigh=_position_alone),
        ),
        Misconception(
            "rotated_part_last",
            "took the last features of the query for the rotated ones",
            "In a key the rotated features come first, so the query's first `fast` features belong to `K_fast`.",
            Instead(cut=_last),
        ),
        Misconception(
            "modulo",
            "gave head h the group h mod G",
            "Neighbouring heads share a group, so head $h$ reads group $\\lfloor h / (H/G) \\rfloor$.",
            Instead(group=_in_turn, join=_joined_in_turn),
        ),
        Misconception(
            "one_matrix_for_all",
            "absorbed the first group's `W_UK` for the heads of all groups",
            "Each group has a matrix of its own, and `@` pairs them if the group is the first axis of the queries.",
            Instead(ask=lambda q, W: q @ W[:1].mT),
        ),
    ),
    variants=(Variant("head_by_head", _head_by_head), Variant("einsum", _by_einsum)),
)
