"""What is measured: each case is one task, its least work, and the functions that do it, ours first."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from solutions import Attention, KVCache, LatentAttention, attention_tiled
from solutions.grouped_query import repeat_kv
from solutions.lib.attention import grouped_sdpa
from solutions.lib.decode_choice import STEPS, fused, products
from solutions.lib.rope import apply_rope
from tools.bench import alternatives as alt
from tools.bench.clock import rotated

Compute = Callable[..., Tensor]

NEAR_THE_FASTEST = 1 / 1.1  # ours takes at most a tenth longer than the fastest contender


@dataclass(frozen=True)
class Goal:
    """`contender` takes at least `times` as long as ours does.

    `"fastest"` is whichever contender is the fastest, and `"floor"` the roofline floor, of which ours reaches the share `times`.
    """

    contender: str
    times: float


@dataclass(frozen=True)
class Case:
    """One task: `bytes` and `flops` are the least that it moves and computes, `sets` its inputs, in turn to be used."""

    name: str
    sizes: dict[str, int]
    bytes: int
    flops: int
    sets: list[tuple[Any, ...]]
    contenders: dict[str, Compute]
    reference: Compute
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Settings:
    """Where and on which sizes to measure. `flex`: compile and measure flex_attention too (some 10 s for each shape on a CPU).

    `span`: bytes of a case's inputs, which are copied until they take so many, so that no cache holds them from call to call.
    `only`: measure the cases whose names contain it.
    """

    device: torch.device
    dtype: torch.dtype
    batch: tuple[int, ...] = (1,)
    context: tuple[int, ...] = (4096, 16_384)
    prompt: int = 2048
    heads: int = 16
    kv_heads: int = 4
    head_dim: int = 128
    latent: int = 512
    rope: int = 64
    latent_heads: tuple[int, ...] = (16,)
    flex: bool = True
    seconds: float = 6.0
    span: int = 2**30
    only: str = ""


def cases(s: Settings) -> Iterator[Case]:
    """Make the cases whose names contain `s.only`, one after the other: the memory of one is free before the next."""
    names = {"MHA": s.heads, "GQA": s.kv_heads, "MQA": 1}
    planned = [(f"prefill {name}", partial(prefill, s, name, groups)) for name, groups in names.items()]
    planned.append(("prefill MLA", partial(latent_prefill, s)))
    for n, batch in product(s.context, s.batch):
        planned += [(f"decode {name}", partial(decode, s, name, groups, batch, n)) for name, groups in names.items()]
        planned += [("decode MLA", partial(latent_decode, s, heads, batch, n)) for heads in s.latent_heads]
    planned.append(("generate one token", partial(generate, s)))
    for name, make in planned:
        if s.only in name:
            yield make()


def normal(s: Settings, *shape: int, seed: int) -> Tensor:
    """Reproducible normal numbers on the device, in the dtype."""
    generator = torch.Generator(s.device).manual_seed(seed)
    return torch.randn(*shape, generator=generator, device=s.device).to(s.dtype)


def prefill(s: Settings, name: str, G: int) -> Case:
    """Causal attention of a whole prompt. Source of the FLOP count: `kv_cache.attention_flops`, halved by the mask."""
    H, n, d = s.heads, s.prompt, s.head_dim
    inputs = (normal(s, 1, H, n, d, seed=0), *(normal(s, 1, G, n, d, seed=seed) for seed in (1, 2)))
    contenders: dict[str, Compute] = {}
    if G == H:
        contenders["tiled"] = lambda q, k, v: attention_tiled(q, k, v, causal=True)[0]
        contenders["tiled over keys alone (before)"] = alt.online_softmax
        contenders["SDPA"] = partial(sdpa, is_causal=True)
    else:
        contenders["Attention's"] = grouped_sdpa
        contenders["repeat_interleave"] = lambda q, k, v: sdpa(q, repeat_kv(k, H // G), repeat_kv(v, H // G), is_causal=True)
    contenders["naive"] = alt.naive
    if s.flex:
        contenders["flex_attention"] = alt.flex(causal=n)
    return Case(
        f"prefill {name}",
        {"B": 1, "H": H, "G": G, "n": n, "d": d},
        bytes=sum(x.nbytes for x in inputs) + inputs[0].nbytes,
        flops=4 * H * d * n * (n + 1) // 2,
        sets=[inputs],
        contenders=contenders,
        reference=alt.exact,
        goals=(Goal("SDPA", 0.4),) if G == H and s.device.type == "cpu" and n >= 2048 else (),
    )


def decode(s: Settings, name: str, G: int, B: int, n: int) -> Case:
    """One new token's queries over a cache of `n` tokens, which is a view of a larger buffer, as `KVCache` gives it."""
    H, d = s.heads, s.head_dim

    k, v = (normal(s, B, G, n + 16, d, seed=seed)[:, :, :n] for seed in (1, 2))
    inputs = (normal(s, B, H, 1, d, seed=0), k, v)
    contenders: dict[str, Compute] = {"Attention's": grouped_sdpa}
    contenders |= {"fused": alt.folded(fused), "two products": alt.folded(products)}
    if G != H:
        contenders["enable_gqa"] = partial(sdpa, enable_gqa=True)
        contenders["repeat_interleave"] = lambda q, k, v: sdpa(q, repeat_kv(k, H // G), repeat_kv(v, H // G))
    contenders["naive"] = alt.naive
    if s.flex:
        contenders["flex_attention"] = alt.flex()
    goals: tuple[Goal, ...] = ()
    if n >= (32_768 if s.device.type == "cuda" else 4096):
        goals = (Goal("fastest", NEAR_THE_FASTEST),)
        if G != H and s.device.type == "cpu":
            goals += (Goal("enable_gqa", 1.3), Goal("repeat_interleave", 5.0))
        if name == "GQA" and B == 8 and s.device.type == "cuda":
            goals += (Goal("floor", 0.75),)
    sets = rotated(inputs, s.span)
    for i in range(STEPS):  # what Attention decides in its first steps is decided before it is timed
        grouped_sdpa(*sets[i % len(sets)])
    size = s.dtype.itemsize
    return Case(
        f"decode {name}",
        {"B": B, "H": H, "G": G, "n": n, "d": d},
        bytes=(2 * B * G * n * d + 2 * B * H * d) * size,
        flops=4 * B * H * n * d,
        sets=sets,
        contenders=contenders,
        reference=alt.exact,
        goals=goals,
    )


def _latent_inputs(s: Settings, H: int, B: int, n: int, new: int) -> tuple[Tensor, ...]:
    q, r = (normal(s, B, H, new, d, seed=seed) for seed, d in ((0, s.head_dim), (1, s.rope)))
    rows = normal(s, B, n, s.latent + s.rope, seed=2)
    pos = torch.arange(n, device=s.device)
    rows[..., s.latent :] = apply_rope(rows[..., s.latent :], pos)
    return q, apply_rope(r, pos[n - new :]), rows


def _latent_module(s: Settings, H: int) -> LatentAttention:
    module = LatentAttention(8, H, s.head_dim, s.head_dim, s.latent, s.rope)  # its outer projections are not measured
    return module.to(s.device, s.dtype).requires_grad_(False)


def latent_prefill(s: Settings) -> Case:
    """Causal latent attention of a whole prompt: with few more tokens than d_c / H, making keys and values is cheaper."""
    H, n, d = s.latent_heads[0], s.prompt // 2, s.head_dim
    module = _latent_module(s, H)
    inputs = _latent_inputs(s, H, 1, n, n)
    pairs = n * (n + 1) // 2
    return Case(
        "prefill MLA",
        {"B": 1, "H": H, "d_c": s.latent, "d_rope": s.rope, "n": n, "d": d},
        bytes=sum(x.nbytes for x in (*inputs, inputs[0], module.W_UK, module.W_UV)),
        flops=2 * H * (2 * n * s.latent * d + pairs * (2 * d + s.rope)),
        sets=[inputs],
        contenders={
            "naive (keys and values made)": module.naive,
            "absorbed": module.absorbed,
            "naive, a mask (before)": partial(alt.latent_naive, module),
        },
        reference=partial(alt.latent_exact, module),
    )


def latent_decode(s: Settings, H: int, B: int, n: int) -> Case:
    """One new token's queries over a cache of `n` latent rows; the two absorbing products are in the time of all contenders."""
    d = s.head_dim
    module = _latent_module(s, H)
    goals: tuple[Goal, ...] = ()
    if s.device.type == "cpu" and n >= 4096:
        goals = (Goal("naive", 15.0),)
    elif s.device.type == "cuda" and H == 16 and n >= 32_768:
        goals = (Goal("naive", 10.0), *((Goal("floor", 0.60),) if B == 32 else ()))
    size = s.dtype.itemsize
    return Case(
        "decode MLA",
        {"B": B, "H": H, "d_c": s.latent, "d_rope": s.rope, "n": n, "d": d},
        bytes=(B * n * (s.latent + s.rope) + 2 * H * s.latent * d + B * H * (2 * d + s.rope)) * size,
        flops=2 * B * H * (n * (2 * s.latent + s.rope) + 2 * s.latent * d),
        sets=rotated(_latent_inputs(s, H, B, n, 1), s.span),
        contenders={
            "absorbed": module.absorbed,
            "absorbed, rows on the left (before)": partial(alt.latent_rows_left, module),
            "absorbed, SDPA": partial(alt.latent_sdpa, module, enable_gqa=False),
            "absorbed, enable_gqa": partial(alt.latent_sdpa, module, enable_gqa=True),
            "naive": module.naive,
        },
        reference=partial(alt.latent_exact, module),
        goals=goals,
    )


def generate(s: Settings, layers: int = 4, d_model: int = 512) -> Case:
    """The next token's hidden state in a stack of attention layers: from a cache of `n` tokens, or from all tokens again.

    Every call of the cached step appends a token, so its cache grows by one each time, for which there is room. Weights and
    caches are copied too, so that each step reads them from memory, as it would among the other layers of a large model.
    """
    n, H, G = s.prompt, 8, 2
    torch.manual_seed(0)
    stack = [Attention(d_model, H, G).to(s.device, s.dtype).requires_grad_(False) for _ in range(layers)]
    x = normal(s, 1, n, d_model, seed=0)
    d = d_model // H
    weights = sum(p.nbytes for layer in stack for p in layer.parameters())
    moved = weights + layers * 2 * G * n * d * s.dtype.itemsize
    copies = -(-s.span // moved)
    caches = [KVCache(n + 64 + 4096 // copies) for _ in stack]

    def through(x: Tensor, stack: list[Attention], caches: list[KVCache] | list[None]) -> Tensor:
        for layer, cache in zip(stack, caches, strict=True):
            x = x + layer(x, cache=cache)
        return x[:, -1]

    with torch.no_grad():
        through(x[:, :-1], stack, caches)
    kept = [(stack, caches), *(deepcopy((stack, caches)) for _ in range(1, copies))]
    return Case(
        "generate one token",
        {"B": 1, "layers": layers, "d_model": d_model, "H": H, "G": G, "n": n},
        bytes=moved,
        flops=2 * weights // s.dtype.itemsize + layers * 4 * H * n * d,
        sets=[(x, i) for i in range(copies)],
        contenders={
            "cached": lambda x, i: through(x[:, -1:], *kept[i]),
            "recomputed": lambda x, i: through(x, kept[i][0], [None] * layers),
        },
        reference=lambda x, i: alt.stack_exact(stack, x),
        goals=(Goal("recomputed", 50.0),) if s.device.type == "cpu" and n >= 2048 else (),
    )
