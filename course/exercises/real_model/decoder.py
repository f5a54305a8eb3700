"""The decoder around the attention."""

import torch

from autograder import Call, Case, Code, Draw, Exercise, Instead, Made, Misconception, Script, Tolerance, Variant
from course.exercises.real_model import probes
from solutions import real_model as ref
from solutions.real_model import feed_forward, rms_norm

TWO_LAYERS = Tolerance(rtol=1e-4, atol=1e-4)  # two layers in float32, logits up to 20; mistakes are 0.1 and more
LENGTH = Call("length", attribute=True)
# Attention of other kinds, to see that `attention` is used: a plain sum over the past of this call, and one that counts the
# tokens that it has ever processed, so that the choices tell whether any was processed twice.
RUNNING_SUM = Code(
    "lambda layer, capacity: type('Sum', (), {'length': 0, 'reset': lambda self: None, '__call__': lambda self, x: x.cumsum(-2)})()"
)
COUNTING = Code(
    "lambda layer, capacity: type('Counting', (), {'length': 0, 'seen': 0, 'reset': lambda self: None, '__call__': lambda self, x: "
    "(x * torch.arange(self.seen, self.seen + x.shape[1])[:, None].cos(), setattr(self, 'seen', self.seen + x.shape[1]))[0]})()"
)

AT_MOST_TWO = Code(  # passes up to two tokens on, and nothing of more: which pieces a prompt comes in is free, if they are small
    "lambda layer, capacity: type('AtMostTwo', (), {'length': 0, 'reset': lambda self: None, "
    "'__call__': lambda self, x: x if x.shape[-2] <= 2 else 0 * x})()"
)


def _one_layer(draw: Draw):
    weights = probes.llama(draw, vocab=5, d_model=4, layers=1, d=2, hidden=3)
    calls = Call("extend", {"ids": probes.ids(draw, 1, 2, 5)}), Call("extend", {"ids": probes.ids(draw, 1, 1, 5)}), LENGTH
    return Script({"weights": weights, "capacity": 8}, None, calls)


def _chunks(draw: Draw):
    calls = Call("prefill", {"ids": probes.ids(draw, 2, 5), "chunk": 2}), Call("extend", {"ids": probes.ids(draw, 2, 1)}), LENGTH
    return Script({"weights": probes.llama(draw), "capacity": 16}, None, calls)


def _another_attention(draw: Draw):
    calls = (Call("extend", {"ids": probes.ids(draw, 1, 3)}),)
    return Script({"weights": probes.llama(draw), "capacity": 16, "attention": RUNNING_SUM}, None, calls)


def _small_pieces(draw: Draw):
    calls = (Call("prefill", {"ids": probes.ids(draw, 2, 7), "chunk": 2}),)
    return Script({"weights": probes.llama(draw), "capacity": 16, "attention": AT_MOST_TWO}, None, calls)


def _second_prompt(draw: Draw):
    calls = [Call("prefill", {"ids": probes.ids(draw, 1, n), "chunk": 8}) for n in (3, 2)]
    return Script({"weights": probes.llama(draw), "capacity": 16}, None, (*calls, LENGTH))


def _greedy(draw: Draw):
    """Two prompts whose greedy choices are clear, and not all one token. Room for more tokens than are needed."""
    while True:
        weights, ids = probes.llama(draw), probes.ids(draw, 2, 3)
        given = {"weights": probes.as_tensors(weights), "capacity": 64}
        if _clear(given, ids) and len(set(ref.Llama(**given).generate(torch.from_numpy(ids), 5).flatten().tolist())) > 3:
            first = Call("extend", {"ids": probes.ids(draw, 2, 2)})  # another text: `generate` begins anew
            return Script({"weights": weights, "capacity": 64}, None, (first, Call("generate", {"ids": ids, "n": 5}), LENGTH))


def _clear(given, ids):
    """Whether the best logit leads by 0.05 at each of five greedy choices."""
    prompt = torch.from_numpy(ids)
    chosen = ref.Llama(**given).generate(prompt, 5)
    best = ref.Llama(**given).extend(torch.cat([prompt, chosen], 1))[:, 2:-1].topk(2).values
    return (best[..., 0] - best[..., 1]).min() > 0.05


def _no_token_twice(draw: Draw):
    """Attention that counts: the choices are other ones if it is given the whole text again."""
    while True:
        weights, ids = probes.llama(draw), probes.ids(draw, 1, 3)
        given = {"weights": probes.as_tensors(weights), "capacity": 64, "attention": COUNTING.build()}
        if _clear(given, ids) and not torch.equal(
            *(kind(**given).generate(torch.from_numpy(ids), 5) for kind in (_Llama, _Recomputes))
        ):
            calls = (Call("generate", {"ids": ids, "n": 5}),)
            return Script({"weights": weights, "capacity": 64, "attention": COUNTING}, None, calls)


