"""Latent attention as a module: what lesson 10 builds, ready for use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from solutions.lib import kernels
from solutions.lib.cache import LatentCache
from solutions.lib.heads import per_head
from solutions.lib.rope import apply_rope

Mode = Literal["naive", "absorbed"]


@dataclass(frozen=True)
class Yarn:
    """YaRN as DeepSeek-V2, V3 and R1 use it: slower RoPE frequencies, and a factor on the softmax scale of the **whole** score.

    The fields have the names that `rope_scaling` has in a checkpoint's `config.json`. The factor depends on `mscale_all_dim`. It
    is 1.59 for DeepSeek-V2 and V2-Lite, which have 0.707, and 1.87 for V3 and R1, which have 1.

    >>> round(Yarn(factor=40.0, mscale=0.707, mscale_all_dim=0.707).softmax_factor, 2), round(Yarn(factor=40.0).softmax_factor, 2)
    (1.59, 1.87)

    Source: Peng et al. (2023), "YaRN", section 3; DeepSeek-AI (2024), section 3.1.4; DeepSeek-V3's `inference/model.py`.
    """

    factor: float
    original_max_position_embeddings: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 1.0

    @classmethod
    def from_config(cls, rope_scaling: Mapping[str, float | int | str | None]) -> "Yarn | None":
        """Read the settings of a checkpoint; None where it doesn't scale RoPE.

        Raises ValueError for another kind of scaling, and for settings without a place here.

        >>> settings = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale_all_dim": 1.0}
        >>> Yarn.from_config(settings) == Yarn(factor=40.0)
        True
        """
        elsewhere = ("type", "rope_type", "rope_theta")
        settings = {name: value for name, value in rope_scaling.items() if name not in elsewhere and value is not None}
        kind = rope_scaling.get("rope_type", rope_scaling.get("type", "default"))
        if kind == "default":
            return None
        if kind != "yarn":
            raise ValueError(f'expected rope_scaling of the type "yarn", got {kind!r}.')
        if unknown := sorted(settings.keys() - cls.__dataclass_fields__.keys()):
            raise ValueError(f"expected the settings {', '.join(cls.__dataclass_fields__)}, got also {', '.join(unknown)}.")
        if missing := sorted({"factor", "original_max_position_embeddings"} - settings.keys()):
            raise ValueError(f"expected {' and '.join(missing)} in rope_scaling, got {', '.join(settings) or 'nothing'}.")
        numbers = {"mscale": 1.0, "mscale_all_dim": 0.0} | {name: float(value) for name, value in settings.items()}
        original = int(numbers.pop("original_max_position_embeddings"))
        return cls(original_max_position_embeddings=original, **numbers)

    @property
    def softmax_factor(self) -> float:
        """The number by which the softmax scale is multiplied."""
        return self._grown(self.mscale_all_dim) ** 2

    @property
    def amplitude(self) -> float:
        """The number by which rotated queries and keys are multiplied: 1 in every released model of DeepSeek's."""
        return self._grown(self.mscale) / self._grown(self.mscale_all_dim)

    def frequencies(self, d_rope: int, base: float, like: Tensor) -> Float[Tensor, " pairs"]:
        """Compute the frequency of each pair: fast pairs keep theirs, slow ones are divided by `factor`, with a ramp between.

        >>> Yarn(factor=40.0).frequencies(4, 10_000.0, torch.zeros(1))
        tensor([1.0000, 0.0051])
        """
        steps = torch.arange(d_rope // 2, dtype=like.dtype, device=like.device)
        theta = base ** (-2 * steps / d_rope)
        low, high = math.floor(self._pair(self.beta_fast, d_rope, base)), math.ceil(self._pair(self.beta_slow, d_rope, base))
        low, high = max(low, 0), min(high, d_rope - 1)
        slowed = ((steps - low) / max(high - low, 0.001)).clamp(0, 1)  # 0.001: DeepSeek's own guard for a ramp without width
        return theta * (1 - slowed + slowed / self.factor)

    def _pair(self, turns: float, d_rope: int, base: float) -> float:
        """The pair, in general between two, that turns so often within the original context."""
        return d_rope * math.log(self.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))

    def _grown(self, mscale: float) -> float:
        return 1.0 if self.factor <= 1 else 0.1 * mscale * math.log(self.factor) + 1


