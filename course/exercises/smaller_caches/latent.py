"""Attention that caches latents, with rotary positions."""

import math

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Script, Tolerance, Variant
from course.exercises.real_model import probes
from solutions import smaller_caches as ref
from solutions.positions import apply_rope

FLOAT32 = Tolerance(rtol=1e-4, atol=3e-5)  # five products, a softmax and a rotation in float32; mistakes are 1e-2 and more
LENGTH = Call("length", attribute=True)


def _layer(draw: Draw, r, *, d_model, H, G, d):
    made = probes.layer(draw, d_model=d_model, H=H, G=G, d=d)
    del made["Wk"], made["Wv"]
    made["W_DKV"] = draw.normal(d_model, r, scale=d_model**-0.5).round(2)
    return made | {name: draw.normal(r, G * d, scale=1.2 * r**-0.5).round(2) for name in ("W_UK", "W_UV")}


def _script(chunks, averages, *, batch=1, again=(), r=6, d_model=5, H=6, G=3, d=4):
    """A text in chunks, of which some give averages; with `again`, a reset and another text."""

    def make(draw: Draw):
        def x(n):
            return {"x": draw.normal(batch, n, d_model).round(2)}

        calls = [Call("__call__", x(n)) for n in chunks] + [Call("averages", x(n)) for n in averages]
        calls += [Call("reset"), LENGTH, *(Call("__call__", x(n)) for n in again)] if again else []
        return Script({"layer": _layer(draw, r, d_model=d_model, H=H, G=G, d=d), "capacity": 16}, None, (*calls, LENGTH))

    return make


