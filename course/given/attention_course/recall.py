"""Four kinds of attention trained at equal cache: which of them recalls best what it has read?

The task is multi-query associative recall (Arora et al., 2023): a text lists pairs of a key and a value, then asks for the value
of each key, in another order. The models are as small as can do it: two layers of causal attention with rotary positions, no
feed-forward layers. All kinds cache as many numbers for each token and layer; the widths of their heads follow from it.

`python -m attention_course.recall` repeats the stored run (about ten minutes on one core) and compares; `--write FILE` stores it.
"""

import argparse
import json
import math
import statistics
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KINDS = ("multi-head", "grouped", "multi-query", "latent")
HALF = "latent, half rotated"  # one more, with the smallest cache: half of its numbers carry the position, not a quarter
CACHES = (16, 32, 48, 64)  # numbers for each token and layer
SEEDS = (0, 1, 2)
HEADS, GROUPS, D_MODEL, LAYERS = 4, 2, 64, 2
WORDS, PAIRS = 64, 16  # keys to choose from, and as many values; pairs in a text at the end of the training
STEPS, BATCH, EVERY = 600, 32, 50
STAGES = ((0.25, 2), (0.4, 4), (0.6, 8), (1.0, 16))  # until this share of the steps, at most so many pairs: it starts easy


