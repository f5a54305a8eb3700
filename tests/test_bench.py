"""`python -m solutions.bench`: structure, correctness, bytes, FLOPs and allocations. Never seconds: they are for people."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from solutions import bench
from solutions.bench import report as reports
from solutions.bench.__main__ import main
from solutions.bench.cases import Case, Goal, Settings, decode, generate, latent_decode, prefill
from solutions.bench.clock import interleaved, ratio, rotated

CPU = torch.device("cpu")
SMALL = bench.preset(CPU, quick=True, context=(512,), prompt=512, heads=8, kv_heads=2, head_dim=32, latent=64, latent_heads=(8,))
CASES = ["prefill MHA", "prefill GQA", "prefill MQA", "prefill MLA"]
CASES += ["decode MHA", "decode GQA", "decode MQA", "decode MLA", "generate one token"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The report of a quick run as JSON, and its figure."""
    folder = tmp_path_factory.mktemp("bench")
    before = torch.get_num_threads()
    files = ["--json", str(folder / "report.json"), "--plot", str(folder / "plot.png")]
    assert main(["--quick", "--device", "cpu", "--threads", "1", *files]) == 0
    assert torch.get_num_threads() == before
    return json.loads((folder / "report.json").read_text()), folder / "plot.png"


def test_a_quick_run_measures_every_case_and_every_contender_is_right(quick: tuple[dict[str, Any], Path]) -> None:
    report, figure = quick
    assert [case["name"] for case in report["cases"]] == CASES
    assert report["machine"]["threads"] == 1
    assert report["machine"]["dtype"] == "float32"
    assert all(rate > 0 for rate in report["ceilings"].values())
    for case in report["cases"]:
        assert case["rounds"] >= 3
        assert case["contenders"][0]["times_ours"] == 1.0
        for row in case["contenders"]:
            assert row["error"] <= bench.TOLERANCE[torch.float32]
            assert row["of_floor"] > 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_table_names_every_case_and_contender(quick: tuple[dict[str, Any], Path]) -> None:
    text = "\n".join(reports.lines(quick[0]))
    for case in quick[0]["cases"]:
        assert f"{case['name']}  {bench.title(case['sizes'])}" in text
        assert all(row["name"] in text for row in case["contenders"])


