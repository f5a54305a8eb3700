"""A cache for keys and values: it keeps the order of the text, loses no token, and can forget."""

import torch

from autograder import Call, Case, Construct, Draw, Exercise, Instead, Made, Misconception, Read, Script, Variant
from solutions import kv_cache as ref

LENGTH = Read("length")


def _append(draw: Draw, *lead, n, d_k, d_v):
    return Call("append", {"k": draw.normal(*lead, n, d_k), "v": draw.normal(*lead, n, d_v)})


def _two_tokens(draw: Draw):
    appends = [_append(draw, 1, 1, n=1, d_k=2, d_v=3) for _ in range(2)]
    return Script({"capacity": 3}, None, (*appends, LENGTH))


def _prompt_and_steps(draw: Draw):
    heads, d_k, d_v = draw.sizes(3, low=3, high=7)
    appends = [_append(draw, 2, heads, n=n, d_k=d_k, d_v=d_v) for n in (3, 1, 2)]
    return Script({"capacity": 11}, None, (*appends, LENGTH))


def _as_full_as_can_be(draw: Draw):
    """Filled, and then emptied by `rewind`."""
    appends = [_append(draw, 1, 2, n=n, d_k=3, d_v=5) for n in (2, 3)]
    return Script({"capacity": 5}, None, (*appends, LENGTH, Call("rewind", {"n": 5}), LENGTH))


def _another_sequence(draw: Draw):
    first, second, third = (_append(draw, 1, 2, n=n, d_k=3, d_v=5) for n in (5, 3, 1))
    return Script({"capacity": 11}, None, (first, Call("reset"), LENGTH, second, third, LENGTH))


def _a_draft_taken_back(draw: Draw):
    """Five tokens, three forgotten, one other, then no token at all is forgotten."""
    first, second, third = (_append(draw, 1, 2, n=n, d_k=3, d_v=5) for n in (5, 1, 2))
    back, none = Call("rewind", {"n": 3}), Call("rewind", {"n": 0})
    return Script({"capacity": 7}, None, (first, back, LENGTH, second, none, third, LENGTH))


def _overfull(draw: Draw):
    """Two tokens more than there is room for; the first append fits."""
    return Script({"capacity": 4}, None, (_append(draw, 1, 2, n=3, d_k=3, d_v=5), _append(draw, 1, 2, n=3, d_k=3, d_v=5)))


def _too_far_back(draw: Draw):
    return Script({"capacity": 5}, None, (_append(draw, 1, 2, n=2, d_k=3, d_v=5), Call("rewind", {"n": 3})))


def _refused(draw: Draw):
    """An error leaves the cache unchanged."""
    first, too_many = (_append(draw, 1, 2, n=n, d_k=3, d_v=5) for n in (2, 3))
    refused = Call("append", too_many.arguments, raises=ValueError)
    back = Call("rewind", {"n": 9}, raises=ValueError)
    return Script({"capacity": 4}, None, (first, refused, LENGTH, back, LENGTH))


def _another_batch(draw: Draw):
    """A smaller one, which fits into old buffers without a word: what comes out has the old batch."""
    first, second, third = (_append(draw, *lead, n=n, d_k=3, d_v=5) for lead, n in (((3, 2), 3), ((1, 2), 2), ((1, 2), 1)))
    return Script({"capacity": 5}, None, (first, Call("reset"), second, third, LENGTH))


def _another_cache(draw: Draw):
    """Each layer has a cache: a second one is made while the first is in use."""
    first, second = (_append(draw, 1, 2, n=n, d_k=3, d_v=5) for n in (3, 1))
    return Script({"capacity": 6}, None, (first, Construct({"capacity": 8}), second, LENGTH))


