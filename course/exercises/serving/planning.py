"""What the next step processes: one token for each answer, and the rest of a budget for prompts."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import serving as ref


def _texts(*left: int | tuple[int, int], budget: int | tuple[int, int] = 64):
    """Texts with so many tokens left; a pair stands for any number between."""

    def make(draw: Draw):
        numbers = [draw.integer(*n) if isinstance(n, tuple) else n for n in left]
        return {"left": numbers, "budget": draw.integer(*budget) if isinstance(budget, tuple) else budget}

    return make


def _in_order(left, rest, plan):
    """The rest of the budget for the prompts, the earliest first."""
    for i, tokens in enumerate(left):
        if tokens:
            plan[i] = min(tokens, rest)
            rest -= plan[i]
    return plan


def _planned(
    *, answers=lambda left: [int(not tokens) for tokens in left], rest=lambda budget, plan: budget - sum(plan), prompts=_in_order
):
    """A plan with one part replaced by a mistake."""

    def answer(left, budget):
        plan = answers(left)
        return prompts(left, rest(budget, plan), plan)

    return answer


def _whole_prompts(left, budget):
    first = next((i for i, tokens in enumerate(left) if tokens), None)
    return [tokens * (i == first) for i, tokens in enumerate(left)] if first is not None else [1] * len(left)


def _by_arrival(left, budget):
    plan = []
    for tokens in left:
        plan.append(min(max(tokens, 1), budget))
        budget -= plan[-1]
    return plan


def _only_one_prompt(left, rest, plan):
    for i, tokens in enumerate(left):
        if tokens:
            plan[i] = min(tokens, rest)
            return plan
    return plan


def _shortest_first(left, rest, plan):
    for i in sorted(range(len(left)), key=lambda i: left[i]):
        if left[i]:
            plan[i] = min(left[i], rest)
            rest -= plan[i]
    return plan


def _latest_first(left, rest, plan):
    return _in_order(left[::-1], rest, plan[::-1])[::-1]


def _evenly(left, rest, plan):
    count = sum(tokens > 0 for tokens in left)
    return [min(tokens, rest // count) if tokens else mine for tokens, mine in zip(left, plan, strict=True)]


def _whole_if_they_fit(left, rest, plan):
    for i, tokens in enumerate(left):
        if 0 < tokens <= rest:
            plan[i] = tokens
            rest -= tokens
    return plan


def _budget_for_each(left, rest, plan):
    return [min(tokens, rest) if tokens else mine for tokens, mine in zip(left, plan, strict=True)]


def _answers_within_the_budget(left, budget):
    plan = [0] * len(left)
    for i, tokens in enumerate(left):
        if tokens == 0 and budget > 0:
            plan[i], budget = 1, budget - 1
    return _in_order(left, budget, plan)


def _one_for_each_prompt_first(left, rest, plan):
    for i, tokens in enumerate(left):
        if tokens and rest > 0:
            plan[i], rest = 1, rest - 1
    for i, tokens in enumerate(left):
        if tokens:
            more = min(tokens - plan[i], rest)
            plan[i], rest = plan[i] + more, rest - more
    return plan


def _sorted(left, budget):
    plan = [0] * len(left)
    for i in sorted(range(len(left)), key=lambda i: left[i] > 0):
        plan[i] = min(left[i] or 1, budget - sum(plan))
    return plan


PLAN_STEP = Exercise(
    "plan_step",
    title="Design: what goes into a step?",
    kind="design",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.plan_step,
    recipe=Made(_planned),
    cases=(
        Case("two answers and a long prompt", _texts(0, (300, 900), 0)),
        Case("two prompts, the second one begins", _texts((5, 20), 0, (300, 900))),
        Case("three prompts, the first is long", _texts((300, 900), 0, (3, 9), (20, 40))),
        Case("the rest of a prompt and two short ones", _texts(0, 0, (9, 20), (3, 8), (200, 300), 0)),
        Case("only answers", _texts(0, 0, 0, 0, 0), edge=0.1),
        Case("no answers", _texts((20, 30), (10, 20), (100, 200)), edge=0.1),
        Case("answers that use up the budget", _texts((30, 40), 0, 0, 0, 0, budget=4), edge=0.1),
    ),
    hints=(
        "Somebody who reads an answer waits for one token, and somebody who has asked waits for a whole prompt. Whom do you serve first?",
        "By the first promise every text with `left[i] == 0` gets one token, wherever it stands. How much of the budget is left then, and "
        "who gets it by the third promise?",
        "Go through the texts twice, first for the answers and then for the prompts, and count down the budget as you go. A prompt takes all "
        "that it can use, which is never more than what remains of it.",
    ),
    misconceptions=(
        Misconception(
            "whole_prompts_first",
            "processed a whole prompt while nobody else got a token",
            "A prompt may be processed in chunks. Give one token to every answer first, and to the prompts what remains.",
            _whole_prompts,
        ),
        Misconception(
            "by_arrival",
            "gave the budget to the texts in the order of arrival, so an answer waits behind an earlier prompt",
            "Every text that is being answered gets its token first, wherever it stands.",
            _by_arrival,
        ),
        Misconception(
            "only_one_prompt",
            "gave the rest of the budget to one prompt, although the next one could use what it left over",
            "Go on to the next prompt while there is budget left.",
            Instead(prompts=_only_one_prompt),
        ),
        Misconception(
            "answers_not_counted",
            "left the tokens of the answers out of the budget",
            "Every token in the step takes its time. Subtract one for each answer before you give the rest to prompts.",
            Instead(rest=lambda budget, plan: budget),
        ),
        Misconception(
            "budget_for_each_prompt",
            "gave the whole rest of the budget to every prompt",
            "Subtract what a prompt takes before the next one gets its part.",
            Instead(prompts=_budget_for_each),
        ),
        Misconception(
            "only_whole_prompts",
            "processed a prompt only if all of it fits, so a long one never begins",
            "Take a chunk of it: `min(left[i], budget)`.",
            Instead(prompts=_whole_if_they_fit),
        ),
        Misconception(
            "shortest_first",
            "served the shortest prompt first",
            "Then a long prompt may wait for ever. Here an earlier prompt gets no less because of a later one.",
            Instead(prompts=_shortest_first),
        ),
        Misconception(
            "latest_first",
            "served the latest prompt first",
            "The texts stand in the order of arrival, and the earlier prompt comes first.",
            Instead(prompts=_latest_first),
        ),
        Misconception(
            "evenly",
            "divided the rest of the budget evenly among the prompts",
            "Then all of them finish late. Here the earlier prompt gets all that it can use.",
            Instead(prompts=_evenly),
        ),
        Misconception(
            "one_token_for_each_prompt",
            "gave every waiting prompt one token before the first prompt got all that it can use",
            "That breaks promise 3, because each later prompt takes a token from the earlier one. Only answers get one token each.",
            Instead(prompts=_one_for_each_prompt_first),
        ),
        Misconception(
            "answers_not_served",
            "gave tokens only to the prompts",
            "A text with 0 tokens left is being answered and gets one token.",
            Instead(answers=lambda left: [0] * len(left)),
        ),
    ),
    variants=(Variant("answers_first", _answers_within_the_budget), Variant("sorted", _sorted)),
)