class LatentAttention(nn.Module):
    r"""Causal multi-head latent attention with decoupled RoPE, as in DeepSeek-V2 and V3.

    Two ways to the same output, chosen by `mode` or per call:

    - `"naive"` makes the keys and values of all heads out of the latents: for training and long prompts;
    - `"absorbed"` asks the latents directly, all heads in one matrix product: for decoding with a `LatentCache`.

    Weights act from the right, `X @ W`; per-head ones have a leading head axis. With `d_cq` the queries come from a latent of
    their own; without, `W_UQ` and `W_QR` act on the token itself. With `norm`, both latents pass through an RMS norm, as in
    DeepSeek's models; what is cached is the normed one. With `yarn`, RoPE's frequencies and the softmax scale are YaRN's, as in
    every checkpoint of DeepSeek-V2, V3 and R1.

    | here | the paper | transformers, vLLM (weights transposed) | its size there |
    |---|---|---|---|
    | `W_DQ` | $W^{DQ}$ | `q_a_proj` | `q_lora_rank` |
    | `W_UQ`, `W_QR` | $W^{UQ}$, $W^{QR}$ | `q_b_proj` (of each head first content, then position), or `q_proj` | |
    | `W_DKV`, `W_KR` | $W^{DKV}$, $W^{KR}$ | `kv_a_proj_with_mqa` (first the latent) | |
    | `W_UK`, `W_UV` | $W^{UK}$, $W^{UV}$ | `kv_b_proj` (of each head first the key) | |
    | `W_O` | $W^O$ | `o_proj` | |
    | `norm_q`, `norm_kv` | section 3.1.2 | `q_a_layernorm`, `kv_a_layernorm` | |
    | `H`, `d_c`, `d_rope` | $n_h$, $d_c$, $d^R_h$ | | `num_attention_heads`, `kv_lora_rank`, `qk_rope_head_dim` |
    | `d`, `d_v`, `d_cq` | $d_h$, $d_h$, $d'_c$ | | `qk_nope_head_dim`, `v_head_dim`, `q_lora_rank` |

    >>> module = LatentAttention(d_model=24, H=3, d=8, d_v=5, d_c=12, d_rope=4)
    >>> x = torch.randn(2, 7, 24)
    >>> torch.allclose(module(x, mode="naive"), module(x, mode="absorbed"), atol=1e-5)
    True
    >>> cache = module.new_cache(batch=2, capacity=7)
    >>> steps = [module(x[:, i : i + 1], cache) for i in range(7)]
    >>> torch.allclose(torch.cat(steps, dim=1), module(x), atol=1e-5)
    True

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1 and appendix C.
    """

    def __init__(
        self,
        d_model: int,
        H: int,
        d: int,
        d_v: int,
        d_c: int,
        d_rope: int,
        *,
        d_cq: int | None = None,
        norm: bool = False,
        eps: float = 1e-6,
        base: float = 10_000.0,
        yarn: Yarn | None = None,
        mode: Mode = "absorbed",
    ) -> None:
        """Make the weights, normal with variance one over the width that they act on."""
        super().__init__()
        if d_rope % 2:
            raise ValueError(f"expected an even d_rope (RoPE rotates pairs), got {d_rope}.")
        self.d_c, self.d_rope, self.base, self.yarn, self.mode = d_c, d_rope, base, yarn, mode
        self.scale = (1.0 if yarn is None else yarn.softmax_factor) / math.sqrt(d + d_rope)
        from_query = d_model if d_cq is None else d_cq
        self.W_DQ = None if d_cq is None else _weight(d_model, d_cq)
        self.W_UQ, self.W_QR = _weight(H, from_query, d), _weight(H, from_query, d_rope)
        self.W_DKV, self.W_KR = _weight(d_model, d_c), _weight(d_model, d_rope)
        self.W_UK, self.W_UV = _weight(H, d_c, d), _weight(H, d_c, d_v)
        self.W_O = _weight(H, d_v, d_model)
        self.norm_q = nn.RMSNorm(d_cq, eps) if norm and d_cq is not None else nn.Identity()
        self.norm_kv = nn.RMSNorm(d_c, eps) if norm else nn.Identity()

    def new_cache(self, batch: int, capacity: int) -> LatentCache:
        """An empty cache that fits this module, on its device, in its dtype or the one of the autocast that it is made in."""
        like = self.W_DKV
        dtype = torch.get_autocast_dtype(like.device.type) if torch.is_autocast_enabled(like.device.type) else like.dtype
        return LatentCache(batch, capacity, self.d_c, self.d_rope, dtype=dtype, device=like.device)

    def forward(
        self, x: Float[Tensor, "batch new d_model"], cache: LatentCache | None = None, *, mode: Mode | None = None
    ) -> Float[Tensor, "batch new d_model"]:
        """The output for the tokens `x`, which follow those in `cache` (and enter it), or begin a sequence without one."""
        chosen = self.mode if mode is None else mode
        if chosen not in ("naive", "absorbed"):
            raise ValueError(f'expected mode "naive" or "absorbed", got {chosen!r}.')
        past = 0 if cache is None else cache.length
        pos = torch.arange(past, past + x.shape[1], device=x.device)
        from_query = (x if self.W_DQ is None else self.norm_q(x @ self.W_DQ)).unsqueeze(1)
        q = per_head(from_query, self.W_UQ)  # (batch, H, new, d)
        r = self.rotate(per_head(from_query, self.W_QR), pos)  # (batch, H, new, d_rope)
        c, k_rope = self.norm_kv(x @ self.W_DKV), self.rotate(x @ self.W_KR, pos)
        if cache is not None:  # under autocast the norm answers in another dtype than the products do
            c, k_rope = c.to(cache.dtype), k_rope.to(cache.dtype)
        rows = torch.cat([c, k_rope], dim=-1) if cache is None else cache.append(c, k_rope)
        heads = self.naive(q, r, rows) if chosen == "naive" else self.absorbed(q, r, rows)
        return heads.transpose(1, 2).flatten(2) @ self.W_O.flatten(0, 1)  # one matrix product: it also adds the heads

    def rotate(self, x: Float[Tensor, "... n d_rope"], pos: Int[Tensor, " n"]) -> Float[Tensor, "... n d_rope"]:
        """Rotate rows to their positions by this module's frequencies, pair by pair in the interleaved layout."""
        dtype = torch.promote_types(x.dtype, torch.float32)  # of the angles: float64 rows are rotated by float64 angles
        if self.yarn is None:
            return apply_rope(x, pos.to(dtype), self.base)
        pairs = x.to(dtype).unflatten(-1, (-1, 2))
        angle = pos[:, None] * self.yarn.frequencies(self.d_rope, self.base, like=pairs)  # (n, pairs)
        cos, sin = angle.cos() * self.yarn.amplitude, angle.sin() * self.yarn.amplitude
        even, odd = pairs.unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)

    def naive(
        self,
        q: Float[Tensor, "batch head new d"],
        r: Float[Tensor, "batch head new d_rope"],
        rows: Float[Tensor, "batch n row"],
    ) -> Float[Tensor, "batch head new d_v"]:
        """The heads' outputs for queries of content `q` and position `r`, by keys and values made out of a cache's `rows`."""
        C, k_rope = rows[:, None, :, : self.d_c], rows[:, None, :, self.d_c :]  # (batch, 1, n, ·): the same for all heads
        k, v = per_head(C, self.W_UK), per_head(C, self.W_UV)
        keys = torch.cat([k, k_rope.expand(-1, k.shape[1], -1, -1)], dim=-1)
        queries = torch.cat([q, r], dim=-1)
        if q.shape[-2] < rows.shape[1]:
            return F.scaled_dot_product_attention(queries, keys, v, attn_mask=_keep(q.shape[-2], rows), scale=self.scale)
        # Without a past the fused kernel can mask by itself; but it wants values as wide as keys: zeros fill them up.
        d_v = v.shape[-1]
        v = F.pad(v, (0, max(keys.shape[-1] - d_v, 0)))
        return F.scaled_dot_product_attention(queries, keys, v, is_causal=True, scale=self.scale)[..., :d_v]

    def absorbed(
        self,
        q: Float[Tensor, "batch head new d"],
        r: Float[Tensor, "batch head new d_rope"],
        rows: Float[Tensor, "batch n row"],
    ) -> Float[Tensor, "batch head new d_v"]:
        """The same as `naive` without a key or a value: the queries are taken to the latents, and their averages back."""
        H, new = q.shape[1:3]
        asks = torch.cat([per_head(q, self.W_UK.mT), r], dim=-1).flatten(
            1, 2
        )  # (batch, H * new, d_c + d_rope): heads are just queries
        U = attend_latents(asks, rows, self.d_c, new=new, scale=self.scale)
        heads: Tensor = per_head(U.unflatten(1, (H, new)), self.W_UV)
        return heads


