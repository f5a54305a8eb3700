"""The attention of one layer, with its cache."""

import math

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Script, Tolerance, Variant
from course.exercises.real_model import probes
from solutions import real_model as ref
from solutions.positions import apply_rope, rotate_half_rope

FLOAT32 = Tolerance(rtol=1e-4, atol=2e-5)  # four products, a softmax and a rotation in float32; mistakes are 1e-2 and more
LENGTH = Call("length", attribute=True)


def script(draw: Draw, chunks, *, batch=1, again=None, d_model=5, H=6, G=3, d=4):
    """A text in chunks; with `again`, a reset and another text."""

    def x(n):
        return Call("__call__", {"x": draw.normal(batch, n, d_model).round(2)})

    calls = [x(n) for n in chunks]
    calls += [] if again is None else [Call("reset"), LENGTH, *(x(n) for n in again)]
    layer = probes.layer(draw, d_model=d_model, H=H, G=G, d=d)
    return Script({"layer": layer, "capacity": 16}, None, (*calls, LENGTH))


class _Attention:
    """A right answer in other words, with `torch.cat` and einsum; each mistake is a subclass that changes one thing."""

    def __init__(self, layer, capacity):
        self.W = layer
        self.reset()

    def reset(self):
        self.keys = self.values = None

    @property
    def tokens(self):
        return 0 if self.keys is None else self.keys.shape[2]

    @property
    def length(self):
        return self.tokens

    def positions(self, n):
        return torch.arange(n) + self.length

    def rotate(self, x, pos):
        return apply_rope(x, pos, self.W["base"])

    rotate_query = rotate_key = lambda self, x, pos: self.rotate(x, pos)

    def rotate_value(self, x, pos):
        return x

    def split(self, x, heads):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    split_queries = split_keys = lambda self, x, heads: self.split(x, heads)

    def merge(self, o):
        return o.transpose(1, 2).flatten(2)

    def scale(self, d):
        return 1 / math.sqrt(d)

    def group(self, h):
        return h * self.W["G"] // self.W["H"]

    def visible(self, n, m):
        return torch.ones(n, m, dtype=torch.bool).tril(m - n)

    def stored(self, name, new):
        old = getattr(self, name)
        setattr(self, name, new if old is None else torch.cat([old, new], dim=2))
        return getattr(self, name)

    def read(self, name, new):
        return self.stored(name, new)

    def __call__(self, x):
        W, pos = self.W, self.positions(x.shape[1])
        q, k, v = self.split_queries(x @ W["Wq"], W["H"]), *(self.split_keys(x @ W[name], W["G"]) for name in ("Wk", "Wv"))
        k = self.read("keys", self.rotate_key(k, pos))
        v = self.read("values", self.rotate_value(v, pos))
        of = torch.tensor([self.group(h) for h in range(W["H"])])
        scores = torch.einsum("bhid,bhjd->bhij", self.rotate_query(q, pos), k[:, of]) * self.scale(q.shape[-1])
        scores = scores.masked_fill(~self.visible(*scores.shape[-2:]), -math.inf)
        return self.merge(torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v[:, of])) @ W["Wo"]


def _with(**parts):
    return type("Mistaken", (_Attention,), parts)


def _resets_a_counter(self):
    """The count of tokens begins anew, and the cache goes on."""
    vars(self).update({"keys": None, "values": None} | vars(self))
    self.begun = self.tokens


def _places_by_a_count(self, n):
    """Positions from a count of all tokens, which no reset sets back to 0."""
    self.count = getattr(self, "count", 0) + n
    return torch.arange(self.count - n, self.count)


def _stores_and_forgets(self, name, new):
    self.stored(name, new)
    return new


def _cut_elsewhere(self, x, heads):
    """A reshape alone: tokens and heads are mixed up."""
    return x.reshape(len(x), heads, x.shape[1], -1)


def _merged_without_transpose(self, o):
    return o.reshape(len(o), o.shape[2], -1)


def _rotates_whole_rows(self, x, pos):
    """The heads of a token turned as one long vector."""
    rows = apply_rope(x.transpose(1, 2).flatten(2), pos, self.W["base"])
    return rows.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)


class _RotatesOnReading(_Attention):
    """Stores keys as projected, rotates all of them at each call: right, and wasteful."""

    def rotate_key(self, x, pos):
        return x

    def stored(self, name, new):
        found = super().stored(name, new)
        return self.rotate(found, torch.arange(found.shape[2])) if name == "keys" else found

    def positions(self, n):
        self.before = self.length
        return torch.arange(self.before, self.before + n)


