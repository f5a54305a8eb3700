"""A model that decodes with caches: its positions, its masks, and what it must forget."""

import torch

from autograder import Call, Case, Draw, Exercise, Misconception, Script, Tolerance, Variant
from course.exercises.kv_cache.toys import make_ids, make_model
from solutions import kv_cache as ref

TWO_LAYERS = Tolerance(rtol=1e-4, atol=1e-5)  # float32 through two layers and an unembedding


def _extend(ids):
    return Call("extend", {"ids": ids})


def _step(draw: Draw, batch):
    return Call("decode_step", {"token": make_ids(draw, batch, 1)[:, 0]})


LENGTH = Call("length", attribute=True)


def _one_head(draw: Draw):
    model = make_model(draw, vocab=5, d_model=3, layers=1, heads=1, d=2)
    first, second = make_ids(draw, 1, 2, vocab=5), make_ids(draw, 1, 1, vocab=5)
    return Script({"model": model, "capacity": 3}, None, (_extend(first), _extend(second), LENGTH))


def _prompt_then_steps(draw: Draw):
    calls = (_extend(make_ids(draw, 2, 5)), _step(draw, 2), _step(draw, 2), _step(draw, 2), LENGTH)
    return Script({"model": make_model(draw), "capacity": 19}, None, calls)


def _chunked_prefill(draw: Draw):
    calls = (Call("prefill", {"ids": make_ids(draw, 2, 7), "chunk": 3}), LENGTH, _step(draw, 2))
    return Script({"model": make_model(draw), "capacity": 19}, None, calls)


def _second_prompt(draw: Draw):
    prompts = [Call("prefill", {"ids": make_ids(draw, 2, n), "chunk": 11}) for n in (5, 3)]
    return Script(
        {"model": make_model(draw), "capacity": 23}, None, (prompts[0], _step(draw, 2), prompts[1], _step(draw, 2), LENGTH)
    )


def _long_prompt(draw: Draw):
    """So long a prompt that a table of all its scores is by far the largest thing that could be made."""
    model = make_model(draw, vocab=5, d_model=3, layers=1, heads=1, d=2)
    ids = make_ids(draw, 1, 128, vocab=5)
    return Script({"model": model, "capacity": 128}, None, (Call("prefill", {"ids": ids, "chunk": 2}), LENGTH))


def _taken_back(draw: Draw):
    """Three tokens of a draft are refused, and others come in their place."""
    calls = (_extend(make_ids(draw, 2, 5)), _extend(make_ids(draw, 2, 3)), Call("rewind", {"n": 3}), LENGTH)
    return Script({"model": make_model(draw), "capacity": 19}, None, (*calls, _step(draw, 2), _step(draw, 2), LENGTH))


def _other_weights(draw: Draw):
    """The weights change between two calls: what has been stored must not."""
    model, other = make_model(draw), make_model(draw)
    calls = (_extend(make_ids(draw, 2, 5)), Call("swap", {"model": other}), _step(draw, 2), _step(draw, 2))
    return Script({"model": model, "capacity": 11}, None, calls)


