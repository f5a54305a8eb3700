"""Lesson 13: the references against other oracles, the twenty configurations against transformers, and what was recorded."""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_course.language_model import ModelMissingError, load_model, sparse
from attention_course.language_model.reference import reference_logits
from attention_course.language_model.sparse import rotate
from attention_course.real_caches import LENGTHS, MODELS, Layers, step
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from solutions.after_mla import index_loss, tied_attention
from tools.record_after_mla import index_scores as recorded_scores


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shown(beginning: str, **names: Any) -> dict[str, Any]:
    """The names that a cell of the lesson binds, found by how it begins."""
    text = (course_root() / "lessons" / "13_after_mla.md").read_text(encoding="utf-8")
    (cell,) = re.findall(rf"```{{code-cell}} ipython3\n({beginning}.*?)```", text, re.DOTALL)
    exec(cell, names)
    return names


def test_an_index_is_read_for_all_tokens_and_the_cache_for_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    shown("for n in")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1] for line in printed] == [
        " keep 1.20 caches, read 1.20",
        " keep 1.20 caches, read 0.33",
        " keep 1.20 caches, read 0.22",  # "about a fifth"
    ]
    read = 131_072 * 132 + 2048 * 656
    assert read / 2 < 131_072 * 132  # "most of what a step reads is the index"


def test_a_head_without_an_opinion_gives_most_of_its_weight_to_the_sink(capsys: pytest.CaptureFixture[str]) -> None:
    shown("def softmax_with_sink", torch=torch)
    assert re.findall(r"0\.\d\d", capsys.readouterr().out) == ["0.09", "0.95"]


@pytest.mark.parametrize("index_scores", [shown("def index_scores", torch=torch, math=math)["index_scores"], recorded_scores])
def test_index_scores_are_those_of_a_loop_over_queries_heads_and_keys(index_scores: Callable[..., Tensor]) -> None:
    q, k, w, pos = drawn(3, 4, 6), drawn(7, 6, seed=1), drawn(4, 3, seed=2), torch.tensor([0, 2, 3, 6])
    found = index_scores(q, k, w, pos)
    for i in range(4):
        for j in range(7):
            votes = [w[i, h] * max(0.0, float(q[h, i] @ k[j]) / math.sqrt(6)) for h in range(3)]
            assert float(found[i, j]) == pytest.approx(float(sum(votes)) if j <= pos[i] else -math.inf)


def test_without_the_cut_at_zero_one_head_does_what_three_do() -> None:
    q, k, w = drawn(3, 4, 6), drawn(7, 6, seed=1), drawn(4, 3, seed=2)
    one = torch.einsum("hid,ih->id", q, w)
    assert_close(torch.einsum("hij,ih->ij", q @ k.mT, w), one @ k.mT)


def test_the_loss_is_the_divergence_of_pytorch_and_has_finite_gradients() -> None:
    keep = torch.ones(6, 6, dtype=torch.bool).tril()
    scores = drawn(6, 6).masked_fill(~keep, -math.inf).requires_grad_()
    A = torch.softmax(drawn(3, 6, 6, seed=1).masked_fill(~keep, -math.inf), -1)
    p = A.mean(0)
    each = [F.kl_div(scores[i, : i + 1].log_softmax(-1), p[i, : i + 1], reduction="sum") for i in range(6)]
    loss = index_loss(scores, A)
    assert_close(loss, torch.stack(each))
    loss.sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert_close(index_loss(p.log(), p[None]), torch.zeros(6, dtype=torch.float64))
    with torch.no_grad():
        scores[3, 1] = math.nan  # a run that has diverged shows, in the query that it concerns
        assert index_loss(scores, A).isnan().tolist() == [False, False, False, True, False, False]


def test_tied_rows_that_are_turned_back_dont_know_where_the_text_begins() -> None:
    Q, C = drawn(2, 9, 6), drawn(9, 6, seed=1)
    outputs = []
    for start in (0, 500):
        pos = torch.arange(9) + start
        outputs.append(tied_attention(Q, rotate(C, pos), pos, pos))
    assert_close(outputs[0], outputs[1], rtol=0.0, atol=1e-12)
    ends = [rotate(o, torch.arange(9) + start) for o, start in zip(outputs, (0, 500), strict=True)]
    assert (ends[0] - ends[1]).abs().max() > 0.5  # what they would be without


def test_windows_and_best_keys_keep_as_many_as_they_say() -> None:
    for keep in (sparse.window(40, 8), sparse.best(drawn(40, 40), 8)):
        assert keep.sum(-1).tolist() == [min(i + 1, 8) for i in range(40)]
        assert not keep.triu(1).any()
    assert sparse.window(40, 8)[30].nonzero().flatten().tolist() == [0, 1, 2, 3, 27, 28, 29, 30]


# ------------------------------------------------------------------------------------------------- configurations