def attend_latents(
    asks: Float[Tensor, "batch asks row"], rows: Float[Tensor, "batch n row"], d_c: int, *, scale: float, new: int = 1
) -> Float[Tensor, "batch asks d_c"]:
    """Averages of the latents `rows[..., :d_c]`, weighted by the softmax of `scale` times the asks' products with whole rows.

    The asks are those of all heads for the `new` last tokens, head by head, so each row is read once for all heads. On CUDA a
    decode step (`new = 1`) is done by a split-KV kernel (`solutions.lib.kernels`).

    >>> attend_latents(torch.zeros(1, 3, 2), torch.tensor([[[1.0, 9.0], [5.0, 9.0]]]), d_c=1, scale=1.0).flatten()
    tensor([3., 3., 3.])

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1.2, "absorbed".
    """
    if new == 1 and kernels.serve(asks, rows[..., :d_c]):
        return kernels.latent_decode(asks, rows, d_c, scale=scale)
    S = (asks * scale) @ rows.mT  # one product for all heads: the rows are never copied
    if (keep := _keep(new, rows)) is not None:
        S = S.unflatten(1, (-1, new)).masked_fill(~keep, -math.inf).flatten(1, 2)
    return torch.softmax(S, dim=-1) @ rows[..., :d_c]  # a view: latents are keys and values at once