class _Llama:
    """A right answer in other words; each mistake is a subclass that changes one thing."""

    def __init__(self, weights, capacity, attention=ref.GroupedAttention):
        self.weights, self.eps = weights, weights["eps"]
        self.attention = self.make(attention, capacity)

    def make(self, attention, capacity):
        return [attention(layer, capacity) for layer in self.weights["layers"]]

    @property
    def length(self):
        return self.attention[-1].length

    def embedded(self, ids):
        return torch.nn.functional.embedding(ids, self.weights["embed"])

    def block(self, x, layer, attend):
        x = x + attend(rms_norm(x, layer["norm1"], self.eps))
        return x + feed_forward(rms_norm(x, layer["norm2"], self.eps), layer)

    def last_norm(self, x):
        return rms_norm(x, self.weights["norm"], self.eps)

    def extend(self, ids):
        x = self.embedded(ids)
        for i, layer in enumerate(self.weights["layers"]):
            x = self.block(x, layer, self.attention[i])
        return torch.einsum("bne,ve->bnv", self.last_norm(x), self.weights["embed"])

    def reset(self):
        for attend in self.attention:
            attend.reset()

    def prefill(self, ids, chunk):
        self.reset()
        for start in range(0, ids.shape[1], chunk):
            logits = self.extend(ids[:, start : start + chunk])
        return logits[:, -1]

    def generate(self, ids, n):
        logits, out = self.prefill(ids, ids.shape[1]), []
        for step in range(n):
            out.append(logits.argmax(-1))
            if step < n - 1:
                logits = self.extend(out[-1][:, None])[:, -1]
        return torch.stack(out, dim=1)


class _Recomputes(_Llama):
    """No use of the cache: the whole text again for each token."""

    def generate(self, ids, n):
        text = ids
        for _ in range(n):
            text = torch.cat([text, self.prefill(text, text.shape[1]).argmax(-1, keepdim=True)], dim=1)
        return text[:, ids.shape[1] :]


def _with(**parts):
    return type("Mistaken", (_Llama,), parts)


def _post_norm(self, x, layer, attend):
    x = rms_norm(x + attend(x), layer["norm1"], self.eps)
    return rms_norm(x + feed_forward(x, layer), layer["norm2"], self.eps)


def _parallel(self, x, layer, attend):
    return x + attend(rms_norm(x, layer["norm1"], self.eps)) + feed_forward(rms_norm(x, layer["norm2"], self.eps), layer)


def _norms_swapped(self, x, layer, attend):
    x = x + attend(rms_norm(x, layer["norm2"], self.eps))
    return x + feed_forward(rms_norm(x, layer["norm1"], self.eps), layer)


def _no_residual(self, x, layer, attend):
    x = attend(rms_norm(x, layer["norm1"], self.eps))
    return feed_forward(rms_norm(x, layer["norm2"], self.eps), layer)


def _normed_stream(self, x, layer, attend):
    """The norm's output, not its input, goes on."""
    x = rms_norm(x, layer["norm1"], self.eps)
    x = x + attend(x)
    x = rms_norm(x, layer["norm2"], self.eps)
    return x + feed_forward(x, layer)


def _normed_for_attention(self, x, layer, attend):
    x = rms_norm(x, layer["norm1"], self.eps)
    x = x + attend(x)
    return x + feed_forward(rms_norm(x, layer["norm2"], self.eps), layer)


def _normed_for_feed_forward(self, x, layer, attend):
    x = x + attend(rms_norm(x, layer["norm1"], self.eps))
    x = rms_norm(x, layer["norm2"], self.eps)
    return x + feed_forward(x, layer)


def _norm1_twice(self, x, layer, attend):
    x = x + attend(rms_norm(x, layer["norm1"], self.eps))
    return x + feed_forward(rms_norm(x, layer["norm1"], self.eps), layer)


def _one_attention(self, attention, capacity):
    return [attention(self.weights["layers"][0], capacity)] * len(self.weights["layers"])


