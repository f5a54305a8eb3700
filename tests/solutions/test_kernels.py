"""The Triton kernels of decode steps, against float64 PyTorch.

They run on the GPU where there is one. Elsewhere Triton's interpreter runs the same tests on the CPU: it must be asked for
before Triton is imported, so one test here starts another pytest with `TRITON_INTERPRET=1`.

Tolerances, as the norm of the error over the norm of the result: 1e-6 in float32 (rounding of sums of some hundred numbers);
1e-3 in float16 and 8e-3 in bfloat16, twice the unit roundoff 2^-11 and 2^-8, since weights and output are rounded once each.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from solutions import Attention, KVCache, LatentAttention
from solutions.lib import kernels

pytest.importorskip("triton", reason="no Triton on this platform")

ROOT = Path(__file__).parents[2]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED
MADE_FOR = CUDA and kernels._has_room(torch.device("cuda"))  # elsewhere their tiles do not fit the shared memory
WHERE = "cuda" if MADE_FOR else "cpu"
WHY = "no CUDA GPU of the H100's class here"
runs = pytest.mark.skipif(not (MADE_FOR or INTERPRETED), reason=f"{WHY}; the interpreter's run is a test of its own below")
gpu = pytest.mark.skipif(not MADE_FOR, reason=WHY)
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")  # Triton 3.9 announces another default

DTYPES = [
    pytest.param(torch.float32, 1e-6, id="float32"),
    pytest.param(torch.float16, 1e-3, id="float16"),
    pytest.param(
        torch.bfloat16,
        8e-3,
        id="bfloat16",
        marks=pytest.mark.skipif(INTERPRETED, reason="the interpreter multiplies bfloat16 numbers by their bit patterns"),
    ),
]
GROUPED = [  # batch, groups, heads to a group, keys, d_k, d_v, parts
    pytest.param(1, 1, 1, 1, 16, 16, None, id="one key"),
    pytest.param(2, 3, 1, 37, 16, 16, 1, id="multi-head, fewer keys than a tile"),
    pytest.param(2, 1, 6, 131, 16, 16, None, id="multi-query, odd n"),
    pytest.param(2, 2, 2, 128, 32, 32, 1, id="a whole number of tiles"),
    pytest.param(1, 2, 3, 300, 24, 20, 2, id="group of three, uneven widths, two parts"),
    pytest.param(1, 2, 4, 521, 64, 64, 5, id="group of four, prime n, five parts"),
    pytest.param(1, 1, 5, 700, 16, 48, 3, id="group of five, wider values"),
    pytest.param(1, 1, 7, 260, 40, 16, 2, id="group of seven, wider keys"),
    pytest.param(2, 2, 8, 129, 128, 128, None, id="group of eight, one key in the last tile"),
    pytest.param(1, 1, 70, 65, 16, 16, 2, id="two tiles of heads"),
    pytest.param(1, 1, 2, 4097, 16, 16, 33, id="many parts"),
]
LATENT = [  # batch, heads, rows, d_c, d_rope, parts
    pytest.param(1, 1, 1, 16, 16, None, id="one row"),
    pytest.param(2, 3, 100, 12, 4, 2, id="narrow and uneven, two parts"),
    pytest.param(1, 16, 130, 512, 64, 2, id="512 + 64, 16 heads"),
    pytest.param(1, 20, 64, 24, 6, 1, id="20 heads, one whole tile"),
    pytest.param(2, 66, 129, 32, 8, None, id="two tiles of heads"),
    pytest.param(1, 4, 2053, 16, 16, 31, id="many parts"),
]


def _normal(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(WHERE)


def _relative(got: Tensor, expected: Tensor) -> float:
    assert got.shape == expected.shape
    return float((got.double() - expected).norm() / expected.norm())


@runs
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("B", "G", "R", "n", "d_k", "d_v", "parts"), GROUPED)
def test_grouped_decode_is_attention_over_every_key_of_a_view_of_a_cache(
    B: int, G: int, R: int, n: int, d_k: int, d_v: int, parts: int | None, dtype: torch.dtype, tolerance: float
) -> None:
    q = _normal(B, G, R, d_k, seed=1, dtype=dtype)
    k, v = _normal(B, G, n + 5, d_k, seed=2, dtype=dtype), _normal(B, G, n + 5, d_v, seed=3, dtype=dtype)
    k[:, :, n:] = v[:, :, n:] = torch.nan  # rows that no token has filled yet
    k, v = k[:, :, :n], v[:, :, :n]
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    got = kernels.grouped_decode(q, k, v, splits=parts)
    assert got.dtype == dtype
    assert _relative(got, expected) < tolerance


@runs
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("B", "H", "n", "d_c", "d_rope", "parts"), LATENT)
def test_latent_decode_is_attention_over_whole_rows_with_their_latents_as_values(
    B: int, H: int, n: int, d_c: int, d_rope: int, parts: int | None, dtype: torch.dtype, tolerance: float
) -> None:
    if dtype == torch.float32 and WHERE == "cuda" and d_c == 512:
        pytest.skip("two stages of 512 float32 numbers do not fit shared memory; `serve` never sends them")
    asks = _normal(B, H, d_c + d_rope, seed=4, dtype=dtype)
    rows = _normal(B, n + 3, d_c + d_rope, seed=5, dtype=dtype)
    rows[:, n:] = torch.nan
    rows = rows[:, :n]
    scale = (d_c + d_rope) ** -0.5
    A = torch.softmax(asks.double() @ rows.double().mT * scale, dim=-1)
    got = kernels.latent_decode(asks, rows, d_c, scale=scale, splits=parts)
    assert got.dtype == dtype
    assert _relative(got, A @ rows.double()[..., :d_c]) < tolerance


@runs
def test_scores_of_thousands_in_one_part_do_not_drown_or_overflow_the_others() -> None:
    q, k = _normal(1, 1, 2, 16, seed=6, dtype=torch.float32), _normal(1, 1, 300, 16, seed=7, dtype=torch.float32)
    v = _normal(1, 1, 300, 16, seed=8, dtype=torch.float32)
    k[..., 100:110, :] *= 3000  # all of the softmax is in the first of three parts
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert _relative(kernels.grouped_decode(q, k, v, splits=3), expected) < 1e-4  # float32 scores of size 1e4 have errors of 1e-3


LENGTHS = [[1, 128, 129], [300, 37, 0]]
PAGES = [None, 48, 64]


@runs
@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("page", PAGES)
def test_each_sequence_has_its_own_number_of_keys_at_once_or_in_pages(
    lengths: list[int], page: int | None, parts: int | None
) -> None:
    B, G, R, longest = len(lengths), 2, 3, 300
    q = _normal(B, G, R, 16, seed=11, dtype=torch.float32)
    k, v = (_normal(B, G, longest, d, seed=d, dtype=torch.float32) for d in (16, 24))
    asks, rows = _normal(B, 5, 20, seed=13, dtype=torch.float32), _normal(B, longest, 20, seed=14, dtype=torch.float32)
    for b, n in enumerate(lengths):
        k[b, :, n:] = v[b, :, n:] = rows[b, n:] = torch.nan  # no token has filled these
    held = torch.tensor(lengths, device=WHERE)
    where: dict[str, Tensor] = {"lengths": held}
    caches = [k, v, rows]
    if page is not None:
        (*caches,), where["table"] = _paged(caches, page)
    expected = torch.zeros(B, G, R, 24, dtype=torch.float64), torch.zeros(B, 5, 16, dtype=torch.float64)
    for b, n in enumerate(lengths):
        if n:
            one = (x[b].double() for x in (q, k[:, :, :n], v[:, :, :n]))
            expected[0][b] = F.scaled_dot_product_attention(*one)
            R_b = rows[b, :n].double()
            expected[1][b] = torch.softmax(asks[b].double() @ R_b.mT * 0.2, dim=-1) @ R_b[:, :16]
    got = kernels.grouped_decode(q, caches[0], caches[1], **where, splits=parts)
    assert _relative(got.cpu(), expected[0]) < 1e-6
    got = kernels.latent_decode(asks, caches[2], 16, scale=0.2, **where, splits=parts)
    assert _relative(got.cpu(), expected[1]) < 1e-6


def _paged(caches: list[Tensor], page: int) -> tuple[list[Tensor], Tensor]:
    """The caches, (batch, ..., n, d), cut into pages in a shuffled order, and the table that finds them."""
    B, n = caches[0].shape[0], caches[0].shape[-2]
    each = -(-n // page)
    order = torch.randperm(B * each + 3, generator=torch.Generator().manual_seed(0))[: B * each].view(B, each)
    made = []
    for x in caches:
        pool = x.new_full((B * each + 3, *x.shape[1:-2], page, x.shape[-1]), torch.nan)
        filled = F.pad(x, (0, 0, 0, each * page - n), value=torch.nan)
        for b in range(B):
            for i in range(each):
                pool[order[b, i]] = filled[b, ..., i * page : (i + 1) * page, :]
        made.append(pool)
    return made, order.to(device=WHERE, dtype=torch.int32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lengths": torch.tensor([1])}, "lengths: expected 1 axes, the first of 2"),
        ({"lengths": torch.tensor([1.0, 2.0])}, "lengths: expected .* of integers"),
        ({"table": torch.zeros(2, 3, dtype=torch.int32)}, "table: expected lengths too"),
        (
            {"lengths": torch.tensor([1, 2]), "table": torch.zeros(1, 3, dtype=torch.int32)},
            "table: expected 2 axes, the first of 2",
        ),
    ],
)
def test_lengths_and_tables_of_another_batch_are_refused(given: dict[str, Tensor], message: str) -> None:
    q, k = torch.zeros(2, 1, 1, 16), torch.zeros(2, 1, 9, 16)
    wrong = (ValueError, jaxtyping.TypeCheckError)  # the latter where annotations are checked
    with pytest.raises(wrong, match=f"{message}|Type-check"):
        kernels.grouped_decode(q, k, k, **given)
    with pytest.raises(wrong, match=f"{message}|Type-check"):
        kernels.latent_decode(q[:, 0], k[:, 0], 8, scale=1.0, **given)


def test_a_cache_of_another_batch_is_refused() -> None:
    q, k = torch.zeros(2, 1, 1, 16), torch.zeros(3, 1, 9, 16)
    with pytest.raises(ValueError, match="a cache of 2 sequences, as the queries are, got 3"):
        kernels.grouped_decode(q, k, k)
    with pytest.raises(ValueError, match="a cache of 2 sequences"):
        kernels.latent_decode(q[:, 0], k[:, 0], 8, scale=1.0)


@runs
@pytest.mark.parametrize("splits", [0, 129])
def test_a_number_of_parts_that_cannot_be_is_refused(splits: int) -> None:
    q, k = _normal(1, 1, 1, 16, seed=1, dtype=torch.float32), _normal(1, 1, 9, 16, seed=2, dtype=torch.float32)
    with pytest.raises(ValueError, match=f"splits: expected 1 to 128, got {splits}"):
        kernels.grouped_decode(q, k, k, splits=splits)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4099, 32_768, 1_000_003])
@pytest.mark.parametrize("programs", [1, 8, 64, 1000])
@pytest.mark.parametrize("wanted", [None, 1, 7, 128])
def test_parts_cover_all_keys_and_none_is_empty(n: int, programs: int, wanted: int | None) -> None:
    from solutions.lib.kernels.splits import MOST, cut

    parts, keys = cut(n, programs, slots=264, block=64, wanted=wanted)
    assert keys % 64 == 0
    assert (parts - 1) * keys < n <= parts * keys
    assert 1 <= parts <= min(MOST, wanted or MOST)


@pytest.mark.parametrize("programs", [1, 8, 64, 72, 1000])
def test_parts_are_judged_as_they_will_run_after_rounding(programs: int) -> None:
    from solutions.lib.kernels.splits import EVEN, MOST, cut

    def time(parts: int, keys: int) -> int:  # rounds of all slots, each as long as a part
        return -(-programs * parts // 264) * keys

    for n in (1, 64, 65, 1000, 4099, 8192, 32_768, 1_000_003):
        every = [cut(n, programs, slots=264, block=64, wanted=wanted) for wanted in range(1, MOST + 1)]
        least = min(time(*one) for one in every)
        chosen = cut(n, programs, slots=264, block=64)
        assert EVEN * time(*chosen) <= least
        assert all(EVEN * time(*one) > least for one in every if one[0] < chosen[0])  # the fewest parts that do


def test_a_growing_cache_is_cut_anew_only_when_it_has_a_tile_more() -> None:
    from solutions.lib.kernels.splits import best_tiles, cut

    best_tiles.cache_clear()
    for n in range(4096, 4096 + 640):
        cut(n, 8, slots=264, block=64)
    assert best_tiles.cache_info().misses == 11


@runs
@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=gpu)])
@pytest.mark.parametrize("lead", [(), (2,), (2, 1)])
def test_the_modules_decode_through_the_kernels_what_these_are_made_for(
    lead: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    for name in ("grouped_decode", "latent_decode"):
        real = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, _real=real, _name=name, **k: (called.append(_name), _real(*a, **k))[1])
    if INTERPRETED:
        monkeypatch.setattr(kernels, "_is_made_for", lambda asks: True)
    x = _normal(*lead, 5, 64, seed=9, dtype=dtype)
    grouped, latent = Attention(64, 8, 2), LatentAttention(64, H=4, d=16, d_v=16, d_c=32, d_rope=8)
    for name, module in (("grouped_decode", grouped), ("latent_decode", latent)):
        if name == "latent_decode" and len(lead) != 1:
            continue  # a latent cache has one batch axis
        module = module.to(WHERE, dtype).eval()
        cache: Any = module.new_cache(2, 5) if isinstance(module, LatentAttention) else KVCache(5)
        with torch.no_grad():
            got = torch.cat([module(x[..., i : i + 1, :], cache=cache) for i in range(5)], dim=-2)
            expected = module.double()(x.double())
        assert _relative(got, expected) < 5e-2
        assert called.count(name) == (5 if len(lead) == 1 else 0)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A maker of tensors on CUDA that have no values, where there need not be a GPU."""
    monkeypatch.setattr(kernels, "_has_room", lambda where: True)

    def make(*shape: int, dtype: torch.dtype = torch.float16, device: str = "cuda", strides: Any = None) -> Tensor:
        # PyTorch without CUDA can't take views of such tensors
        if strides is None:
            return torch.empty(shape, dtype=dtype, device=device)
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    with FakeTensorMode():
        yield make


