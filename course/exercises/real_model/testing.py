"""A test of a port, tried on ports that are right and on ports that are wrong in ways that text does not show."""

import numpy as np
import torch

from autograder import Case, Code, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref

VOCAB = 7
ROUNDING = 2e-5  # of the largest logit: a fifth of what is allowed
# A port whose logits depend on the whole past: the running sum of the ids seen so far, at `size` at most. `wrong` changes the
# logits `y` (batch, new, vocab) of one call; it knows the number of tokens before (`old`), in the call (`new`), and the port `p`.
PORT = (
    "type('Port', (), {{'past': torch.zeros({batch}, 0, dtype=torch.int64), 'calls': 0, 'first': 0, "
    "'reset': lambda p: {reset}, "
    "'run': lambda p, old, new: (lambda y: {wrong})("
    "{size} * ((1 + p.past).cumsum(-1)[:, old:, None] * torch.arange(1, {vocab} + 1)).double().cos().float()), "
    "'extend': lambda p, ids: (p.__dict__.update(past=torch.cat([p.past, ids], 1), calls=p.calls + 1, "
    "first=p.first or ids.shape[1]), p.run(p.past.shape[1] - ids.shape[1], ids.shape[1]))[1]}})()"
)
RESET = "p.__dict__.update(past=p.past[:, :0], calls=0, first=0)"
NOISE = f"y + {ROUNDING} * {{size}} * (1e3 * y).sin()"
OFF = "1.1 * y"


def _logits(ids, size):
    """What a right port gives, without rounding."""
    sums = np.cumsum(1 + ids, axis=-1)[..., None] * np.arange(1, VOCAB + 1)
    return size * np.cos(sums.astype(float))


def _port(wrong, *, n=7, batch=1, size=8.0, reset=RESET, right=lambda logits: logits):
    """A text of `n` tokens, its right logits, and a port that is `wrong` in one way."""

    def make(draw: Draw):
        ids = draw.rng.integers(0, VOCAB, (batch, n))
        source = PORT.format(batch=batch, vocab=VOCAB, size=size, reset=reset, wrong=wrong.format(size=size))
        return {"port": Code(source), "ids": ids, "right": right(_logits(ids, size))}

    return make


def _entry(place, change):
    """Where only the logits of token `place` of the text are changed, in whatever call it comes."""
    return f"torch.where((torch.arange(old, old + new) == {place})[None, :, None], {change}, y)"


def _uneven(n):
    return [2, 3, 1, *[n - 6] * (n > 6)]


def _accepts(
    *,
    cuts=lambda n: ([n], [1] * n, _uneven(n)),
    begin=lambda port, run: port.reset(),
    seen=lambda logits: logits,
    measure=torch.max,
    limit=lambda right: 1e-4 * right.abs().max(),
    agree=lambda gap, limit: gap <= limit,
):
    """Each cut is run, and what is `seen` of its logits compared by a `measure` of the differences."""

    def answer(port, ids, right):
        for run, sizes in enumerate(cuts(ids.shape[1])):
            begin(port, run)
            logits = torch.cat([port.extend(part) for part in ids.split(list(sizes), dim=1)], dim=1)
            if not agree(measure((seen(logits) - seen(right)).abs()), limit(right)):
                return False
        return True

    return answer


def _every_cut(n):
    """All ways to cut n tokens into parts."""
    if n == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n + 1) for rest in _every_cut(n - first)]


def _random_cuts(n):
    """The whole, single tokens, and ten cuts by chance."""
    g = torch.Generator().manual_seed(0)
    made = [[n], [1] * n]
    for _ in range(10):
        inner = torch.randperm(n - 1, generator=g)[:3].sort().values + 1
        made.append(torch.diff(inner, prepend=torch.tensor([0]), append=torch.tensor([n])).tolist())
    return made


def _collects(port, ids, right):
    """All cuts first, then one comparison."""
    n, found = ids.shape[1], []
    for sizes in ([n], [1] * n, [3, 1, n - 4], [n - 3, 1, 2]):
        port.reset()
        found.append(torch.cat([port.extend(part) for part in ids.split(sizes, dim=1)], dim=1))
    return bool(torch.allclose(torch.stack(found), right.expand(4, *right.shape), rtol=0, atol=1e-4 * float(right.abs().max())))