def _whole_chunks_only(self, ids, chunk):
    return _Llama.prefill(self, ids[:, : ids.shape[1] // chunk * chunk], chunk)


def _processes_the_last(self, ids, n):
    out = [self.prefill(ids, ids.shape[1]).argmax(-1)]
    for _ in range(n):
        out.append(self.extend(out[-1][:, None])[:, -1].argmax(-1))
    return torch.stack(out[:n], dim=1)


def _refills(self, ids, n):
    logits, start = self.prefill(ids, ids.shape[1]), ids.shape[1]
    for step in range(n):
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
        if step < n - 1:
            logits = self.extend(ids)[:, -1]
    return ids[:, start:]


LLAMA = Exercise(
    "Llama",
    title="The decoder",
    points=3,
    difficulty=3,
    minutes=20,
    reference=ref.Llama,
    recipe=Made(_with),
    tensors=True,
    tolerance=TWO_LAYERS,
    cases=(
        Case("one layer, two tokens, then one", _one_layer),
        Case("two layers, a prompt in chunks", _chunks),
        Case("five tokens, greedily", _greedy),
        Case("another attention", _another_attention, edge=0.1),
        Case("no token twice", _no_token_twice, edge=0.1),
        Case("no more than a chunk at a time", _small_pieces, edge=0.1),
        Case("a second prompt", _second_prompt, edge=1 / 3),
    ),
    hints=(
        "Follow one token through the formulas. What is `x` before the first layer, what after the last, and what is kept when a norm "
        "is taken?",
        "`x = embed[ids]`; in each layer add the attention of the **normed** `x` to `x` itself, then the feed-forward layer of the "
        "normed `x`, again added. After the layers the last norm, then `@ embed.mT`. `generate` needs the logits of `prefill` for its "
        "first token and one `extend` for each further one.",
        "Write the two formulas of the docstring down as two lines of Python; `rms_norm(x, layer['norm1'], eps)` is the first norm. "
        "`torch.split(ids, chunk, dim=1)` cuts a prompt. In `generate`, who has already computed the logits that choose the first token, "
        "and after which token need you not ask any more?",
    ),
    misconceptions=(
        Misconception(
            "post_norm",
            "took the norm after each sum, as in the original Transformer",
            "Here it comes first: `x + attend(norm(x))`. The stream `x` itself is never normed between the layers.",
            Instead(block=_post_norm),
        ),
        Misconception(
            "normed_stream",
            "passed on the norm's output in the place of `x`",
            "Norm only what goes into attention and feed-forward; add their results to the `x` from before the norm.",
            Instead(block=_normed_stream),
            also=(Instead(block=_normed_for_attention), Instead(block=_normed_for_feed_forward)),
        ),
        Misconception(
            "no_residual",
            "replaced `x` by each layer's output instead of adding it",
            "`x = x + …`, twice in each layer.",
            Instead(block=_no_residual),
        ),
        Misconception(
            "parallel",
            "fed attention and feed-forward with the same `x`, side by side",
            "One after the other: the feed-forward layer sees what attention has added.",
            Instead(block=_parallel),
        ),
        Misconception(
            "norms_swapped",
            "used `norm2` before attention and `norm1` before the feed-forward layer",
            "`norm1` belongs to attention, `norm2` to the feed-forward layer.",
            Instead(block=_norms_swapped),
        ),
        Misconception(
            "norm1_twice",
            "used `norm1` before the feed-forward layer as well",
            "Each of the two has weights of its own: `norm2` belongs to the feed-forward layer.",
            Instead(block=_norm1_twice),
        ),
        Misconception(
            "no_last_norm",
            "left out the norm after the last layer",
            'One more `rms_norm`, with `weights["norm"]`, before the logits.',
            Instead(last_norm=lambda self, x: x),
        ),
        Misconception(
            "embedding_scaled",
            "multiplied the embeddings by $\\sqrt{d_{model}}$, as some other models do",
            "A Llama takes the rows of `embed` as they are.",
            Instead(embedded=lambda self, ids: self.weights["embed"][ids] * self.weights["embed"].shape[1] ** 0.5),
        ),
        Misconception(
            "one_attention",
            "gave all layers one attention: the weights and the cache of layer 0",
            "Make one for each layer: `[attention(layer, capacity) for layer in weights['layers']]`.",
            Instead(make=_one_attention),
        ),
        Misconception(
            "attention_ignored",
            "ignored the parameter `attention`",
            "Call `attention(layer, capacity)`, whatever it is: the lesson will hand in others.",
            Instead(make=lambda self, attention, capacity: _Llama.make(self, ref.GroupedAttention, capacity)),
        ),
        Misconception(
            "not_begun_anew",
            "went on from the last text, or from how long it was, when a new prompt came",
            "`prefill` begins anew: `reset()` the attention of every layer, and set back whatever you count yourself.",
            Instead(reset=lambda self: None),
        ),
        Misconception(
            "rest_dropped",
            "dropped the end of a prompt that is no multiple of `chunk`",
            "The last part may be shorter: `torch.split(ids, chunk, dim=1)` keeps it.",
            Instead(prefill=_whole_chunks_only),
        ),
        Misconception(
            "chunk_ignored",
            "put more than `chunk` tokens of the prompt through the model at one time",
            "At most `chunk` of them in one `extend`: `torch.split(ids, chunk, dim=1)` cuts the prompt, and keeps a shorter rest.",
            Instead(prefill=lambda self, ids, chunk: _Llama.prefill(self, ids, ids.shape[1])),
        ),
        Misconception(
            "recomputed",
            "put the whole text through the model again for each token",
            "`generate` has a cache: one `prefill`, then `extend` by the token chosen last and no other.",
            _Recomputes,
        ),
        Misconception(
            "refilled",
            "put the whole text into the caches again at every step",
            "After the prompt, `extend` by the token chosen last and no other.",
            Instead(generate=_refills),
        ),
        Misconception(
            "last_token_processed",
            "processed the last new token as well: one step more than needed",
            "The prompt gives the first token, so `n - 1` steps give the others.",
            Instead(generate=_processes_the_last),
        ),
        Misconception(
            "prompt_returned",
            "returned the prompt too",
            "Only the new tokens: (batch, n).",
            Instead(generate=lambda self, ids, n: torch.cat([ids, _Llama.generate(self, ids, n)], dim=1)),
        ),
    ),
    variants=(Variant("other_words", _Llama),),
)
