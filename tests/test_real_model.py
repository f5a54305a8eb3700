"""Lesson 11: the answers against independent oracles, every number that its text states, and the lesson itself, offline."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from attention_course.language_model.reference import PlainAttention, reference_logits
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring.course import course_root
from autograder.notebooks.roles import exercise_of
from solutions import real_model_table
from solutions.grouped_query import Attention
from solutions.kv_cache import KVCache
from solutions.positions import apply_rope
from solutions.real_model import GroupedAttention, Llama, feed_forward, kv_bytes_per_token, perplexity, rms_norm

DOUBLE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}  # float64 on both sides, another order of sums
SINGLE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}  # angles by complex64 on one side
H, G, D, D_MODEL, VOCAB = 6, 3, 4, 10, 23
chunks = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def a_layer(seed: int = 0, heads: int = H, groups: int = G) -> dict[str, Any]:
    shapes = {"Wq": (D_MODEL, heads * D), "Wk": (D_MODEL, groups * D), "Wv": (D_MODEL, groups * D), "Wo": (heads * D, D_MODEL)}
    shapes |= {"Wgate": (D_MODEL, 7), "Wup": (D_MODEL, 7), "Wdown": (7, D_MODEL)}
    made: dict[str, Any] = {name: normal(*s, seed=seed + i) / s[0] ** 0.5 for i, (name, s) in enumerate(shapes.items())}
    made |= {name: 1 + 0.1 * normal(D_MODEL, seed=seed + 9) for name in ("norm1", "norm2")}
    return made | {"H": heads, "G": groups, "base": 100.0}


def weights() -> dict[str, Any]:
    layers = [a_layer(0), a_layer(20)]
    return {"embed": normal(VOCAB, D_MODEL, seed=50), "norm": torch.ones(D_MODEL).double(), "eps": 1e-5, "layers": layers}


def ids(n: int, batch: int = 1) -> Tensor:
    return torch.randint(0, VOCAB, (batch, n), generator=torch.Generator().manual_seed(n))


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
    assert kv_bytes_per_token([3] * 20 + [1] * 10, 64, 2) == 17_920 == 23_040 - 10 * 512
    sizes = {"L": 30, "G": 3, "d": 64}
    names = "as it should be", "8 bits", "4 bits", "all layers, mean", "plain, r = 192", "plain, r = 128", "the ten least harmful"
    expected = [23_040, 12_240, 6480, 7680, 11_520, 7680, 17_920]
    assert [real_model_table.bytes_of(name, sizes) for name in names] == expected
    budget = 100e6 / 8192
    assert round(budget) == 12_207
    assert 12_240 / budget == pytest.approx(1.003, abs=0.0005)
    assert round(6480 * 8192 / 1e6) == 53


LESSON = course_root() / "source" / "11_real_model" / "11_real_model.ipynb"
OFFLINE = """
import socket
connect = socket.socket.connect
def local_only(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the lesson must not use the network: {address}")
    return connect(self, address)
socket.socket.connect = local_only
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, float, Path]:
    """The lesson run offline with an empty cache of results: notebook, seconds after the first load, and the cache."""
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("lesson")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(OFFLINE)
    environment = {**os.environ, "ATTN_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), str(course_root().parent)])
    load = "from attention_course.language_model import load_model; load_model()"
    subprocess.run([sys.executable, "-c", load], env=environment, check=True, timeout=120)
    notebook = nbformat.read(LESSON, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(LESSON.parent)}})
    began, used = time.monotonic(), _cpu_seconds()
    client.execute(env=environment)
    clock, processor = time.monotonic() - began, _cpu_seconds() - used
    assert processor > 5  # the kernel is among what was counted
    shutil.copytree(folder / "cache" / "results", Path(os.environ["ATTN_CACHE"]) / "results", dirs_exist_ok=True)  # for nbval
    return notebook, min(clock, processor), folder / "cache"  # other work on the machine stretches the clock's time alone


def _cpu_seconds() -> float:
    """Of all processes that have ended since, the kernel among them."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.timeout(900)
def test_the_lesson_runs_offline_in_minutes_and_every_check_passes(executed: tuple[Any, float, Path]) -> None:
    notebook, seconds, _ = executed
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"], cell.source
        if exercise_of(cell):
            assert float(outputs[0]["data"]["text/plain"]) == cell.metadata.nbgrader.points
    assert seconds < 360  # three minutes on two idle cores; what tests it may be twice as busy


@pytest.mark.timeout(900)
def test_one_command_reproduces_every_perplexity_within_its_band_and_finds_them_on_the_disk(
    executed: tuple[Any, float, Path],
) -> None:
    _, _, cache = executed
    known = set((cache / "results").iterdir())
    environment = {**os.environ, "ATTN_CACHE": str(cache), "PYTHONPATH": str(course_root().parent)}
    command = [sys.executable, "-m", "solutions.real_model_table"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT REPRODUCED" not in done.stdout
    assert set((cache / "results").iterdir()) == known  # the same content, so nothing was measured a second time
    values = {line[:28].strip(): float(line[36:51].replace(",", "")) for line in done.stdout.splitlines()[3:]}
    assert set(values) == set(real_model_table.MEANT)
    for kind in ("plain", "knows the inputs"):
        by_rank = [values[f"{kind}, r = {r}"] for r in real_model_table.RANKS]
        assert by_rank == sorted(by_rank)
        assert by_rank[0] == pytest.approx(values["as it should be"], rel=1e-4)
    for r in real_model_table.RANKS[1:]:
        assert values[f"knows the inputs, r = {r}"] < values[f"plain, r = {r}"]
    assert min(values, key=values.__getitem__) != "modulo" == max(real_model_table.FLAWS, key=values.__getitem__)


def test_the_cached_results_are_plain_numbers(executed: tuple[Any, float, Path]) -> None:
    found = [json.loads(path.read_text()) for path in (executed[2] / "results").iterdir()]
    assert len(found) > 50
    assert all(isinstance(value, float) and value >= 1 for value in found)
