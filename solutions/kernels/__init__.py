"""Decode steps on a GPU: split-KV kernels in Triton for grouped-query and for absorbed latent attention.

A decode step reads the whole cache once and does little else, so the GPU must be kept full of reads. One sequence has too few
heads for that: the keys are split among many programs, each of which leaves a normalised partial output and the log-sum-exp of
its scores, and a second kernel merges them, as `solutions.tiled.merge_tiles` does.

`solutions.grouped_query.decode` and `solutions.latent_attention.attend_latents` come here by themselves where `serve` says so.

Source: Dao, Haziza, Massa, Sizov (2023), "Flash-Decoding for long-context inference".
"""

import functools
import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor

WIDEST = 256  # features of a key or value; wider tiles of both leave no room in shared memory for the next ones
WIDEST_LATENT, WIDEST_ROPE = 512, 64  # likewise, of a latent, which is read once for both, and of its rotated key
SHARED = 227 * 1024  # bytes that one program may have


def serve(asks: Tensor, *cached: Tensor) -> bool:
    """Whether a kernel is there for this step: its GPU, Triton, half precision, a cache laid out by rows, no gradient wanted.

    `asks` are the queries, `cached` keys and values (batch, group, n, d) or the latents (batch, n, d_c), a part of their rows.
    The GPU must have the shared memory of NVIDIA's H100 and its successors, for which the tiles are made.
    """
    tensors = (asks, *cached)
    if len({x.device for x in tensors}) > 1 or len({x.shape[0] for x in tensors if x.dim()}) > 1:
        return False  # another device's or another batch's: PyTorch says so in words
    if not (asks.is_cuda and asks.dtype in (torch.float16, torch.bfloat16) and _has_room(asks.device)):
        return False
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    widest = WIDEST if len(cached) == 2 else WIDEST_LATENT
    fit = all(x.shape[-1] <= widest and x.stride(-1) == 1 and x.dtype == asks.dtype for x in cached)
    if len(cached) == 1:  # latents (batch, n, d_c), asked for by (batch, head, d_c + d_rope)
        return fit and asks.dim() == cached[0].dim() == 3 and 0 <= asks.shape[-1] - cached[0].shape[-1] <= WIDEST_ROPE
    # (batch, group, size or n, d): neither without a batch nor with a second one
    return fit and all(x.dim() == asks.dim() == 4 and x.shape[1] == asks.shape[1] for x in cached)


@functools.cache
def _has_room(where: torch.device) -> bool:
    shared = getattr(torch.cuda.get_device_properties(where), "shared_memory_per_block_optin", 0)
    return shared >= SHARED and importlib.util.find_spec("triton") is not None


def grouped_decode(
    Q: Float[Tensor, "batch group size d_k"],
    K: Float[Tensor, "batch group n d_k"],
    V: Float[Tensor, "batch group n d_v"],
    *,
    splits: int | None = None,
) -> Float[Tensor, "batch group size d_v"]:
    r"""$\mathrm{softmax}(Q_g K_g^\top / \sqrt{d_k})\, V_g$ for each group `g`: one decode step of grouped-query attention.

    `K` and `V` may be views of a cache: each of their rows must be contiguous, nothing else. `splits` is the number of parts
    that the keys are cut into; chosen from the number of multiprocessors unless given. Products of half-precision numbers are
    added up in float32; the softmax weights are rounded to the dtype of `V`.

    Source: Dao et al. (2023), "Flash-Decoding"; Ainslie et al. (2023), section 2.2, for the function computed.
    """
    from solutions.kernels.grouped import run

    return run(Q, K, V, splits)


def latent_decode(
    asks: Float[Tensor, "batch head row"],
    rows: Float[Tensor, "batch n row"],
    d_c: int,
    *,
    scale: float,
    splits: int | None = None,
) -> Float[Tensor, "batch head d_c"]:
    r"""$\mathrm{softmax}(\text{scale} \cdot A R^\top)\, C$: one decode step of MLA. $C$ is the first `d_c` columns of $R$.

    All heads share the rows, and each tile of them serves twice, as keys and as values, but is read once. `splits` and
    precision as in `grouped_decode`.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1.2, "absorbed"; the 512 + 64 split of a row is that of their models.
    """
    from solutions.kernels.latent import run

    return run(asks, rows, d_c, scale, splits)
