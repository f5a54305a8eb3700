"""Lesson 00 start_here: every number in its text, and its reference against an independent oracle."""

import numpy as np
import pytest
from attention_course.heads import load_heads
from attention_course.pronouns import draw_attention, sentences
from attention_course.thread import INDEX
from attention_course.whole_model import NEXT, SHOWN, draw_whole_model, load_recording

from solutions import start_here as ref


def test_the_average_is_the_matrix_product_with_equal_weights() -> None:
    V = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])  # the lesson's figure
    np.testing.assert_allclose(ref.average_pool(V), np.full(3, 1 / 3) @ V, rtol=1e-15)
    assert ref.average_pool(V).shape == (2,)


def test_the_average_ignores_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    V = rng.normal(size=(7, 3))
    np.testing.assert_allclose(ref.average_pool(V[rng.permutation(7)]), ref.average_pool(V), rtol=1e-12)


def test_one_row_is_its_own_average() -> None:
    V = np.arange(4.0)[None]
    np.testing.assert_array_equal(ref.average_pool(V), V[0])


def test_one_plausible_noun_leads_in_four_sentences_and_two_are_level_in_the_last() -> None:
    *four, last = sentences()
    leading = [sentence.words[int(sentence.weights.argmax())] for sentence in four]
    assert leading == ["trophy", "boat", "glass", "river"]
    assert all(np.sort(sentence.weights)[-1] > 2 * np.sort(sentence.weights)[-2] for sentence in four)
    weights = dict(zip(last.words, last.weights, strict=True))
    assert weights["book"] == pytest.approx(weights["lamp"], abs=0.01)


def test_the_heads_output_at_it_is_nearly_the_value_of_the_pear() -> None:
    head, it = load_heads("thread").head("coreference"), INDEX["it"]
    a, V = head.weights()[it, : it + 1], head.v[: it + 1]
    o = a @ V
    assert o @ V[INDEX["pear"]] / np.linalg.norm(o) / np.linalg.norm(V[INDEX["pear"]]) > 0.98
    assert a[INDEX["she"]] == pytest.approx(0.30, abs=0.01)
    parts = np.linalg.norm(a[:, None] * V, axis=1)
    assert parts[INDEX["she"]] < 0.15 * parts[INDEX["pear"]]


def test_a_drawing_of_attention_says_the_shares_of_all_words() -> None:
    words = ("The", "glass", "and", "it")
    assert (
        draw_attention(words, {"glass": 3, "it": 1}).alt
        == draw_attention(words, [0, 6, 0, 2]).alt
        == "it attends to glass 0.75, it 0.25"
    )


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"glas": 1}, "got 'glas'"),
        ({}, "4 numbers"),
        ([1, 2], "4 numbers"),
        ([0, -1, 0, 2], "from 0 up"),
        ([0, np.nan, 0, 1], "from 0 up"),
    ],
)
def test_a_drawing_of_attention_refuses_other_words_and_numbers(weights: dict[str, float] | list[float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        draw_attention(("The", "glass", "and", "it"), weights)


def test_the_picture_of_the_whole_model_has_a_vector_for_each_word_and_says_its_numbers() -> None:
    kept, first = load_recording(), sentences()[0]
    assert np.shape(kept.vectors) == (len(first.words), SHOWN)
    assert len(kept.attended) == len(kept.processed) == SHOWN
    assert len(kept.next_words) == NEXT
    svg = draw_whole_model().svg()
    for word, chance in kept.next_words:
        assert f">{word}<" in svg
        assert f">{chance:.2f}<" in svg
    assert "0.55 for trophy" in draw_whole_model().alt
    assert int(svg.partition('width="')[2].partition('"')[0]) <= 372  # a phone of 390 px, with the margins of a page


def test_the_picture_of_the_whole_model_shows_the_models_own_numbers() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    from attention_course.language_model import load_model
    from attention_course.language_model.model import ModelMissingError
    from attention_course.make_heads import whole_model

    try:
        model = load_model()
    except ModelMissingError as missing:
        pytest.skip(str(missing))
    assert len(model.weights["layers"]) == 30
    assert {layer["H"] for layer in model.weights["layers"]} == {9}
    assert model.weights["embed"].shape[1] == 576
    found, kept = whole_model(model), load_recording()
    np.testing.assert_allclose(found["vectors"], kept.vectors, atol=0.05)  # sums of 576 terms in another order
    np.testing.assert_allclose(found["attended"], kept.attended, atol=0.05)
    np.testing.assert_allclose(found["processed"], kept.processed, atol=0.05)
    assert [word for word, _ in found["next_words"]] == [word for word, _ in kept.next_words]
    np.testing.assert_allclose([p for _, p in found["next_words"]], [p for _, p in kept.next_words], atol=0.005)
