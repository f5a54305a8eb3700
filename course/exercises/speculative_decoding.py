"""Workshop 07e: what a draft yields, how long it should be, and a sampler that doesn't notice it."""

import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Variant
from solutions import speculative_decoding as ref

PREDICT_NINE = Prediction(
    "predict_nine",
    title="Predict: nine tokens in one step",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "about nine times as long, because the arithmetic is nine times as much",
        "b": "about twice as long, because the weights are read once in both cases",
        "c": "less time, because nine tokens can be computed side by side",
    },
    holds="b",
    reveal="**b** on the processor of the recording, with a ratio of 1.9. Every weight has to be read for one token and for nine, and "
    "products with a single row use a processor poorly. Even thirty-three tokens take less than three times as long as one.",
)


def _step(right: int, length: int):
    """A draft of some tokens, the first `right` of them what the model wants. Behind a wrong token it is right by chance."""

    def make(draw: Draw):
        best = draw.rng.permutation(11)[: length + 1]
        draft = best[:length].tolist()
        if right < length:
            others = [token for token in range(11) if token not in best]
            draft[right] = others[0] if others else int(best[-1])
        return {"draft": [int(token) for token in draft], "logits": draw.normal(length + 1, 11) + 8 * torch.eye(11).numpy()[best]}

    return make


def _prefix(draft, best, row):
    right = 0
    while right < len(draft) and draft[right] == best[min(right + row, len(best) - 1)]:
        right += 1
    return right


def _verified(
    *,
    row=0,
    count=_prefix,
    tokens=lambda draft, best, right: best[: right + 1],
    forget=lambda draft, right: len(draft) - right,
):
    """A step's tokens and how many to forget, with one part replaced by a mistake."""

    def answer(draft, logits):
        best = logits.argmax(-1).tolist()
        right = count(draft, best, row)
        return tokens(draft, best, right), forget(draft, right)

    return answer


def _matches_anywhere(draft, best, row):
    return sum(mine == wanted for mine, wanted in zip(draft, best, strict=False))


def _with_cumprod(draft, logits):
    best = logits.argmax(-1)
    right = int((torch.tensor(draft, dtype=torch.long) == best[:-1]).long().cumprod(0).sum())
    return [*draft[:right], int(best[right])], len(draft) - right


def _with_zip(draft, logits):
    new = []
    for wanted, mine in zip(logits.argmax(-1).tolist(), [*draft, None], strict=True):
        new.append(wanted)
        if wanted != mine:
            break
    return new, len(draft) + 1 - len(new)


VERIFY = Exercise(
    "verify",
    title="What does a step yield?",
    points=2,
    difficulty=3,
    minutes=9,
    tensors=True,
    reference=ref.verify,
    recipe=Made(_verified),
    outputs=(0.5, 0.3),
    cases=(
        Case("the third of four tokens is wrong", _step(2, 4)),
        Case("the first of three tokens is wrong", _step(0, 3)),
        Case("five tokens, all of them right", _step(5, 5)),
        Case("the last of four tokens is wrong", _step(3, 4)),
        Case("no draft", _step(0, 0), edge=0.15),
    ),
    hints=(
        "Row 0 of the logits stands at the newest token of the text. Which token of the draft does it judge, and which row judges the "
        "next one?",
        "Take the best token of every row. Row i judges `draft[i]`. Go on while they agree, and stop at the first that differs. What does "
        "the row at which you stop tell you?",
        "If `right` tokens of the draft agree, the step yields `best[: right + 1]`. Its last token has not been processed by anybody, so it "
        "is in no cache. The caches hold the whole draft, of which only `right` tokens may stay.",
    ),
    misconceptions=(
        Misconception(
            "one_row_too_late",
            "compared each token of the draft with the row that stands at this token, which predicts the next one",
            "Row 0 stands at the newest token of the text and judges `draft[0]`, so row i judges `draft[i]`.",
            Instead(row=1),
        ),
        Misconception(
            "matches_behind_a_wrong_token",
            "also counted tokens that agree behind a wrong one",
            "The rows behind a wrong token were computed from a text that will not be written. Stop at the first difference.",
            Instead(count=_matches_anywhere),
        ),
        Misconception(
            "no_token_of_its_own",
            "returned only the accepted tokens of the draft",
            "The row at which you stop also names the right token, so every step yields one token beside the accepted ones.",
            Instead(tokens=lambda draft, best, right: draft[:right]),
        ),
        Misconception(
            "last_row_for_the_extra_token",
            "took the extra token from the last row",
            "Only the rows up to the first difference can be used. The extra token is `best[right]`.",
            Instead(tokens=lambda draft, best, right: [*draft[:right], best[-1]]),
        ),
        Misconception(
            "wrong_token_kept",
            "kept the first wrong token of the draft instead of the model's choice",
            "At the first difference the model's choice counts, `best[right]`.",
            Instead(tokens=lambda draft, best, right: draft[: right + 1] if right < len(draft) else best),
        ),
        Misconception(
            "whole_draft_kept",
            "accepted the whole draft without looking at the logits",
            "Compare the draft with the best token of every row.",
            Instead(count=lambda draft, best, row: len(draft)),
        ),
        Misconception(
            "all_rows_returned",
            "returned the best token of every row, also behind the first wrong token",
            "The rows behind a wrong token were computed from a text that will not be written. Stop at the first difference.",
            Instead(tokens=lambda draft, best, right: best),
        ),
        Misconception(
            "one_token_too_few_forgotten",
            "let the caches keep one rejected token",
            "The extra token is no part of the draft, and it is in no cache. Of the draft only the accepted tokens stay.",
            Instead(forget=lambda draft, right: max(0, len(draft) - right - 1)),
        ),
        Misconception(
            "one_token_too_many_forgotten",
            "let the caches forget one token too many",
            "The extra token was never processed, so it need not be forgotten. Only the rejected tokens of the draft go.",
            Instead(forget=lambda draft, right: len(draft) - right + 1),
        ),
        Misconception(
            "accepted_tokens_forgotten",
            "let the caches forget as many tokens as were accepted",
            "The accepted tokens stay. The rejected ones go, and they are `len(draft) - right`.",
            Instead(forget=lambda draft, right: right),
        ),
        Misconception(
            "whole_draft_forgotten",
            "let the caches forget the whole draft",
            "Keys and values of the accepted tokens are right and may stay.",
            Instead(forget=lambda draft, right: len(draft)),
        ),
        Misconception(
            "nothing_forgotten",
            "let the caches keep the rejected tokens",
            "Keys and values of rejected tokens belong to a text that was not written. Forget `len(draft) - right` tokens.",
            Instead(forget=lambda draft, right: 0),
        ),
        Misconception(
            "count_first",
            "returned the number to forget before the tokens",
            "Return the tokens first.",
            After(lambda out, **_: out[::-1]),
        ),
    ),
    variants=(Variant("cumprod", _with_cumprod), Variant("zip", _with_zip)),
)


