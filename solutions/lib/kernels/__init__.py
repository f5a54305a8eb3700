"""Decode steps on a GPU: split-KV kernels in Triton for grouped-query and for absorbed latent attention.

A decode step reads the whole cache once and does little else, so the GPU must be kept full of reads. One sequence has too few
heads for that: the keys are split among many programs, each of which leaves a normalised partial output and the log-sum-exp of
its scores, and a second kernel merges them, as `solutions.lib.tiled.merge_tiles` does.

`solutions.lib.attention.decode` and `solutions.lib.latent.attend_latents` come here by themselves where `serve` says so.

Source: Dao, Haziza, Massa, Sizov (2023), "Flash-Decoding for long-context inference".
"""

import functools
import importlib.util

import torch
from jaxtyping import Float, Int
from torch import Tensor

WIDEST = 256  # features of a key or value; wider tiles of both leave no room in shared memory for the next ones
WIDEST_LATENT, WIDEST_ROPE = 512, 64  # likewise, of a latent, which is read once for both, and of its rotated key
SHARED = 227 * 1024  # bytes that one program may have
MOST_BATCH = 2**16  # a grid's second and third axes are shorter
FARTHEST = 2**31  # numbers from a sequence's first row to its last: rows are counted in 32 bits


def serve(asks: Tensor, *cached: Tensor) -> bool:
    """Whether a kernel is there for this step: its GPU, Triton, half precision, a cache laid out by rows, no gradient wanted.

    `asks` are the queries, `cached` keys and values (batch, group, n, d) or the latents (batch, n, d_c), a part of their rows.
    The GPU must have the shared memory of NVIDIA's H100 and its successors, for which the tiles are made.
    """
    if not _is_made_for(asks):
        return False
    tensors = (asks, *cached)
    if len({x.device for x in tensors}) > 1 or len({x.shape[0] for x in tensors if x.dim()}) > 1:
        return False  # another device's or another batch's: PyTorch says so in words
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    latent = len(cached) == 1  # latents (batch, n, d_c), asked for by (batch, head, d_c + d_rope)
    if any(x.dim() != (3 if latent else 4) for x in tensors):  # neither without a batch nor with a second one
        return False
    if not 1 <= asks.shape[0] < MOST_BATCH or not 1 <= asks.shape[1] < MOST_BATCH or asks.shape[-2] < 1:
        return False
    widest, (*_, n, _) = WIDEST_LATENT if latent else WIDEST, cached[0].shape
    if n < 1 or any(n * x.stride(-2) >= FARTHEST for x in cached):
        return False
    if not all(1 <= x.shape[-1] <= widest and x.stride(-1) == 1 and x.dtype == asks.dtype for x in cached):
        return False
    if latent:  # the kernel makes the asks' rows contiguous itself
        return 0 <= asks.shape[-1] - cached[0].shape[-1] <= WIDEST_ROPE
    K, V = cached
    return asks.stride(-1) == 1 and asks.shape[1] == K.shape[1] and asks.shape[-1] == K.shape[-1] and K.shape[:-1] == V.shape[:-1]


def _is_made_for(asks: Tensor) -> bool:
    return asks.is_cuda and asks.dtype in (torch.float16, torch.bfloat16) and _has_room(asks.device)


@functools.cache
def _has_room(where: torch.device) -> bool:
    shared = getattr(torch.cuda.get_device_properties(where), "shared_memory_per_block_optin", 0)
    return shared >= SHARED and importlib.util.find_spec("triton") is not None


def grouped_decode(
    Q: Float[Tensor, "batch group size d_k"],
    K: Float[Tensor, "page group n d_k"],
    V: Float[Tensor, "page group n d_v"],
    *,
    lengths: Int[Tensor, " batch"] | None = None,
    table: Int[Tensor, "batch pages"] | None = None,
    splits: int | None = None,
) -> Float[Tensor, "batch group size d_v"]:
    r"""$\mathrm{softmax}(Q_g K_g^\top / \sqrt{d_k})\, V_g$ for each group `g`: one decode step of grouped-query attention.

    `K` and `V` may be views of a cache: each of their rows must be contiguous, nothing else. `splits` is the number of parts
    that the keys are cut into; chosen from the number of multiprocessors unless given. Products of half-precision numbers are
    added up in float32; the softmax weights are rounded to the dtype of `V`.

    With `lengths`, sequence `b` has only its first `lengths[b]` keys (0: its output is 0). With `table` as well, keys lie in
    pages: key `j` of sequence `b` is row `j % n` of page `table[b, j // n]`, where `n`, the rows of a page, is a multiple of 16.
    Neither lengths nor page numbers are looked at before they are used: that would wait for the GPU.

    Source: Dao et al. (2023), "Flash-Decoding"; Ainslie et al. (2023), section 2.2, for the function computed; Kwon et al.
    (2023), "PagedAttention", for pages.

    Raises ValueError where `lengths` or `table` have another batch's shape, or pages an impossible size.
    """
    from solutions.lib.kernels.grouped import run

    return run(Q, K, V, *_placed(Q.shape[0], K.shape[0], lengths, table), splits)


def latent_decode(
    asks: Float[Tensor, "batch head row"],
    rows: Float[Tensor, "page n row"],
    d_c: int,
    *,
    scale: float,
    lengths: Int[Tensor, " batch"] | None = None,
    table: Int[Tensor, "batch pages"] | None = None,
    splits: int | None = None,
) -> Float[Tensor, "batch head d_c"]:
    r"""$\mathrm{softmax}(\text{scale} \cdot A R^\top)\, C$: one decode step of MLA. $C$ is the first `d_c` columns of $R$.

    All heads share the rows, and each tile of them serves twice, as keys and as values, but is read once. `lengths`, `table`,
    `splits`, precision and errors as in `grouped_decode`.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1.2, "absorbed"; the 512 + 64 split of a row is that of their models.
    """
    from solutions.lib.kernels.latent import run

    return run(asks, rows, d_c, scale, *_placed(asks.shape[0], rows.shape[0], lengths, table), splits)


def _placed(batch: int, cached: int, lengths: Tensor | None, table: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Lengths and table as the kernels read them, if they are those of this batch."""
    if table is None and cached != batch:
        raise ValueError(f"expected a cache of {batch} sequences, as the queries are, got {cached}.")
    if table is not None and lengths is None:
        raise ValueError("table: expected lengths too: the last page of a sequence is rarely full.")
    for name, x, dims in (("lengths", lengths, 1), ("table", table, 2)):
        if x is not None and (x.dim() != dims or x.shape[0] != batch or x.dtype not in (torch.int32, torch.int64)):
            raise ValueError(
                f"{name}: expected {dims} axes, the first of {batch}, of integers, got {tuple(x.shape)} in {x.dtype}."
            )
    return (None if lengths is None else lengths.contiguous(), None if table is None else table.contiguous())
