"""How many cards a number of groups needs, and what a score says above a guess."""

import math

from attention_course import one_card

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import grouped_query as ref


def _load(G, texts, n, limit):
    return lambda draw: {"G": G, "texts": texts, "n": n, "limit": limit}


def _short_of_time(draw: Draw):
    """`most` texts keep the limit on one card, and a third of the texts is a fraction more."""
    G, n, most = draw.choice((4, 8, 16)), draw.choice((4096, 8192)), draw.integer(9, 13)
    limit = 2 * 7e9 / 4.8e12 + (most + 0.4) * one_card.cache_bytes(1, n, G) / 4.8e12
    return {"G": G, "texts": 3 * most + 1, "n": n, "limit": limit}


def _short_of_room(draw: Draw):
    G, n = draw.choice((16, 32)), draw.choice((8192, 16_384))
    most = int(127e9 // one_card.cache_bytes(1, n, G))
    return {"G": G, "texts": 2 * most + draw.integer(1, most // 2), "n": n, "limit": 0.5}


def _fits(B, n, G, limit, in_room=True, in_time=True):
    held, took = one_card.bytes_held(B, n, G), one_card.step_seconds(B, n, G)
    return (held <= one_card.MEMORY or not in_room) and (took <= limit or not in_time)


def _cards(*, share=lambda texts, cards: math.ceil(texts / cards), in_room=True, in_time=True, fits=_fits, never=lambda texts: 0):
    """The fewest cards with one part of the search replaced by a mistake."""

    def answer(G, texts, n, limit):
        enough = (c for c in range(1, texts + 1) if fits(share(texts, c), n, G, limit, in_room, in_time))
        return next(enough, never(texts))

    return answer


def _from_what_one_card_serves(G, texts, n, limit, rounded=math.ceil):
    """First the most texts that one card can serve."""
    most = 0
    while most < texts and _fits(most + 1, n, G, limit):
        most += 1
    return rounded(texts / most) if most else 0


def _time_shared(G, texts, n, limit):
    """Time and bytes of one card with all texts, divided by the cards."""
    held, took = one_card.bytes_held(texts, n, G), one_card.step_seconds(texts, n, G)
    return max(math.ceil(took / limit), math.ceil(held / one_card.MEMORY))


def _caches_shared(B, n, G, limit, in_room, in_time):
    """The right memory; the time of the caches without that of the matrices."""
    return _fits(B, n, G, limit, in_time=False) and one_card.cache_bytes(B, n, G) / one_card.BANDWIDTH <= limit


CARDS_NEEDED = Exercise(
    "cards_needed",
    title="Design: what do more groups cost?",
    kind="design",
    points=2,
    difficulty=2,
    minutes=8,
    reference=ref.cards_needed,
    recipe=Made(_cards),
    tolerance=Tolerance(rtol=0.0, atol=0.0),  # whole numbers
    cases=(
        Case("eight groups for the team's service", _load(8, 64, 8192, 0.015)),
        Case("32 groups for the team's service", _load(32, 64, 8192, 0.015)),
        Case("time decides", _short_of_time),
        Case("memory decides", _short_of_room),
        Case("one card is enough", _load(4, 64, 8192, 0.015), edge=0.1),
        Case("no number is enough", _load(8, 16, 8192, 0.0025), edge=0.1),
    ),
    hints=(
        "What does a second card take over from the first, and what does each card still do in full?",
        "A card doesn't know how many others there are. How many texts does the fullest of `cards` cards serve, and what does the card then "
        "hold and take?",
        "Try 1, 2, 3, … cards, at most one for each text. The fullest card serves `math.ceil(texts / cards)` texts. What if even a card with a "
        "single text is too slow or too small?",
    ),
    misconceptions=(
        Misconception(
            "divided_by_the_cards",
            "divided the time or the bytes of a single card with all texts by the number of cards",
            "Every card holds and reads all parameters, so only the caches are divided. Ask what one card with its own texts takes.",
            _time_shared,
        ),
        Misconception(
            "memory_alone",
            "used the memory alone, so a step may take longer than the limit",
            "Check the time of a step as well.",
            Instead(in_time=False),
        ),
        Misconception(
            "time_alone",
            "used the time alone, so parameters and caches may not fit on a card",
            "Parameters and caches have to fit into `one_card.MEMORY` as well.",
            Instead(in_room=False),
        ),
        Misconception(
            "texts_cut_in_pieces",
            "gave each card a fraction of a text",
            "A text is served by one card. The fullest card has `math.ceil(texts / cards)` of them.",
            Instead(share=lambda texts, cards: texts / cards),
            also=(Instead(share=lambda texts, cards: texts // cards),),
        ),
        Misconception(
            "some_texts_left_over",
            "rounded the number of cards down, so some texts are served by no card",
            "A few texts that are left over need a card as well.",
            lambda G, texts, n, limit: _from_what_one_card_serves(G, texts, n, limit, rounded=math.floor),
        ),
        Misconception(
            "matrices_not_timed",
            "timed the caches alone",
            "A step reads all parameters as well. The given `step_seconds` counts both parts.",
            Instead(fits=_caches_shared),
        ),
        Misconception(
            "a_card_for_each_text",
            "found a number of cards where a card with a single text is already too slow",
            "Return 0 if even one text on a card doesn't keep the limit, because more cards don't change that.",
            Instead(never=lambda texts: texts),
            also=(Instead(never=lambda texts: texts + 1), Instead(never=lambda texts: 1)),
        ),
    ),
    variants=(Variant("from_what_one_card_serves", _from_what_one_card_serves),),
)


# ---------------------------------------------------------------------------------------------- beside a guess


def _scores(choices, top, low):
    """Scores above a guess: the multi-head model's at `top` of 100, another's somewhat lower."""

    def make(draw: Draw):
        multi_head = top + draw.integer(1, 9) / 10
        return {"score": low + draw.integer(1, 9) / 10, "multi_head": multi_head, "choices": choices}

    return make


def _share(*, guess=lambda choices: 100 / choices, told=lambda score, multi_head, guess: (score - guess) / (multi_head - guess)):
    return lambda score, multi_head, choices: told(score, multi_head, guess(choices))


SHARE_KEPT = Exercise(
    "share_kept",
    title="What is left above a guess?",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=5,
    reference=ref.share_kept,
    recipe=Made(_share),
    tolerance=Tolerance(rtol=1e-6, atol=1e-9),  # a few operations on floats
    cases=(
        Case("four choices", _scores(4, 45, 35)),
        Case("five choices", _scores(5, 61, 48)),
        Case("two choices", _scores(2, 71, 62)),
        Case("near a guess", _scores(4, 29, 26), edge=0.2),
    ),
    hints=(
        "Which score would a model reach that knows nothing and guesses?",
        "A score of 45 with four choices is only 20 points above a guess. The share compares such differences, not the scores.",
        "Subtract the score of a guess, 100 divided by the number of choices, from both scores before you divide.",
    ),
    misconceptions=(
        Misconception(
            "guess_forgotten",
            "divided the scores, so a model that only guesses seems to keep more than half",
            "Subtract what a guess would reach from both scores first.",
            Instead(guess=lambda choices: 0.0),
        ),
        Misconception(
            "share_lost",
            "returned the share that was lost",
            "Return the share that the version keeps.",
            Instead(told=lambda score, multi_head, guess: (multi_head - score) / (multi_head - guess)),
        ),
        Misconception(
            "points_lost",
            "returned a difference in points",
            "Return a share, by dividing by what the multi-head model has above a guess.",
            Instead(told=lambda score, multi_head, guess: multi_head - score),
            also=(Instead(told=lambda score, multi_head, guess: score - guess),),
        ),
        Misconception(
            "guess_from_one_score",
            "subtracted the guess from one of the two scores only",
            "Both models can guess, so subtract it from both scores.",
            Instead(told=lambda score, multi_head, guess: (score - guess) / multi_head),
            also=(Instead(told=lambda score, multi_head, guess: score / (multi_head - guess)),),
        ),
        Misconception(
            "four_choices_always",
            "took 25 for the score of a guess, whatever the number of choices",
            "With `choices` answers to each question a guess is right once in `choices` times.",
            Instead(guess=lambda choices: 25.0),
        ),
        Misconception(
            "upside_down",
            "divided the multi-head model's points by those of the other version",
            "The share is what the version keeps of the multi-head model's points.",
            Instead(told=lambda score, multi_head, guess: (multi_head - guess) / (score - guess)),
        ),
        Misconception(
            "in_per_cent",
            "returned per cent instead of a share",
            "A version that scores as high as the multi-head model keeps 1.0.",
            Instead(told=lambda score, multi_head, guess: 100 * (score - guess) / (multi_head - guess)),
        ),
        Misconception(
            "choices_as_the_guess",
            "subtracted the number of choices",
            "A guess among four choices scores 25 of 100.",
            Instead(guess=lambda choices: choices),
        ),
    ),
    variants=(
        Variant(
            "rescaled_scores",
            lambda score, multi_head, choices: (score * choices - 100) / (multi_head * choices - 100),
        ),
    ),
)