def test_json_alone_goes_to_stdout(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run", lambda settings, **_: {"heads": settings.heads, "batch": settings.batch})
    assert main(["--quick", "--device", "cpu", "--heads", "6", "--batch", "2", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"heads": 6, "batch": [2, 3]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kv-heads", "3"], "--kv-heads: expected a divisor of --heads = 4, got 3"),
        (["--context", "512", "0"], "--context: expected at least 1, got 0"),
        (["--latent-heads", "-1"], "--latent-heads: expected at least 1, got -1"),
        (["--threads", "0"], "--threads: expected at least 1, got 0"),
    ],
)
def test_sizes_that_cannot_be_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--device", "cpu", *arguments]) == 2
    assert message in capsys.readouterr().err


def _flops(case: Case, contender: str) -> int:
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        case.contenders[contender](*case.sets[0])
    return int(counter.get_total_flops())


def _made(case: Case, contender: str) -> int:
    with torch.no_grad():
        return bench.allocated(lambda: case.contenders[contender](*case.sets[0]))


def test_the_flops_of_a_case_are_those_that_are_done() -> None:
    grouped, latent = decode(SMALL, "GQA", 2, 1, 512), latent_decode(SMALL, 8, 1, 512)
    assert grouped.flops == _flops(grouped, "naive") == _flops(grouped, "Attention's")
    assert latent.flops == _flops(latent, "absorbed")
    assert _flops(latent, "naive") > 15 * latent.flops  # keys and values of all tokens are made again in each step


def test_the_bytes_of_a_case_are_those_of_its_inputs_and_its_output() -> None:
    for case, weights in (
        (decode(SMALL, "MHA", 8, 2, 512), 0),
        (prefill(SMALL, "MQA", 1), 0),
        (latent_decode(SMALL, 8, 2, 512), 2 * 8 * 64 * 32),
    ):
        ours = next(iter(case.contenders.values()))
        elements = sum(x.numel() for x in case.sets[0]) + ours(*case.sets[0]).numel()  # a view's own elements, not its buffer's
        assert case.bytes == 4 * (elements + weights)


def test_causal_tiles_do_little_more_than_the_half_that_is_needed() -> None:
    case = prefill(dataclasses.replace(SMALL, prompt=1024), "MHA", 8)
    assert _flops(case, "tiled over keys alone (before)") == pytest.approx(2 * case.flops, rel=0.01)
    assert _flops(case, "tiled") == 1.25 * 8 * 2 * 1024**2 * 32  # tiles on the diagonal are done whole


def test_a_decode_step_copies_no_keys_and_repeating_copies_all_of_them() -> None:
    case = decode(SMALL, "GQA", 2, 1, 512)
    cache = sum(x.numel() * 4 for x in case.sets[0][1:])
    assert _made(case, "Attention's") < cache / 3  # scores and weights: 2 H / (2 G d) = 1/8 of it each
    assert _made(case, "repeat_interleave") >= 4 * cache
    latent = latent_decode(SMALL, 8, 1, 512)
    rows = latent.sets[0][2].numel() * 4
    assert _made(latent, "absorbed") < rows
    assert _made(latent, "naive") > 7 * rows


def test_a_cached_step_does_the_share_of_one_token_of_the_work_of_recomputing() -> None:
    case = generate(SMALL, layers=2, d_model=64)
    projections = 2 * 2 * (2 * 64 * 64 + 2 * 64 * 16)  # of one token, in both layers
    assert _flops(case, "recomputed") >= 512 * projections  # and its fused attention, which the counter does not see
    assert _flops(case, "cached") == case.flops == projections + 2 * 4 * 64 * 512


def _case(**contenders: Any) -> Case:
    x = torch.ones(2, 2)
    return Case("toy", {"B": 1, "n": 2}, 16, 16, [(x,)], contenders, lambda x: x.double(), goals=(Goal("other", 2.0),))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_asked_the_same_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # the compiled one takes some ten seconds
    settings = dataclasses.replace(SMALL, flex=True, prompt=64)
    for case in (prefill(settings, "GQA", 2), prefill(settings, "MHA", 8), decode(settings, "GQA", 2, 1, 64)):
        only = {name: case.contenders[name] for name in (next(iter(case.contenders)), "flex_attention")}
        rows = bench._checked(dataclasses.replace(case, contenders=only), 2e-5)
        assert rows[1]["error"] <= 2e-5


def test_a_wrong_contender_stops_the_run_before_anything_is_timed() -> None:
    with pytest.raises(bench.WrongResultError, match=r"toy, other: expected float64's result within 2e-05"):
        bench._checked(_case(ours=lambda x: x.clone(), other=lambda x: x + 1), 2e-5)
    with pytest.raises(bench.WrongResultError, match="relative error of nan"):
        bench._checked(_case(ours=lambda x: x * torch.nan), 2e-5)


def test_a_contender_that_cannot_run_is_skipped_with_its_reason_and_ours_may_not() -> None:
    def fails(x: Tensor) -> Tensor:
        raise NotImplementedError("not for these shapes\nand more")

    rows = bench._checked(_case(ours=lambda x: x.clone(), other=fails), 2e-5)
    assert rows[1] == {"name": "other", "skipped": "NotImplementedError: not for these shapes"}
    with pytest.raises(NotImplementedError):
        bench._checked(_case(ours=fails), 2e-5)


def test_goals_say_whether_they_are_reached_and_how_far() -> None:
    def goal(**row: Any) -> str:
        case = _case(ours=lambda x: x, other=lambda x: x)
        rows = [{"name": "ours", "of_floor": 0.5}, {"name": "other", **row}]
        named = {"name": case.name, "sizes": case.sizes, "contenders": rows}
        return reports._goal(named, bench._goals(case, rows)[0])

    assert goal(times_ours=2.5) == "✓ toy B=1, n=2: other / ours 2.50, goal 2"
    assert goal(times_ours=1.5).startswith("✗")
    assert goal(skipped="out of memory") == "· toy B=1, n=2: other / ours not measured, goal 2"


def test_only_sizes_that_mean_something_have_goals() -> None:
    cuda = bench.preset(torch.device("cuda"))
    assert (cuda.dtype, cuda.context, cuda.heads, cuda.kv_heads) == (torch.bfloat16, (32_768,), 32, 8)
    large = bench.preset(CPU, heads=2, kv_heads=1, head_dim=8, latent=8, rope=2)
    assert large.context == (4096, 16_384)
    assert decode(large, "GQA", 1, 1, 4096).goals == (Goal("enable_gqa", 1.3), Goal("repeat_interleave", 5.0))
    assert decode(large, "MHA", 2, 1, 4096).goals == (Goal("floor", 0.65),)
    assert latent_decode(large, 2, 1, 4096).goals == (Goal("naive", 15.0),)
    assert decode(large, "GQA", 1, 1, 4095).goals == ()


def test_rounds_are_interleaved_and_every_set_of_inputs_has_its_turn() -> None:
    seen: list[tuple[str, int]] = []
    calls = {name: lambda i, name=name: seen.append((name, i)) for name in ("one", "two")}
    times = interleaved(calls, CPU, sets=3, seconds=0.0)
    assert [len(times[name]) for name in calls] == [3, 3]
    turns = [name for i, (name, _) in enumerate(seen) if i == 0 or seen[i - 1][0] != name]
    assert turns[-6:] == ["one", "two"] * 3
    assert {i for _, i in seen} == {0, 1, 2}


def test_rotated_inputs_are_several_times_as_large_as_a_cache() -> None:
    sets = rotated(lambda seed: (torch.full((2**23,), float(seed)),), CPU)
    assert sum(x.nbytes for (x,) in sets) >= 2**28
    assert [float(x[0]) for (x,) in sets] == list(range(8))


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    assert ratio([2.0, 30.0, 2.2], [1.0, 10.0, 1.0]) == 2.2  # one slow round slows both


def test_float16_settings_are_kept() -> None:
    given = bench.preset(CPU, quick=True, dtype=torch.float16, seconds=None)
    assert (given.dtype, given.seconds) == (torch.float16, 0.0)
    assert isinstance(given, Settings)