def test_served_are_half_precision_and_caches_laid_out_by_rows(fake: Any) -> None:
    q, k, v = fake(2, 3, 4, 16), fake(2, 3, 9, 16), fake(2, 3, 9, 24)
    asks = fake(2, 16, 576)
    assert kernels.serve(q, k, v)
    assert kernels.serve(asks, fake(2, 9, 512, strides=(9 * 576, 576, 1)))  # a part of whole rows
    assert kernels.serve(q, fake(2, 3, 9, 16, strides=(3 * 20 * 16, 20 * 16, 16, 1)), v)  # a view of a cache with room left
    assert kernels.serve(*(fake(*x.shape, dtype=torch.bfloat16) for x in (q, k, v)))


WRONG: dict[str, Callable[[Any], tuple[Tensor, ...]]] = {
    "on the CPU": lambda t: (t(2, 3, 4, 16, device="cpu"), t(2, 3, 9, 16, device="cpu"), t(2, 3, 9, 16, device="cpu")),
    "in float32": lambda t: tuple(t(2, 3, n, 16, dtype=torch.float32) for n in (4, 9, 9)),
    "of two dtypes": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 16), t(2, 3, 9, 16, dtype=torch.bfloat16)),
    "with gradients": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 16).requires_grad_(), t(2, 3, 9, 16)),
    "without a batch": lambda t: (t(3, 4, 16), t(3, 9, 16), t(3, 9, 16)),
    "with two batch axes": lambda t: (t(1, 2, 3, 4, 16), t(1, 2, 3, 9, 16), t(1, 2, 3, 9, 16)),
    "of different ranks": lambda t: (t(2, 3, 4, 16), t(2, 9, 16), t(2, 9, 16)),
    "keys of another batch": lambda t: (t(2, 3, 4, 16), t(1, 3, 9, 16), t(1, 3, 9, 16)),
    "keys on the CPU": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 16, device="cpu"), t(2, 3, 9, 16, device="cpu")),
    "keys on a second GPU": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 16, device="cuda:1"), t(2, 3, 9, 16)),
    "keys of other groups": lambda t: (t(2, 3, 4, 16), t(2, 1, 9, 16), t(2, 1, 9, 16)),
    "keys of another width": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 8), t(2, 3, 9, 16)),
    "fewer values than keys": lambda t: (t(2, 3, 4, 16), t(2, 3, 9, 16), t(2, 3, 8, 16)),
    "no keys": lambda t: (t(2, 3, 4, 16), t(2, 3, 0, 16), t(2, 3, 0, 16)),
    "no sequences": lambda t: (t(0, 3, 4, 16), t(0, 3, 9, 16), t(0, 3, 9, 16)),
    "too wide": lambda t: (t(2, 3, 4, 512), t(2, 3, 9, 512), t(2, 3, 9, 512)),
    "columns for rows": lambda t: (t(2, 3, 4, 16), t(2, 3, 16, 9).mT, t(2, 3, 9, 16)),
    "queries in columns": lambda t: (t(2, 3, 16, 4).mT, t(2, 3, 9, 16), t(2, 3, 9, 16)),
    "a long way between rows": lambda t: (t(1, 1, 4, 16), t(1, 1, 2**17, 16, strides=(1, 1, 2**14, 1)), t(1, 1, 2**17, 16)),
    "latents without a batch": lambda t: (t(16, 576), t(9, 512)),
    "latents of another batch": lambda t: (t(2, 16, 576), t(1, 9, 512)),
    "latents too wide": lambda t: (t(2, 16, 1088), t(2, 9, 1024)),
    "rotated keys too wide": lambda t: (t(2, 16, 640), t(2, 9, 512)),
    "asks narrower than latents": lambda t: (t(2, 16, 500), t(2, 9, 512)),
}