def _costs(kind: str, a: float | None = None):
    """A rate of acceptance, and times of which one draft length makes clearly most."""

    def make(draw: Draw):
        while True:
            rate = a if a is not None else round(float(draw.rng.uniform(0.35, 0.93)), 2)
            longest = draw.integer(9, 15)
            if kind == "processor":
                first, slope = draw.rng.uniform(0.3, 0.6), draw.rng.uniform(0.02, 0.07)
                times = [1.0, *(1 + first + slope * k for k in range(1, longest + 1))]
            elif kind == "steep":
                times = [1 + draw.rng.uniform(0.8, 1.0) * k for k in range(longest + 1)]
            else:
                times = [1 + 0.002 * k for k in range(longest + 1)]
            times = [round(float(seconds), 3) for seconds in times]
            speed = sorted(sum(rate**i for i in range(k + 1)) / seconds for k, seconds in enumerate(times))
            if speed[-1] > 1.0005 * speed[-2]:
                return {"a": rate, "times": times}

    return make


def _prefix_tokens(a, k):
    return sum(a**i for i in range(k + 1))


def _best(
    *, tokens=_prefix_tokens, speed=lambda tokens, seconds: tokens / seconds, pick=lambda speeds: speeds.index(max(speeds))
):
    """The best draft length, with one part replaced by a mistake."""

    def answer(a, times):
        return pick([speed(tokens(a, k), seconds) for k, seconds in enumerate(times)])

    return answer


def _closed_form(a, times):
    best, found = -1.0, 0
    for k, seconds in enumerate(times):
        tokens = k + 1 if a == 1 else (1 - a ** (k + 1)) / (1 - a)
        if tokens / seconds > best:
            best, found = tokens / seconds, k
    return found


def _nan_at_one(a, times):
    if a == 1:
        raise ZeroDivisionError("float division by zero")
    return _closed_form(a, times)