def from_deepseek(
    state: Mapping[str, Tensor],
    *,
    H: int,
    d: int,
    d_rope: int,
    eps: float = 1e-6,
    base: float = 10_000.0,
    rope_scaling: Mapping[str, float | int | str | None] | None = None,
) -> LatentAttention:
    """A `LatentAttention` with the weights of one attention layer of DeepSeek-V2 or V3, by the names of their checkpoints.

    `state` has `q_a_proj`, `q_a_layernorm`, `q_b_proj` (or `q_proj` alone), `kv_a_proj_with_mqa`, `kv_a_layernorm`, `kv_b_proj`
    and `o_proj`, each with `.weight`. The remaining sizes are read off the shapes. RoPE is interleaved.

    `rope_scaling` is the entry of this name in the checkpoint's `config.json`, or `config.rope_parameters` of transformers, whose
    `rope_theta` then replaces `base`. All released checkpoints of DeepSeek-V2, V2-Lite, V3 and R1 have YaRN there. Without it,
    their softmax scale would be too small by a factor of 1.59 (V2, V2-Lite) or 1.87 (V3, R1).

    Raises ValueError where the layer has biases, for which there is no place, and for a `rope_scaling` that is not YaRN's.

    >>> sizes = {"q_proj": (18, 8), "kv_a_proj_with_mqa": (7, 8), "kv_b_proj": (27, 5), "o_proj": (8, 15)}
    >>> state = {f"{name}.weight": torch.randn(shape) for name, shape in sizes.items()} | {"kv_a_layernorm.weight": torch.ones(5)}
    >>> from_deepseek(state, H=3, d=4, d_rope=2).W_UV.shape
    torch.Size([3, 5, 5])

    Source: the layouts in Hugging Face's `DeepseekV2Attention` and `DeepseekV3Attention`.
    """
    if biases := sorted(name for name in state if name.endswith(".bias")):
        raise ValueError(f"expected no biases, got {', '.join(biases)}.")
    down, up, out = (state[f"{name}.weight"].T for name in ("kv_a_proj_with_mqa", "kv_b_proj", "o_proj"))
    compressed = "q_a_proj.weight" in state
    d_c, d_v, d_model = up.shape[0], out.shape[0] // H, out.shape[1]
    d_cq = state["q_a_proj.weight"].shape[0] if compressed else None
    yarn = None if rope_scaling is None else Yarn.from_config(rope_scaling)
    base = base if rope_scaling is None else float(rope_scaling.get("rope_theta") or base)
    module = LatentAttention(d_model, H, d, d_v, d_c, d_rope, d_cq=d_cq, norm=True, eps=eps, base=base, yarn=yarn).to(out)
    queries = _per_head(state["q_b_proj.weight" if compressed else "q_proj.weight"].T, H)
    pairs = _per_head(up, H)
    weights = {
        "W_UQ": queries[..., :d],
        "W_QR": queries[..., d:],
        "W_DKV": down[:, :d_c],
        "W_KR": down[:, d_c:],
        "W_UK": pairs[..., :d],
        "W_UV": pairs[..., d:],
        "W_O": out.reshape(H, d_v, d_model),
        "norm_kv.weight": state["kv_a_layernorm.weight"],
    }
    if compressed:
        weights |= {"W_DQ": state["q_a_proj.weight"].T, "norm_q.weight": state["q_a_layernorm.weight"]}
    module.load_state_dict(weights)
    return module


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-2]))


def _per_head(W: Float[Tensor, "d_in H_d"], H: int) -> Float[Tensor, "head d_in d"]:
    return W.reshape(W.shape[0], H, -1).transpose(0, 1)


def _keep(new: int, rows: Float[Tensor, "batch n row"]) -> Tensor | None:
    """The causal mask for the last `new` of all tokens; None where it would hide nothing."""
    if new == 1:
        return None
    n = rows.shape[1]
    return torch.ones(new, n, dtype=torch.bool, device=rows.device).tril(n - new)
