"""Workshop 05c: the references against independent oracles, and what the text says of the book."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from attention_course.wonderland import book
from torch import Tensor, nn

from solutions.a_block_of_your_own import best_losses, block, rms_norm, train

DOUBLE = {"rtol": 1e-12, "atol": 1e-12}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def counted(text: str) -> Tensor:
    """How often character j follows character i."""
    characters = sorted(set(text))
    pairs = torch.zeros(len(characters), len(characters), dtype=torch.float64)
    for i, j in itertools.pairwise(text):
        pairs[characters.index(i), characters.index(j)] += 1
    return pairs


def test_no_guess_that_knows_as_much_has_a_lower_loss() -> None:
    pairs = counted("the rabbit hole went straight on like a tunnel for some way")
    share = pairs / pairs.sum()
    seen = pairs > 0
    for seed in range(20):
        table = normal(*pairs.shape, seed=seed)
        guesses = (table[0].softmax(0).expand_as(table), table.softmax(1))
        for best, guess in zip(best_losses(pairs)[1:], guesses, strict=True):
            assert best <= -(share * guess.log())[seen].sum().item()


def test_a_trained_table_of_logits_reaches_the_third_loss_and_goes_no_lower() -> None:
    ids = torch.tensor([0, 1, 2, 1, 0, 0, 1, 2, 2, 1, 0, 2, 1, 1, 0])
    pairs = torch.zeros(3, 3)
    pairs.index_put_((ids[:-1], ids[1:]), torch.ones(()), accumulate=True)
    torch.manual_seed(0)
    losses = train(nn.Embedding(3, 3), [ids[None]] * 1000, rate=0.05)
    assert losses[-1] == pytest.approx(best_losses(pairs)[2], abs=1e-3)
    assert min(losses) > best_losses(pairs)[2] - 1e-5


def test_the_best_losses_of_the_book_are_as_the_text_reads_them() -> None:
    text = book()
    known = text[: int(0.9 * len(text))]
    assert (len(text), len(set(text))) == (143_700, 67)
    assert set(known) == set(text)  # so the characters of the pairs are those of the book
    nothing, frequency, before = best_losses(counted(known))
    assert nothing == pytest.approx(math.log(67))
    assert (round(frequency, 2), round(before, 2)) == (3.11, 2.36)


def test_the_norm_is_pytorchs_and_does_not_mix_tokens() -> None:
    x, gain = normal(2, 5, 8), normal(8, seed=1)
    torch.testing.assert_close(rms_norm(x, gain), F.rms_norm(x, (8,), gain, eps=1e-6), **DOUBLE)
    changed = x.clone()
    changed[:, 3] *= 7
    kept = [0, 1, 2, 4]
    torch.testing.assert_close(rms_norm(changed, gain)[:, kept], rms_norm(x, gain)[:, kept], **DOUBLE)


def test_a_block_is_pytorchs_encoder_layer_with_the_norm_first() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, bias=False)
    layer = layer.double()
    layer.norm1, layer.norm2 = (nn.RMSNorm(8, eps=1e-6, dtype=torch.float64) for _ in range(2))
    x, mask = normal(3, 5, 8), torch.ones(5, 5).triu(1).bool()
    with torch.no_grad():
        layer.norm1.weight.copy_(normal(8, seed=1))
        layer.norm2.weight.copy_(normal(8, seed=2))

        def attend(z: Tensor) -> Tensor:
            return layer.self_attn(z, z, z, attn_mask=mask, need_weights=False)[0]

        gains = layer.norm1.weight, layer.norm2.weight
        mine = block(x, attend, *gains, layer.linear1.weight.T, layer.linear2.weight.T)
        theirs = x + layer._sa_block(layer.norm1(x), mask, None)
        theirs = theirs + layer._ff_block(layer.norm2(theirs))
        torch.testing.assert_close(mine, theirs, **DOUBLE)


def test_training_goes_through_an_iterator_once_and_changes_the_model_in_place() -> None:
    model = nn.Embedding.from_pretrained(torch.zeros(4, 4), freeze=False)
    losses = train(model, iter([torch.tensor([[0, 1, 2, 3]])] * 3), rate=0.1)
    assert losses[0] == pytest.approx(math.log(4))
    assert losses == sorted(losses, reverse=True)
    assert model.weight.abs().max() > 0.1
