"""A decoder with a cache per layer: its positions, its masks, and what it must forget."""

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Read, Script, Tolerance, Variant
from course.exercises.kv_cache.toys import make_ids, make_model
from solutions import kv_cache as ref

TWO_LAYERS = Tolerance(rtol=1e-4, atol=1e-5)  # float32 through two layers and an unembedding


def _extend(ids):
    return Call("extend", {"ids": ids})


def _step(draw: Draw, batch):
    return Call("decode_step", {"token": make_ids(draw, batch, 1)[:, 0]})


LENGTH = Read("length")


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
    ids = make_ids(draw, 1, 32, vocab=5)
    return Script({"model": model, "capacity": 32}, None, (Call("prefill", {"ids": ids, "chunk": 2}), LENGTH))


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
    """A right answer in other words, with `torch.cat`; a setting takes one of its parts otherwise."""

    def __init__(self, model, capacity):
        self.model, self.past, self.length = model, {}, 0

    def begin(self):
        self.past, self.length = {}, 0

    def first(self, begun):
        """Where the first new token stands, when `begun` tokens came before this call."""
        return begun

    rotate_query = rotate_key = lambda self, x, pos: ref.apply_rope(x, pos)

    def rotate_value(self, x, pos):
        return x

    def slot(self, layer):
        """Under which number a layer stores its keys and values."""
        return layer

    def held(self, slot):
        return self.past[slot][0].shape[2] if slot in self.past else 0

    def store(self, slot, k, v):
        old = self.past.get(slot)
        self.past[slot] = (k, v) if old is None else tuple(torch.cat(pair, dim=2) for pair in zip(old, (k, v), strict=True))

    def seen(self, slot, k, v):
        """The keys and values to attend to, and how many of them are past."""
        before = self.held(slot)
        self.store(slot, k, v)
        return *self.past[slot], before

    def visible(self, new, n, before):
        return torch.ones(new, n, dtype=torch.bool).tril(before)

    def added(self, x, y):
        return x + y

    def counted(self, n):
        return self.length + n

    def extend(self, ids):
        x, n, begun = self.model["embed"][ids], ids.shape[1], self.length
        for i, W in enumerate(self.model["layers"]):
            pos = self.first(begun) + torch.arange(n)
            q, k, v = (ref.project(x, W[name]) for name in ("W_Q", "W_K", "W_V"))
            K, V, before = self.seen(self.slot(i), self.rotate_key(k, pos), self.rotate_value(v, pos))
            o = ref.attention(self.rotate_query(q, pos), K, V, self.visible(n, K.shape[2], before))
            x = self.added(x, ref.combine(o, W["W_O"]))
        self.length = self.counted(n)
        return x @ self.model["unembed"]

    def decode_step(self, token):
        return self.extend(token.unsqueeze(1)).squeeze(1)

    def parts(self, ids, chunk):
        return ids.split(chunk, dim=1)

    def of_the_last(self, logits):
        return logits[:, -1]

    def prefill(self, ids, chunk):
        self.begin()
        for part in self.parts(ids, chunk):
            logits = self.extend(part)
        return self.of_the_last(logits)

    def rewound(self):
        """The slots in which tokens are taken back."""
        return list(self.past)

    def rewind(self, n):
        for slot in self.rewound():
            self.past[slot] = tuple(x[:, :, : x.shape[2] - n] for x in self.past[slot])
        self.length = self.left(n)

    def left(self, n):
        """How many tokens are held when n were taken back."""
        return self.counted(-n)

    def swap(self, model):
        self.model = model


def _with(**parts):
    return type("Mistaken", (_Decoder,), parts)


def _identity(self, x, pos):
    return x


def _nothing(self):
    pass


def _all_anew(self, ids):
    """Keeps the tokens, and runs `forward` on all of them each time."""
    self.ids = torch.cat([getattr(self, "ids", ids)[:, : self.length], ids], dim=1)
    self.length = self.ids.shape[1]
    return ref.forward(self.model, self.ids)[:, -ids.shape[1] :]


def _the_past_alone(self, slot, k, v):
    found = *self.past.get(slot, (k, v)), self.held(slot)
    self.store(slot, k, v)
    return found


def _the_new_alone(self, slot, k, v):
    self.store(slot, k, v)
    return k, v, 0


def _forgets_at_a_swap(self, model):
    self.model = model
    _Decoder.begin(self)


def _keeps_the_axis(self, token):
    return self.extend(token.unsqueeze(1))


def _rotated_when_read(self, slot, k, v):
    """Right, and wasteful: all keys are rotated at each step."""
    K, V, before = _Decoder.seen(self, slot, k, v)
    return ref.apply_rope(K, torch.arange(K.shape[2])), V, before