BEST_DRAFT_LENGTH = Exercise(
    "best_draft_length",
    title="Design: how long should a draft be?",
    kind="design",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.best_draft_length,
    recipe=Made(_best),
    cases=(
        Case("a processor, half of the tokens right", _costs("processor", 0.5)),
        Case("a processor, eight tokens in ten right", _costs("processor", 0.8)),
        Case("a processor, nine tokens in ten right", _costs("processor", 0.91)),
        Case("a processor, any rate", _costs("processor")),
        Case("each token of a draft costs a step", _costs("steep")),
        Case("drafts that cost next to nothing", _costs("flat", 0.6), edge=0.1),
        Case("every token of every draft is right", _costs("processor", 1.0), edge=0.15),
    ),
    hints=(
        "Take a draft of two tokens. With which probability does the step yield at least two tokens, and at least three?",
        "The first token of the draft is accepted with the probability a. The second one counts only if both are right, which has the "
        "probability a². So the step yields 1 + a + a² tokens on average.",
        "A draft of k tokens yields `sum(a**i for i in range(k + 1))` on average. Divide that by `times[k]` and return the k with the "
        "largest quotient. The formula with 1 − a in the denominator fails at a = 1.",
    ),
    misconceptions=(
        Misconception(
            "wrong_tokens_do_no_harm",
            "counted a token of the draft also where one before it is wrong",
            "The third token counts only if the first two are right as well, so it adds a³ and not a.",
            Instead(tokens=lambda a, k: 1 + a * k),
        ),
        Misconception(
            "all_or_nothing",
            "counted a draft only if all of it is right",
            "If the first two of three tokens are right, the step yields these two and one more.",
            Instead(tokens=lambda a, k: 1 + k * a**k),
        ),
        Misconception(
            "extra_token_forgotten",
            "left out the token that every step yields beside the accepted ones",
            "Begin the sum with a⁰ = 1. A step without a draft yields one token.",
            Instead(tokens=lambda a, k: sum(a**i for i in range(1, k + 1))),
        ),
        Misconception(
            "last_token_forgotten",
            "left the last token of the draft out of the sum",
            "A draft of k tokens yields up to k + 1 tokens: `range(k + 1)`.",
            Instead(tokens=lambda a, k: sum(a**i for i in range(max(k, 1)))),
        ),
        Misconception(
            "time_ignored",
            "took the length that yields the most tokens and left out the time",
            "A longer draft always yields more tokens per step. Divide by the time of the step.",
            Instead(speed=lambda tokens, seconds: tokens),
        ),
        Misconception(
            "shortest_time",
            "took the length whose step is the shortest",
            "A step without a draft is always the shortest. Count what a step yields in its time.",
            Instead(speed=lambda tokens, seconds: 1 / seconds),
        ),
        Misconception(
            "tokens_of_the_step",
            "returned the number of tokens in the step, the newest one of the text included",
            "Return the number of tokens in the draft, which is the index in `times`.",
            After(lambda out, **_: out + 1),
        ),
        Misconception(
            "speed_returned",
            "returned how much faster the best length is, and not the length",
            "Return the k at which the quotient is largest.",
            Instead(pick=max),
        ),
        Misconception(
            "divided_by_zero",
            "divided by 1 − a, which is zero if every token is right",
            "Sum the powers one by one, or treat a = 1 by itself.",
            _nan_at_one,
            raises=True,
        ),
    ),
    variants=(Variant("closed_form", _closed_form),),
)


def _drafted(words: int, *, likelier: bool):
    """A token of which the small model thinks more, or less, than the large one."""

    def make(draw: Draw):
        while True:
            p, q = (draw.rng.dirichlet([2.0] * words) for _ in range(2))
            tokens = [i for i in range(words) if (q[i] > 1.2 * p[i] if likelier else p[i] > 1.2 * q[i])]
            if tokens and min(p.min(), q.min()) > 0.01:
                return {"p": p, "q": q, "token": int(tokens[0])}

    return make


def _looked_up(draw: Draw):
    """A draft that was looked up: all of q is on one token."""
    p, token = draw.rng.dirichlet([2.0] * 5), draw.integer(0, 4)
    q = 0 * p
    q[token] = 1
    return {"p": p, "q": q, "token": token}


def _unlikely(draw: Draw):
    """The small model gives two words no chance."""
    p, q = draw.rng.dirichlet([3.0] * 6), draw.rng.dirichlet([3.0] * 6)
    q[[1, 4]] = 0
    q /= q.sum()
    return {"p": p, "q": q, "token": int(abs(q - p).argmax() if q[abs(q - p).argmax()] else q.argmax())}


def _missing(p, q, token):
    missing = (p - q).clamp(min=0)
    return missing / missing.sum()


def _without_the_token(p, q, token):
    left = p.clone()
    left[token] = 0
    return left / left.sum()


def _from(weights):
    return weights / weights.sum()


def _judged(*, chance=lambda p, q, token: (p[token] / q[token]).clamp(max=1), otherwise=_missing):
    """The chance to accept and the probabilities otherwise, with one of them wrong."""
    return lambda p, q, token: (chance(p, q, token), otherwise(p, q, token))


def _with_minimum(p, q, token):
    both = torch.minimum(p, q)
    return both[token] / q[token], (p - both) / (1 - both.sum())


