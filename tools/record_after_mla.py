"""Record what an index keeps in all layers of SmolLM2: `python -m tools.record_after_mla`, some minutes of one core.

Writes `after_mla.json` beside `attention_course.language_model.sparse`. One index of four heads of 16 is trained for each layer,
on three passages of the book, and all ways are measured on a passage far behind them.
"""

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attention_course.language_model import load_model, sparse
from attention_course.language_model.sparse import rotate
from torch import Tensor

from solutions.after_mla import index_loss

HEADS, D, BASE, STEPS, ROWS, KEPT = 4, 16, 1e5, 150, 96, (32, 64, 128)


def index_scores(q: Tensor, k: Tensor, w: Tensor, pos: Tensor) -> Tensor:
    """Score the keys (key, d) for queries (head, query, d) with weights (query, head), as notebook 13 does."""
    votes = torch.relu(q @ k.mT / math.sqrt(q.shape[-1]))
    scores = torch.einsum("hij,ih->ij", votes, w)
    return scores.masked_fill(torch.arange(len(k)) > pos[:, None], -math.inf)


class Index(torch.nn.Module):
    """A lightning indexer for one layer: small queries, one small key for each token, and a weight for each head."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W_Q = torch.nn.Parameter(torch.randn(d_model, HEADS * D) / math.sqrt(d_model))
        self.W_K = torch.nn.Parameter(torch.randn(d_model, D) / math.sqrt(d_model))
        self.W_w = torch.nn.Parameter(torch.randn(d_model, HEADS) / math.sqrt(d_model))

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """The scores of some queries for all keys."""
        q = (x[rows] @ self.W_Q).unflatten(-1, (HEADS, D)).transpose(0, 1)
        k = F.layer_norm(x @ self.W_K, (D,))
        every = torch.arange(len(x))
        return index_scores(rotate(q, rows, BASE), rotate(k, every, BASE), x[rows] @ self.W_w, rows)


def train(xs: list[Tensor], As: list[Tensor], steps: int = STEPS, rows: int = ROWS) -> Index:
    """An index trained on the inputs and the weights of a layer in several passages."""
    torch.manual_seed(0)
    index = Index(xs[0].shape[-1])
    adam = torch.optim.Adam(index.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 5e-3 * min((step + 1) / 10, 1.0, 2 * (1 - step / steps))
        x, A = xs[step % len(xs)], As[step % len(xs)]
        chosen = torch.randperm(len(x))[:rows]
        loss = index_loss(index(x, chosen), A[:, chosen]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return index


def main() -> None:
    """Train, measure and write."""
    model = load_model("cpu")
    layers = range(len(model.weights["layers"]))
    found = [sparse.inputs(model, sparse.passage(model, i * sparse.PASSAGE)[:-1], layers) for i in range(3)]
    test = sparse.passage(model, sparse.TEST)
    seen = sparse.inputs(model, test[:-1], layers)
    every, indices, shares = torch.arange(sparse.PASSAGE), [], dict[str, Any]()
    for layer in layers:
        xs = [x[layer] for x in found]
        index = train(xs, [sparse.weights(model, layer, x).mean(0, keepdim=True) for x in xs])
        indices.append(index)
        with torch.no_grad():
            A, scores = sparse.weights(model, layer, seen[layer]), index(seen[layer], every)
        for k in KEPT:
            ways = {"oracle": sparse.best(A.mean(0), k), "index": sparse.best(scores, k), "window": sparse.window(len(A[0]), k)}
            for way, keep in ways.items():
                shares.setdefault(way, {}).setdefault(str(k), []).append(round(sparse.kept(A, keep), 4))
        print(layer, {way: by_k["64"][-1] for way, by_k in shares.items()}, flush=True)

    def chosen(way: str, k: int) -> sparse.Keeps:
        if way == "index":
            return lambda layer, x: sparse.best(indices[layer](x, every), k)
        if way == "oracle":
            return lambda layer, x: sparse.best(sparse.weights(model, layer, x).mean(0), k)
        return lambda layer, x: sparse.window(len(x), k, sinks=4 if way == "window" else 0)

    perplexities: dict[str, Any] = {"full": round(sparse.perplexity(model, test), 3)}
    for way, keys in {"window without sinks": (64,), "index": KEPT, "window": KEPT, "oracle": KEPT}.items():
        perplexities[way] = {str(k): round(sparse.perplexity(model, test, chosen(way, k)), 3) for k in keys}
        print(way, perplexities[way], flush=True)
    file = Path(str(resources.files(sparse.__package__).joinpath(sparse.FILE)))
    file.write_text(json.dumps({"kept": shares, "perplexity": perplexities}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