class _Decoder:
    """A right answer in other words, with `torch.cat`; each mistake is a subclass that changes one thing."""

    def __init__(self, model, capacity):
        self.model = model
        self.clear()

    def clear(self):
        self.past = [None] * len(self.model["layers"])
        self.length = 0

    def start(self, layer):
        """The position of the first new token, as layer number `layer` computes it."""
        return self.length

    def rotate_key(self, k, pos):
        return ref.apply_rope(k, pos)

    def rotate_query(self, q, pos):
        return ref.apply_rope(q, pos)

    def rotate_value(self, v, pos):
        return v

    def store(self, index, k, v):
        old = self.past[index]
        self.past[index] = (k, v) if old is None else tuple(torch.cat(pair, dim=2) for pair in zip(old, (k, v), strict=True))

    def attend(self, q, K, V):
        return ref.attend_cached(q, K, V)

    def write_and_read(self, index, q, k, v):
        self.store(index, k, v)
        return self.attend(q, *self.past[index])

    def extend(self, ids):
        n = ids.shape[1]
        x = self.model["embed"][ids]
        for i, W in enumerate(self.model["layers"]):
            pos = self.start(i) + torch.arange(n)
            q, k, v = (ref.project(x, W[name]) for name in ("Wq", "Wk", "Wv"))
            q, k, v = self.rotate_query(q, pos), self.rotate_key(k, pos), self.rotate_value(v, pos)
            x = x + ref.combine(self.write_and_read(i, q, k, v), W["Wo"])
        self.length += n
        return x @ self.model["unembed"]

    def decode_step(self, token):
        return self.extend(token.unsqueeze(1)).squeeze(1)

    def prefill(self, ids, chunk):
        self.clear()
        for start in range(0, ids.shape[1], chunk):
            logits = self.extend(ids[:, start : start + chunk])
        return logits[:, -1]

    def rewind(self, n):
        self.length -= n
        self.past = [tuple(x[:, :, : x.shape[2] - n] for x in pair) for pair in self.past]

    def swap(self, model):
        self.model = model


class _NoCache(_Decoder):
    """Keeps the tokens, and runs `forward` on all of them each time."""

    def clear(self):
        self.ids, self.length = None, 0

    def extend(self, ids):
        self.ids = ids if self.ids is None else torch.cat([self.ids, ids], dim=1)
        self.length = self.ids.shape[1]
        return ref.forward(self.model, self.ids)[:, -ids.shape[1] :]

    def rewind(self, n):
        self.length -= n
        self.ids = self.ids[:, : self.length]


class _RewindsLayer0(_Decoder):
    def rewind(self, n):
        self.length -= n
        self.past[0] = tuple(x[:, :, : x.shape[2] - n] for x in self.past[0])


class _RewindsTheCount(_Decoder):
    """The positions go back, and the tokens stay."""

    def rewind(self, n):
        self.length -= n


class _OffsetZero(_Decoder):
    def start(self, layer):
        return 0


class _OffsetByOne(_Decoder):
    def start(self, layer):
        return self.length + 1 if self.length else 0


class _CounterOfLayer0(_Decoder):
    """Every layer asks layer 0's cache how long it is; by then layer 0 has appended already."""

    def start(self, layer):
        return 0 if self.past[0] is None else self.past[0][0].shape[2]


class _WrittenAfterRead(_Decoder):
    def write_and_read(self, index, q, k, v):
        if self.past[index] is None:
            return super().write_and_read(index, q, k, v)
        o = ref.attention(q, *self.past[index], torch.ones(q.shape[2], self.past[index][0].shape[2], dtype=torch.bool))
        self.store(index, k, v)
        return o


class _Stale(_Decoder):
    def prefill(self, ids, chunk):
        for part in ids.split(chunk, dim=1):
            logits = self.extend(part)
        return logits[:, -1]