def texts(batch: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`batch` texts k v k v ... k v, then the same pairs in another order; and where a key stands for the second time.

    >>> ids, asked = texts(1, 2, torch.Generator().manual_seed(0))
    >>> ids.shape, asked.int().tolist()
    (torch.Size([1, 8]), [0, 0, 0, 0, 1, 0, 1, 0])
    """
    keys = torch.rand(batch, WORDS, generator=generator).argsort(-1)[:, :pairs]
    values = WORDS + torch.randint(WORDS, (batch, pairs), generator=generator)
    order = torch.rand(batch, pairs, generator=generator).argsort(-1)
    first = torch.stack([keys, values], dim=-1)
    again = first.gather(1, order[..., None].expand(-1, -1, 2))
    asked = torch.zeros(4 * pairs, dtype=torch.bool)
    asked[2 * pairs :: 2] = True  # what follows here can be known
    return torch.cat([first, again], dim=1).flatten(1), asked


def rotate(x: Tensor, base: float = 10_000.0) -> Tensor:
    """Rotary positions 0, 1, 2, ... for the rows of `x` (..., n, d)."""
    n, d = x.shape[-2:]
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Shared(nn.Module):
    """Attention with `groups` heads of keys and values, so wide that a token takes `cache` numbers: multi-head to multi-query."""

    def __init__(self, cache: int, groups: int):
        super().__init__()
        self.groups, self.d = groups, cache // (2 * groups)
        self.q = nn.Linear(D_MODEL, HEADS * self.d, bias=False)
        self.kv = nn.Linear(D_MODEL, cache, bias=False)
        self.o = nn.Linear(HEADS * self.d, D_MODEL, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The output for the tokens `x` (batch, n, d_model)."""
        q = rotate(self.q(x).unflatten(-1, (HEADS, self.d)).transpose(1, 2))
        k, v = self.kv(x).unflatten(-1, (2, self.groups, self.d)).permute(2, 0, 3, 1, 4)
        k, v = (y.repeat_interleave(HEADS // self.groups, dim=1) for y in (rotate(k), v))
        out: Tensor = self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return out


class Latent(nn.Module):
    """Latent attention that caches `cache` numbers for a token, of which the last `d_rope` carry its position."""

    def __init__(self, cache: int, d_rope: int, d: int = D_MODEL // HEADS):
        super().__init__()
        self.d, self.d_rope = d, d_rope
        self.q = nn.Linear(D_MODEL, HEADS * (d + self.d_rope), bias=False)
        self.down = nn.Linear(D_MODEL, cache, bias=False)
        self.up = nn.Linear(cache - self.d_rope, HEADS * 2 * d, bias=False)
        self.o = nn.Linear(HEADS * d, D_MODEL, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The output for the tokens `x` (batch, n, d_model), with keys and values made: for training."""
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        q = torch.cat([q[..., : self.d], rotate(q[..., self.d :])], dim=-1)
        c, k_rope = self.down(x).split([self.up.in_features, self.d_rope], dim=-1)
        k, v = self.up(c).unflatten(-1, (HEADS, 2 * self.d)).transpose(1, 2).chunk(2, dim=-1)
        k = torch.cat([k, rotate(k_rope).unsqueeze(1).expand(-1, HEADS, -1, -1)], dim=-1)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
        out: Tensor = self.o((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))
        return out


class Reader(nn.Module):
    """Two layers of attention between an embedding and a read-out."""

    def __init__(self, kind: str, cache: int):
        super().__init__()
        groups = {"multi-head": HEADS, "grouped": GROUPS, "multi-query": 1}
        d_rope = {"latent": cache // 4, HALF: cache // 2}
        self.embed = nn.Embedding(2 * WORDS, D_MODEL)
        self.norms = nn.ModuleList(nn.RMSNorm(D_MODEL) for _ in range(LAYERS + 1))
        self.layers = nn.ModuleList(
            Latent(cache, d_rope[kind]) if kind in d_rope else Shared(cache, groups[kind]) for _ in range(LAYERS)
        )
        self.read = nn.Linear(D_MODEL, 2 * WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of the next word at each position."""
        x = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + layer(norm(x))
        scores: Tensor = self.read(self.norms[-1](x))
        return scores


def train(kind: str, cache: int, seed: int, *, steps: int = STEPS, pairs: int = PAIRS) -> dict[str, Any]:
    """Train one model; the share of values that it recalls in texts it has not seen, along the way (`curve`) and at the end."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Reader(kind, cache)
    generator = torch.Generator().manual_seed(1000 + seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    slower = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: min((i + 1) / 30, 1.0, 2 * (1 - i / steps) + 0.02))
    curve = []
    for step in range(steps):
        now = min(pairs, next(most for share, most in STAGES if step < share * steps))
        ids, asked = texts(BATCH, now, generator)
        loss = F.cross_entropy(model(ids)[:, asked].flatten(0, 1), ids.roll(-1, 1)[:, asked].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        slower.step()
        if step % EVERY == EVERY - 1:
            curve.append(round(recalled(model, pairs, 2), 3))
    parameters = sum(p.numel() for layer in model.layers for p in layer.parameters())
    return {"recalled": round(recalled(model, pairs, 8), 4), "curve": curve, "parameters": parameters}


@torch.no_grad()
def recalled(model: Reader, pairs: int, batches: int) -> float:
    """The share of values recalled in new texts of `pairs` pairs."""
    generator, right = torch.Generator().manual_seed(7), []
    for _ in range(batches):
        ids, asked = texts(64, pairs, generator)
        right.append((model(ids)[:, asked].argmax(-1) == ids.roll(-1, 1)[:, asked]).float().mean().item())
    return statistics.fmean(right)


def stored() -> dict[str, Any]:
    """The run that travels with the course: its settings, and under "runs" a list for each kind and cache, one entry a seed.

    >>> sorted(stored()["runs"]["latent"]) == ["16", "32", "48", "64"]
    True
    """
    found: dict[str, Any] = json.loads(resources.files("attention_course").joinpath("recall.json").read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Repeat the run, print it beside the stored one, and store it where asked."""
    parser = argparse.ArgumentParser(prog="python -m attention_course.recall", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", type=Path, help="store the run in this file")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many seeds (default: 3)")
    given = parser.parse_args()
    settings: dict[str, Any] = {
        "heads": HEADS,
        "groups": GROUPS,
        "d_model": D_MODEL,
        "layers": LAYERS,
        "words": WORDS,
        "pairs": PAIRS,
    }
    settings |= {"steps": STEPS, "batch": BATCH, "every": EVERY, "torch": str(torch.__version__)}
    runs: dict[str, dict[str, list[Any]]] = {kind: {} for kind in (*KINDS, HALF)}
    old = {} if given.write else stored()["runs"]
    for kind, cache in [*((kind, cache) for cache in CACHES for kind in KINDS), (HALF, CACHES[0])]:
        runs[kind][str(cache)] = []
        for seed in SEEDS[: given.seeds]:
            run = train(kind, cache, seed)
            runs[kind][str(cache)].append(run)
            before = f"   stored {old[kind][str(cache)][seed]['recalled']:6.1%}" if old else ""
            print(f"{cache:3d} numbers   {kind:20s} seed {seed}   recalled {run['recalled']:6.1%}{before}", flush=True)
    if given.write:
        given.write.write_text(json.dumps({"settings": settings, "runs": runs}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
