"""Which way a decode step is computed: decided by the times of a class's first steps, here of a clock that only the ways advance.

Tolerances: 1e-6 for sums of some hundred float32 products in another order, 1e-12 in float64.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from solutions import Attention, KVCache
from solutions.lib import decode_choice
from solutions.lib.decode_choice import ROUNDS, SMALL, STEPS, WAYS, DecodeChoice, fused, products, shape_class

ROOT = Path(__file__).parents[2]
SINGLE = {"rtol": 0.0, "atol": 1e-6}
Cost = Callable[[int, int], float]  # seconds of a way's step, by how many it has done before and by the number of keys


def step(n: int = 1024, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """The queries, keys and values of a decode step with two groups of three heads, 1024 bytes of cache to a token."""
    generator = torch.Generator().manual_seed(n)
    q, k, v = (torch.randn(1, 2, rows, 64, generator=generator, dtype=torch.float64).to(dtype) for rows in (3, n, n))
    return q, k, v


class Machine:
    """A clock, and ways that advance it by what they cost here, and of which the calls are written down."""

    def __init__(self, costs: dict[str, Cost], monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls, self.readings = 0.0, list[str](), 0
        self.choice = DecodeChoice(clock=self._clock)
        for name, way in dict(WAYS).items():
            counted = self._counted(name, way, costs[name])
            monkeypatch.setitem(WAYS, name, counted)
            if name == "fused":
                monkeypatch.setattr(decode_choice, "fused", counted)

    def _clock(self) -> float:
        self.readings += 1
        return self.now

    def _counted(self, name: str, way: decode_choice.Way, cost: Cost) -> decode_choice.Way:
        def compute(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
            self.now += cost(self.calls.count(name), K.shape[-2])
            self.calls.append(name)
            return way(Q, K, V)

        return compute

    def steps(self, count: int, n: int = 1024) -> list[str]:
        """Compute so many steps; the ways that they took."""
        before = len(self.calls)
        for _ in range(count):
            self.choice.compute(*step(n))
        return self.calls[before:]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Machine]]:
    """Make a machine from what each way costs, seconds or a function."""

    def make(**costs: Cost | float) -> Machine:
        functions = {name: cost if callable(cost) else lambda before, n, cost=cost: cost for name, cost in costs.items()}
        return Machine(functions, monkeypatch)  # type: ignore[arg-type]  # lambdas with a default

    yield make
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_each_way_is_the_softmax_of_the_scaled_scores_times_the_values(way: str, dtype: torch.dtype, atol: float) -> None:
    q, k, v = step(300, dtype)
    scores = torch.einsum("bgsd,bgnd->bgsn", q.double(), k.double()) / 8
    expected = torch.einsum("bgsn,bgnd->bgsd", torch.softmax(scores, -1), v.double())
    assert_close(WAYS[way](q, k, v).double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("winner", WAYS)
def test_the_ways_take_turns_until_the_faster_one_does_all_later_steps(winner: str, machine: Callable[..., Machine]) -> None:
    here = machine(**{name: 1.0 if name == winner else 1.01 for name in WAYS})
    assert here.steps(STEPS) == [*WAYS] * (ROUNDS + 1)
    readings = here.readings
    assert here.steps(5) == [winner] * 5
    assert here.readings == readings == 2 * STEPS


def test_the_fused_kernel_wins_a_tie(machine: Callable[..., Machine]) -> None:
    here = machine(fused=1.0, products=1.0)
    here.steps(STEPS)
    assert here.steps(1) == ["fused"]


def test_the_step_that_warms_up_does_not_count(machine: Callable[..., Machine]) -> None:
    here = machine(fused=lambda before, n: 2.0 if before else 0.1, products=1.0)
    here.steps(STEPS)
    assert here.steps(1) == ["products"]


def test_steps_that_other_work_slowed_down_do_not_count(machine: Callable[..., Machine]) -> None:
    here = machine(fused=2.0, products=lambda before, n: 1.0 if before == ROUNDS else 50.0)
    here.steps(STEPS)
    assert here.steps(1) == ["products"]


def test_steps_of_other_lengths_of_the_class_count_by_their_bytes(machine: Callable[..., Machine]) -> None:
    here = machine(fused=lambda before, n: 1.0 * n, products=lambda before, n: 1.1 * n)
    for _ in range(ROUNDS + 1):
        here.steps(1, n=1024)  # the fused kernel's turn
        here.steps(1, n=600)
    assert here.steps(1) == ["fused"]


def test_each_class_of_shapes_is_decided_by_itself(machine: Callable[..., Machine]) -> None:
    here = machine(fused=lambda before, n: 1.0 if n <= 512 else 3.0, products=2.0)
    here.steps(STEPS, n=512)
    here.steps(STEPS, n=513)
    assert [here.steps(1, n=n) for n in (257, 512, 513, 1024)] == [["fused"], ["fused"], ["products"], ["products"]]


def test_a_class_is_device_dtype_threads_and_sizes_up_to_a_power_of_two() -> None:
    q, k, v = step(600)
    of = shape_class(q, k, v)
    assert shape_class(*step(1024)) == of
    assert shape_class(*step(513)) == of
    double, meta = (shape_class(*(x.to(to) for x in (q, k, v))) for to in (torch.float64, "meta"))
    wider = shape_class(q, k, torch.cat([v, v], -1))
    batch = shape_class(*(x.expand(2, -1, -1, -1) for x in (q, k, v)))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        more_threads = shape_class(q, k, v)
    finally:
        torch.set_num_threads(threads)
    others = (double, meta, wider, batch, more_threads, shape_class(*step(512)), shape_class(q[:, :, :1], k, v))
    assert len({of, *others}) == 1 + len(others)


@pytest.mark.parametrize("asked", WAYS)
def test_a_way_that_is_asked_for_does_all_steps_and_nothing_is_measured(asked: str, machine: Callable[..., Machine]) -> None:
    here = machine(fused=1.0, products=1.0)
    here.choice = DecodeChoice(asked, here._clock)
    assert here.steps(2 * STEPS) == [asked] * 2 * STEPS
    assert here.steps(3, n=16) == [asked] * 3
    assert here.readings == 0


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ATTN_DECODE: expected fused, products or measure, got 'Fused'\."):
        DecodeChoice("Fused")


@pytest.mark.parametrize("asked", [*WAYS, "measure", None])
def test_the_environment_says_what_is_asked_for(asked: str | None) -> None:
    code = f"from solutions.lib.decode_choice import choice\nassert choice._asked == {asked or 'measure'!r}"
    env = {name: value for name, value in os.environ.items() if name != "ATTN_DECODE"}
    env |= {"ATTN_DECODE": asked} if asked else {}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=True, timeout=120)


def test_little_work_half_precision_and_determinism_are_left_to_the_fused_kernel(machine: Callable[..., Machine]) -> None:
    here = machine(fused=1.0, products=0.1)
    assert here.steps(1, n=SMALL // 1024 - 1) == ["fused"]
    assert here.steps(2, n=SMALL // 1024) == [*WAYS]
    readings = here.readings
    for dtype in (torch.bfloat16, torch.float16):
        here.choice.compute(*step(dtype=dtype))
    torch.use_deterministic_algorithms(True)
    here.choice.compute(*step())
    assert here.calls[3:] == ["fused"] * 3
    assert here.readings == readings


def test_under_a_capture_nothing_is_measured_and_what_is_decided_holds(
    machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine(fused=2.0, products=1.0)
    here.steps(STEPS)
    monkeypatch.setattr(decode_choice, "_is_captured", lambda device: True)
    readings = here.readings
    assert here.steps(2) == ["products"] * 2
    assert here.steps(2 * STEPS, n=4096) == ["fused"] * 2 * STEPS
    assert here.readings == readings
    monkeypatch.setattr(decode_choice, "_is_captured", lambda device: False)
    assert here.steps(STEPS, n=4096) == [*WAYS] * (ROUNDS + 1), "the capture has used up no turn"


@pytest.mark.parametrize(("where", "capturing", "captured"), [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)])
def test_pytorch_says_whether_a_graph_is_captured(
    where: str, capturing: bool, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    assert decode_choice._is_captured(torch.device(where)) is captured


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_a_decode_step_in_a_real_capture_is_right() -> None:
    q, k, v = (x.cuda() for x in step())
    graph, choice = torch.cuda.CUDAGraph(), DecodeChoice()
    fused(q, k, v)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found = choice.compute(q, k, v)
    graph.replay()
    assert_close(found, fused(q, k, v), **SINGLE)
    assert not choice._trials[shape_class(q, k, v)].fastest


def test_calls_that_a_mode_watches_or_only_imitates_are_not_timed(machine: Callable[..., Machine]) -> None:
    here = machine(fused=1.0, products=0.1)
    with FlopCounterMode(display=False):
        here.steps(1)
    with FakeTensorMode():
        q, k, v = torch.empty(1, 2, 3, 64), torch.empty(1, 2, 1024, 64), torch.empty(1, 2, 1024, 64)
        here.choice.compute(q, k, v)
    here.choice.compute(*(x.to("meta") for x in step()))
    here.choice.compute(q, k, v)  # a fake tensor, of a subclass
    assert here.calls == ["fused"] * 4
    assert here.readings == 0


COMPILED = """
import torch
from solutions.lib import attention, decode_choice

