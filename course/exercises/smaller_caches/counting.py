"""What a latent cache costs in arithmetic."""

from autograder import After, Case, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import smaller_caches as ref

H, G, D, R = 9, 3, 64, 128
PLAIN = 4 * H * D  # scores and averages of grouped-query attention


def _ratio(*, sides=1, groups=G, scored=D, averaged=R, plain=PLAIN):
    """Keys (and with two `sides` values) rebuilt, scores of so many features, averages of so many numbers."""

    def answer():
        made = sides * 2 * R * groups * D
        return (made + 2 * H * scored + 2 * H * averaged) / plain

    return answer


REMADE_RATIO = Exercise(
    "remade_ratio",
    title="Estimate: the price of rebuilding the keys",
    points=1,
    kind="estimate",
    difficulty=2,
    minutes=7,
    reference=ref.remade_ratio,
    recipe=Made(_ratio),
    tolerance=Tolerance(rtol=1e-3),
    cases=(Case("the ratio", lambda draw: {}),),
    hints=(
        "Write down what the step does with **one** cached token, first with keys and values in the cache, then with a latent. Which "
        "products have that token in them, and what are their sizes?",
        "In grouped-query attention each of 9 heads has a score and a share of the average, of 64 features each. With latents the step makes keys of 3 groups out of "
        "128 numbers, then 9 scores of 64 features, then 9 averages of 128 numbers.",
        "A row of 128 numbers times a 128 × 192 matrix is 2 · 128 · 192 FLOP. What is a score of 64 features, and a share of an average of "
        "128 numbers? How many of each are there, and how many FLOP has the same token in grouped-query attention?",
    ),
    misconceptions=(
        Misconception(
            "keys_for_each_head",
            "made keys for 9 heads, although there are only 3 groups of them",
            "Neighbouring heads share their keys: 3 · 64 columns of $W_{UK}$.",
            Instead(groups=H),
        ),
        Misconception(
            "one_group",
            "made the keys of one group",
            "All three groups' keys are needed: 3 · 64 columns.",
            Instead(groups=1),
        ),
        Misconception(
            "averages_of_values",
            "let each head average 64 numbers for a token where it averages latents, of 128, or left the scores out (the sum is the same)",
            "Apart from the keys, each of 9 heads has a score of 64 features and a share of an average of $r$ = 128 numbers.",
            Instead(averaged=D),
        ),
        Misconception(
            "values_made_too",
            "rebuilt the values as well, although $W_{UV}$ acts once in a step, after the sum",
            "Heads average latents. No value is made for a cached token.",
            Instead(sides=2, averaged=D),
            also=(Instead(sides=2),),
        ),
        Misconception(
            "keys_and_values_for_each_head",
            "made keys and values for 9 heads, and let them score and average these",
            "There are 3 groups of keys, 3 · 64 columns of $W_{UK}$. Values are never made: each head averages latents, of 128 numbers.",
            Instead(sides=2, groups=H, averaged=D),
        ),
        Misconception(
            "no_averages",
            "left out the averages of latents",
            "9 averages of 128 numbers for each cached token: 2 · 9 · 128.",
            Instead(averaged=0),
        ),
        Misconception(
            "absorbed",
            "absorbed $W_{UK}$ into the query, which the rotation between them forbids",
            "The keys of all cached tokens are rebuilt in each step.",
            Instead(sides=0, scored=R),
        ),
        Misconception(
            "keys_alone",
            "compared the keys alone with the scores alone",
            "Count scores and averages on both sides.",
            Instead(scored=0, averaged=0, plain=2 * H * D),
        ),
        Misconception(
            "half_of_the_yardstick",
            "counted half of the yardstick: the scores without the averages, or 1 for a multiplication with its addition on one side alone",
            "A cached token has a key **and** a value, of 9 heads, and each product with its sum counts 2: 2 · 2 · 9 · 64.",
            Instead(plain=2 * H * D),
        ),
        Misconception(
            "yardstick_of_the_groups",
            "counted the yardstick, scores and averages of grouped-query attention, for its 3 groups",
            "Groups share keys and values. Scores and averages are each head's own: 2 · 2 · 9 · 64.",
            Instead(plain=4 * G * D),
        ),
        Misconception(
            "flop",
            "returned the FLOP, not the ratio",
            "Divide by the FLOP of grouped-query attention for the same token.",
            Instead(plain=1),
        ),
        Misconception(
            "upside_down",
            "divided the other way round",
            "How many times **more** the latent cache costs.",
            After(lambda ratio: 1 / ratio),
        ),
    ),
    variants=(Variant("as_a_sum", lambda: 2 * R * G * D / PLAIN + 0.5 + R / D / 2),),
)
