"""`python -m tools.bench`: structure, correctness, bytes, FLOPs and allocations. Never seconds: they are for people."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from solutions.lib import attention
from solutions.lib.decode_choice import WAYS, DecodeChoice
from tools import bench
from tools.bench import clock, first_run, parts
from tools.bench import report as reports
from tools.bench.__main__ import _parser as main_parser
from tools.bench.__main__ import main
from tools.bench.cases import NEAR_THE_FASTEST, Case, Goal, Settings, decode, generate, latent_decode, prefill
from tools.bench.clock import Work, ceilings, interleaved, ratio, rotated

ROOT = Path(__file__).parents[2]
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
    text = "\n".join([*reports.lines(quick[0]), *reports.summary(quick[0])])
    assert all(name in text for name in ("gemv", "sum", "dot", "matmul"))
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


def test_cases_can_be_picked_by_a_part_of_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--device", "cpu", "--only", "decode M", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [case["name"] for case in report["cases"]] == ["decode MHA", "decode MQA", "decode MLA"]
    assert main(["--quick", "--device", "cpu", "--only", "decod MHA"]) == 2
    assert "only: expected a part of a case's name, such as 'decode GQA', got 'decod MHA'." in capsys.readouterr().err


def _flops(case: Case, contender: str) -> int:
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused kernel of a CPU
        case.contenders[contender](*case.sets[0])
    return int(counter.get_total_flops())


def _made(case: Case, contender: str) -> int:
    with torch.no_grad():
        return bench.allocated(lambda: case.contenders[contender](*case.sets[0]))


def test_the_flops_of_a_case_are_those_that_are_done() -> None:
    grouped, latent = decode(SMALL, "GQA", 2, 1, 512), latent_decode(SMALL, 8, 1, 512)
    assert grouped.flops == _flops(grouped, "naive") == _flops(grouped, "Attention's") == _flops(grouped, "two products")
    assert latent.flops == _flops(latent, "absorbed")
    assert latent.flops == _flops(latent, "absorbed, rows on the left (before)")
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
    assert _flops(case, "recomputed") >= 512 * projections
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
    def goal(contender: str = "other", **row: Any) -> str:
        case = dataclasses.replace(_case(ours=lambda x: x, other=lambda x: x), goals=(Goal(contender, 2.0),))
        rows = [
            {"name": "ours", "of_floor": 0.5, "times_ours": 1.0},
            {"name": "slow", "times_ours": 7.0},
            {"name": "other", **row},
        ]
        named = {"name": case.name, "sizes": case.sizes, "contenders": rows}
        return reports._goal(named, bench._goals(case, rows)[0])

    assert goal(times_ours=2.5) == "✓ toy B=1, n=2: other / ours 2.50, goal 2"
    assert goal(times_ours=1.5).startswith("✗")
    assert goal(skipped="out of memory") == "· toy B=1, n=2: other / ours not measured, goal 2"
    assert goal("floor", times_ours=3.0) == "✗ toy B=1, n=2: share of the floor 0.50, goal 2"


def test_the_fastest_contender_is_the_fastest_of_those_that_ran_beside_ours() -> None:
    case = dataclasses.replace(_case(ours=lambda x: x), goals=(Goal("fastest", 1 / 1.1),))
    ours = {"name": "ours", "of_floor": 0.5, "times_ours": 1.0}
    others = [{"name": "one", "times_ours": 2.5}, {"name": "two", "times_ours": 0.8}, {"name": "three", "skipped": "too large"}]
    for rows, got in (([ours, *others], 0.8), ([ours, others[0]], 2.5), ([ours, others[2]], None)):
        (goal,) = bench._goals(case, rows)
        assert goal == {"against": "fastest", "at_least": 1 / 1.1, "got": got}
    named = {"name": case.name, "sizes": case.sizes, "contenders": [ours, *others]}
    assert reports._goal(named, bench._goals(case, [ours, *others])[0]).endswith(": fastest contender / ours 0.80, goal 0.91")


def test_attention_has_chosen_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = DecodeChoice()
    monkeypatch.setattr(attention, "choice", choice)
    decode(SMALL, "MHA", 8, 1, 1024)
    assert [trial.fastest in WAYS for trial in choice._trials.values()] == [True]


def test_only_sizes_that_mean_something_have_goals() -> None:
    cuda = bench.preset(torch.device("cuda"), span=2**31)
    assert (cuda.dtype, cuda.context, cuda.heads, cuda.kv_heads) == (torch.bfloat16, (32_768,), 32, 8)
    large = bench.preset(CPU, heads=2, kv_heads=1, head_dim=8, latent=8, rope=2)
    assert large.context == (4096, 16_384)
    near = Goal("fastest", NEAR_THE_FASTEST)
    assert decode(large, "GQA", 1, 1, 4096).goals == (near, Goal("enable_gqa", 1.3), Goal("repeat_interleave", 5.0))
    assert decode(large, "MHA", 2, 1, 4096).goals == (near,)
    assert latent_decode(large, 2, 1, 4096).goals == (Goal("naive", 15.0),)
    assert decode(large, "GQA", 1, 1, 4095).goals == ()


def test_rounds_are_interleaved_in_changing_orders_and_every_set_of_inputs_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    calls = {name: Work(lambda i, name=name: seen.append((name, i)), 4) for name in ("one", "two")}
    monkeypatch.setattr(clock, "AT_LEAST", 0.0)  # each is called once to warm up and once in each round
    times = interleaved(calls, CPU, seconds=0.1)
    assert [len(times[name]) for name in calls] == [15, 15]
    rounds = [(seen[i][0], seen[i + 1][0]) for i in range(0, len(seen), 2)]
    assert len(rounds) == 1 + 15
    assert set(rounds) == {("one", "two"), ("two", "one")}
    assert [i for name, i in seen if name == "one"] == [i % 4 for i in range(16)]
    assert [i for name, i in seen if name == "two"] == [(2 + i) % 4 for i in range(16)], "far from those of the call before"


def test_inputs_are_copied_in_their_layout_until_no_cache_holds_them() -> None:
    x = torch.arange(120.0).view(2, 6, 10)[:, :4]  # a view of a cache with room left
    sets = rotated((x,), 2**12)
    assert sum(y.nbytes for (y,) in sets) >= 2**12
    assert len({y.data_ptr() for (y,) in sets}) == len(sets) == 13
    assert all(y.equal(x) and y.stride() == x.stride() for (y,) in sets)


def test_a_case_reads_far_more_than_a_last_level_cache_holds() -> None:
    assert 2**30 >= clock.span(CPU) >= 2**28  # where there are 2 GB of memory
    assert bench.preset(CPU).span == clock.span(CPU)
    for case in (decode(SMALL, "MQA", 1, 1, 512), latent_decode(SMALL, 8, 1, 512), generate(SMALL, layers=2, d_model=64)):
        assert len(case.sets) * case.bytes >= SMALL.span


def test_the_ceilings_read_all_of_the_span_in_turn_with_several_readers() -> None:
    works, work = ceilings(CPU, torch.float32, 2**20)
    assert list(works) == ["gemv", "sum", "dot", "matmul"]
    assert {name: (works[name].sets, work[name]) for name in ("gemv", "sum", "dot")} == dict.fromkeys(
        ("gemv", "sum", "dot"), (8, 2**17)
    )
    for name in ("sum", "dot"):
        assert float(works[name].call(7)) in (2**15, 2**14)  # ones, written: a page of zeros need not be read


@pytest.mark.skipif(sys.platform == "win32", reason="its processor time is too coarse")
def test_one_thread_is_timed_by_its_processor_time_and_all_else_by_the_wall_clock() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert clock.own_clock(CPU) is clock.time.process_time
        assert clock.own_clock(torch.device("mps")) is clock.time.perf_counter
        torch.set_num_threads(2)
        assert clock.own_clock(CPU) is clock.time.perf_counter
    finally:
        torch.set_num_threads(before)


def test_the_floor_is_the_fastest_reader_whichever_that_is() -> None:
    rates = {"gemv": 4.0, "sum": 2.0, "dot": 1.0, "matmul": 1e9}
    for fastest in ("gemv", "sum", "dot"):
        assert bench.floor(16, 16, {**rates, fastest: 8.0}) == 2.0
    assert bench.floor(16, 16, {**rates, "matmul": 2.0}) == 8.0


@pytest.mark.parametrize("where", ["mps", "xpu"])
def test_a_device_that_answers_before_it_has_computed_is_waited_for(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    device = torch.device(where)
    monkeypatch.setattr(torch.get_device_module(device), "synchronize", lambda: happened.append("wait"))
    monkeypatch.setattr(clock.time, "perf_counter", lambda: happened.append("look") or float(len(happened)))
    clock._Pass(Work(lambda i: happened.append("work")), device).seconds(2)
    assert happened == ["wait", "look", "work", "work", "wait", "look"]


class _Cuda:
    """What the clock uses of `torch.cuda`, for a machine without it: each call takes `took` milliseconds, graphs are noted."""

    took, replayed, captured, refused = 0.1, 0, 0, False

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def record(self) -> None: ...
    def synchronize(self) -> None: ...
    def wait_stream(self, _: Any) -> None: ...

    def elapsed_time(self, _: Any) -> float:
        return _Cuda.took

    def replay(self) -> None:
        _Cuda.replayed += 1


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> type[_Cuda]:
    """`torch.cuda` as `_Cuda`."""
    _Cuda.took, _Cuda.replayed, _Cuda.captured, _Cuda.refused = 0.1, 0, 0, False

    def graph(_: Any) -> _Cuda:
        _Cuda.captured += 1
        if _Cuda.refused:
            raise RuntimeError("operation not permitted when stream is capturing")
        return _Cuda()

    for name, value in {"Event": _Cuda, "Stream": _Cuda, "CUDAGraph": _Cuda, "stream": _Cuda, "graph": graph}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "current_stream", _Cuda)
    return _Cuda


@pytest.mark.parametrize(("milliseconds", "captured"), [(0.1, 1), (50.0, 0)])
def test_calls_so_short_that_launches_matter_are_replayed_from_a_graph(
    milliseconds: float, captured: int, cuda: type[_Cuda]
) -> None:
    cuda.took, calls = milliseconds, []
    times = interleaved({"one": Work(calls.append, 5)}, torch.device("cuda"), seconds=0.0)
    assert cuda.captured == captured  # whatever the batch
    assert (cuda.replayed > 0) == bool(captured)
    assert times["one"][0] > 0
    if captured:
        assert calls[-5:] == [0, 1, 2, 3, 4]  # the graph is one pass over all sets


def test_a_call_of_which_no_graph_can_be_captured_is_timed_with_its_launches(cuda: type[_Cuda]) -> None:
    cuda.refused = True
    with pytest.warns(UserWarning, match="timed with its launches"):
        interleaved({"one": Work(lambda i: None)}, torch.device("cuda"), seconds=0.0)
    assert (cuda.captured, cuda.replayed) == (1, 0)


def test_results_are_shown_and_written_as_they_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def two(settings: Settings) -> Any:
        yield dataclasses.replace(_case(ours=lambda x: x.clone()), name="first", goals=())
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "cases", two)
    assert main(["--quick", "--device", "cpu", "--json", str(tmp_path / "r.json")]) == 130
    said = capsys.readouterr()
    assert "first  B=1, n=2" in said.out
    assert "interrupted" in said.err
    assert [case["name"] for case in json.loads((tmp_path / "r.json").read_text())["cases"]] == ["first"]


def test_the_first_run_on_a_gpu_is_planned_and_refused_without_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_run.main([str(tmp_path), "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5
    for command in said[1:]:
        assert all((ROOT / word).exists() for word in command.split() if word.startswith("tests/"))
    bench_arguments = said[-1].split("tools.bench ")[1].split()
    assert main_parser().parse_args(bench_arguments).device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert first_run.main([str(tmp_path)]) == 2
    assert "expected an NVIDIA GPU" in capsys.readouterr().err


def test_a_step_that_fails_leaves_its_words_and_does_not_stop_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_run._step("bad", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], 60, tmp_path) == 1
    assert first_run._step("missing", ["/no/such/program"], 60, tmp_path) == 1
    assert first_run._step("good", [sys.executable, "-c", "print('fine')"], 60, tmp_path) == 0
    assert (tmp_path / "bad.txt").read_text() == "why\n"
    assert "fine" in capsys.readouterr().out


def test_every_way_to_cut_is_tried_and_the_kernel_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    # asked for here, not at the top: a test that opens another course has this one's packages imported anew
    latent = pytest.importorskip("solutions.lib.kernels.latent", reason="no Triton on this platform")
    first_run = importlib.import_module("tools.bench.first_run")
    kept, seen = latent.sizes_for, []

    def decode_as_cut(asks: Tensor, rows: Tensor, d_c: int, *, scale: float) -> Tensor:
        seen.append((*latent.sizes_for(0, 0, 0).values(), latent.resident(0)))
        if latent.resident(0) == 3:
            raise RuntimeError("out of resource: shared memory")
        return torch.softmax(asks.float() @ rows.float().mT * scale, -1) @ rows.float()[..., :d_c]

    monkeypatch.setattr(sys.modules["solutions.lib.kernels"], "latent_decode", decode_as_cut)
    lines = first_run.tiles(CPU, n=40, cases=((16, 2),))
    assert len(lines) == len({*seen}) == 5
    assert sum("RuntimeError" in line for line in lines) == 1
    assert latent.sizes_for is kept


def test_the_parts_of_a_decode_step_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert parts.main(["--quick"]) == 0
    said = capsys.readouterr().out
    assert said.count("rows from memory") == said.count("rows near by") == 4
    assert said.count("share of the floor") == 2


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    assert ratio([2.0, 30.0, 2.2], [1.0, 10.0, 1.0]) == 2.2  # one slow round slows both


def test_float16_settings_are_kept() -> None:
    given = bench.preset(CPU, quick=True, dtype=torch.float16, seconds=None)
    assert (given.dtype, given.seconds) == (torch.float16, 0.0)
    assert isinstance(given, Settings)
