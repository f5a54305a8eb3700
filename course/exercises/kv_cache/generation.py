"""Greedy generation with the cache and without."""

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.kv_cache.toys import make_ids, make_model
from solutions import kv_cache as ref


def _generation(use_cache, *, batch, n0, n, different=2, **sizes):
    """A model and a prompt whose greedy choices are clear (the best logit leads by 0.02), and not all one token.

    Of the n tokens more than one in `different` is another than all before it.
    """

    def make(draw: Draw):
        while True:
            model, ids = make_model(draw, **sizes), make_ids(draw, batch, n0, sizes.get("vocab", 11))
            as_tensors = {
                "embed": torch.from_numpy(model["embed"]),
                "layers": [{name: torch.from_numpy(W) for name, W in layer.items()} for layer in model["layers"]],
                "unembed": torch.from_numpy(model["unembed"]),
            }
            tokens, _ = ref.generate(as_tensors, torch.from_numpy(ids), n, use_cache=False)
            best = ref.forward(as_tensors, tokens)[:, n0 - 1 : -1].topk(2, dim=-1).values
            varied = all(len(set(row.tolist())) > n // different for row in tokens[:, n0:])
            if (best[..., 0] - best[..., 1]).min() > 0.02 and varied:
                return {"model": model, "ids": ids, "n": n, "use_cache": use_cache}

    return make


def _best(logits):
    return logits.argmax(-1, keepdim=True)


def _generated(
    *, refill=False, twice=False, anew=False, fed=slice(-1, None), chosen=-1, counted=lambda fed: fed.shape[1], best=_best
):  # fmt: skip
    """Greedy generation; with `twice` the prompt's last token enters twice, `counted` says how much work some columns are.

    With `anew`, each step makes a cache and fills it with the whole text.
    """

    def answer(model, ids, n, use_cache):
        cached, work = ref.CachedModel(model, 64), 0
        if use_cache and twice:
            cached.extend(ids)
            work += counted(ids)
        for step in range(n):
            whole = not use_cache or refill or (step == 0 and not twice)
            new = ids if whole else ids[:, fed]
            work += counted(new)
            if anew and use_cache:
                cached, new = ref.CachedModel(model, 64), ids
            logits = cached.extend(new) if use_cache else ref.forward(model, new)
            ids = torch.cat([ids, best(logits[:, chosen])], dim=1)
        return ids, work

    return answer


def _token_by_token(model, ids, n, use_cache):
    if not use_cache:
        lengths = range(ids.shape[1], ids.shape[1] + n)
        return ref.generate(model, ids, n, False)[0], sum(lengths)
    cached = ref.CachedModel(model, 64)
    out, chosen = [*ids.unbind(1)], None
    for index in range(ids.shape[1] + n - 1):
        chosen = cached.decode_step(out[index]).argmax(-1)
        if index + 1 >= ids.shape[1]:
            out.append(chosen)
    return torch.stack(out, dim=1), cached.length


TINY = {"vocab": 5, "d_model": 3, "layers": 1, "heads": 1, "d": 2}

GENERATE = Exercise(
    "generate",
    title="Generate, with the cache and without",
    points=2,
    difficulty=2,
    minutes=9,
    reference=ref.generate,
    recipe=Made(_generated),
    tensors=True,
    cases=(
        Case("two tokens, with the cache", _generation(True, batch=1, n0=2, n=2, **TINY)),
        Case("a batch, with the cache", _generation(True, batch=2, n0=5, n=7)),
        Case("a batch, without", _generation(False, batch=3, n0=3, n=5)),
        Case("a longer prompt, without", _generation(False, batch=1, n0=6, n=3, **TINY)),
        # the scores of 61 tokens with 61 are 15 kB; a cache for a thousand tokens is 8
        Case(
            "sixty tokens, and no room for all scores",
            _generation(True, batch=1, n0=2, n=60, different=60, **TINY),
            edge=0.25,
            room=45,
        ),
    ),
    hints=(
        "Two phases: the prompt, in one go, then one token at a time. Whose logits choose the first new token?",
        "Keep `logits` of the last position. In each round: take the `argmax`, put it behind `ids`; then, unless it was the last "
        "round, process it. With the cache, `prefill` once and `decode_step` after that; without, `forward` on all of `ids`.",
        "One loop of n rounds, and in it three ways to get the last position's logits: without the cache, `forward` on all of `ids`; with "
        "it, `prefill` in round 0 and `decode_step` on the last column after that. Add to `work` what each has put through the "
        "model. The round ends by putting the `argmax` behind `ids`.",
    ),
    misconceptions=(
        Misconception(
            "refilled_each_step",
            "put the whole text into the cache again at every step: the past is in it several times over",
            "After the prompt, process only the token chosen last.",
            Instead(refill=True),
        ),
        Misconception(
            "cache_made_anew",
            "put the whole text through the model at every step, in a cache that is made anew, and counted one position",
            "One `CachedModel` for the whole loop: it holds what came before, and each step gives it the newest token alone.",
            Instead(anew=True),
            raises=True,
        ),
        Misconception(
            "prompt_logits_dropped",
            "threw away the prompt's logits and processed its last token a second time",
            "`prefill` already says what follows the prompt: choose the first new token from its logits.",
            Instead(twice=True),
        ),
        Misconception(
            "cache_ignored",
            "ran a full forward pass at every step, although `use_cache` was true",
            "Same tokens, but the work shows it: with the cache no position is processed twice.",
            Before(lambda use_cache, **_: {"use_cache": False}),
        ),
        Misconception(
            "last_token_processed",
            "processed the last new token as well, or counted it: one step more than needed",
            "`n` tokens need `n` sets of logits. The prompt gives the first, so `n - 1` more steps do.",
            After(lambda out, use_cache, **_: (out[0], out[1] + (1 if use_cache else out[0].shape[1]))),
        ),
        Misconception(
            "last_token_counted",
            "processed or counted the last new token with the cache: its work is 1 too many",
            "`n` tokens need `n` sets of logits. The prompt gives the first, so `n - 1` more steps do.",
            After(lambda out, use_cache, **_: (out[0], out[1] + int(use_cache))),
        ),
        Misconception(
            "first_position_logits",
            "chose from the logits of the first position of each call, not of the last",
            "The logits at a position say what follows **it**: take `[:, -1]`.",
            Instead(chosen=0),
        ),
        Misconception(
            "one_choice_for_all",
            "gave all sequences of the batch the token that is best for the first one",
            "Each sequence goes on by itself: one `argmax` for each row, over the last axis.",
            Instead(best=lambda logits: logits[:1].argmax(-1, keepdim=True).expand(len(logits), 1)),
        ),
        Misconception(
            "prompt_missing",
            "returned the new tokens only",
            "The result begins with the prompt: (batch, n0 + n).",
            After(lambda out, ids, **_: (out[0][:, ids.shape[1] :], out[1])),
        ),
        Misconception(
            "first_token_again",
            "put the first token of the text through the model in each step, not the last",
            "What was chosen last stands at the end: `ids[:, -1]`.",
            Instead(fed=slice(0, 1)),
        ),
        Misconception(
            "calls_counted",
            "counted calls of the model, not the positions that go through it",
            "A prompt of five tokens counts five: add what each call was fed, `shape[1]`.",
            Instead(counted=lambda fed: 1),
        ),
        Misconception(
            "sequences_counted",
            "counted the positions of all sequences of the batch together",
            "The work is counted in **each** sequence: the batch does not matter.",
            Instead(counted=lambda fed: fed.numel()),
        ),
        Misconception(
            "prompt_not_counted",
            "left the prompt out of the work, although the cache had to be filled with it",
            "`prefill` puts n0 positions through the model.",
            After(lambda out, ids, use_cache, **_: (out[0], out[1] - (ids.shape[1] if use_cache else 0))),
        ),
    ),
    variants=(Variant("prompt_token_by_token", _token_by_token), Variant("with_extend", _generated())),
)