@pytest.mark.parametrize("name", WRONG)
def test_not_served_is_anything(name: str, fake: Any) -> None:
    assert not kernels.serve(*WRONG[name](fake))


@pytest.mark.parametrize(
    ("shared", "triton", "served"), [(227 * 1024, True, True), (99 * 1024, True, False), (227 * 1024, False, False)]
)
def test_only_a_gpu_with_shared_memory_enough_and_triton_is_asked(
    shared: int, triton: bool, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda where: SimpleNamespace(shared_memory_per_block_optin=shared))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if triton else None)
    assert kernels._has_room.__wrapped__(torch.device("cuda")) is served


def _elsewhere(*command: str, **variables: str) -> str:
    """The output of a Python process in which Triton is imported under these variables."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_DEFAULT_FP_FUSION": "1", **variables}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter's run")
def test_the_kernels_are_right_in_tritons_interpreter() -> None:
    pytest_here = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib", __file__)
    out = _elsewhere(
        *pytest_here,
        "-k",
        "decode_is or thousands or parts_that_cannot or own_number or modules",
        TRITON_INTERPRET="1",
        CUDA_VISIBLE_DEVICES="",
    )
    assert f"{2 * (len(GROUPED) + len(LATENT)) + 3 + 2 * len(LENGTHS) * len(PAGES) + 3} passed" in out  # float32, float16


COMPILE = """
from jaxtyping import install_import_hook
install_import_hook("solutions", "beartype.beartype")  # as in these tests, where it must leave the kernels alone
import json, os, re, subprocess, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from solutions.lib.kernels import grouped, latent
from solutions.lib.kernels.splits import fitted

