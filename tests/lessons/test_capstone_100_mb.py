"""Workshop 12d: the references by other means, and what the text says of the board and of a trial."""

import re

import numpy as np
import pytest
import torch
from attention_course.capstone import contest, trial
from attention_course.capstone.baselines.int8_shared_scale import Cache
from attention_course.capstone.rules import PER_TOKEN, RefusedError, Result
from attention_course.capstone.state import pack
from attention_course.language_model import ModelMissingError, load_model
from hypothesis import given
from hypothesis import strategies as st

from autograder.authoring.course import course_root
from solutions.capstone_100_mb import least_sharing, pack_codes

BOARD = {row["name"]: Result(**row) for row in contest.baselines(0)}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(100, 5000), st.floats(1.01, 2))
def test_the_smallest_group_fits_and_a_smaller_one_does_not(bits: int, scale_bytes: int, numbers: int, room: float) -> None:
    budget = numbers * bits / 8 * room
    n = least_sharing(numbers, budget, bits, scale_bytes)

    def held(group: int) -> float:
        return numbers * bits / 8 + numbers * scale_bytes / group

    assert held(n) <= budget * (1 + 1e-12)
    assert n == 1 or held(n - 1) > budget * (1 - 1e-12)


@given(st.integers(1, 8), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_packed_codes_are_as_few_bytes_as_possible_and_those_of_numpy(bits: int, n: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 2**bits, n)
    row = np.unpackbits(codes.astype(np.uint8)[:, None], axis=1, count=bits, bitorder="little")
    assert pack_codes(torch.from_numpy(codes), bits).tolist() == np.packbits(row, bitorder="little").tolist()


def test_what_the_text_says_of_the_board_is_recorded() -> None:
    text = (course_root() / "lessons" / "12d_capstone_100_mb.md").read_text(encoding="utf-8")
    assert PER_TOKEN == 12_207
    assert f"{PER_TOKEN:,}" in text
    four = BOARD["four_bits"]
    assert f"{four.bytes_per_token:,.0f} bytes per token, which is {four.megabytes:.1f} MB" in text
    assert re.search(rf"{four.ratio:.3f} with the interval \[{four.low:.3f}, {four.high:.3f}\]", text.replace("\n", " "))
    assert (four.recalled, four.exact) == (8, 9)
    assert [name for name, result in BOARD.items() if not result.fails] == ["int8_shared_scale", "fp8_e4m3", "four_bits"]
    assert BOARD["int8_shared_scale"].low < 1 < BOARD["int8_shared_scale"].high
    assert 1.004 < BOARD["fp8_e4m3"].ratio < 1.006
    assert BOARD["fp8_e4m3"].low > 1
    assert round(BOARD["window_and_sinks"].megabytes) == 6
    assert BOARD["window_and_sinks"].recalled <= 2
    assert round(BOARD["bfloat16"].megabytes) == 189
    assert (least_sharing(11_520, 12_207, 8, 2), least_sharing(11_520, 12_207, 8, 4)) == (34, 68)


def test_a_hundred_tokens_hold_a_little_more_than_their_numbers_and_scales() -> None:
    cache = Cache(0)
    cache.append(torch.randn(3, 100, 64), torch.randn(3, 100, 64))
    assert 11_640 < len(pack(vars(cache))) * 30 / 100 < 11_680


def test_a_trial_tells_sizes_and_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RefusedError("it hides")

    try:
        model = load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")
    monkeypatch.setattr(trial, "losses", refuse)
    assert trial.told(trial.trial(Cache, model)) == "refused: it hides"
    assert trial.told(Result("x", 0, 11_640, 11_700, 1.0, 0.997, 1.002)) == (
        "11,640 bytes per token, 95.4 MB; perplexity ratio 1.000 [0.997, 1.002]"
    )


@pytest.mark.slow
def test_the_trial_of_the_text_is_as_it_says() -> None:
    try:
        model = load_model("cpu")
    except ModelMissingError:
        pytest.skip("the model is not installed")

    class OneScale(Cache):
        bytes_per_token = 11_560

        def __init__(self, layer: int) -> None:
            self.parts: list[tuple[torch.Tensor, torch.Tensor]] = []

        def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
            x = torch.stack([keys, values])
            scale = x.abs().amax() / 127
            self.parts.append(((x / scale).round().to(torch.int8), scale))

        def read(self) -> tuple[torch.Tensor, ...]:
            return tuple(torch.cat([code.float() * s for code, s in self.parts], dim=2))

    right, wide = trial.trial(Cache, model), trial.trial(OneScale, model)
    assert right.low < 1 < right.high
    assert wide.low < wide.ratio < 1 < wide.high
    assert 3 < (wide.high - wide.low) / (right.high - right.low) < 6
    assert wide.bytes_per_token == pytest.approx(0.99 * right.bytes_per_token, rel=0.002)
