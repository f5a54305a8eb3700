"""Attention that caches latents, with rotary positions."""

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Script, Tolerance, Variant
from course.exercises.real_model import probes
from course.exercises.smaller_caches import latent_answers as wrong
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


LATENT_ATTENTION = Exercise(
    "LowRankAttention",
    title="A cache of latents, with rotary positions",
    points=3,
    difficulty=4,
    minutes=36,
    reference=ref.LowRankAttention,
    recipe=Made(wrong.changed),
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
        # first what is met beside any other mistake: the build tries pairs in this order, and not all
        Misconception(
            "half_split",
            "turned feature $i$ with feature $i + d/2$",
            "The interleaved layout, as `apply_rope` has it: neighbours are partners, the features $2i$ and $2i + 1$.",
            Instead(rotate=wrong.half_split),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the upper left: with a past in the cache, new tokens see only its beginning",
            "The queries are the **last** n of m tokens: `tril(m - n)`. `gqa_grouped` has such a mask in it.",
            Instead(last_seen=lambda self, n: 0),
        ),
        Misconception(
            "columns_in_turn",
            "gave group $g$ every $G$-th column of `W_UV`",
            "The groups lie side by side, each with a run of columns: `split_heads(W_UV, G)` is (G, r, d).",
            Instead(ups=wrong.columns_in_turn),
        ),
        Misconception(
            "counted_from_other_tokens",
            "counted the positions of queries and of keys from different tokens: with m tokens cached, each query stands m - 1 further from its keys than it should",
            "Count both from the first token: keys stand at 0 … stop - 1, queries at start … stop - 1.",
            Instead(key_positions=lambda self, start: torch.arange(self.stored) - (self.stored - 1)),
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
            Instead(ups=wrong.by_modulo),
        ),
        Misconception(
            "ups_reshaped",
            "cut `W_UV` into groups by rows: a `reshape` to (G, r, d) without a transpose",
            "The groups lie side by side in the **columns**: `split_heads(W_UV, G)` is (G, r, d).",
            Instead(ups=wrong.reshaped),
        ),
        Misconception(
            "values_from_keys",
            "used `W_UK` in the place of `W_UV`",
            "$W_{UK}$ makes keys, $W_{UV}$ acts on the averages.",
            Instead(ups=wrong.from_keys),
        ),
        Misconception(
            "scale_of_the_latent",
            "divided the scores by the root of the latent's width",
            "The dot product is of queries and keys: $\\sqrt{d}$, whatever is cached.",
            Instead(scale=lambda self, d: self.W["W_DKV"].shape[1] ** -0.5),
        ),
        Misconception(
            "future_visible",
            "let tokens see later ones of their chunk",
            "Query $i$ sees the keys $j \\le i + (m - n)$: mask the scores before the softmax.",
            Instead(last_seen=lambda self, n: self.stored),
        ),
        Misconception(
            "latents_rotated",
            "rotated the latents instead of the keys",
            "Make the keys first, $c\\, W_{UK}$, then rotate them. The rotation pairs features of a **key**.",
            Instead(keys=wrong.rotated_latents),
        ),
        Misconception(
            "stored_rotated",
            "rotated the latents before you stored them, as keys are elsewhere",
            "The cache holds $c = x\\, W_{DKV}$ as it is: values are made of it as well. Make the keys at each call, then rotate them.",
            Instead(latent=wrong.rotated_when_stored, keys=wrong.unrotated_keys),
        ),
        Misconception(
            "keys_not_rotated",
            "rotated the queries only: so one may absorb $W_{UK}$, but the scores are wrong",
            "Keys need their own positions. That is why $W_{UK}$ cannot be absorbed.",
            Instead(keys=wrong.unrotated_keys),
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
            "start_after_append",
            "read the length after `append`, so that the positions of the queries begin behind the new tokens",
            "Note `start = self.length` first, then append: queries stand at start … stop - 1.",
            Instead(queries=wrong.no_positions_left),
            also=(Instead(queries=lambda self, x, start: wrong.Latents.queries(self, x, self.stored)),),
            raises=True,
        ),
        Misconception(
            "values_averaged",
            "returned averages of values, on which `W_UV` has acted already: `averages` must return averages of latents",
            "Leave `W_UV` to `__call__`, where it acts once for each new token.",
            Instead(averages=wrong.values_averaged, __call__=wrong.merged),
        ),
        Misconception(
            "more_than_latents",
            "computed all right, and kept more than the latents: a second copy of them, or keys or values that were made",
            "Hand `append` the latents once, as keys, and values of width 0: `c[..., :0]`. Keys are made again at each call, and go.",
            Instead(store=wrong.stores_twice),
            also=(Instead(keys=wrong.keeps_keys),),
        ),
        Misconception(
            "count_not_reset",
            "emptied the cache in `reset`, and left your count of the tokens standing: `length` goes on from there",
            "Set it back to 0, or ask the cache: `self.cache.length` is the one count that is needed.",
            Instead(queries=wrong.queries_by_a_count, length=wrong.COUNTED),
            also=(Instead(queries=wrong.queries_by_a_count, key_positions=wrong.keys_by_a_count, length=wrong.COUNTED),),
        ),
        Misconception(
            "not_reset",
            "kept the old text after `reset`",
            "`reset` must empty the cache.",
            Instead(reset=lambda self: setattr(self, "latents", getattr(self, "latents", None))),
            also=(Instead(reset=wrong.resets_a_counter, length=property(lambda self: self.stored - self.begun)),),
        ),
    ),
    variants=(Variant("other_words", wrong.Latents), Variant("head_by_head", wrong.OneByOne)),
)
