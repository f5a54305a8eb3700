"""Workshop 04e: attention without a causal mask, and attention to patches of an image."""

import torch
import torch.nn.functional as F

from autograder import After, Case, Draw, Exercise, Misconception, Prediction, Tolerance, Variant
from solutions import not_only_decoders as ref

KNOWN, ONE_IN_FOUR, ONE_IN_EIGHT = 1.0, 1 / 4, 1 / 8


def _mean(*places: float) -> float:
    return sum(places) / len(places)


def _places(*, animal: float, sound: float = KNOWN, free: float = ONE_IN_FOUR) -> float:
    return _mean(KNOWN, free, animal, free, sound)


BEST_POSSIBLE = Exercise(
    "best_possible",
    title="Estimate: how good can each model become?",
    kind="estimate",
    points=1.5,
    difficulty=2,
    minutes=7,
    reference=ref.best_possible,
    tolerance=Tolerance(rtol=0.005, atol=0.0),  # worked out on paper; the nearest mistake is 5 % off
    cases=(Case("both shares", lambda draw: {}),),
    hints=(
        "Go through the five places one by one. Which words does each model see there, and what do they tell about the missing one?",
        "Nothing tells an adjective or an adverb, so even a perfect model has to guess among four. With both sides visible, the sound "
        "gives the animal away. What does a causal model see at the animal's place?",
        "Without a mask the five places give 1, 1/4, 1, 1/4 and 1. With a causal mask only the animal changes, to 1/8. Take the mean of each.",
    ),
    misconceptions=(
        Misconception(
            "guesses_count_nothing",
            "counted a place as lost wherever the model has to guess",
            "A guess among four words is right in one case out of four.",
            lambda: (_places(animal=1.0, free=0.0), _places(animal=0.0, free=0.0)),
        ),
        Misconception(
            "animal_never_guessed",
            "let the causal model fail at every animal",
            "It has to guess among eight animals, and one guess in eight is right.",
            lambda: (_places(animal=1.0), _places(animal=0.0)),
        ),
        Misconception(
            "four_animals",
            "let the causal model guess the animal among four",
            "There are eight animals.",
            lambda: (_places(animal=1.0), _places(animal=ONE_IN_FOUR)),
        ),
        Misconception(
            "mask_without_effect",
            "gave both models the same share",
            "At the animal's place a causal model has read only *the* and the adjective. The sound comes later.",
            lambda: (_places(animal=1.0), _places(animal=1.0)),
            also=(lambda: (_places(animal=ONE_IN_EIGHT), _places(animal=ONE_IN_EIGHT)),),
        ),
        Misconception(
            "sound_hidden_too",
            "let the causal model guess the sound as well",
            "The animal comes before the sound, so a causal model sees it.",
            lambda: (_places(animal=1.0), _places(animal=ONE_IN_EIGHT, sound=ONE_IN_EIGHT)),
        ),
        Misconception(
            "among_all_words",
            "let the models guess among all 25 words",
            "Every sentence has the same five kinds of words, so a trained model knows which kind is missing.",
            lambda: (_places(animal=1.0, free=1 / 25), _places(animal=1 / 25, free=1 / 25)),
            also=(lambda: (_places(animal=1.0, free=1 / 26), _places(animal=1 / 26, free=1 / 26)),),
        ),
        Misconception(
            "the_other_way_round",
            "returned the causal model first",
            "The share without a mask comes first.",
            After(lambda out: out[::-1]),
        ),
        Misconception(
            "sum_of_the_places",
            "added up the five places",
            "Every place is blank in a fifth of the texts, so take the mean.",
            After(lambda out: (5 * out[0], 5 * out[1])),
        ),
        Misconception(
            "one_free_place",
            "counted one of the two places that nothing tells as known",
            "Neither the adjective nor the adverb depends on the animal.",
            lambda: (_mean(1, 1, 1, ONE_IN_FOUR, 1), _mean(1, 1, ONE_IN_EIGHT, ONE_IN_FOUR, 1)),
        ),
    ),
    variants=(Variant("as_fractions", lambda: (28 / 40, 21 / 40)),),
)


def _texts(draw: Draw, count: int, places: int):
    """Texts without 0, in which every row and every column has places of both kinds."""
    texts = draw.rng.integers(1, 26, (count, places))
    blank = draw.rng.random((count, places)) < 0.4
    for row in blank:
        no, yes = draw.rng.permutation(places)[:2]
        row[no], row[yes] = False, True
    return {"texts": texts, "blank": blank}