def build(name, kernel, resident, sizes, paged):
    options = {key: sizes.pop(key) for key in ("num_warps", "num_stages")}
    kinds = {"lse": "*fp32", "partial": "*fp32", "scale": "fp32", "lengths": "*i32", "table": "*i32"}
    kinds |= dict.fromkeys(("Q", "K", "V", "asks", "rows"), "*bf16")
    if not paged:
        sizes |= {"lengths": None, "table": None}
    types = {arg: "constexpr" if arg in sizes else kinds.get(arg, "i32") for arg in kernel.arg_names}
    runtime = {"n", "keys", "parts", "pages", "scale", *sizes}  # the others are pointers and strides, all multiples of 16
    aligned = {(i,): [["tt.divisibility", 16]] for i, arg in enumerate(kernel.arg_names) if arg not in runtime}
    source = ASTSource(fn=kernel, signature=types, constexprs=sizes, attrs=aligned)
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    ptx = built.asm["ptx"]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [triton.knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", file.name, "-o", "/dev/null"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    print(json.dumps({
        "name": name, "resident": resident, "warps": options["num_warps"], "shared": built.metadata.shared,
        "spilled": int(re.search(r"(\\d+) bytes spill stores", told)[1]), "registers": int(re.search(r"Used (\\d+)", told)[1]),
        "copies": ptx.count("cp.async.cg"), "waits": [int(x) for x in re.findall(r"cp\\.async\\.wait_group\\s+(\\d+)", ptx)],
    }), flush=True)

