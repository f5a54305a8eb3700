"""A change of the last token that shows that a layer with a discrete step leaks."""

import torch

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import masking as ref


def _tokens(draw: Draw, n: int, *, chosen: bool, offset: float = 0.0, scale: float = 1.0):
    """Tokens whose first features lie well apart; the last is among the two largest if it is `chosen`."""
    X = draw.normal(n, draw.integer(3, 5)) * scale
    ranks = draw.rng.permutation(n - 1)
    at = draw.integer(n - 2, n - 1) if chosen else draw.integer(0, n - 3)
    X[:-1, 0] = ranks + (ranks >= at)
    X[-1, 0] = at
    X[:, 0] = X[:, 0] * scale + offset
    return {"X": X}


def _not_chosen(draw: Draw):
    return _tokens(draw, draw.integer(5, 7), chosen=False)


def _chosen(draw: Draw):
    return _tokens(draw, draw.integer(5, 7), chosen=True)


def _negative(draw: Draw):
    """All first features are negative, so a larger multiple is smaller."""
    return _tokens(draw, 5, chosen=False, offset=-20.0)


def _three_large(draw: Draw):
    """Three tokens with first features in the thousands."""
    return _tokens(draw, 3, chosen=False, scale=1000.0, offset=3000.0)


def _with_last(X, first):
    changed = X.clone()
    changed[-1, 0] = first
    return changed


def _raised(X):
    return _with_last(X, X[:, 0].max() + 1)


def _lowered(X):
    return _with_last(X, X[:, 0].min() - 1)


def _nudged(X):
    return _with_last(X, X[-1, 0] + 1e-3)


def _another_feature(X):
    changed = X.clone()
    changed[-1, 1] += 1000.0
    return changed


def _scaled_up(X):
    changed = X.clone()
    changed[-1] *= 10_000
    return changed


def _negated(X):
    changed = X.clone()
    changed[-1] = -X[-1]
    return changed


def _by_trying(X):
    """Try a large and a small feature, and keep the one that changes which earlier tokens are chosen."""

    def earlier(rows):
        return {i for i in rows[:, 0].topk(2).indices.tolist() if i < len(X) - 1}

    tries = (_with_last(X, sign * 1e6) for sign in (1, -1))
    return next(changed for changed in tries if earlier(changed) != earlier(X))


def _whole_token(X):
    chosen = int((X[:-1, 0] > X[-1, 0]).sum()) < 2
    changed = X.clone()
    changed[-1] = -1e5 if chosen else 1e5
    return changed


REVEALING_CHANGE = Exercise(
    "revealing_change",
    title="Design: a change that reveals the leak",
    points=2,
    kind="design",
    difficulty=3,
    minutes=8,
    reference=ref.revealing_change,
    behaviour="attention_course.designs:reveals_a_choice",
    tensors=True,
    cases=(
        Case("a last token that is not chosen", _not_chosen),
        Case("a last token that is chosen", _chosen),
        Case("negative features", _negative),
        Case("three tokens with large features", _three_large),
    ),
    hints=(
        "Write five first features on paper and mark the two largest. Which new last number changes who else is marked?",
        "There are two cases. If the last token is not chosen, it can push another token out. What can it do if it is already chosen?",
        "Make the last first feature larger than all others if it is not among the two largest, and smaller than all others if it is. "
        "Clone `X` before you write into it.",
    ),
    misconceptions=(
        Misconception(
            "always_raised",
            "always made the last token's first feature the largest. If the last token was chosen already, nothing changes for the others",
            "A token that is chosen already can only reveal the leak by giving its place to another token.",
            _raised,
        ),
        Misconception(
            "always_lowered",
            "always made the last token's first feature the smallest. If the last token was not chosen before, nothing changes for the others",
            "A token that is not chosen can only reveal the leak by taking the place of another token.",
            _lowered,
        ),
        Misconception(
            "the_same_two_stay_chosen",
            "changed the last token, but the same two tokens stay chosen, so no other output moves",
            "The layer compares first features only. Change the last one by so much that the two largest are different tokens.",
            _nudged,
            also=(_another_feature,),
        ),
        Misconception(
            "a_multiple",
            "multiplied the last token by a number. For a negative feature a large multiple is smaller, and a token that is chosen may stay chosen",
            "Set the first feature to a value beyond all others, instead of scaling it.",
            _scaled_up,
        ),
        Misconception(
            "sign_changed",
            "reversed the sign of the last token, which changes the choice for some inputs only",
            "Decide by the other tokens' features. The new value must lie beyond all of them.",
            _negated,
        ),
        Misconception(
            "an_earlier_token_changed",
            "changed an earlier token as well",
            "The question is what an earlier output owes to a *later* token. Leave all rows but the last as they are.",
            lambda X: X + 1000.0 * torch.arange(len(X))[:, None],
        ),
        Misconception(
            "nothing_changed",
            "returned `X` as it is",
            "Clone `X`, and give the last row of the clone another first feature.",
            lambda X: X.clone(),
        ),
    ),
    variants=(Variant("by_trying", _by_trying), Variant("the_whole_token", _whole_token)),
)