def _hide_as_shown(texts, blank):
    inputs = texts
    inputs[blank] = 0
    return inputs, texts.masked_fill(~blank, -100)


def _hide_copy(texts, blank):
    inputs, targets = texts.clone(), texts.clone()
    inputs[blank], targets[~blank] = 0, -100
    return inputs, targets


HIDE = Exercise(
    "hide",
    title="Find the bug: a loss of zero",
    kind="bug",
    points=1.5,
    difficulty=2,
    minutes=7,
    tensors=True,
    reference=ref.hide,
    cases=(
        Case("one text", lambda draw: _texts(draw, 1, 3)),
        Case("seven texts of five places", lambda draw: _texts(draw, 7, 5)),
        Case("as many places as texts", lambda draw: _texts(draw, 4, 4)),
    ),
    hints=(
        "Print `inputs` and `targets` for one text. What should the model answer at the blank, according to the targets?",
        "After `inputs = texts` there are two names and one tensor. What does the line after it change?",
        "`texts.masked_fill(blank, 0)` makes a new tensor, so the targets can still read the missing words in `texts`.",
    ),
    misconceptions=(
        Misconception(
            "same_tensor",
            "hid the words in the targets as well, so the model learns to answer every blank with a blank",
            "`inputs = texts` doesn't copy anything. Make a new tensor for the inputs.",
            _hide_as_shown,
        ),
        Misconception(
            "every_place_asked",
            "asked for the word at every place, although four of the five words are visible in the input",
            "Keep -100 in the targets wherever nothing is blank. Otherwise copying alone makes the loss small.",
            lambda texts, blank: (texts.masked_fill(blank, 0), texts.clone()),
        ),
        Misconception(
            "visible_places_asked",
            "asked for the words that are visible and ignored the blanks",
            "The targets keep the words where `blank` is True.",
            lambda texts, blank: (texts.masked_fill(blank, 0), texts.masked_fill(blank, -100)),
        ),
        Misconception(
            "wrong_words_hidden",
            "hid the words that should stay and kept those that should go",
            "The inputs are 0 where `blank` is True.",
            lambda texts, blank: (texts.masked_fill(~blank, 0), texts.masked_fill(~blank, -100)),
        ),
        Misconception(
            "nothing_hidden",
            "left the words in the inputs, so the model can copy them",
            "The inputs are 0 where `blank` is True.",
            lambda texts, blank: (texts.clone(), texts.masked_fill(~blank, -100)),
        ),
        Misconception(
            "zero_for_ignored",
            "used 0 instead of -100 in the targets, so the model is also trained to answer 0 at every visible word",
            "`F.cross_entropy` ignores -100 and no other number.",
            lambda texts, blank: (texts.masked_fill(blank, 0), texts.masked_fill(~blank, 0)),
        ),
        Misconception(
            "minus_100_in_the_inputs",
            "put -100 into the inputs, where the model looks up a vector",
            "The blank is token 0. The number -100 belongs in the targets.",
            lambda texts, blank: (texts.masked_fill(blank, -100), texts.masked_fill(~blank, -100)),
        ),
        Misconception(
            "targets_first",
            "returned the targets before the inputs",
            "Return the inputs first.",
            After(lambda out, **_: out[::-1]),
        ),
    ),
    variants=(
        Variant("copies", _hide_copy),
        Variant("filled", lambda texts, blank: (texts.masked_fill(blank, 0), texts.masked_fill(~blank, -100))),
    ),
)


def _images(count: int, side: int, size: int):
    return lambda draw: {"images": draw.normal(count, side, side), "size": size}


def _cut(images, size, order, shape):
    across = images.shape[-1] // size
    return images.reshape(-1, across, size, across, size).permute(order).reshape(shape(len(images), across**2, size**2))


def _usual(n, patch, pixel):
    return n, patch, pixel


def _strided(images, size):
    across = images.shape[-1] // size
    return images.reshape(-1, size, across, size, across).permute(0, 2, 4, 1, 3).reshape(len(images), across**2, size**2)


def _by_loops(images, size):
    side = images.shape[-1]
    corners = [(i, j) for i in range(0, side, size) for j in range(0, side, size)]
    return torch.stack([images[:, i : i + size, j : j + size].flatten(1) for i, j in corners], dim=1)


