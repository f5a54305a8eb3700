"""Right and wrong answers of a cache of latents, one part changed at a time."""

import math

import torch

from solutions.positions import apply_rope, rotate_half_rope


class Latents:
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


def changed(**parts):
    return type("Mistaken", (Latents,), parts)


def resets_a_counter(self):
    """What is said of the length begins anew, and the cache goes on."""
    self.latents = getattr(self, "latents", None)
    self.begun = self.stored


def stores_twice(self, x):
    """Right, and a copy of all latents beside them: what `append(c, c)` does."""
    Latents.store(self, x)
    self.beside = self.latents.clone()


def keeps_keys(self, start):
    """Right, and the keys stay."""
    self.beside = Latents.keys(self, start)
    return self.beside


def no_positions_left(self, x, start):
    """`pos[start:]` where the length was read too late."""
    q = (x @ self.W["Wq"]).unflatten(-1, (self.W["H"], -1)).transpose(1, 2)
    return self.rotate(q, torch.arange(self.stored)[self.stored :])


def rotated_latents(self, start):
    turned = self.rotate(self.latents, self.key_positions(start))
    return (turned @ self.W["W_UK"]).unflatten(-1, (self.W["G"], -1)).transpose(1, 2)


def unrotated_keys(self, start):
    return (self.latents @ self.W["W_UK"]).unflatten(-1, (self.W["G"], -1)).transpose(1, 2)


def rotated_when_stored(self, c):
    return self.rotate(c, torch.arange(self.stored, self.stored + c.shape[1]))


def values_averaged(self, x):
    return Latents.averages(self, x) @ self.ups()


def merged(self, x):
    return self.averages(x).transpose(1, 2).flatten(2) @ self.W["Wo"]


def by_modulo(self):
    """`repeat` in the place of `repeat_interleave`, for the values alone: `gqa_grouped` does it right for the keys."""
    return self.W["W_UV"].unflatten(-1, (self.W["G"], -1)).transpose(0, 1).repeat(self.W["H"] // self.W["G"], 1, 1)


def reshaped(self):
    groups = self.W["W_UV"].reshape(self.W["G"], self.W["W_UV"].shape[0], -1)
    return groups.repeat_interleave(self.W["H"] // self.W["G"], dim=0)


def from_keys(self):
    groups = self.W["W_UK"].unflatten(-1, (self.W["G"], -1)).transpose(0, 1)
    return groups.repeat_interleave(self.W["H"] // self.W["G"], dim=0)


def half_split(self, x, pos):
    """Feature i turned with feature i + d/2."""
    return rotate_half_rope(x, pos, self.W["base"])


def columns_in_turn(self):
    """Group g gets every G-th column of `W_UV`."""
    groups = self.W["W_UV"].unflatten(-1, (-1, self.W["G"])).movedim(-1, 0)
    return groups.repeat_interleave(self.W["H"] // self.W["G"], dim=0)


def queries_by_a_count(self, x, start):
    """Placed by a count of all tokens, which no reset sets back to 0."""
    self.count = getattr(self, "count", 0) + x.shape[1]
    return Latents.queries(self, x, self.count - x.shape[1])


def keys_by_a_count(self, start):
    """The past, too, is placed where the count says: all distances are right."""
    return torch.arange(self.count - self.stored, self.count)


COUNTED = property(lambda self: getattr(self, "count", 0))


class OneByOne(Latents):
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
