"""The steps of attention that obeys a mask, each of them right or wrong."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import Instead
from course.exercises.masking.scores import INFINITY


def scores(Q, K):
    return Q @ K.mT / math.sqrt(Q.shape[-1])


def as_they_are(numbers, keep):
    return numbers


def filled(number):
    return lambda S, keep: S.masked_fill(~keep, number)


def filled_but_for_empty_rows(S, keep, number=-INFINITY):
    return S.masked_fill(~(keep | ~keep.any(-1, keepdim=True)), number)


def added(S, keep):
    return S + torch.zeros(keep.shape, dtype=S.dtype).masked_fill(~keep, -INFINITY)


def empty_rows_cleared(A, keep):
    return A.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def kept(A, keep):
    return A * keep


def shares(A, keep, floor=0.0):
    return A * keep / (A * keep).sum(-1, keepdim=True).clamp(min=floor)


def over(floor):
    """The exponentials as they are, nothing taken off the scores before, over their sum or what is larger, the `floor`."""

    def share(S, dim):
        E = torch.exp(S)
        return E / E.sum(dim, keepdim=True).clamp(min=floor)

    return share


def no_nan(A, keep):
    return A.nan_to_num()


def attend(
    Q,
    K,
    V,
    keep,
    *,
    power=-0.5,
    hide=filled_but_for_empty_rows,
    axis=-1,
    clear=empty_rows_cleared,
    finish=lambda O, A: (O, A),
    share=torch.softmax,
):
    """Scores times `d_k ** power`, changed by `hide`; their softmax (or how else they `share` out 1), changed by `clear`."""
    S = Q @ K.mT * Q.shape[-1] ** power
    A = clear(share(hide(S, keep), dim=axis), keep)
    return finish(A @ V, A)


def only_infinity(**settings):
    """Steps after a fill of minus infinity in all rows, the empty ones too."""
    return Instead(**{"hide": filled(-INFINITY), "clear": as_they_are} | settings)


def unhidden(**settings):
    """Steps after the softmax of all scores."""
    return Instead(**{"hide": as_they_are, "clear": as_they_are} | settings)


def plain(Q, K, V, keep):
    """Attention that gives NaN to a query that may see nothing."""
    A = torch.softmax(scores(Q, K).masked_fill(~keep, -INFINITY), dim=-1)
    return A @ V, A


def nan_to_zero(O, A):
    return torch.nan_to_num(O), torch.nan_to_num(A)


def finite_fill(Q, K, V, keep):
    S = scores(Q, K)
    A = torch.softmax(S.masked_fill(~keep, torch.finfo(S.dtype).min), dim=-1) * keep
    return A @ V, A


def own_exponentials(Q, K, V, keep):
    S = scores(Q, K)
    top = S.detach().masked_fill(~keep, torch.finfo(S.dtype).min).amax(-1, keepdim=True)
    E = torch.exp(torch.where(keep, S - top, -INFINITY))
    total = E.sum(-1, keepdim=True)
    A = E / torch.where(total > 0, total, 1.0)
    return A @ V, A


def empty_rows_filled(Q, K, V, keep):
    A = torch.softmax(scores(Q, K).masked_fill(~keep, -INFINITY), dim=-1).masked_fill(~keep.any(-1, keepdim=True), 0.0)
    return A @ V, A


def identity_values(Q, K, V, keep):
    eye = torch.eye(K.shape[-2], dtype=V.dtype).expand(*V.shape[:-1], -1)
    return scaled_dot_product_attention(Q, K, V, keep), scaled_dot_product_attention(Q, K, eye, keep)