def _whole_chunks(self, ids, chunk):
    return ids[:, : max(1, ids.shape[1] // chunk) * chunk].split(chunk, dim=1)


# its length, too, is that of the one cache: each layer has added to it
ONE_CACHE = {"slot": lambda self, layer: 0, "counted": lambda self, n: self.held(0)}


def _empties_the_caches_alone(self):
    self.past = {}


def _counts_on(self, n):
    """Its own number stays; `taken_back` is how many tokens it says too many."""
    self.taken_back = n
    return self.length


def _where_the_caches_end(self, begun):
    return begun - vars(self).get("taken_back", 0)


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


CACHED_MODEL = Exercise(
    "CachedModel",
    title="Find the bugs: a decoder with a cache",
    kind="bug",
    points=3,
    difficulty=4,
    minutes=13,
    search=0.05,  # its reference is slow
    reference=ref.CachedModel,
    recipe=Made(_with),
    tensors=True,
    tolerance=TWO_LAYERS,
    cases=(
        Case("one head, two tokens, then one", _one_head),
        Case("a prompt, then three steps", _prompt_then_steps),
        Case("other weights from here on", _other_weights),
        Case("prefill in chunks, then a step", _chunked_prefill, edge=0.2),
        Case("a second prompt", _second_prompt, edge=0.15),
        Case("three tokens are taken back", _taken_back, edge=0.15),
        Case("a long prompt with room for the scores of one chunk", _long_prompt, room=3.5, edge=0.1),
    ),
    hints=(
        "Which of the tests pass, and what do their calls have in common? Follow the positions through layer 0 and layer "
        "1, once for a prompt of nine tokens and once for the step after it.",
        "`self.length` is the length of the first cache. How long is that cache when the loop reaches layer 1? For the "
        "second bug, ask which caches still hold a token that was taken back.",
        "Compute `pos` before the loop, so that all layers use the same positions. In `rewind`, loop over all caches, as "
        "`prefill` does with `reset`.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "left both bugs in place: the deeper layers count positions after layer 0 has appended, and `rewind` forgets "
            "tokens in layer 0 only",
            "Ask each line how many tokens it believes are stored. Then ask which caches have to forget when a token is "
            "taken back.",
            Instead(first=lambda self, begun: self.held(0), rewound=lambda self: [0]),
        ),
        Misconception(
            "rewound_layer_0_alone",
            "took tokens back in layer 0 only, so the deeper layers still attend to them",
            "Every layer has its own cache, so rewind all of them.",
            Instead(rewound=lambda self: [0]),
        ),
        Misconception(
            "rewound_the_count_alone",
            "took the positions back but left the tokens in the caches",
            "Call `rewind(n)` on the cache of every layer. The length then follows.",
            Instead(rewound=lambda self: []),
        ),
        Misconception(
            "count_left_by_rewind",
            "left `length` unchanged in `rewind`, so tokens that were taken back are still counted",
            "After `rewind(n)` the length is smaller by n. The first cache knows how many tokens it holds, so ask it "
            "instead of keeping a second count.",
            Instead(left=_counts_on),
            also=(Instead(left=_counts_on, first=_where_the_caches_end),),
        ),
        Misconception(
            "count_left_by_prefill",
            "left `length` unchanged in `prefill`, so the tokens of the last text are still counted",
            "`prefill` begins again at length 0. The first cache knows how many tokens it holds, so ask it instead of "
            "keeping a second count.",
            Instead(begin=_empties_the_caches_alone),
        ),
        Misconception(
            "offset_zero",
            "counted positions from 0 in every call, so each new token seems to be at the start of the text",
            "Positions continue from the cache, as in `torch.arange(self.length, self.length + n)`.",
            Instead(first=lambda self, begun: 0),
        ),
        Misconception(
            "offset_off_by_one",
            "left a gap of one position between the past and the new tokens",
            "Five stored tokens are at positions 0 to 4, so the next one is at 5, which is exactly `self.length`.",
            Instead(first=lambda self, begun: begun + 1 if begun else 0),
        ),
        Misconception(
            "counter_advanced_by_layer_0",
            "read the length again in each layer, when layer 0 had already appended, so the deeper layers rotate by later "
            "positions",
            "Compute the positions once, before the loop over the layers.",
            Instead(first=lambda self, begun: self.held(0)),
        ),
        Misconception(
            "written_after_read",
            "attended to the past before storing the new token, so the token can't see itself",
            "Append first, and attend to what `append` returns.",
            Instead(seen=_the_past_alone),
        ),
        Misconception(
            "swap_forgets",
            "emptied the caches in `swap`",
            "Only the weights change there. What is stored stays as the old weights made it.",
            Instead(swap=_forgets_at_a_swap),
        ),
        Misconception(
            "step_keeps_an_axis",
            "returned logits with an axis of one token from `decode_step`, (batch, 1, vocab)",
            "`decode_step` takes one token per sequence and returns (batch, vocab). `extend` returns (batch, new, vocab), "
            "so take the logits of its only token.",
            Instead(decode_step=_keeps_the_axis),
        ),
        Misconception(
            "stale_cache",
            "kept the last sequence in the caches when a new prompt came",
            "`prefill` begins again, so call `reset()` on the cache of **every** layer first.",
            Instead(begin=_nothing),
        ),
        Misconception(
            "keys_not_rotated",
            "stored the keys without rotating them",
            "Rotate `q` **and** `k` by the new positions, and append the rotated keys.",
            Instead(rotate_key=_identity),
        ),
        Misconception(
            "one_cache_for_all_layers",
            "used one cache for all layers, so layer 1 attends to the keys of layer 0 and every token is counted once per layer",
            "Each layer has its own keys and values. Note that `[KVCache(capacity)] * 2` is one cache, listed twice.",
            Instead(**ONE_CACHE),
            also=(_OneCacheListedTwice,),
        ),
        Misconception(
            "past_not_read",
            "stored keys and values but attended only to the new ones",
            "`append` returns all keys and all values, so attend to those.",
            Instead(seen=_the_new_alone),
        ),
        Misconception(
            "mask_upper_left",
            "aligned the mask at the top left, so with a past the new tokens see only its beginning",
            "The queries are the **last** tokens. `attend_cached` aligns the mask correctly if it gets all keys.",
            Instead(visible=lambda self, new, n, before: torch.ones(new, n, dtype=torch.bool).tril()),
            also=(Instead(visible=lambda self, new, n, before: torch.ones(new, n, dtype=torch.bool).tril(0 if new > 1 else n)),),
        ),
        Misconception(
            "future_visible",
            "let tokens see later tokens of the same call",
            "One new token needs no mask, but a prompt or a chunk does. `attend_cached` has it.",
            Instead(visible=lambda self, new, n, before: torch.ones(new, n, dtype=torch.bool)),
        ),
        Misconception(
            "queries_not_rotated",
            "rotated only the keys",
            "A score depends on the distance only if both sides are rotated, so rotate the queries by the new positions as well.",
            Instead(rotate_query=_identity),
        ),
        Misconception(
            "values_rotated",
            "rotated the values as well",
            "Positions act only on the scores, so rotate queries and keys.",
            Instead(rotate_value=lambda self, v, pos: ref.apply_rope(v, pos)),
        ),
        Misconception(
            "input_not_added",
            "replaced the input of a layer by its output instead of adding the output",
            "Attention adds to the residual stream, as in `x = x + combine(…)` in `forward`.",
            Instead(added=lambda self, x, y: y),
        ),
        Misconception(
            "first_of_the_chunk",
            "returned the logits at the first token of the last chunk from `prefill`",
            "The logits at the **last** token say what follows the prompt, so take `[:, -1]`.",
            Instead(of_the_last=lambda self, logits: logits[:, 0]),
        ),
        Misconception(
            "one_cache_for_all_layers_never_reset",
            "used one cache for all layers, and left the last sequence in it when a new prompt came",
            "Make a `KVCache` for each layer in a list comprehension, because `[KVCache(capacity)] * 2` is one cache "
            "listed twice. `prefill` begins with `reset()` on all of them.",
            Instead(**ONE_CACHE, begin=_nothing),
            also=(_OneCacheNeverReset,),
        ),
        Misconception(
            "rest_dropped",
            "dropped the end of a prompt whose length is not a multiple of `chunk`",
            "The last part may be shorter, and `torch.split(ids, chunk, dim=1)` keeps it.",
            Instead(parts=_whole_chunks),
        ),
        Misconception(
            "chunk_ignored",
            "put more than `chunk` tokens through the model at once, so the table of their scores is larger than (chunk, n)",
            "`prefill` takes at most `chunk` tokens at a time. `ids.split(chunk, dim=1)` makes parts of that size, while "
            "`ids.chunk(chunk, dim=1)` makes that *many* parts.",
            Instead(parts=lambda self, ids, chunk: [ids]),
            also=(Instead(parts=lambda self, ids, chunk: ids.chunk(chunk, dim=1)),),
            raises=True,
        ),
        Misconception(
            "no_cache",
            "kept the tokens and ran the model on all of them again, which gives the right logits and saves nothing",
            "Keep each layer's keys and values, and put only the new tokens through the layers. After `swap` the past must "
            "stay as the old weights made it, which is how the check noticed.",
            Instead(extend=_all_anew),
        ),
    ),
    variants=(
        Variant("torch_cat_and_a_counter", _Decoder),
        Variant("rotates_on_reading", _with(rotate_key=_identity, seen=_rotated_when_read)),
    ),
)