class _Cat:
    """A right answer in other words, which grows by `torch.cat`; a setting takes one of its parts otherwise."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.K = self.V = None

    @property
    def length(self):
        return 0 if self.K is None else self.K.shape[-2]

    def refuse(self, stop):
        if stop > self.capacity:
            raise ValueError("full")

    before = refuse  # asked before the tokens are stored, and `after` that

    def after(self, stop):
        pass

    def join(self, old, new):
        """As into a buffer: what is smaller is repeated along batch and heads."""
        return torch.cat([old, new.expand(*old.shape[:-2], *new.shape[-2:])], dim=-2)

    def cast(self, x):
        return x

    def moved(self, new):
        """By how much the place to write moves on."""
        return new

    def shown(self, x):
        return x

    def append(self, k, v):
        start, new = self.length, k.shape[-2]
        self.before(start + new)
        k, v = self.cast(k), self.cast(v)
        K, V = (k, v) if self.K is None else (self.join(self.K, k), self.join(self.V, v))
        self.K, self.V = (x[..., : start + self.moved(new), :] for x in (K, V))
        self.after(start + new)
        return self.shown(K), self.shown(V)

    def back(self, n):
        """How many tokens to forget where n are named."""
        if n > self.length:
            raise ValueError("too far back")
        return n

    def kept(self, n):
        return slice(0, self.length - n)

    def rewind(self, n):
        stay = self.kept(self.back(n))
        self.K, self.V = (None if x is None else x[..., stay, :] for x in (self.K, self.V))

    def reset(self):
        self.K = self.V = None


def _returns_the_new(self, k, v):
    _Cat.append(self, k, v)
    return k, v


def _with(**parts):
    return type("Mistaken", (_Cat,), parts)


def _nothing(self, *_):
    pass


def _none_left(self):
    """The old text is gone, and its shape stays."""
    self.K, self.V = (None if x is None else x[..., :0, :] for x in (self.K, self.V))


def _up_to_capacity(self, x):
    free = self.capacity - x.shape[-2]
    return torch.cat([x, x.new_zeros(*x.shape[:-2], free, x.shape[-1])], dim=-2)


def _all_slots(self, x):
    """A buffer as it is: behind the tokens stands what was there before, zeros or tokens taken back."""
    side = x.shape[-1]  # keys and values differ in their width here
    slots = vars(self).setdefault("slots", {})
    slots.setdefault(side, x.new_zeros(*x.shape[:-2], self.capacity, x.shape[-1]))[..., : x.shape[-2], :] = x
    return slots[side].clone()


def _no_slots(self):
    self.K, self.V, self.slots = None, None, {}


ALL_SLOTS = {"shown": _all_slots, "reset": _no_slots}


def _on_the_class(self, name, value):
    setattr(type(self), name, value)


def _unchecked(self, n):
    return n


def _all_but_the_last(self, n):
    return slice(None, -n)


STORED_FIRST = {"before": _nothing, "after": _Cat.refuse}


class _OneSlotPerCall:
    """Preallocated and unchecked; the place to write moves on by one however many tokens came."""

    def __init__(self, capacity):
        self.capacity, self.length, self.K = capacity, 0, None

    def append(self, k, v):
        if self.K is None:
            self.K, self.V = (x.new_zeros(*x.shape[:-2], self.capacity, x.shape[-1]) for x in (k, v))
        stop = self.length + k.shape[-2]
        self.K[..., self.length : stop, :], self.V[..., self.length : stop, :] = k, v
        self.length += 1
        return self.K[..., :stop, :], self.V[..., :stop, :]

    def rewind(self, n):
        self.length -= n

    def reset(self):
        self.length = 0


class _CountsFirstAndRewindsUnchecked(ref.KVCache):
    """A counter that is never looked at."""

    def append(self, k, v):
        try:
            return super().append(k, v)
        except ValueError:
            self._length += k.shape[-2]
            raise

    def rewind(self, n):
        self._length -= n


class _Chunks:
    """Keep the pieces in lists and join them when asked."""

    def __init__(self, capacity):
        self.capacity, self.pieces = capacity, []

    def append(self, k, v):
        if self.length + k.shape[2] > self.capacity:
            raise ValueError("full")
        self.pieces += zip(k.split(1, dim=2), v.split(1, dim=2), strict=True)
        keys, values = zip(*self.pieces, strict=True)
        return torch.cat(keys, dim=2), torch.cat(values, dim=2)

    def rewind(self, n):
        if n > len(self.pieces):
            raise ValueError("too far back")
        self.pieces = self.pieces[: len(self.pieces) - n]

    def reset(self):
        self.pieces = []

    @property
    def length(self):
        return len(self.pieces)


class _IndexCopy:
    """Preallocated, with `length` as a plain attribute and `index_copy_`."""

    def __init__(self, capacity):
        self.capacity, self.length, self.room = capacity, 0, {}

    def append(self, k, v):
        if self.length + k.shape[2] > self.capacity:
            raise ValueError("full")
        at = torch.arange(self.length, self.length + k.shape[2])
        self.length += k.shape[2]
        for name, x in (("k", k), ("v", v)):
            b, h, _, d = x.shape
            self.room.setdefault(name, x.new_zeros(b, h, self.capacity, d)).index_copy_(2, at, x)
        return tuple(x.narrow(2, 0, self.length) for x in self.room.values())

    def rewind(self, n):
        if n > self.length:
            raise ValueError("too far back")
        self.length -= n

    def reset(self):
        self.length, self.room = 0, {}


KV_CACHE = Exercise(
    "KVCache",
    title="A cache for keys and values",
    points=3,
    difficulty=2,
    minutes=12,
    reference=ref.KVCache,
    recipe=Made(_with),
    tensors=True,
    cases=(
        Case("one token, then another", _two_tokens),
        Case("a prompt, a token, two tokens", _prompt_and_steps),
        Case("filled to its capacity, then rewound", _as_full_as_can_be),
        Case("a second sequence after a reset", _another_sequence, edge=0.2),
        Case("rewound by three tokens, then by none", _a_draft_taken_back, edge=0.2),
        Case("more tokens than its capacity", _overfull, raises=ValueError, edge=0.1),
        Case("rewound past its beginning", _too_far_back, raises=ValueError, edge=0.1),
        Case("unchanged after an error", _refused, edge=0.1),
        Case("another batch size after a reset, in double precision", _another_batch, double=True, edge=0.1),
        Case("a second cache beside the first", _another_cache, edge=0.1),
    ),
    hints=(
        "Which axis counts the tokens? That is the axis that grows. What should `append` return if nothing was stored before?",
        "Keep one tensor for the keys and one for the values. Put the new tokens **after** the old ones along axis -2 and "
        "return everything. `reset` goes back to the state after `__init__`.",
        "With a buffer, `append` needs `start`, which is the length so far, and `stop`. Make the two buffers with "
        "`k.new_empty` when the first tokens arrive, write into one slice and return another. `rewind` then changes a "
        "single number, and `reset` also drops the buffers, because the next text may have another batch size or dtype. "
        "With `torch.cat`, remember that `K[..., :-n, :]` is empty when n is 0.",
    ),
    misconceptions=(
        Misconception(
            "prepended",
            "put the new tokens **before** the old ones",
            "Keep the order of the text with `torch.cat([old, new], dim=-2)`. Single decode steps would not notice, "
            "because attention ignores the order of rotated keys, but the causal mask of a chunk does.",
            Instead(join=lambda self, old, new: torch.cat([new, old], dim=-2)),
        ),
        Misconception(
            "only_the_new",
            "kept and returned only the new tokens, so the past is lost",
            "Store the old tokens and the new ones together, and return both.",
            Instead(join=lambda self, old, new: new),
        ),
        Misconception(
            "returned_the_new",
            "stored everything and returned only the new tokens",
            "A new query also looks at the past, so `append` returns **all** keys and values that the cache now holds.",
            Instead(append=_returns_the_new),
        ),
        Misconception(
            "joined_along_heads",
            "joined the old and the new tokens along the head axis",
            "The axes are (batch, head, token, width), so the token axis is -2.",
            Instead(join=lambda self, old, new: torch.cat([old, new], dim=1)),
        ),
        Misconception(
            "joined_along_the_width",
            "joined the old and the new tokens along the features, which makes keys twice as wide instead of twice as many",
            "The axes are (batch, head, token, width), so the token axis is -2.",
            Instead(join=lambda self, old, new: torch.cat([old, new], dim=-1)),
        ),
        Misconception(
            "no_limit",
            "kept storing tokens beyond the capacity without an error",
            "If the new tokens don't fit, raise a ValueError that says how many there are and how many fit. A buffer that "
            "is written past its end fails later, and somewhere else.",
            Instead(before=_nothing),
        ),
        Misconception(
            "last_place_refused",
            "refused the token that would have filled the last free row",
            "A cache holds `capacity` tokens, so raise a ValueError only if there would be **more** than that.",
            Instead(before=lambda self, stop: self.refuse(stop + 1)),
            raises=True,
        ),
        Misconception(
            "one_for_all",
            "kept the tensors on the class instead of the object, so all caches share them",
            "Create everything that a cache holds in `__init__`, on `self`. A list or tensor in the class body exists only "
            "once for all objects.",
            Instead(__setattr__=_on_the_class),
        ),
        Misconception(
            "rewound_past_the_beginning",
            "let the cache be rewound past its beginning without an error",
            "Raise a ValueError if n is larger than `length`. A negative length would count from the end of the buffer.",
            Instead(back=lambda self, n: min(n, self.length)),
        ),
        Misconception(
            "rewound_by_minus_zero",
            "sliced with `:-n`, which forgets **everything** when n is 0",
            "`x[..., :-0, :]` is the same as `x[..., :0, :]`, which is empty. Slice up to `length - n`.",
            Instead(kept=_all_but_the_last),
        ),
        Misconception(
            "rewound_to_n",
            "kept n tokens instead of forgetting n",
            "After `rewind(n)` the length is the old length **minus** n.",
            Instead(back=_unchecked, kept=lambda self, n: slice(0, n or None)),
            also=(Instead(kept=lambda self, n: slice(0, n)),),
        ),
        Misconception(
            "rewound_the_oldest",
            "forgot the oldest tokens instead of the newest",
            "To rewind is to go back in time, so the last n tokens go and the first ones stay.",
            Instead(back=_unchecked, kept=lambda self, n: slice(n, None)),
            also=(Instead(kept=lambda self, n: slice(n, None)),),
        ),
        Misconception(
            "whole_buffer",
            "returned the whole buffer, including the rows that hold no token yet",
            "Slice it with `buffer[..., :length, :]`. An empty row is not invisible, because a key of zeros has the score "
            "0 and so gets weight.",
            Instead(shown=_up_to_capacity),
            also=(Instead(**ALL_SLOTS),),
        ),
        Misconception(
            "overwritten_after_a_chunk",
            "moved the write position on by one although several tokens came, so the next call overwrites some of them",
            "Move on by `k.shape[-2]`, the number of tokens that you wrote.",
            Instead(moved=lambda self, new: 1),
            also=(_OneSlotPerCall,),
        ),
        Misconception(
            "counted_before_it_was_refused",
            "counted the new tokens before refusing them, so the cache has changed after the error",
            "Check first and change the cache afterwards. A ValueError must leave the cache as it was.",
            Instead(**STORED_FIRST),
        ),
        Misconception(
            "buffer_of_the_old_text",
            "kept the old text's buffers after `reset`, although the next text may have another batch size or dtype",
            "The first `append` after a `reset` decides about batch, heads, widths and dtype again, so make new buffers there.",
            Instead(reset=_none_left),
        ),
        Misconception(
            "single_precision",
            "made the buffers in single precision, whatever the dtype of the keys and values",
            "The first `append` decides about the dtype. Use `k.new_empty(...)`, or `torch.zeros(..., dtype=k.dtype, "
            "device=k.device)`.",
            Instead(cast=lambda self, x: x.float()),
        ),
        Misconception(
            "stale_after_reset",
            "kept the old sequence's tokens after `reset`",
            "After `reset` the length is 0, and the next `append` returns only its own tokens.",
            Instead(reset=_nothing),
        ),
        Misconception(
            "rewound_unchecked_by_minus_zero",
            "sliced with `:-n` and never checked n, so n = 0 forgets **everything** and a too large n raises no error",
            "First raise a ValueError if n is larger than `length`. Then slice up to `length - n`.",
            Instead(back=_unchecked, kept=_all_but_the_last),
        ),
        Misconception(
            "rewound_by_minus_zero_and_counted_before_it_was_refused",
            "stored the new tokens before refusing them, and sliced with `:-n`, which forgets everything when n is 0",
            "In `append`, check first and change the cache afterwards. In `rewind`, slice up to `length - n`.",
            Instead(**STORED_FIRST, kept=_all_but_the_last),
        ),
        Misconception(
            "rewound_unchecked_and_counted_before_it_was_refused",
            "stored the new tokens before refusing them, and let the cache be rewound past its beginning",
            "In both `append` and `rewind`, check first and change the cache afterwards.",
            Instead(**STORED_FIRST, back=_unchecked),
            also=(_CountsFirstAndRewindsUnchecked,),
        ),
        Misconception(
            "first_draft",
            "stored the new tokens before refusing them, and sliced with `:-n` without checking n, so n = 0 forgets "
            "**everything** and a too large n raises no error",
            "In both `append` and `rewind`, check first and change the cache afterwards. Then slice up to `length - n`.",
            Instead(**STORED_FIRST, back=_unchecked, kept=_all_but_the_last),
        ),
    ),
    variants=(Variant("torch_cat", _Cat), Variant("list_of_pieces", _Chunks), Variant("index_copy", _IndexCopy)),
)