ACCEPTS = Exercise(
    "accepts",
    title="Find four holes: a test of ports",
    points=3,
    kind="bug",
    difficulty=3,
    minutes=9,
    search=0.2,  # each program runs a port for every cut
    reference=ref.accepts,
    recipe=Made(_accepts),
    tensors=True,
    cases=(
        Case("right up to rounding", _port(NOISE)),
        Case("right to the last digit", _port("y.round()", right=np.round)),
        Case("all logits a little too large", _port(OFF)),
        Case("wrong for several tokens after a past", _port(f"{OFF} if old and new > 1 else y")),
        Case("wrong for a single token after a past", _port(f"{OFF} if old and new == 1 else y")),
        Case("wrong after any past", _port(f"{OFF} if old else y")),
        Case("wrong at one token", _port(_entry(3, "y + 0.002"))),
        Case("wrong at the last token", _port(_entry(6, OFF))),
        Case("wrong where calls have different sizes", _port(f"y if old == (p.calls - 1) * p.first else {OFF}", n=9)),
        Case("wrong with more than six tokens at once", _port(f"{OFF} if new > 6 else y", n=8)),
        Case("NaN at one token", _port(_entry(2, "y * torch.nan"))),
        Case("an old text that is not forgotten", _port("y", reset="None")),
        Case("right, with large logits", _port(NOISE, size=5000.0), edge=0.2),
        Case("wrong, with small logits", _port(OFF, size=0.0004), edge=0.2),
        Case("a batch whose second text is wrong", _port("torch.cat([y[:1], 1.1 * y[1:]])", batch=2), edge=0.2),
    ),
    hints=(
        "Think of a mistake that each test in this notebook would miss. Which calls would show a wrong mask, a wrong position, a cache that was "
        "not emptied?",
        "The text can arrive at once, token by token, or in parts of different sizes. Run several such cuts, start each with `port.reset()`, and "
        "compare the logits of all tokens with `right`.",
        "`ids.split([2, 3, 1, n - 6], dim=1)` makes uneven parts, and `torch.cat(…, dim=1)` joins their logits. One number decides, the largest "
        "absolute difference. How must you write the comparison so that NaN fails it?",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "kept the shown test, which runs one call, never resets, takes the mean of the differences and lets NaN pass",
            "Run the text in several cuts, reset the port before each of them, take the largest difference, and ask whether it is small "
            "enough.",
            Instead(
                cuts=lambda n: ([n],),
                begin=lambda port, run: None,
                measure=torch.mean,
                agree=lambda gap, limit: not gap > limit,
            ),
        ),
        Misconception(
            "only_the_likeliest_token",
            "compared only the most likely tokens, so a port with wrong logits passes",
            "The text can be the same although the logits are wrong. Compare all logits.",
            Instead(seen=lambda logits: logits.argmax(-1).double() + 0 * logits.sum(-1), agree=lambda gap, limit: gap == 0),
        ),
        Misconception(
            "only_at_once",
            "ran the whole text in one call, so mistakes that need a past stay unseen",
            "Masks, positions and caches can only go wrong when there is a past. Cut the text into several calls too.",
            Instead(cuts=lambda n: ([n],)),
            also=(Instead(cuts=lambda n: ([n], [n])),),
        ),
        Misconception(
            "only_token_by_token",
            "ran single tokens only, where a mask has nothing to hide",
            "Several new tokens after a past are a case of their own. Add calls with two or more tokens.",
            Instead(cuts=lambda n: ([1] * n,)),
            also=(Instead(cuts=lambda n: ([1] * n, [1] * n)),),
        ),
        Misconception(
            "no_part_in_the_middle",
            "tested the whole text and single tokens, but never several tokens after a past",
            "A chunk after a past needs a mask that is aligned at the bottom right. Add such a call.",
            Instead(cuts=lambda n: ([n], [1] * n)),
        ),
        Misconception(
            "equal_parts",
            "began every call where as many calls of the first size would end, so a port that relies on the first size passes",
            "Even two parts of different sizes do that. Cut a run into three parts or more whose sizes differ, for example 2, 3, 1 and the rest.",
            Instead(cuts=lambda n: ([n], [1] * n, [3] * (n // 3) + [n % 3] * (n % 3 > 0))),
            also=(Instead(cuts=lambda n: ([n], [1] * n, [2] * (n // 2) + [n % 2] * (n % 2 > 0))),),
        ),
        Misconception(
            "never_a_single_token",
            "never gave the port a single token after a past, which is what every decode step does",
            "Generated text comes one token at a time. Include such calls.",
            Instead(cuts=lambda n: ([n], [2, 3, n - 5] if n != 6 else [2, 4])),
        ),
        Misconception(
            "never_at_once",
            "never ran the whole text in one call, which is how a prompt arrives",
            "Include one call with all tokens.",
            Instead(cuts=lambda n: ([1] * n, _uneven(n))),
        ),
        Misconception(
            "only_one_text",
            "never used the port for a second text, so an old text that is not forgotten stays unseen",
            "Call `port.reset()`, then run a text again. The second run has to give the same logits.",
            Instead(cuts=lambda n: (_uneven(n),)),
        ),
        Misconception(
            "not_reset",
            "did not call `reset` between two runs, so the second text follows the first and right ports fail",
            "Call `port.reset()` before every run.",
            Instead(begin=lambda port, run: None),
        ),
        Misconception(
            "mean_difference",
            "averaged the differences, so one wrong token among many right ones passes",
            "Take the largest difference.",
            Instead(measure=torch.mean),
        ),
        Misconception(
            "last_token_only",
            "compared only the logits of the last token",
            "A mistake may affect any token. Compare all of them.",
            Instead(seen=lambda logits: logits[:, -1:]),
        ),
        Misconception(
            "first_text_only",
            "compared only the first text of the batch",
            "Compare the logits of all texts.",
            Instead(seen=lambda logits: logits[:1]),
        ),
        Misconception(
            "nan_passes",
            "let NaN pass, because no comparison with NaN is True",
            "Ask whether the logits agree, `difference <= limit`, and reject the port if they don't.",
            Instead(agree=lambda gap, limit: not gap > limit),
        ),
        Misconception(
            "exactly_equal",
            "asked for exactly equal numbers, so a right port that adds in another order fails",
            "Allow a difference of 1e-4 times the largest absolute value in `right`.",
            Instead(limit=lambda right: 0.0),
        ),
        Misconception(
            "absolute_limit",
            "allowed the same difference whatever the size of the logits",
            "Rounding errors grow with the numbers. The limit is 1e-4 times the largest absolute value in `right`.",
            Instead(limit=lambda right: 1e-4),
            also=(Instead(limit=lambda right: 1e-3), Instead(limit=lambda right: 1e-2)),
        ),
    ),
    variants=(
        Variant("every_cut", _accepts(cuts=_every_cut)),
        Variant("random_cuts", _accepts(cuts=_random_cuts)),
        Variant("collects", _collects),
    ),
)
