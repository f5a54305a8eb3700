"""A mask for several documents in one row, judged by what the real tokens may see."""

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import masking as ref


def _two_documents(draw: Draw):
    return {"documents": np.array([0, 0, 0, 1, 1])}


def _with_blanks(draw: Draw):
    sizes = draw.sizes(3, low=2, high=5)
    return {"documents": np.repeat([0, 1, 2, -1], [*sizes, 2])}


def _any_numbers(draw: Draw):
    numbers = draw.rng.permutation([7, 3, 12, 5])
    return {"documents": np.repeat(numbers, draw.rng.integers(1, 4, 4))}


def _blanks_between(draw: Draw):
    """Each document padded on its own: a mask that counts on blanks at the end fails."""
    return {"documents": np.array([4, 4, -1, 9, 9, 9, -1, -1, 2, 2])}


def _packed(documents, *, same=torch.eq, both=torch.logical_and, ahead=0, on_its_device=True):
    """Pairs whose numbers are the `same`, and whose key is at most `ahead` of the query."""
    n = len(documents)
    causal = torch.ones(n, n, device=documents.device if on_its_device else None).tril(n if ahead is None else ahead).bool()
    return both(same(documents[:, None], documents), causal)


def _all(queries, keys):
    return torch.ones(len(queries), len(keys), device=keys.device).bool()


def _laid_out(counted):
    """Two positions are the `same` if they lie in one of the blocks that are laid out from position 0 by these numbers of tokens."""

    def same(queries, keys):
        blocks = torch.repeat_interleave(counted(keys))[: len(keys)]
        at = torch.nn.functional.pad(blocks, (0, len(keys) - len(blocks)), value=-1)
        return (at[:, None] == at) & (at >= 0)

    return same


def _counts(documents):
    return documents.unique(return_counts=True)[1]


def _blocks(documents):
    keep = torch.zeros(len(documents), len(documents), dtype=torch.bool, device=documents.device)
    for i in range(len(documents)):
        for j in range(i + 1):
            keep[i, j] = documents[i] == documents[j] and documents[i] >= 0
    return keep


PACKED_MASK = Exercise(
    "packed_mask",
    title="Design: several documents in one row",
    points=2,
    kind="design",
    difficulty=3,
    minutes=7,
    reference=ref.packed_mask,
    recipe=_packed,
    behaviour="attention_course.designs:packed_rows",
    tensors=True,
    cases=(
        Case("two documents", _two_documents),
        Case("three documents and blanks", _with_blanks),
        Case("any numbers", _any_numbers),
        Case("blanks between documents", _blanks_between, edge=0.2),
        Case("documents on another device", _with_blanks, edge=0.1, elsewhere=True),
    ),
    hints=(
        "Draw the mask for a document of three tokens and one of two tokens, with a dot for each pair that may meet. Which two conditions "
        "does every dot fulfil?",
        "Two positions belong to the same document if their numbers are equal. Compare `documents` as a column with `documents` as a row.",
        "The numbers say nothing about order, so this mask alone lets a token see its own future. Combine it with the causal mask by *and*.",
    ),
    misconceptions=(
        Misconception(
            "causal_only",
            "let each document see the documents before it in the row",
            "Tokens may meet only within one document, so compare their numbers.",
            Instead(same=_all),
        ),
        Misconception(
            "documents_only",
            "let a token see the later tokens of its own document",
            "The mask must be causal as well. Combine both by *and*.",
            Instead(ahead=None),
        ),
        Misconception(
            "compared_by_size",
            "compared the numbers of the documents by size, so a token also sees the documents with smaller numbers",
            "The numbers are names. Two positions belong together if their numbers are **equal**.",
            Instead(same=torch.ge),
        ),
        Misconception(
            "compared_by_size_the_other_way",
            "compared the numbers of the documents by size, so a token also sees the documents with larger numbers",
            "The numbers are names. Two positions belong together if their numbers are **equal**.",
            Instead(same=torch.le),
        ),
        Misconception(
            "either_condition",
            "kept every pair that fulfils at least **one** of the two conditions",
            "Both conditions must hold, so combine them with `&`. *Or* would be right if True meant *blocked*.",
            Instead(both=torch.logical_or),
        ),
        Misconception(
            "itself_hidden",
            "hid each token from itself, so the first token of each document sees nothing",
            "A token also sees itself, which is `tril()` without a shift.",
            Instead(ahead=-1),
        ),
        Misconception(
            "polarity_flipped",
            "marked what is forbidden with True",
            "In this course True means **keep**.",
            After(lambda out, **_: ~out),
        ),
        Misconception(
            "sees_the_future",
            "reversed the triangle, so each token sees itself and the future of its document",
            "Keep the keys at positions up to the query's own.",
            After(lambda out, **_: out.T),
        ),
        Misconception(
            "one_step_too_far",
            "let each token see the next one of its document",
            "The diagonal is the last to keep.",
            Instead(ahead=1),
        ),
        Misconception(
            "neighbours_only",
            "let a token see only itself and the token before it",
            "A token sees all earlier tokens of its document.",
            After(lambda out, **_: out.triu(-1)),
        ),
        Misconception(
            "blanks_visible",
            "let real tokens see the blanks",
            "A blank has the number -1, which is not the number of any document.",
            Instead(same=lambda queries, keys: (queries == keys) | (keys == -1)),
        ),
        Misconception(
            "laid_out_by_counts",
            "counted the tokens of each number and made blocks of these sizes from position 0 on, in the order of the numbers",
            "The numbers are names in any order, and blanks may be anywhere. Compare `documents` with itself to see which positions belong together.",
            Instead(same=_laid_out(lambda documents: _counts(documents[documents >= 0]))),
            also=(Instead(same=_laid_out(_counts)),),
        ),
        Misconception(
            "other_documents",
            "kept the pairs of **different** documents",
            "Two positions belong together if their numbers are equal, so use `==`, not `!=`.",
            Instead(same=torch.ne),
        ),
        Misconception(
            "causal_on_the_cpu",
            "made the causal mask on the CPU, although `documents` may be on another device",
            "Pass `device=documents.device` where you make a tensor, or move the mask with `.to(documents.device)`.",
            Instead(on_its_device=False),
            also=(lambda documents: _packed(documents.cpu()),),
            raises=True,
        ),
    ),
    variants=(
        Variant("loop_without_blanks", _blocks),
        Variant("blanks_see_everything", lambda documents: ref.packed_mask(documents) | (documents == -1)[:, None]),
        Variant("blanks_see_nothing", lambda documents: ref.packed_mask(documents) & (documents >= 0)),
    ),
)