class _DropsTheRest(_Decoder):
    def prefill(self, ids, chunk):
        whole = max(1, ids.shape[1] // chunk) * chunk
        return super().prefill(ids[:, :whole], chunk)


class _IgnoresTheChunk(_Decoder):
    def prefill(self, ids, chunk):
        self.clear()
        return self.extend(ids)[:, -1]


class _AsManyChunks(_Decoder):
    """`torch.chunk` wants to know how many pieces there shall be."""

    def prefill(self, ids, chunk):
        self.clear()
        return [self.extend(part) for part in ids.chunk(chunk, dim=1)][-1][:, -1]


class _Unrotated(_Decoder):
    def rotate_key(self, k, pos):
        return k


class _QueryUnrotated(_Decoder):
    def rotate_query(self, q, pos):
        return q


class _ValueRotated(_Decoder):
    def rotate_value(self, v, pos):
        return ref.apply_rope(v, pos)


class _RotatedTwice(_Decoder):
    """Keys rotated when they are stored, and all of them again when they are read."""

    def attend(self, q, K, V):
        return ref.attend_cached(q, ref.apply_rope(K, torch.arange(K.shape[2])), V)


class _NewKeysOnly(_Decoder):
    """Appends, and attends to the new keys and values all the same."""

    def write_and_read(self, index, q, k, v):
        self.store(index, k, v)
        return self.attend(q, k, v)


class _RewindsEverything(_Decoder):
    def rewind(self, n):
        self.clear()


class _OneCache(_Decoder):
    """Its length, too, is that of the one cache: each layer has added to it."""

    def store(self, index, k, v):
        super().store(0, k, v)
        self.past = [self.past[0]] * len(self.past)

    def extend(self, ids):
        logits = super().extend(ids)
        self.length = self.past[0][0].shape[2]
        return logits

    def rewind(self, n):
        super().rewind(n)
        self.past = [self.past[0]] * len(self.past)


class _OneCacheListedTwice(ref.CachedModel):
    """As it is written: `[KVCache(capacity)] * n`."""

    def __init__(self, model, capacity):
        super().__init__(model, capacity)
        self.caches = [ref.KVCache(capacity)] * len(model["layers"])


class _OneCacheNeverReset(_OneCacheListedTwice):
    def prefill(self, ids, chunk):
        for part in ids.split(chunk, dim=1):
            logits = self.extend(part)
        return logits[:, -1]


class _RotatesOnReading(_Decoder):
    """Stores keys as projected, and rotates all of them at each step: right, and wasteful."""

    def rotate_key(self, k, pos):
        return k

    def attend(self, q, K, V):
        return ref.attend_cached(q, ref.apply_rope(K, torch.arange(K.shape[2])), V)


CACHED_MODEL = Exercise(
    "CachedModel",
    title="A model that remembers",
    points=4,
    difficulty=4,
    minutes=34,
    reference=ref.CachedModel,
    tensors=True,
    tolerance=TWO_LAYERS,
    cases=(
        Case("one head: two tokens, then one", _one_head),
        Case("a prompt, then three steps", _prompt_then_steps),
        Case("other weights from here on", _other_weights),
        Case("prefill in chunks, then a step", _chunked_prefill, edge=0.2),
        Case("a second prompt", _second_prompt, edge=0.15),
        Case("a draft is taken back", _taken_back, edge=0.15),
        Case("a long prompt, and room for the scores of a chunk", _long_prompt, room=24.0, edge=0.1),
    ),
    hints=(
        "Start from the given `forward`. Which of its lines must know how many tokens came before? Which must see their keys?",
        "One `KVCache` per layer, each made anew. In `extend`: positions first, counted from `self.length`, **before** any layer appends. Then, layer by "
        "layer: project, rotate `q` and `k`, append, attend to what `append` returned, combine. `decode_step` and `prefill` are "
        "`extend` on one token and on chunks.",
        "Copy the body of `forward` into `extend` and change three lines: `pos` starts at `self.length`; the keys, rotated, and the "
        "values go through `cache.append`, and what comes back takes their place; the given `attention` becomes `attend_cached`. "
        "`prefill` resets every cache, then extends by one part of `ids.split(chunk, dim=1)` after the other.",
    ),
    misconceptions=(
        Misconception(
            "no_cache",
            "kept the tokens and ran the model on all of them again: right logits, and nothing saved",
            "Keep each layer's keys and values, and put the new tokens alone through the layers. (What shows it: after `swap` the past "
            "must stay as the old weights made it, and yours was computed again.)",
            _NoCache,
        ),
        Misconception(
            "rewound_layer_0_alone",
            "took the tokens back in layer 0 only: the deeper layers still attend to them",
            "Every layer has a cache of its own: rewind all of them.",
            _RewindsLayer0,
        ),
        Misconception(
            "rewound_the_count_alone",
            "took the positions back and left the refused tokens in the caches",
            "Call `rewind(n)` on the cache of every layer; the length then follows.",
            _RewindsTheCount,
        ),
        Misconception(
            "offset_zero",
            "counted positions from 0 in every call, so a new token seems to stand at the beginning of the text",
            "Positions go on from the cache: `torch.arange(self.length, self.length + n)`.",
            _OffsetZero,
        ),
        Misconception(
            "offset_off_by_one",
            "left a gap of one position between the past and the new tokens",
            "If five tokens are stored, they stand at 0 to 4, and the next one at 5: exactly `self.length`.",
            _OffsetByOne,
        ),
        Misconception(
            "counter_advanced_by_layer_0",
            "read the length anew in each layer, after layer 0 had already appended: the deeper layers rotate by later positions",
            "Compute the positions once, before the loop over layers.",
            _CounterOfLayer0,
        ),
        Misconception(
            "written_after_read",
            "attended to the past before writing the new token: it can't see itself",
            "Append first, and attend to what `append` returns.",
            _WrittenAfterRead,
        ),
        Misconception(
            "stale_cache",
            "kept the last sequence in the caches when a new prompt came",
            "`prefill` begins anew: call `reset()` on the cache of **every** layer first.",
            _Stale,
        ),
        Misconception(
            "rest_dropped",
            "dropped the end of a prompt that is no multiple of `chunk`",
            "The last part may be shorter: `torch.split(ids, chunk, dim=1)` keeps it.",
            _DropsTheRest,
        ),
        Misconception(
            "chunk_ignored",
            "put too much of the prompt through the model at once: the table of scores of `chunk` tokens is small",
            "`prefill` takes at most `chunk` tokens at a time: `for part in ids.split(chunk, dim=1)`, and `extend` for each. "
            "(`ids.chunk(chunk, dim=1)` makes that *many* parts.)",
            _IgnoresTheChunk,
            also=(_AsManyChunks,),
            raises=True,
        ),
        Misconception(
            "keys_not_rotated",
            "stored the keys without their rotation",
            "Rotate `q` **and** `k` by the new positions, then append the rotated keys.",
            _Unrotated,
        ),
        Misconception(
            "queries_not_rotated",
            "rotated the keys, but not the queries",
            "Scores depend on the distance only if both are rotated: `q` **and** `k`, by the new positions.",
            _QueryUnrotated,
        ),
        Misconception(
            "values_rotated",
            "rotated the values too",
            "RoPE is for queries and keys. Values are mixed as they are.",
            _ValueRotated,
        ),
        Misconception(
            "keys_rotated_twice",
            "rotated the stored keys again when you read them",
            "Rotated once, when they are stored, keys stay as they are.",
            _RotatedTwice,
        ),
        Misconception(
            "new_keys_only",
            "attended to the new keys and values alone: what `append` returned, which holds the past, was not used",
            "`append` returns all keys and values. Attend to these.",
            _NewKeysOnly,
        ),
        Misconception(
            "rewound_everything",
            "forgot everything, where the last n tokens were to be forgotten",
            "Call `rewind(n)` on the cache of every layer, not `reset()`.",
            _RewindsEverything,
        ),
        Misconception(
            "one_cache_for_all_layers",
            "used one cache for all layers: layer 1 attends to layer 0's keys too, and the length counts each token once per layer",
            "Each layer has keys and values of its own. Beware `[KVCache(capacity)] * 2`: that is one cache, listed twice.",
            _OneCache,
            also=(_OneCacheListedTwice,),
        ),
        Misconception(
            "one_cache_for_all_layers_never_reset",
            "used one cache for all layers, and left the last sequence in it when a new prompt came",
            "Make a `KVCache` for each layer in a list comprehension: `[KVCache(capacity)] * 2` is one cache, listed twice. And `prefill` "
            "begins with `reset()` of all of them.",
            _OneCacheNeverReset,
        ),
    ),
    variants=(Variant("torch_cat_and_a_counter", _Decoder), Variant("rotates_on_reading", _RotatesOnReading)),
)
