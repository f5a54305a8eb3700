"""Which of the three attentions of an encoder and decoder needs which mask."""

import torch

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import cross_attention as ref


def _sources(lengths: tuple[int, ...], n: int):
    """Sources of these lengths, blanks behind them, and `n` characters written so far."""

    def make(draw: Draw):
        source = draw.rng.integers(1, 42, (len(lengths), max(lengths)))
        for row, length in zip(source, lengths, strict=True):
            row[length:] = 0
        return {"source": source, "n": n}

    return make


def _real(source):
    return (source != 0)[:, None, :]


def _past(source, n):
    return torch.ones(n, n).tril().bool()


def _all(source):
    return torch.ones_like(_real(source))


def _written_row(source, n):
    """One row for all queries: no query of the target is restricted."""
    return torch.ones(n, n).bool()


def _masks(
    source,
    n,
    *,
    encoder=lambda source: _real(source),
    decoder=_past,
    cross=lambda source, n: _real(source),
):
    return encoder(source), decoder(source, n), cross(source, n)


def _triangle(source):
    m = source.shape[1]
    return torch.ones(m, m).tril().bool()


def _cross_triangle(source, n):
    return torch.ones(n, source.shape[1]).tril().bool()


def _expanded(source, n):
    batch, m = source.shape
    real = (source != 0)[:, None, :]
    return real.expand(batch, m, m), _past(source, n).expand(batch, n, n), real.expand(batch, n, m)


def _both_blank(source, n):
    """Blanks neither ask nor answer in the encoder. What a blank gets there is read by nobody."""
    real = source != 0
    return real[:, None, :] & real[:, :, None], _past(source, n), real[:, None, :]


THREE_MASKS = Exercise(
    "three_masks",
    title="Design: three masks",
    kind="design",
    points=2,
    difficulty=2,
    minutes=8,
    tensors=True,
    reference=ref.three_masks,
    recipe=_masks,
    behaviour="attention_course.dates:who_sees_what",
    cases=(
        Case("two sources, three characters written", _sources((4, 2), 3)),
        Case("three sources, five characters written", _sources((3, 7, 1), 5)),
        Case("as many characters as in the sources", _sources((4, 3, 2, 4), 4)),
        Case("nothing written but the start", _sources((5, 3), 1), edge=0.1),
    ),
    hints=(
        "For each of the three arrows into an attention, ask who the keys are. Can one of them be a blank? Can one of them be a "
        "character that doesn't exist yet?",
        "The keys of the first and the third attention are source characters, all of them known but some of them blank. The keys of the "
        "second are characters that the model has to predict.",
        "`real = (source != 0)[:, None, :]` serves the first and the third. The second is a triangle, "
        "`torch.ones(n, n, dtype=torch.bool).tril()`.",
    ),
    misconceptions=(
        Misconception(
            "causal_encoder",
            "let the encoder read from left to right",
            "The whole source is known before the first character is written. The *9* of a day may attend to the month after it.",
            Instead(encoder=lambda source: _triangle(source) & _real(source)),
            also=(Instead(encoder=_triangle),),
        ),
        Misconception(
            "encoder_unmasked",
            "let the source's characters attend to blanks",
            "Shorter dates of a batch are filled up with blanks, and those are keys in the encoder as well.",
            Instead(encoder=_all),
        ),
        Misconception(
            "decoder_unmasked",
            "let the written characters see later ones",
            "In training the whole target is there, and each position has to predict the next character. It must not see it.",
            Instead(decoder=_written_row),
        ),
        Misconception(
            "decoder_blind_to_itself",
            "hid each written character from its own position",
            "The character at a position is the last one that was written, and what comes next depends on it.",
            Instead(decoder=lambda source, n: torch.ones(n, n).tril(-1).bool()),
        ),
        Misconception(
            "causal_cross",
            "put a triangle over the source in cross-attention",
            "The year comes first in the target and last in the source. The first query has to see the whole source.",
            Instead(cross=lambda source, n: _cross_triangle(source, n) & _real(source)),
            also=(Instead(cross=_cross_triangle),),
        ),
        Misconception(
            "cross_unmasked",
            "hid the blanks from the encoder, but not from cross-attention",
            "The encoder returns a vector for every blank too, and cross-attention must not read it.",
            Instead(cross=lambda source, n: _all(source)),
        ),
        Misconception(
            "padding_nowhere",
            "hid the blanks nowhere",
            "The keys of the encoder and of cross-attention can be blanks. Both need the padding mask.",
            Instead(encoder=_all, cross=lambda source, n: _all(source)),
        ),
        Misconception(
            "causal_everywhere",
            "made all three attentions causal",
            "Only the target is written from left to right. The source is known as a whole.",
            Instead(
                encoder=lambda source: _triangle(source) & _real(source),
                cross=lambda source, n: _cross_triangle(source, n) & _real(source),
            ),
            also=(Instead(encoder=_triangle, cross=_cross_triangle),),
        ),
        Misconception(
            "polarity_flipped",
            "hid what should be seen",
            "In this course True means **keep**.",
            After(lambda out, **_: tuple(~mask for mask in out)),
        ),
        Misconception(
            "blanks_kept",
            "kept the blanks and hid the real characters of the source",
            "A character is real where `source != 0`.",
            Instead(encoder=lambda source: ~_real(source), cross=lambda source, n: ~_real(source)),
        ),
    ),
    variants=(
        Variant("expanded", _expanded),
        Variant("blanks_do_not_ask", _both_blank),
    ),
)
