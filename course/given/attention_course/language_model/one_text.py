"""SmolLM2 with a cache of your choice, for one text: it is fed new tokens and can take the newest ones back."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.language_model.model import LanguageModel
from attention_course.language_model.reference import logits_with
from attention_course.language_model.step_times import attend_newest
from attention_course.toy_decoder import Remembering


class OneText:
    """A text's way through the model: `extend` processes tokens, `rewind` forgets the newest in the caches of all layers."""

    def __init__(self, model: LanguageModel, make_cache: Any, capacity: int) -> None:
        self.model = model
        self.caches = [make_cache(capacity) for _ in model.weights["layers"]]
        pairs = zip(model.weights["layers"], self.caches, strict=True)
        self.layers = [Remembering(W, cache, attend_newest) for W, cache in pairs]

    def extend(self, tokens: list[int]) -> Float[Tensor, "new vocab"]:
        """Process tokens that follow those before; the logits at each of them."""
        ids = torch.tensor([tokens], device=self.model.device)
        return logits_with(self.model.weights, ids, self.layers)[0]

    def rewind(self, n: int) -> None:
        """Forget the newest `n` tokens."""
        for cache in self.caches:
            cache.rewind(n)
