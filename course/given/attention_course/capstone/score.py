"""Score a submitted cache: the model runs here, and the cache is asked for keys and values, wherever it runs.

The prompt of a text, 512 tokens, is read at once, then 64 tokens at a time. In each step a token attends exactly to the tokens
of its own step, and to everything earlier only through what the cache gives back. The cache is handed keys and values
after its tokens have been attended to, so it cannot look ahead, and it never sees a token.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.capstone import inside, texts
from attention_course.capstone.rules import CONTEXT, PROMPT, STEP, RefusedError, Result
from attention_course.language_model.parts import apply_rope
from attention_course.language_model.reference import hidden_with

Ask = Callable[[str, dict[str, Any]], Any]  # a question's name and its arguments; raises RefusedError
SLACK = 1.001  # a declaration may be rounded
BLOCK, DRAWS = 32, 2000


def local(Cache: Any) -> Ask:
    """Ask a class of this process, with the same bytes between the steps but no walls. For a notebook, not for a contest."""
    answers = inside.serve(Cache)
    return lambda name, given: answers[name](**given)


class Stored:
    """The caches of all layers, which are asked: states in, states and rows out. `held` is what they hold, in bytes."""

    def __init__(self, ask: Ask, shape: tuple[int, int]) -> None:
        self.ask, self.shape = ask, shape  # (groups, d)
        self.states: list[np.ndarray] = []
        self.sums: np.ndarray = np.zeros(0)
        self.length = 0

    @property
    def held(self) -> int:
        """The bytes of all states, counted on this side."""
        return sum(len(packed) for packed in self.states)

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Hand over new tokens, (layer, group, new, d) each."""
        given = {"states": self.states, "keys": keys.numpy(), "values": values.numpy()}
        answer = _checked(self.ask("capstone_append", given), "append", ("states", "sums"))
        states, layers = answer["states"], len(keys)
        if not isinstance(states, list) or len(states) != layers or any(_odd(packed) for packed in states):
            raise RefusedError("`append` did not leave one state for each layer.")
        self.states, self.sums = states, np.asarray(answer["sums"], dtype=np.float64)
        self.length += keys.shape[-2]

    def read(self) -> tuple[list[Tensor], list[Tensor]]:
        """What the caches give back, for each layer (group, m, d)."""
        answer = _checked(self.ask("capstone_read", {"states": self.states}), "read", ("keys", "values", "sums"))
        sums = np.asarray(answer["sums"], dtype=np.float64)
        if sums.shape != self.sums.shape or not np.allclose(sums, self.sums, rtol=1e-6, atol=1e-4):
            raise RefusedError(
                "in a fresh process that has only the object's fields, `read` gives other numbers than right after `append`. "
                "Something is kept outside of the object: in a global, a closure, a class attribute or a file."
            )
        rows = tuple([torch.from_numpy(np.ascontiguousarray(x)) for x in answer[name]] for name in ("keys", "values"))
        for k, v in zip(*rows, strict=True):
            (groups, d), tokens = self.shape, k.shape[1] if k.dim() == 3 else -1
            if k.shape != (groups, tokens, d) or k.shape != v.shape or tokens > self.length:
                raise RefusedError(
                    f"`read` must give keys and values of (groups, m, d) = ({groups}, m, {d}) with at most {self.length} rows, "
                    f"got {tuple(k.shape)} and {tuple(v.shape)}."
                )
            if not (torch.isfinite(k).all() and torch.isfinite(v).all()):
                raise RefusedError("`read` gives numbers that are not finite.")
        return rows[0], rows[1]


class Exact:
    """Keys and values as they are, in float32: what a submitted cache is compared with."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Keep new tokens."""
        self.keys, self.values = [*self.keys, keys], [*self.values, values]

    def read(self) -> tuple[list[Tensor], list[Tensor]]:
        """All of them."""
        return list(torch.cat(self.keys, -2)), list(torch.cat(self.values, -2))


