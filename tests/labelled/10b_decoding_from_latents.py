# %% decoding_from_latents.mla_absorbed wrong double: divides by the root of d_c: the score has d_c terms now; copies the latents for each head
# true: scaled_by_latent; latents_copied_for_each_head
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3)
    A = causal_weights(q @ c.mT / math.sqrt(C.shape[-1]))
    U = A @ c
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed wrong single public: mask aligned at the upper left: wrong for new tokens behind a past
import torch.nn.functional as F

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3).expand(*q.shape[:-2], -1, -1)
    U = F.scaled_dot_product_attention(q, c, c, is_causal=True, scale=W_Q.shape[-1] ** -0.5)
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed wrong double public: no mask: 'decoding needs none'; copies the latents for each head
# true: not_causal; latents_copied_for_each_head
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3)
    A = torch.softmax(q @ c.mT / math.sqrt(W_Q.shape[-1]), dim=-1)
    U = A @ c
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed wrong single: returns the averages of values instead of those of latents
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3)
    A = causal_weights(q @ c.mT / math.sqrt(W_Q.shape[-1]))
    O = A @ c @ W_UV
    return (O @ W_O).sum(-3), O

# %% decoding_from_latents.mla_absorbed wrong double: scales by the root of d_c, and masks at the upper left
# true: scaled_by_latent; mask_from_the_start
import math

def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = torch.einsum("...ne,hed,hcd->...hnc", X, W_Q, W_UK)
    S = torch.einsum("...hnc,...mc->...hnm", q, C) * C.shape[-1] ** -0.5
    keep = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    U = torch.einsum("...hnm,...mc->...hnc", A, C)
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed wrong double: scales the absorbed query and the scores, and leaves out the sum over heads
import math

@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    d = W_Q.shape[-1]
    q = (X.unsqueeze(-3) @ W_Q / math.sqrt(d)) @ W_UK.mT
    c = C.unsqueeze(-3)
    U = causal_weights(q @ c.mT / math.sqrt(d)) @ c
    return U @ W_UV @ W_O, U

# %% decoding_from_latents.mla_absorbed wrong single: absorbs W_UV into the query and W_UK into the output (an error unless d = d_v)
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UV)
    c = C.unsqueeze(-3)
    U = causal_weights(q @ c.mT / math.sqrt(W_Q.shape[-1])) @ c
    return absorb_output(U, W_UK, W_O), U

# %% decoding_from_latents.mla_absorbed wrong double: returns (U, Y); copies the latents for each head
# true: latents_copied_for_each_head; slip.returned.order(Y, U)
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    c = C.unsqueeze(-3)
    A = causal_weights(absorb_query(X.unsqueeze(-3) @ W_Q, W_UK) @ c.mT / math.sqrt(W_Q.shape[-1]))
    U = A @ c
    return U, absorb_output(U, W_UV, W_O)

# %% decoding_from_latents.mla_absorbed wrong single: copies the latents for each head of each sequence
# true: latents_copied_for_each_head
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3)
    U = causal_weights(q @ c.mT / math.sqrt(W_Q.shape[-1])) @ c
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed right: einsum, mask by index
import math

@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = torch.einsum("...ne,hed->...hnd", X, W_Q)
    q = torch.einsum("...hnd,hcd->...hnc", q, W_UK)
    S = torch.einsum("...hnc,...mc->...hnm", q, C) / math.sqrt(W_UK.shape[-1])
    n, m = S.shape[-2:]
    later = torch.arange(m) > torch.arange(m - n, m)[:, None]
    A = S.masked_fill(later.to(S.device), -torch.inf).softmax(-1)
    U = torch.einsum("...hnm,...mc->...hnc", A, C)
    return torch.einsum("...hnc,hcv,hve->...ne", U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed wrong single: the builtin copies the latents for each head
import torch.nn.functional as F
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


def absorb_output(U, W_UV, W_O):
    return (U @ W_UV @ W_O).sum(-3)


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    n, m = X.shape[-2], C.shape[-2]
    rows = C.unsqueeze(-3).expand(*q.shape[:-2], m, -1)
    mask = torch.ones(n, m, dtype=torch.bool, device=X.device).tril(m - n)
    U = F.scaled_dot_product_attention(q, rows, rows, attn_mask=mask, scale=1 / math.sqrt(W_Q.shape[-1]))
    return absorb_output(U, W_UV, W_O), U

# %% decoding_from_latents.mla_absorbed right: loop over heads
import math

@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    Us, Y = [], 0
    for h in range(W_Q.shape[0]):
        W = W_Q[h] @ W_UK[h].T
        U = causal_weights(X @ W @ C.mT / math.sqrt(W_Q.shape[2])) @ C
        Us.append(U)
        Y = Y + U @ W_UV[h] @ W_O[h]
    return Y, torch.stack(Us, dim=-3)

# %% decoding_from_latents.mla_absorbed wrong double: no mask, and returns the averages of values instead of latents
import math

def absorb_query(q, W_UK):
    return q @ W_UK.mT


@tells_copies
def mla_absorbed(X, C, W_Q, W_UK, W_UV, W_O):
    q = absorb_query(X.unsqueeze(-3) @ W_Q, W_UK)
    c = C.unsqueeze(-3)
    O = torch.softmax(q @ c.mT / math.sqrt(W_Q.shape[-1]), dim=-1) @ c @ W_UV
    return (O @ W_O).sum(-3), O