PATCHES = Exercise(
    "patches",
    title="Cut an image into patches",
    points=2,
    difficulty=3,
    minutes=9,
    tensors=True,
    reference=ref.patches,
    cases=(
        Case("one image of 4 × 4 pixels", _images(1, 4, 2)),
        Case("five images, patches of 2 × 2", _images(5, 6, 2)),
        Case("three images, patches of 3 × 3", _images(3, 9, 3)),
        Case("patches of one pixel", _images(2, 3, 1), edge=0.1),
        Case("one patch is the whole image", _images(2, 3, 3), edge=0.1),
    ),
    hints=(
        "Draw a 4 × 4 image with the numbers 0 to 15. Which four numbers belong to the first patch, and where do they lie in memory?",
        "A row number is (row of the patch, row within the patch), and a column number splits in the same way. Reshape the image to five "
        "axes. Which two of them have to trade places before you flatten?",
        "With `across = side // size`, reshape to `(-1, across, size, across, size)`, transpose axes 2 and 3, and reshape to "
        "`(images, across², size²)`.",
    ),
    misconceptions=(
        Misconception(
            "reshaped_only",
            "reshaped without moving an axis, so each patch is a run of pixels along a row",
            "A patch takes pixels from several rows. Split both sides into two axes, and swap the middle two before you flatten.",
            lambda images, size: images.reshape(len(images), -1, size**2),
        ),
        Misconception(
            "patches_by_column",
            "ordered the patches column by column",
            "The second patch lies to the right of the first.",
            lambda images, size: _cut(images, size, (0, 3, 1, 2, 4), _usual),
        ),
        Misconception(
            "pixels_by_column",
            "ordered the pixels of each patch column by column",
            "Read each patch like a page, row by row.",
            lambda images, size: _cut(images, size, (0, 1, 3, 4, 2), _usual),
        ),
        Misconception(
            "both_by_column",
            "read both the image and its patches column by column",
            "Read them like a page, row by row.",
            lambda images, size: _cut(images, size, (0, 3, 1, 4, 2), _usual),
        ),
        Misconception(
            "spread_out",
            "collected pixels that lie far apart, as if the patches were interleaved",
            "The row number splits into (row of the patch, row within the patch), in this order.",
            _strided,
        ),
        Misconception(
            "pixels_on_the_wrong_axis",
            "returned (image, pixel, patch)",
            "A patch takes the place of a token, so its pixels are the last axis.",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "patches_left_square",
            "left each patch as a square",
            "A model reads one vector for each patch, so flatten its pixels.",
            lambda images, size: _cut(images, size, (0, 1, 3, 2, 4), lambda n, patch, pixel: (n, patch, size, size)),
            also=(
                lambda images, size: _cut(
                    images, size, (0, 1, 3, 2, 4), lambda n, patch, pixel: (n, images.shape[-1] // size, -1, size, size)
                ),
            ),
        ),
        Misconception(
            "images_joined",
            "put the patches of all images into one sequence",
            "Every image is a sequence of its own, so keep the first axis.",
            lambda images, size: _cut(images, size, (0, 1, 3, 2, 4), lambda n, patch, pixel: (n * patch, pixel)),
        ),
        Misconception(
            "overlapping",
            "cut overlapping patches",
            "Each pixel belongs to one patch, so the next patch begins `size` pixels further.",
            lambda images, size: images.unfold(1, size, 1).unfold(2, size, 1).flatten(1, 2).flatten(2),
        ),
    ),
    variants=(
        Variant("loops", _by_loops),
        Variant("unfold", lambda images, size: images.unfold(1, size, size).unfold(2, size, size).flatten(1, 2).flatten(2)),
        Variant("torch_unfold", lambda images, size: F.unfold(images[:, None], size, stride=size).mT),
    ),
)

PREDICT_SHUFFLED = Prediction(
    "predict_shuffled",
    title="Predict: the patches in random order",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "both models get much worse, since the image is destroyed",
        "b": "the model with positions gets much worse, and the one without stays exactly the same",
        "c": "the model without positions gets much worse, and the one with positions stays the same",
        "d": "neither changes, since attention compares all patches with each other anyway",
    },
    holds="b",
    reveal="**b.** Without positions and without a mask, nothing in the model knows where a patch came from. Its guess is computed from a "
    "bag of patches, and shuffling a bag changes nothing. The model with positions has learned what a stroke at the top left means, and "
    "finds strokes in places where they have never been.",
)

EXERCISES = (BEST_POSSIBLE, HIDE, PATCHES, PREDICT_SHUFFLED)
