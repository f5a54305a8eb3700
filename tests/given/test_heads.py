"""The heads that travel with the course: they are the model's own, and each does what its name says."""

import numpy as np
import pytest
from attention_course.heads import TEXTS, Head, load_heads


def head(name: str, text: str = "thread") -> Head:
    return load_heads(text).head(name)


def at(word: str) -> int:
    return [token.strip() for token in load_heads().tokens].index(word)


def test_the_previous_token_head_looks_one_back() -> None:
    A = head("previous_token").weights()
    assert np.diag(A, -1).mean() == pytest.approx(0.79, abs=0.006)


def test_the_first_token_head_rests_on_the_first() -> None:
    assert head("first_token").weights()[2:, 0].mean() > 0.99


def test_it_and_sweet_look_at_the_pear() -> None:
    A = head("coreference").weights()
    assert A[at("it"), at("pear")] == pytest.approx(0.55, abs=0.006)
    assert A[at("sweet"), at("pear")] == pytest.approx(0.44, abs=0.006)


def test_the_pear_looks_at_what_was_done_to_it() -> None:
    assert head("verb").weights()[at("pear"), at("ate")] == pytest.approx(0.57, abs=0.006)


def test_the_induction_head_looks_at_what_followed_last_time() -> None:
    tokens, A = load_heads("repeat").tokens, head("induction", "repeat").weights()
    n, half = len(tokens), len(tokens) // 2
    places = [
        (j, i + 1)
        for j in range(half + 3, n - 1)
        for i in range(j - 1)
        if tokens[i : i + 2] == tokens[j : j + 2]
    ]  # fmt: skip
    assert len(places) >= 8
    assert np.mean([A[j, i] for j, i in places]) == pytest.approx(0.74, abs=0.03)


def test_the_broad_head_spreads_its_weight() -> None:
    A = head("broad").weights()[1:]
    entropy = -(A * np.log(np.where(A > 0, A, 1))).sum(-1) / np.log(np.arange(2, len(A) + 2))
    assert entropy.mean() == pytest.approx(0.91, abs=0.01)


@pytest.mark.parametrize("text", TEXTS)
def test_weights_are_the_models_own(text: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    from attention_course.language_model import load_model
    from attention_course.language_model.model import ModelMissingError
    from attention_course.language_model.reference import _turn
    from attention_course.make_heads import inputs

    try:
        model = load_model()
    except ModelMissingError as missing:
        pytest.skip(str(missing))
    heads = load_heads(text)
    ids = model.tokenizer.encode(TEXTS[text]).ids
    heard = inputs(ids, model.weights)
    pos = torch.arange(len(ids))
    for name in heads.names:
        h = heads.head(name)
        L, x = model.weights["layers"][h.layer], heard[h.layer]
        q = _turn((x @ L["W_Q"]).unflatten(-1, (9, 64)).transpose(0, 1), pos, L["base"], "")[h.head]
        k = _turn((x @ L["W_K"]).unflatten(-1, (3, 64)).transpose(0, 1), pos, L["base"], "")[h.group]
        S = (q @ k.mT / 8).masked_fill(~torch.ones(len(ids), len(ids), dtype=torch.bool).tril(), -torch.inf)
        assert np.abs(h.weights() - S.softmax(-1).numpy()).max() < 0.01, name
        assert h.q.shape == h.k.shape == h.v.shape == (len(ids), 64)
        assert h.W_O.shape == (64, 576)


def test_an_unknown_head_or_text_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'induction'"):
        load_heads().head("inductoin")
    with pytest.raises(ValueError, match="Did you mean 'repeat'"):
        load_heads("repeats")
