"""Texts of unequal lengths in one batch: their positions and their mask."""

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import serving as ref


def _lengths(*, batch, new, capacity):
    """Texts of unequal lengths, and room behind the longest."""

    def make(draw: Draw):
        # distinct, from 1, with a free slot behind the longest
        lengths = draw.rng.permutation(capacity - new - 1)[:batch] + 1
        return {"lengths": lengths, "new": new, "capacity": capacity}

    return make


def _placed(*, base=lambda lengths: lengths, causal=True, ahead=0, first=lambda lengths, new, capacity: 0 * lengths, rows=lambda keep: keep):  # fmt: skip
    """Positions and mask with one thing wrong; `first` is the slot in which a text begins, `rows` what is left of the mask."""

    def answer(lengths, new, capacity):
        pos = base(lengths)[:, None] + torch.arange(new)
        last = pos if causal else pos[:, -1:].expand_as(pos)
        slot, begins = torch.arange(capacity), first(lengths, new, capacity)[:, None, None]
        return pos, rows((slot >= begins) & (slot <= begins + last[..., None] + ahead))

    return answer


def _longest_everywhere(lengths):
    return torch.full_like(lengths, int(lengths.max()))


def _mask_of_the_longest(lengths, new, capacity):
    pos, _ = ref.batch_positions(lengths, new, capacity)
    return pos, ref.batch_positions(_longest_everywhere(lengths), new, capacity)[1]


def _one_row_for_all(lengths, new, capacity):
    pos, _ = ref.batch_positions(lengths, new, capacity)
    return pos, (torch.arange(capacity) <= pos.max()).expand(len(lengths), new, capacity)


def _free_slots_visible(lengths, new, capacity):
    pos, keep = ref.batch_positions(lengths, new, capacity)
    return pos, torch.ones_like(keep)


def _text_by_text(lengths, new, capacity):
    places, masks = [], []
    for n in lengths.tolist():
        places.append(torch.arange(n, n + new))
        masks.append(torch.ones(new, capacity, dtype=torch.bool).tril(n))
    return torch.stack(places), torch.stack(masks)


BATCH_POSITIONS = Exercise(
    "batch_positions",
    title="Find the bug: what somebody left",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=5,
    reference=ref.batch_positions,
    recipe=Made(_placed),
    tensors=True,
    cases=(
        Case("two texts, one new token each", _lengths(batch=2, new=1, capacity=6)),
        Case("three texts, two new tokens each", _lengths(batch=3, new=2, capacity=11)),
        Case("five texts, three new tokens each", _lengths(batch=5, new=3, capacity=13)),
    ),
    hints=(
        "Take row b alone, as if the others did not exist. Which slots may its first new token attend to, and which does the draft's mask "
        "show it?",
        "The draft makes one mask for all rows, as far as the longest text reaches. How many axes does a mask need that is different for "
        "each text and each new token?",
        "Slot j may be seen from position p if j ≤ p. Compare every slot number with every position, and not with the largest of each "
        "column. Which axis do the positions still lack for this?",
    ),
    misconceptions=(
        Misconception(
            "positions_of_the_longest",
            "gave every text the positions of the longest one, which leaves a gap between the past of a short text and its new tokens",
            "Each row counts on from its own length: `lengths[:, None] + torch.arange(new)`.",
            Instead(base=_longest_everywhere),
        ),
        Misconception(
            "positions_from_zero",
            "counted the new tokens from 0 in every row",
            "The first new token of row b stands at `lengths[b]`.",
            Instead(base=torch.zeros_like),
        ),
        Misconception(
            "mask_of_the_longest",
            "used the mask of the longest text for all rows, as the draft does, so shorter texts attend to slots into which they have written nothing",
            "A slot behind a row's own tokens is free, or it still holds what an earlier text left there. Compare the slots with each "
            "row's own positions.",
            _mask_of_the_longest,
        ),
        Misconception(
            "one_mask_for_every_query",
            "compared the slots with the largest position of all, so every query of every row sees the same slots",
            "Each new token of each row sees as far as its own position. Compare with `pos` and not with its maximum.",
            _one_row_for_all,
        ),
        Misconception(
            "free_slots_visible",
            "let every token attend to every slot of the buffer",
            "A slot behind the row's last token holds nothing of that text, and even a key of zeros gets weight. Hide it.",
            _free_slots_visible,
        ),
        Misconception(
            "one_row_for_all_new_tokens",
            "made only one row of the mask for all new tokens of a text",
            "Each new token needs a row of its own, (batch, new, capacity). Compare the slots with its position in `pos`.",
            Instead(rows=lambda keep: keep[:, -1:]),
            also=tuple(Instead(rows=lambda keep, at=at: keep[:, at]) for at in (slice(1), -1, 0)),
        ),
        Misconception(
            "new_tokens_see_each_other",
            "hid the free slots, but let a new token attend to the new tokens after it",
            "Compare the slots with the position of each token and not with the last position of the row.",
            Instead(causal=False),
        ),
        Misconception(
            "cannot_see_itself",
            "hid each new token's own slot from it",
            "Its key has just been written, and a token attends to itself: j ≤ p and not j < p.",
            Instead(ahead=-1),
        ),
        Misconception(
            "padded_on_the_left",
            "made the mask of texts that are padded on the left, where short texts begin further right",
            "Here every text begins in slot 0. The token at position p lies in slot p, and the free slots lie behind.",
            Instead(first=lambda lengths, new, capacity: capacity - new - lengths),
            also=(Instead(first=lambda lengths, new, capacity: lengths.max() - lengths),),
        ),
    ),
    variants=(Variant("text_by_text", _text_by_text),),
)