JUDGE = Exercise(
    "judge",
    title="Find the bug: a word that comes too often",
    kind="bug",
    points=2,
    difficulty=4,
    minutes=10,
    tensors=True,
    reference=ref.judge,
    recipe=Made(_judged),
    cases=(
        Case("five words, the small model thinks too much of the token", _drafted(5, likelier=True)),
        Case("five words, the small model thinks too little of it", _drafted(5, likelier=False)),
        Case("seven words", _drafted(7, likelier=True)),
        Case("a token that was looked up", _looked_up),
        Case("two words", _drafted(2, likelier=True)),
        Case("words that the small model never writes", _unlikely, edge=0.15),
    ),
    hints=(
        "Look up a draft: q is 1 at one word. How often is this word written if you accept it with the chance p, and may draw it again "
        "after a rejection?",
        "Word i is drafted with the probability qᵢ and then accepted with the chance min(1, pᵢ / qᵢ). Which part of pᵢ does that make? "
        "The second draw has to supply what is missing.",
        "An accepted draft makes min(pᵢ, qᵢ). What is missing is pᵢ − qᵢ where that is positive, and 0 elsewhere. Divide it by its sum, so "
        "that it becomes probabilities: `missing = (p - q).clamp(min=0)`.",
    ),
    misconceptions=(
        Misconception(
            "drawn_from_p_again",
            "drew from p after a rejection, so the words that the small model likes have two chances",
            "Accepted drafts have already made min(p, q). Draw only what is missing of p.",
            Instead(otherwise=lambda p, q, token: p),
        ),
        Misconception(
            "only_the_token_left_out",
            "left out only the rejected token",
            "That is right only for a draft that was looked up, where q is 1 at one token. In general a word is missing p − q where p is "
            "larger, and nothing where q is larger.",
            Instead(otherwise=_without_the_token),
        ),
        Misconception(
            "not_divided_by_the_sum",
            "returned what is missing without dividing it by its sum",
            "The second value has to be probabilities, which sum to 1.",
            Instead(otherwise=lambda p, q, token: (p - q).clamp(min=0)),
        ),
        Misconception(
            "negative_probabilities",
            "let p − q be negative for some words",
            "A word that is drafted too often already needs no second draw. Replace negative numbers by 0.",
            Instead(otherwise=lambda p, q, token: p - q),
        ),
        Misconception(
            "absolute_difference",
            "took the absolute difference of p and q",
            "Where q is larger nothing is missing, so the second draw gives 0 there.",
            Instead(otherwise=lambda p, q, token: _from((p - q).abs())),
        ),
        Misconception(
            "too_much_of_q",
            "drew from what q has too much",
            "The second draw supplies what p has and the drafts lack: p − q where that is positive.",
            Instead(otherwise=lambda p, q, token: _from((q - p).clamp(min=0))),
        ),
        Misconception(
            "drawn_from_q_again",
            "drew from q after a rejection",
            "Then the large model never gets a word of its own. Draw what is missing of p.",
            Instead(otherwise=lambda p, q, token: q),
        ),
        Misconception(
            "chance_above_one",
            "let the chance become larger than 1",
            "If p is larger than q at the token, it is always accepted: `clamp(max=1)`.",
            Instead(chance=lambda p, q, token: p[token] / q[token]),
        ),
        Misconception(
            "chance_is_p",
            "accepted the token with the chance p",
            "The token was drawn from q, so it already comes only with the chance q. Accept it with p / q, and at most 1.",
            Instead(chance=lambda p, q, token: p[token]),
        ),
        Misconception(
            "ratio_inverted",
            "divided q by p",
            "A token that the small model drafts too often has to be rejected sometimes: p / q.",
            Instead(chance=lambda p, q, token: (q[token] / p[token]).clamp(max=1)),
        ),
        Misconception(
            "greedy",
            "accepted the token only if it is the likeliest one",
            "That is the greedy rule. A sampler has to write other tokens too, each with its probability.",
            Instead(chance=lambda p, q, token: (p.argmax() == token).to(p.dtype)),
        ),
        Misconception(
            "probabilities_first",
            "returned the probabilities before the chance",
            "Return the chance first.",
            After(lambda out, **_: out[::-1]),
        ),
    ),
    variants=(
        Variant("minimum", _with_minimum),
        Variant("a_number", lambda p, q, token: (min(1.0, float(p[token] / q[token])), _missing(p, q, token))),
    ),
)

PREDICT_THREE_TASKS = Prediction(
    "predict_three_tasks",
    title="Predict: three tasks",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "more than three per step on the code and on the passage, and about one on the question",
        "b": "between two and three tokens per step on each of the three tasks",
        "c": "most on the question, because there the model may write what it likes",
    },
    holds="a",
    reveal="**a.** A looked-up draft is right where the model copies, and an answer to a free question contains hardly three tokens in a row "
    "that stood in the text before. There the drafts bring nothing.",
)

EXERCISES = (PREDICT_NINE, VERIFY, PREDICT_THREE_TASKS, BEST_DRAFT_LENGTH, JUDGE)