q, k, v = torch.randn(1, 2, 3, 64), torch.randn(1, 2, 1024, 64), torch.randn(1, 2, 1024, 64)
for asked in ("measure", "fused", "products"):
    attention.choice = decode_choice.DecodeChoice(asked, clock=None)  # a clock that fails when it is read
    torch._dynamo.reset()
    found = torch.compile(attention.decode, backend="eager", fullgraph=True)(q, k, v)
    expected = decode_choice.WAYS.get(asked, decode_choice.fused)(q, k, v)
    assert torch.equal(found, expected)
    assert not attention.choice._trials
"""


def test_a_compiled_step_is_one_graph_that_measures_nothing() -> None:
    """In a process of its own, since the checks of shapes in these tests can't be compiled."""
    subprocess.run([sys.executable, "-c", COMPILED], cwd=ROOT, check=True, timeout=120)


def test_a_device_that_answers_before_it_has_computed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[str]()
    monkeypatch.setattr(
        torch, "get_device_module", lambda device: SimpleNamespace(synchronize=lambda: waited.append(device.type))
    )
    for where in ("cpu", "mps", "cuda"):
        decode_choice._wait_for(torch.device(where))
    assert waited == ["mps", "cuda"]


def test_many_threads_share_one_choice_and_all_get_right_results(machine: Callable[..., Machine]) -> None:
    here = machine(fused=2.0, products=1.0)
    q, k, v = step()
    expected = fused(q, k, v)
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: here.choice.compute(q, k, v), range(5 * STEPS))]
    for one in found:
        assert_close(one, expected, **SINGLE)
    (trial,) = here.choice._trials.values()
    assert trial.fastest in WAYS
    decided = trial.fastest
    trial.record("fused" if decided == "products" else "products", 0.0)  # a thread that was late
    assert trial.fastest == decided


@pytest.mark.parametrize("groups", [6, 2, 1])
def test_the_module_decodes_the_same_by_either_way(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    attention, x = Attention(24, 6, groups).requires_grad_(False), torch.randn(2, 9, 24)
    expected = attention(x)
    for way in WAYS:
        monkeypatch.setattr("solutions.lib.attention.choice", DecodeChoice(way))
        cache = KVCache(9)
        steps = [attention(x[:, i : i + 1], cache=cache) for i in range(9)]
        assert_close(torch.cat(steps, dim=1), expected, **SINGLE)


def test_gradients_pass_through_either_way() -> None:
    for way in (fused, products):
        q, k, v = (x.requires_grad_() for x in step(5, torch.float64))
        assert torch.autograd.gradcheck(way, (q, k, v), fast_mode=True)