for paged in (False, True):
    page = 64 * paged
    block_r, sizes = grouped.sizes_for(4, 128, 128, 2)
    sizes = fitted(sizes, page) if paged else sizes
    built = dict(R=4, DK=128, DV=128, PAGE=page, BLOCK_R=block_r, **sizes)
    build(f"grouped{page}", grouped._part, grouped.RESIDENT, built, paged)
    for H in (16,) if paged else (16, 32, 128):
        sizes = latent.sizes_for(H, 512, 64)
        sizes = fitted(sizes, page) if paged else sizes
        built = dict(H=H, DC=512, DR=64, PAGE=page, PRECISION="tf32", **sizes)
        build(f"latent{page}, {H} heads", latent._part, latent.resident(sizes["BLOCK_H"]), built, paged)
"""


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="compiles, so it needs Triton as it is")
@pytest.mark.skipif(sys.platform != "linux", reason="Triton's compiler comes for Linux alone")
def test_compiled_for_a_hopper_gpu_the_kernels_load_ahead_and_spill_nothing() -> None:
    rows = [json.loads(line) for line in _elsewhere("-c", COMPILE).splitlines()]
    assert [row["name"] for row in rows] == [
        "grouped0", "latent0, 16 heads", "latent0, 32 heads", "latent0, 128 heads", "grouped64", "latent64, 16 heads",
    ]  # fmt: skip
    for row in rows:
        # what a multiprocessor has for its programs: 228 KB of shared memory, of which each needs 1 KB more, and 65,536
        # registers, given out by 8 to a thread
        assert row["resident"] * (row["shared"] + 1024) <= 228 * 1024, row
        assert row["resident"] * row["warps"] * 32 * -(-row["registers"] // 8) * 8 <= 65_536, row
        assert row["copies"] > 0, row  # asynchronous, 16 bytes to a thread
        assert max(row["waits"]) >= 2, row  # in the loop, one waits for a tile while two more are on their way
        assert row["spilled"] == 0, row
