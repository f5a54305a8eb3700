"""Workshop 04e: the references, the digits that come with the course, and what the text says of them."""

from collections import Counter

import torch
import torch.nn.functional as F
from attention_course.digits import load_digits

from solutions.not_only_decoders import best_possible, hide, patches


def test_the_best_shares_are_those_of_the_words_counted_by_hand() -> None:
    known = {"the": 1.0, "adjective": 1 / 4, "animal": 1.0, "adverb": 1 / 4, "sound": 1.0}
    blind = known | {"animal": 1 / 8}
    torch.testing.assert_close(best_possible(), tuple(sum(x.values()) / 5 for x in (known, blind)))


def test_hidden_words_are_in_the_targets_and_nowhere_else() -> None:
    texts, blank = torch.tensor([[1, 3, 7], [2, 4, 6]]), torch.tensor([[True, False, True], [False, True, False]])
    before = texts.clone()
    inputs, targets = hide(texts, blank)
    assert inputs.tolist() == [[0, 3, 0], [2, 0, 6]]
    assert targets.tolist() == [[1, -100, 7], [-100, 4, -100]]
    assert texts.equal(before)


def test_patches_are_those_of_pytorchs_unfold() -> None:
    images = torch.randn(3, 12, 12, generator=torch.Generator().manual_seed(0))
    for size in (1, 2, 3, 4, 6, 12):
        torch.testing.assert_close(patches(images, size), F.unfold(images[:, None], size, stride=size).mT)


def test_the_digits_are_1797_images_from_white_to_black() -> None:
    images, labels = load_digits()
    assert images.shape == (1797, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert Counter(labels.tolist()) == Counter(dict(enumerate((178, 182, 177, 183, 181, 182, 181, 179, 174, 180))))
    assert len(labels) - 360 == 1437  # those that the notebook trains on
