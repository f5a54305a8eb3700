"""A server of SmolLM2 in simulated time, for workshop 07d: people ask, a plan fills each step, and the clock moves on.

    asked = chats(per_minute=6)
    serve(asked, plan, budget=128)
    asked[0].first_token, asked[0].per_token    # seconds

A step takes as long as was recorded on one core of an ordinary processor, see `language_model.step_times`.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attention_course.language_model.step_times import step_times

Plan = Callable[[list[int], int], list[int]]


@dataclass
class Chat:
    """What one person asks: when, how many tokens, and how many tokens of answer it takes."""

    arrival: float
    prompt: int
    answer: int
    left: int = 0  # tokens of the prompt that have not been processed
    cached: int = 0  # tokens in its pages
    times: list[float] = field(default_factory=list)  # when each token of the answer was written

    def __post_init__(self) -> None:
        self.left = self.prompt

    @property
    def first_token(self) -> float:
        """Seconds from the question to the first token of the answer."""
        return self.times[0] - self.arrival

    @property
    def per_token(self) -> float:
        """Seconds per token of the answer, from its first to its last."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)

    @property
    def longest_gap(self) -> float:
        """The longest time between two tokens of the answer."""
        return max(later - sooner for sooner, later in zip(self.times, self.times[1:], strict=False))


def step_seconds(new: int, cached: int) -> float:
    """The seconds of a step that processes `new` tokens of texts which have `cached` tokens in all.

    The first part is the recorded step of so many tokens of one text; longer steps than recorded go on with the last slope. The
    second part is linear, with the slope between two recordings of eight texts with short and long pasts. Within the recorded
    steps the sum is right within a third.
    """
    one, many = step_times()["one text"], step_times()["many texts"]
    tokens, seconds, eight = one["tokens"], one["256 before"], many["tokens"].index(8)
    beyond = max(new - tokens[-1], 0) * (seconds[-1] - seconds[-2]) / (tokens[-1] - tokens[-2])
    slope = (many["1280 before"][eight] - many["256 before"][eight]) / (8 * (1280 - 256))
    return float(np.interp(new, tokens, seconds) + beyond + slope * (cached - 256))


def serve(chats: Sequence[Chat], plan: Plan, budget: int, *, most: int = 16) -> None:
    """Answer all chats, at most `most` at the same time, and note when each of their tokens was written.

    Before each step, `plan(left, budget)` is told how many tokens of each prompt are left, in the order of arrival, where 0 is
    a text that is being answered. It says how many tokens of each text the step processes. A text gets its first token from the
    step that processes the last token of its prompt, and then one token from each step that includes it.
    """
    clock, waiting, running = 0.0, sorted(chats, key=lambda chat: chat.arrival), list[Chat]()
    while waiting or running:
        if not running:
            clock = max(clock, waiting[0].arrival)
        while waiting and len(running) < most and waiting[0].arrival <= clock:
            running.append(waiting.pop(0))
        left = [chat.left for chat in running]
        counts = plan(list(left), budget)
        if len(counts) != len(left) or not any(counts):
            raise ValueError(f"expected a number of tokens for each of {len(left)} texts, not all 0, got {counts}.")
        clock += step_seconds(sum(counts), sum(chat.cached for chat, count in zip(running, counts, strict=True) if count))
        for chat, count in zip(running, counts, strict=True):
            if count > max(chat.left, 1):
                raise ValueError(f"expected at most {max(chat.left, 1)} tokens of a text, got {count}.")
            chat.cached += count
            chat.left = max(chat.left - count, 0)
            if count and chat.left == 0:
                chat.times.append(clock)
        running = [chat for chat in running if len(chat.times) < chat.answer]


def chats(per_minute: float, *, minutes: float = 10, long: float = 0.1, seed: int = 0) -> list[Chat]:
    """People who ask at random, so many a minute on average: short prompts, and a share of `long` ones of 1,500 tokens."""
    g, found, clock = random.Random(seed), list[Chat](), 0.0
    while True:
        clock += g.expovariate(per_minute / 60)
        if clock > 60 * minutes:
            return found
        prompt = 1500 if g.random() < long else g.randint(40, 200)
        found.append(Chat(clock, prompt, g.randint(20, 60)))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