GROUPED_ATTENTION = Exercise(
    "GroupedAttention",
    title="The attention of one layer",
    points=3,
    difficulty=3,
    minutes=16,
    reference=ref.GroupedAttention,
    recipe=Made(_with),
    tensors=True,
    tolerance=FLOAT32,
    cases=(
        Case("two tokens, then one", lambda draw: script(draw, (2, 1), d_model=3, H=4, G=2, d=2)),
        Case("a batch, in three chunks", lambda draw: script(draw, (3, 2, 1), batch=2)),
        Case("another text after a reset", lambda draw: script(draw, (3, 1), again=(2, 1), H=4, G=2), edge=0.2),
    ),
    hints=(
        "Everything is there already: `split_heads`, `apply_rope`, `KVCache`, `gqa_grouped`, `merge_heads`. In which order, and "
        "which of them must know how many tokens came before?",
        "Positions first, from `self.length`. Project and split: `H` heads of queries, `G` of keys and of values. Rotate queries and "
        "keys with the layer's `base`, append keys and values, attend to all that is stored, merge, project.",
        "`pos = torch.arange(self.length, self.length + x.shape[-2], device=x.device)`, before anything is appended. "
        "`apply_rope(split_heads(…), pos, layer['base'])` twice, with `layer['H']` and `layer['G']`. `self.cache.append` gives back **all** keys and values: attend to those. What do you "
        "do with the heads before `Wo`?",
    ),
    misconceptions=(
        Misconception(
            "no_rope",
            "used no positions: neither queries nor keys are rotated",
            "Call `apply_rope` on both, after splitting the heads.",
            Instead(rotate=lambda self, x, pos: x),
        ),
        Misconception(
            "half_split",
            "rotated in the half-split layout, but these weights are for the interleaved one",
            "Neighbouring features form a pair: `apply_rope`, not `rotate_half_rope`. (Hugging Face's copy of the same weights has "
            "rows in another order, for the other layout.)",
            Instead(rotate=lambda self, x, pos: rotate_half_rope(x, pos, self.W["base"])),
        ),
        Misconception(
            "no_scale",
            "did not divide the scores by $\\sqrt{d}$",
            "Scores are $q \\cdot k / \\sqrt{d}$ with the width $d$ of one head.",
            Instead(scale=lambda self, d: 1.0),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d$ in all, not by its root",
            "Divide by $\\sqrt{d}$, once: `gqa_grouped` does it too.",
            Instead(scale=lambda self, d: 1 / d),
        ),
        Misconception(
            "modulo",
            "gave head $h$ the group h mod G",
            "Neighbours share: head $h$ reads group ⌊h / (H/G)⌋.",
            Instead(group=lambda self, h: h % self.W["G"]),
        ),
        Misconception(
            "base_ignored",
            "rotated with the base 10000, whatever the layer says",
            'Pass `layer["base"]`. This model uses 100000.',
            Instead(rotate=lambda self, x, pos: apply_rope(x, pos)),
        ),
        Misconception(
            "values_rotated",
            "rotated the values as well",
            "Positions act on scores alone: rotate queries and keys.",
            Instead(rotate_value=lambda self, x, pos: self.rotate(x, pos)),
        ),
        Misconception(
            "keys_not_rotated",
            "rotated the queries only",
            "A score depends on the distance only if both are rotated. Rotate the keys before they are stored.",
            Instead(rotate_key=lambda self, x, pos: x),
        ),
        Misconception(
            "rotated_before_the_split",
            "rotated whole rows, before they were split into heads",
            "Each head has the same angles: split first, then rotate. `apply_rope` takes the width of one head for $d$.",
            Instead(rotate=_rotates_whole_rows),
        ),
        Misconception(
            "cut_without_transpose",
            "cut rows into heads by a reshape alone: that mixes up tokens and heads",
            "Cut the last axis into (heads, width), and then exchange the axes of tokens and heads: `split_heads` does both.",
            Instead(split_queries=_cut_elsewhere),
            also=(Instead(split_keys=_cut_elsewhere), Instead(split_queries=_cut_elsewhere, split_keys=_cut_elsewhere)),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up tokens and heads",
            "First bring the axis of the heads behind that of the tokens, and then flatten the two: `merge_heads` does both.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "past_not_read",
            "stored keys and values, but attended to the new ones alone",
            "`append` returns all keys and all values: `K, V = self.cache.append(K, V)`.",
            Instead(read=_stores_and_forgets),
        ),
        Misconception(
            "positions_from_zero",
            "counted positions from 0 in each call",
            "New tokens stand behind those seen: `torch.arange(self.length, self.length + n, device=x.device)`.",
            Instead(positions=lambda self, n: torch.arange(n)),
        ),
        Misconception(
            "queries_from_zero",
            "counted the positions of the queries from 0 in each call; those of the keys go on",
            "A query stands where its token stands in the text, as its key does: hand both the same positions.",
            Instead(rotate_query=lambda self, x, pos: self.rotate(x, pos - pos[0])),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left: with a past, several new tokens see only its beginning",
            "The queries are the **last** tokens: `gqa_grouped` does it right if it gets all keys.",
            Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool).tril()),
            also=(Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool).tril(0 if n > 1 else m)),),
        ),
        Misconception(
            "future_visible",
            "let tokens see later ones of the same call",
            "Each token sees the past and itself: query $i$ of $n$ sees the keys $j \\le i + (m - n)$.",
            Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool)),
        ),
        Misconception(
            "count_not_reset",
            "emptied the cache in `reset`, and left your count of the tokens standing: `length` goes on from there",
            "Set it back to 0, or ask the cache: `self.cache.length` is the one count that is needed.",
            Instead(positions=_places_by_a_count, length=property(lambda self: getattr(self, "count", 0))),
        ),
        Misconception(
            "not_reset",
            "kept the old text after `reset`",
            "`reset` must empty the cache.",
            Instead(reset=lambda self: vars(self).update({"keys": None, "values": None} | vars(self))),
            also=(Instead(reset=_resets_a_counter, length=property(lambda self: self.tokens - self.begun)),),
        ),
    ),
    variants=(Variant("torch_cat_and_einsum", _Attention), Variant("rotates_on_reading", _RotatesOnReading)),
)