def default(name: str) -> Any:
    return getattr(pytest.importorskip("transformers"), name)()


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("Llama 2 7B", "LlamaConfig"),
        ("Mistral 7B v0.1", "MistralConfig"),
        ("Llama 4 Scout", "Llama4TextConfig"),
        ("SmolLM3 3B", "SmolLM3Config"),
        ("Gemma 2 2B", "Gemma2Config"),
        ("OLMo 3 7B", "Olmo3Config"),
        ("gpt-oss-120b", "GptOssConfig"),
        ("GLM-4.5-Air", "Glm4MoeConfig"),
        ("MiniMax-M2", "MiniMaxM2Config"),
        ("Qwen3-Next 80B", "Qwen3NextConfig"),
    ],
)
def test_layers_with_keys_and_values_are_those_of_the_configuration(model: str, config: str) -> None:
    c = default(config)
    d = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    row = 2 * c.num_key_value_heads * (128 if model == "GLM-4.5-Air" else d)
    kinds = Counter(getattr(c, "layer_types", None) or ["full_attention"] * c.num_hidden_layers)
    ours = {bool(layers.window): layers for layers in MODELS[model][1] if layers.row}
    assert all(layers.row == row for layers in ours.values())
    assert sum(layers.count for layers in MODELS[model][1]) == c.num_hidden_layers
    window = getattr(c, "sliding_window", None) or getattr(c, "attention_chunk_size", None)
    if model == "Mistral 7B v0.1":
        assert ours[True].window == window
        return
    assert ours[False].count == kinds["full_attention"]
    if True in ours:
        assert ours[True].window == window
        assert ours[True].count == kinds["sliding_attention"] + kinds["chunked_attention"]


def test_models_of_deepseek_are_as_in_their_configurations() -> None:
    v3, v32, v4 = default("DeepseekV3Config"), default("DeepseekV32Config"), default("DeepseekV4Config")
    for model, c in (("DeepSeek-V3", v3), ("DeepSeek-V3.2", v32)):
        (layers,) = MODELS[model][1]
        assert (layers.count, layers.row) == (c.num_hidden_layers, c.kv_lora_rank + c.qk_rope_head_dim)
    assert MODELS["DeepSeek-V3.2"][1][0].best == v32.index_topk
    assert v32.index_head_dim == 128
    window, csa, hca = MODELS["DeepSeek-V4-Flash"][1]
    published = [0, 0, 4, *[128, 4] * 20, 0]  # `compress_ratios` of V4-Flash, the last for a layer that guesses one more token
    kinds = Counter(type(v4)(compress_ratios=published).layer_types)
    assert window.count == kinds["sliding_attention"] == 2
    assert (csa.count, hca.count) == (kinds["compressed_sparse_attention"], kinds["heavily_compressed_attention"])
    assert window.row == csa.row == hca.row == v4.head_dim * v4.num_key_value_heads
    assert (csa.every, hca.every) == (
        v4.compress_rates["compressed_sparse_attention"],
        v4.compress_rates["heavily_compressed_attention"],
    )
    assert csa.best == v4.index_topk
    assert window.window == csa.recent == hca.recent == v4.sliding_window


def test_an_index_makes_a_layer_keep_more_and_read_less() -> None:
    n = 10_000
    assert Layers(2, 576).step(n) == (2 * n * 1152, 2 * n * 1152)
    assert Layers(2, 576, best=2048).step(n) == (2 * n * 1284, 2 * (2048 * 1152 + n * 132))
    assert Layers(1, 512, every=4, recent=128).step(n) == ((2500 + 128) * 1024, (2500 + 128) * 1024)


def test_what_the_text_says_of_twenty_models_is_what_is_counted() -> None:
    assert len(MODELS) == 20
    n = 131_072
    assert n in LENGTHS
    assert step("DeepSeek-V3", n)[0] == pytest.approx(9.2e9, rel=0.005)
    assert step("Llama 3.1 405B", n)[0] == pytest.approx(68e9, rel=0.01)
    assert step("DeepSeek-V3.2", n)[0] == pytest.approx(10.3e9, rel=0.005)
    assert step("DeepSeek-V3.2", n)[1] == pytest.approx(1.2e9, rel=0.005)
    assert step("DeepSeek-V4-Flash", n) == pytest.approx((0.822e9, 0.1285e9), rel=0.005)


# ------------------------------------------------------------------------------------------------- SmolLM2


def test_all_keys_give_the_model_itself() -> None:
    try:
        model = load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")
    ids = sparse.passage(model, 0)[:40]
    logits = sparse.hidden(model, ids) @ model.weights["embed"].mT
    assert_close(logits, reference_logits(model.weights, ids[None])[0], rtol=1e-3, atol=1e-3)
    (x,) = sparse.inputs(model, ids, [0]).values()
    assert_close(sparse.weights(model, 0, x).sum(-1), torch.ones(9, 40))


def test_what_the_text_says_of_all_layers_is_what_was_recorded() -> None:
    found = sparse.recorded()
    kept, perplexity = found["kept"], found["perplexity"]
    assert all(len(kept[way][str(k)]) == 30 for way in kept for k in (32, 64, 128))
    assert kept["window"]["64"][5] == pytest.approx(0.31, abs=0.01)
    assert kept["window"]["64"][25] > 0.9
    for k in ("32", "64", "128"):
        assert perplexity["full"] < perplexity["oracle"][k] < perplexity["index"][k] < perplexity["window"][k]
    assert perplexity["window without sinks"]["64"] > 2 * perplexity["window"]["64"]
