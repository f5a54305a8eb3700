"""The attention of one layer, with its cache."""

import math

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Read, Script, Tolerance, Variant
from course.exercises.real_model import probes
from solutions import real_model as ref
from solutions.lib.rope import apply_rope, rotate_half_rope

FLOAT32 = Tolerance(rtol=1e-4, atol=2e-5)  # four products, a softmax and a rotation in float32; mistakes are 1e-2 and more
LENGTH = Read("length")


def script(draw: Draw, chunks, *, batch=1, again=None, d_model=5, H=6, G=3, d=4):
    """A text in chunks; with `again`, a reset and another text."""

    def x(n):
        return Call(arguments={"x": draw.normal(batch, n, d_model).round(2)})

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
        q, k, v = self.split_queries(x @ W["W_Q"], W["H"]), *(self.split_keys(x @ W[name], W["G"]) for name in ("W_K", "W_V"))
        k = self.read("keys", self.rotate_key(k, pos))
        v = self.read("values", self.rotate_value(v, pos))
        of = torch.tensor([self.group(h) for h in range(W["H"])])
        scores = torch.einsum("bhid,bhjd->bhij", self.rotate_query(q, pos), k[:, of]) * self.scale(q.shape[-1])
        scores = scores.masked_fill(~self.visible(*scores.shape[-2:]), -math.inf)
        return self.merge(torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v[:, of])) @ W["W_O"]


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
    title="Find the bug: the attention of one layer",
    points=3,
    kind="bug",
    difficulty=2,
    minutes=7,
    search=0.2,  # its reference is slow
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
        "The first call is right, so the matrices, the rotation and the grouping are right as well. Go through the lines and ask of each what "
        "it would have to do differently in a later call.",
        "The cache adds to the keys of earlier calls by itself. Which position does the first new token of a later call have in the text, and "
        "which one does the draft give it?",
        "Compute `pos` before anything is appended, starting at `self.length` instead of 0. What does `torch.arange` need as its second "
        "argument then?",
    ),
    misconceptions=(
        Misconception(
            "base_ignored",
            "rotated with the base 10,000, whatever the layer says",
            'Pass `layer["base"]` to `apply_rope`. SmolLM2 uses 100,000.',
            Instead(rotate=lambda self, x, pos: apply_rope(x, pos)),
        ),
        Misconception(
            "positions_from_zero",
            "counted positions from 0 in each call, as the draft does",
            "New tokens follow those seen before, so their positions begin at `self.length`.",
            Instead(positions=lambda self, n: torch.arange(n)),
        ),
        Misconception(
            "queries_from_zero",
            "counted the queries' positions from 0 in each call, while the keys' positions go on",
            "A query and a key of the same token are at the same position. Use one `pos` for both.",
            Instead(rotate_query=lambda self, x, pos: self.rotate(x, pos - pos[0])),
        ),
        Misconception(
            "no_rope",
            "used no positions, because neither queries nor keys are rotated",
            "Call `apply_rope` on both, after splitting them into heads.",
            Instead(rotate=lambda self, x, pos: x),
        ),
        Misconception(
            "half_split",
            "rotated in the half-split layout, but these weights are interleaved",
            "Neighbouring features form a pair here, so use `apply_rope`.",
            Instead(rotate=lambda self, x, pos: rotate_half_rope(x, pos, self.W["base"])),
        ),
        Misconception(
            "no_scale",
            "did not divide the scores by $\\sqrt{d}$",
            "Scores are $q \\cdot k / \\sqrt{d}$, where $d$ is the width of one head.",
            Instead(scale=lambda self, d: 1.0),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by $d$ instead of $\\sqrt{d}$",
            "`gqa_grouped` divides by $\\sqrt{d}$ already, so don't divide again.",
            Instead(scale=lambda self, d: 1 / d),
        ),
        Misconception(
            "modulo",
            "gave query head $h$ the key-value head h mod G",
            "Neighbouring heads share, so head $h$ reads key-value head ⌊h / (H/G)⌋.",
            Instead(group=lambda self, h: h % self.W["G"]),
        ),
        Misconception(
            "values_rotated",
            "rotated the values as well",
            "Positions enter through the scores alone. Rotate queries and keys.",
            Instead(rotate_value=lambda self, x, pos: self.rotate(x, pos)),
        ),
        Misconception(
            "keys_not_rotated",
            "rotated only the queries",
            "A score depends on the distance only if both are rotated. Rotate the keys too, before they are stored.",
            Instead(rotate_key=lambda self, x, pos: x),
        ),
        Misconception(
            "rotated_before_the_split",
            "rotated whole rows before they are split into heads",
            "Every head uses the same angles, so split first and rotate afterwards.",
            Instead(rotate=_rotates_whole_rows),
        ),
        Misconception(
            "cut_without_transpose",
            "split rows into heads by a reshape alone, which mixes up tokens and heads",
            "Split the last axis into (heads, width), then swap the axes of tokens and heads. `split_heads` does both.",
            Instead(split_queries=_cut_elsewhere),
            also=(Instead(split_keys=_cut_elsewhere), Instead(split_queries=_cut_elsewhere, split_keys=_cut_elsewhere)),
        ),
        Misconception(
            "merged_without_transpose",
            "joined the heads by a reshape alone, which mixes up tokens and heads",
            "Swap the axes of heads and tokens, then flatten the last two. `merge_heads` does both.",
            Instead(merge=_merged_without_transpose),
        ),
        Misconception(
            "past_not_read",
            "stored keys and values, but attended only to the new ones",
            "`append` returns all keys and all values, `K, V = self.cache.append(K, V)`.",
            Instead(read=_stores_and_forgets),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left, so several new tokens with a past see only its beginning",
            "The queries are the last tokens of the text. `gqa_grouped` handles this if it gets all keys.",
            Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool).tril()),
            also=(Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool).tril(0 if n > 1 else m)),),
        ),
        Misconception(
            "future_visible",
            "let tokens attend to later tokens of the same call",
            "Query $i$ of $n$ may attend to the keys $j \\le i + (m - n)$.",
            Instead(visible=lambda self, n, m: torch.ones(n, m, dtype=torch.bool)),
        ),
        Misconception(
            "count_not_reset",
            "emptied the cache in `reset`, but kept a count of tokens of its own, so positions go on from the old text",
            "Set that count back to 0, or use the cache's own, `self.cache.length`.",
            Instead(positions=_places_by_a_count, length=property(lambda self: getattr(self, "count", 0))),
        ),
        Misconception(
            "not_reset",
            "kept the old text after `reset`",
            "`reset` has to empty the cache.",
            Instead(reset=lambda self: vars(self).update({"keys": None, "values": None} | vars(self))),
            also=(Instead(reset=_resets_a_counter, length=property(lambda self: self.tokens - self.begun)),),
        ),
    ),
    variants=(Variant("torch_cat_and_einsum", _Attention), Variant("rotates_on_reading", _RotatesOnReading)),
)