class _Attention:
    """A layer's attention in one step: everything earlier is what the cache gave back."""

    def __init__(self, layer: Mapping[str, Any], past: tuple[Tensor, Tensor] | None, length: int) -> None:
        self.layer, self.past, self.length = layer, past, length
        self.new: tuple[Tensor, Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        W, n = self.layer, x.shape[1]
        q, k, v = (
            (x[0] @ W[m]).unflatten(-1, (h, -1)).transpose(0, 1) for m, h in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
        )
        pos = torch.arange(self.length, self.length + n)
        q, k = apply_rope(q, pos, W["base"]), apply_rope(k, pos, W["base"])
        self.new = k, v
        past = 0
        if self.past is not None:
            past = self.past[0].shape[-2]
            k, v = torch.cat([self.past[0], k], -2), torch.cat([self.past[1], v], -2)
        keep = torch.ones(n, past + n, dtype=torch.bool).tril(past)
        k, v = (y.repeat_interleave(W["H"] // W["G"], dim=0) for y in (k, v))
        y: Tensor = F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(0, 1).flatten(1) @ W["W_O"]
        return y[None]


def losses(weights: Mapping[str, Any], ids: Tensor, caches: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """A text read with `caches`: for each token behind the prompt its loss and whether it was the likeliest; the bytes held
    behind the prompt and at the end.
    """
    n = ids.shape[1]
    starts = [0, *range(PROMPT, n, STEP)]
    surprise, hit, after_prompt = [], [], 0
    with torch.inference_mode():
        for start, stop in zip(starts, [*starts[1:], n], strict=True):
            rows = caches.read() if start else None
            layers = [_Attention(W, (rows[0][i], rows[1][i]) if rows else None, start) for i, W in enumerate(weights["layers"])]
            hidden = hidden_with(weights, ids[:, start:stop], layers)[0]
            caches.append(*(torch.stack([layer.new[i] for layer in layers]) for i in (0, 1)))
            after_prompt = after_prompt or getattr(caches, "held", 0)
            if start:  # the rows of this step predict the tokens that follow each
                wanted = ids[0, start + 1 : stop + 1]
                scores = (hidden[: len(wanted)] @ weights["embed"].mT).log_softmax(-1)
                surprise.append(-scores.gather(-1, wanted[:, None])[:, 0])
                hit.append(scores.argmax(-1) == wanted)
    return torch.cat(surprise), torch.cat(hit), (after_prompt, getattr(caches, "held", 0))


def recalled(hit: Tensor, places: Sequence[slice]) -> int:
    """How many codes come back whole. Row 0 of `hit` belongs to the token behind the first one after the prompt."""
    return sum(bool(hit[p.start - PROMPT - 1 : p.stop - PROMPT - 1].all()) for p in places)


def interval(difference: np.ndarray, block: int = BLOCK, draws: int = DRAWS) -> tuple[float, float, float]:
    """The perplexity ratio and its 95 % interval, from each token's difference in loss: whole blocks are drawn, with replacement.

    Neighbouring tokens are not independent, so blocks of them are drawn and not single ones. The interval is paired, because
    both losses of a token enter together.

    >>> ratio, low, high = interval(np.full(320, 0.01))
    >>> round(ratio, 4), round(low, 4), round(high, 4)
    (1.0101, 1.0101, 1.0101)
    """
    blocks = difference[: len(difference) // block * block].reshape(-1, block).mean(1)
    drawn = blocks[np.random.default_rng(0).integers(0, len(blocks), (draws, len(blocks)))].mean(1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return float(np.exp(difference.mean())), float(low), float(high)


def at_full_length(after_prompt: float, at_end: float, tokens: int) -> float:
    """Bytes per token at 8,192 tokens, if the cache goes on growing as it did between the prompt and the end of the text."""
    growth = max(0.0, (at_end - after_prompt) / (tokens - PROMPT))
    return (at_end + growth * (CONTEXT - tokens)) / CONTEXT


def judge(ask: Ask, name: str, *, seed: int = 0, model: Any = None, say: Callable[[str], None] = lambda _: None) -> Result:
    """Run a submission on the texts of a seed. Never raises RefusedError: what is refused is a result, too."""
    if model is None:
        from attention_course.language_model import load_model

        model = load_model("cpu")
    try:
        return _judged(ask, name, seed, model, say)
    except RefusedError as error:
        return Result(name, seed, refused=str(error))


def _judged(ask: Ask, name: str, seed: int, model: Any, say: Callable[[str], None]) -> Result:
    answer = _checked(ask("capstone_declared", {}), "bytes_per_token", ("bytes_per_token",))
    declared, shape = float(answer["bytes_per_token"]), (model.sizes["G"], model.sizes["d"])
    hay, places = texts.haystack(model, seed)
    reading = [*texts.passages(model, seed), hay]
    differences, counts, found, exact = [], [], 0, 0
    for number, ids in enumerate(reading):
        say(f"text {number + 1} of {len(reading)}")
        right, right_hits = exactly(model, ids)
        caches = Stored(ask, shape)
        loss, hit, held = losses(model.weights, ids, caches)
        counts.append(at_full_length(*held, ids.shape[1]))
        if counts[-1] > declared * SLACK:
            raise RefusedError(f"declares {declared:,.0f} bytes per token and holds {counts[-1]:,.0f}.")
        if ids is hay:
            found, exact = recalled(hit, places), recalled(right_hits, places)
        else:
            differences.append((loss - right).double().numpy())
    ratio, low, high = interval(np.concatenate(differences))
    return Result(name, seed, max(counts), declared, ratio, low, high, found, len(places), exact)


def exactly(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and hits of the exact cache on a text; each is computed once on a machine."""
    from attention_course.language_model import cache

    def run() -> list[list[float]]:
        loss, hit, _ = losses(model.weights, ids, Exact())
        return [loss.tolist(), hit.double().tolist()]

    key = cache.key("capstone", model.key, repr((PROMPT, STEP, ids.tolist())))
    loss, hit = cache.remembered(key, run)
    return torch.tensor(loss), torch.tensor(hit) > 0.5


def _text(words: Any) -> str:
    """A reason as one printable line: from the sandbox it comes as bytes, and it may be a learner's."""
    raw = words if isinstance(words, str) else bytes(np.asarray(words, dtype=np.uint8).ravel()[:500]).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in raw)


def _odd(packed: Any) -> bool:
    return not (isinstance(packed, np.ndarray) and packed.dtype == np.uint8 and packed.ndim == 1)


def _checked(answer: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    """An answer that has what it must have. Raises RefusedError."""
    if isinstance(answer, dict) and "refused" in answer:
        raise RefusedError(_text(answer["refused"]))
    if isinstance(answer, dict) and "error" in answer:
        raise RefusedError(f"`{what}` raises {_text(answer['error'])}")
    if not isinstance(answer, dict) or any(name not in answer for name in names):
        raise RefusedError(f"`{what}` gave no answer that can be used.")
    return answer