def _a_full_cache(draw: Draw):
    """Twenty-four texts of as many tokens as there is room for: a right answer keeps r numbers for each, and little beside."""
    batch, chunks, r = 24, (3, 4, 1), 6
    calls = [Call("__call__", {"x": draw.normal(batch, n, 5).round(2)}) for n in chunks]
    few = Call("__kept__", {"numbers": 3 * batch * sum(chunks) * r // 2})
    layer = _layer(draw, r, d_model=5, H=6, G=3, d=4)
    return Script({"layer": layer, "capacity": sum(chunks)}, None, (*calls, few, LENGTH))


class _Latents:
    """A right answer in other words; each mistake is a subclass that changes one thing."""

    def __init__(self, layer, capacity):
        self.W = layer
        self.reset()

    def reset(self):
        self.latents = None

    @property
    def stored(self):
        return 0 if self.latents is None else self.latents.shape[1]

    @property
    def length(self):
        return self.stored

    def rotate(self, x, pos):
        return apply_rope(x, pos, self.W["base"])

    def queries(self, x, start):
        q = (x @ self.W["Wq"]).unflatten(-1, (self.W["H"], -1)).transpose(1, 2)
        return self.rotate(q, torch.arange(start, start + x.shape[1]))

    def keys(self, start):
        k = (self.latents @ self.W["W_UK"]).unflatten(-1, (self.W["G"], -1)).transpose(1, 2)
        return self.rotate(k, self.key_positions(start))

    def key_positions(self, start):
        return torch.arange(self.stored)

    def last_seen(self, n):
        """Which key is the last that the first of n queries sees."""
        return self.stored - n

    def scale(self, d):
        return d**-0.5

    def group(self, h):
        return h // (self.W["H"] // self.W["G"])

    def ups(self):
        """What makes values of latents, one matrix for each head."""
        groups = self.W["W_UV"].unflatten(-1, (self.W["G"], -1)).transpose(0, 1)
        return groups[[self.group(h) for h in range(self.W["H"])]]

    def store(self, x):
        new = self.latent(x @ self.W["W_DKV"])
        self.latents = new if self.latents is None else torch.cat([self.latents, new], dim=1)

    def latent(self, c):
        return c

    def averages(self, x):
        start, n = self.stored, x.shape[1]
        self.store(x)
        of = [self.group(h) for h in range(self.W["H"])]
        scores = self.queries(x, start) @ self.keys(start)[:, of].mT
        scores = scores * self.scale(self.W["W_UK"].shape[1] // self.W["G"])
        keep = torch.ones(n, self.stored, dtype=torch.bool).tril(self.last_seen(n))
        return scores.masked_fill(~keep, -math.inf).softmax(-1) @ self.latents[:, None]

    def __call__(self, x):
        return (self.averages(x) @ self.ups()).transpose(1, 2).flatten(2) @ self.W["Wo"]


def _with(**parts):
    return type("Mistaken", (_Latents,), parts)


def _resets_a_counter(self):
    """What is said of the length begins anew, and the cache goes on."""
    self.latents = getattr(self, "latents", None)
    self.begun = self.stored


def _stores_twice(self, x):
    """Right, and a copy of all latents beside them: what `append(c, c)` does."""
    _Latents.store(self, x)
    self.beside = self.latents.clone()


def _keeps_keys(self, start):
    """Right, and the keys stay."""
    self.beside = _Latents.keys(self, start)
    return self.beside


def _no_positions_left(self, x, start):
    """`pos[start:]` where the length was read too late."""
    q = (x @ self.W["Wq"]).unflatten(-1, (self.W["H"], -1)).transpose(1, 2)
    return self.rotate(q, torch.arange(self.stored)[self.stored :])


def _rotated_latents(self, start):
    turned = self.rotate(self.latents, self.key_positions(start))
    return (turned @ self.W["W_UK"]).unflatten(-1, (self.W["G"], -1)).transpose(1, 2)


def _unrotated_keys(self, start):
    return (self.latents @ self.W["W_UK"]).unflatten(-1, (self.W["G"], -1)).transpose(1, 2)


def _rotated_when_stored(self, c):
    return self.rotate(c, torch.arange(self.stored, self.stored + c.shape[1]))


def _values_averaged(self, x):
    return _Latents.averages(self, x) @ self.ups()


def _merged(self, x):
    return self.averages(x).transpose(1, 2).flatten(2) @ self.W["Wo"]


def _by_modulo(self):
    """`repeat` in the place of `repeat_interleave`, for the values alone: `gqa_grouped` does it right for the keys."""
    return self.W["W_UV"].unflatten(-1, (self.W["G"], -1)).transpose(0, 1).repeat(self.W["H"] // self.W["G"], 1, 1)


def _reshaped(self):
    groups = self.W["W_UV"].reshape(self.W["G"], self.W["W_UV"].shape[0], -1)
    return groups.repeat_interleave(self.W["H"] // self.W["G"], dim=0)


def _from_keys(self):
    groups = self.W["W_UK"].unflatten(-1, (self.W["G"], -1)).transpose(0, 1)
    return groups.repeat_interleave(self.W["H"] // self.W["G"], dim=0)


class _OneByOne(_Latents):
    """Head by head, each with its group's columns of `W_UK`."""

    def averages(self, x):
        start, n = self.length, x.shape[1]
        self.store(x)
        pos, parts = torch.arange(self.length), []
        for h in range(self.W["H"]):
            d = self.W["W_UK"].shape[1] // self.W["G"]
            k = self.rotate(self.latents @ self.W["W_UK"][:, self.group(h) * d : (self.group(h) + 1) * d], pos)
            q = self.rotate(x @ self.W["Wq"][:, h * d : (h + 1) * d], pos[start:])
            scores = q @ k.mT / math.sqrt(d) + torch.full((n, self.length), -math.inf, dtype=x.dtype).triu(start + 1)
            parts.append(scores.softmax(-1) @ self.latents)
        return torch.stack(parts, dim=1)


LATENT_ATTENTION = Exercise(
    "LowRankAttention",
    title="A cache of latents, with rotary positions",
    points=3,
    difficulty=4,
    minutes=30,
    reference=ref.LowRankAttention,
    recipe=Made(_with),
    tensors=True,
    tolerance=FLOAT32,
    cases=(
        Case("two tokens, then one", _script((2, 1), (), r=2, d_model=3, H=4, G=2, d=2)),
        Case("a batch, in three chunks", _script((3, 2, 1), (), batch=2)),
        Case("the averages of latents", _script((3,), (2, 1))),
        Case("another text after a reset", _script((3, 1), (), again=(2, 1), H=4, G=2), edge=0.2),
        Case("a full cache, which keeps nothing beside the latents", _a_full_cache, edge=0.2),
    ),
    hints=(
        "Write down the four shapes: latents in the cache, keys made of them, weights, averages. Which of them have a head axis, "
        "and which know a position?",
        "Append the new latents as one head of keys, with values of width 0. Make all keys: latents times `W_UK`, split into `G` "
        "groups, rotated to positions 0 … stop - 1. Queries stand at start … stop - 1. `gqa_grouped` returns "
        "the weights too; with them each head averages the latents.",
        "`append` wants a head axis: `(x @ W['W_DKV']).unsqueeze(1)`, and for the values a slice of it of width 0. The weights are "
        "(batch, G, H / G, new, key): flatten the three axes in the middle into rows, multiply by the latents, unflatten. In `__call__`, `split_heads(W['W_UV'], W['G'])` is (G, r, d): which of its G "
        "matrices does head $h$ need, and how do you get from averages (batch, H, new, r) to rows for `Wo`?",
    ),
    misconceptions=(
        Misconception(
            "latents_rotated",
            "rotated the latents instead of the keys",
            "Make the keys first, $c\\, W_{UK}$, then rotate them. The rotation pairs features of a **key**.",
            Instead(keys=_rotated_latents),
        ),
        Misconception(
            "stored_rotated",
            "rotated the latents before you stored them, as keys are elsewhere",
            "The cache holds $c = x\\, W_{DKV}$ as it is: values are made of it as well. Make the keys at each call, then rotate them.",
            Instead(latent=_rotated_when_stored, keys=_unrotated_keys),
        ),
        Misconception(
            "keys_not_rotated",
            "rotated the queries only: so one may absorb $W_{UK}$, but the scores are wrong",
            "Keys need their own positions. That is why $W_{UK}$ cannot be absorbed.",
            Instead(keys=_unrotated_keys),
        ),
        Misconception(
            "no_rope",
            "rotated neither queries nor keys",
            "This model was trained with rotary positions: rotate both.",
            Instead(rotate=lambda self, x, pos: x),
        ),
        Misconception(
            "keys_and_queries_from_one_place",
            "let queries and keys count from the same position, though the past stands before the new tokens",
            "Keys stand at 0 … stop - 1. Queries stand at the last of these positions: from `self.length`, read before you append.",
            Instead(key_positions=lambda self, start: torch.arange(start, start + self.stored)),
        ),
        Misconception(
            "all_keys_at_one_place",
            "rotated all keys to one position, that of the newest token: a position of length 1 is used for every row, and nothing raises",
            "Each key has a position of its own: `torch.arange(stop)` for all cached tokens.",
            Instead(key_positions=lambda self, start: torch.tensor([self.stored - 1])),
        ),
        Misconception(
            "base_ignored",
            "rotated with the base 10000, whatever the layer says",
            'Pass `layer["base"]`, for queries and for keys.',
            Instead(rotate=lambda self, x, pos: apply_rope(x, pos)),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left: with a past in the cache, new tokens see only its beginning",
            "The queries are the **last** n of m tokens: `tril(m - n)`. `gqa_grouped` has such a mask in it.",
            Instead(last_seen=lambda self, n: 0),
        ),
        Misconception(
            "future_visible",
            "let tokens see later ones of their chunk",
            "Query $i$ sees the keys $j \\le i + (m - n)$: mask the scores before the softmax.",
            Instead(last_seen=lambda self, n: self.stored),
        ),
        Misconception(
            "start_after_append",
            "read the length after `append`, so that the positions of the queries begin behind the new tokens",
            "Note `start = self.length` first, then append: queries stand at start … stop - 1.",
            Instead(queries=_no_positions_left),
            also=(Instead(queries=lambda self, x, start: _Latents.queries(self, x, self.stored)),),
            raises=True,
        ),
        Misconception(
            "scale_of_the_latent",
            "divided the scores by the root of the latent's width",
            "The dot product is of queries and keys: $\\sqrt{d}$, whatever is cached.",
            Instead(scale=lambda self, d: self.W["W_DKV"].shape[1] ** -0.5),
        ),
        Misconception(
            "modulo",
            "gave head $h$ the group h mod G",
            "Neighbours share: head $h$ reads group ⌊h / (H/G)⌋, for keys and for values.",
            Instead(group=lambda self, h: h % self.W["G"]),
        ),
        Misconception(
            "modulo_for_values",
            "gave the averages of head $h$ the columns of group h mod G",
            "Neighbours share: `repeat_interleave`, not `repeat`, if you make a matrix for each head out of the groups'.",
            Instead(ups=_by_modulo),
        ),
        Misconception(
            "ups_reshaped",
            "cut `W_UV` into groups by rows: a `reshape` to (G, r, d) without a transpose",
            "The groups lie side by side in the **columns**: `split_heads(W_UV, G)` is (G, r, d).",
            Instead(ups=_reshaped),
        ),
        Misconception(
            "values_averaged",
            "returned averages of values, on which `W_UV` has acted already: `averages` must return averages of latents",
            "Leave `W_UV` to `__call__`, where it acts once for each new token.",
            Instead(averages=_values_averaged, __call__=_merged),
        ),
        Misconception(
            "values_from_keys",
            "used `W_UK` in the place of `W_UV`",
            "$W_{UK}$ makes keys, $W_{UV}$ acts on the averages.",
            Instead(ups=_from_keys),
        ),
        Misconception(
            "more_than_latents",
            "computed all right, and kept more than the latents: a second copy of them, or keys or values that were made",
            "Hand `append` the latents once, as keys, and values of width 0: `c[..., :0]`. Keys are made again at each call, and go.",
            Instead(store=_stores_twice),
            also=(Instead(keys=_keeps_keys),),
        ),
        Misconception(
            "not_reset",
            "kept the old text after `reset`",
            "`reset` must empty the cache.",
            Instead(reset=lambda self: setattr(self, "latents", getattr(self, "latents", None))),
            also=(Instead(reset=_resets_a_counter, length=property(lambda self: self.stored - self.begun)),),
        ),
    ),
    variants=(Variant("other_words", _Latents), Variant("head_by_head", _OneByOne)),
)
