"""The Triton kernels of decode steps, against float64 PyTorch.

They run on the GPU where there is one. Elsewhere Triton's interpreter runs the same tests on the CPU: it must be asked for
before Triton is imported, so one test here starts another pytest with `TRITON_INTERPRET=1`.

Tolerances, as the norm of the error over the norm of the result: 1e-6 in float32 (rounding of sums of some hundred numbers);
1e-3 in float16 and 8e-3 in bfloat16, twice the unit roundoff 2^-11 and 2^-8, since weights and output are rounded once each.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solutions import Attention, KVCache, LatentAttention, kernels

pytest.importorskip("triton", reason="no Triton on this platform")

ROOT = Path(__file__).parent.parent
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED
WHERE = "cuda" if CUDA else "cpu"
runs = pytest.mark.skipif(not (CUDA or INTERPRETED), reason="no CUDA GPU here; the interpreter's run is a test of its own below")
gpu = pytest.mark.skipif(not CUDA, reason="no CUDA GPU here")
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
    from solutions.kernels.splits import MOST, cut

    parts, keys = cut(n, programs, slots=264, block=64, wanted=wanted)
    assert keys % 64 == 0
    assert (parts - 1) * keys < n <= parts * keys
    assert 1 <= parts <= min(MOST, wanted or MOST)


@gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_modules_decode_through_the_kernels(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for name in ("grouped_decode", "latent_decode"):
        real = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, _real=real, _name=name, **k: (called.append(_name), _real(*a, **k))[1])
    x = _normal(2, 9, 256, seed=9, dtype=dtype)
    for name, module, cache in (
        ("grouped_decode", Attention(256, 8, 2), KVCache(9)),
        ("latent_decode", LatentAttention(256, H=4, d=64, d_v=64, d_c=128, d_rope=32), None),
    ):
        module = module.to("cuda", dtype).eval()
        memory = module.new_cache(2, 9) if cache is None else cache
        with torch.no_grad():
            got = torch.cat([module(x[:, i : i + 1], cache=memory) for i in range(9)], dim=1)
            expected = module.double()(x.double())
        assert _relative(got, expected) < 5e-2
        assert called.count(name) == 9


def test_only_half_precision_on_cuda_without_gradients_is_served() -> None:
    x = torch.zeros(1, 1, 4, 16, dtype=torch.float16)
    assert not kernels.serve(x, x, x)  # on the CPU
    if CUDA:
        x = x.cuda()
        assert kernels.serve(x, x, x)
        assert not kernels.serve(x.float(), x.float(), x.float())
        assert not kernels.serve(x.clone().requires_grad_(), x, x)
        assert not kernels.serve(x, x.mT.contiguous().mT, x)  # rows that are not contiguous
        wide = torch.zeros(1, 1, 4, 512, dtype=torch.float16, device="cuda")
        assert not kernels.serve(wide, wide, wide)


def _elsewhere(*command: str, **variables: str) -> str:
    """The output of a Python process in which Triton is imported under these variables."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_DEFAULT_FP_FUSION": "1", **variables}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter's run")
def test_the_kernels_are_right_in_tritons_interpreter() -> None:
    pytest_here = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib", __file__)
    out = _elsewhere(*pytest_here, "-k", "decode_is or thousands or refused", TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    assert f"{2 * (len(GROUPED) + len(LATENT)) + 3} passed" in out  # in float32 and float16


COMPILE = """
from jaxtyping import install_import_hook
install_import_hook("solutions", "beartype.beartype")  # as in these tests, where it must leave the kernels alone
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from solutions.kernels import grouped, latent

def build(name, kernel, sizes):
    options = {key: sizes.pop(key) for key in ("num_warps", "num_stages")}
    kinds = {"lse": "*fp32", "partial": "*fp32", "scale": "fp32"} | dict.fromkeys(("Q", "K", "V", "asks", "rows"), "*bf16")
    types = {arg: "constexpr" if arg in sizes else kinds.get(arg, "i32") for arg in kernel.arg_names}
    runtime = {"n", "keys", "parts", "scale", *sizes}  # the others are pointers and strides, all multiples of 16
    aligned = {(i,): [["tt.divisibility", 16]] for i, arg in enumerate(kernel.arg_names) if arg not in runtime}
    source = ASTSource(fn=kernel, signature=types, constexprs=sizes, attrs=aligned)
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    ptx = built.asm["ptx"]
    print(name, built.metadata.shared, ptx.count("cp.async.cg"), ptx.count("wgmma.mma_async"))

block_r, sizes = grouped.sizes_for(4, 128, 128, 2)
build("grouped", grouped._part, dict(R=4, DK=128, DV=128, BLOCK_R=block_r, **sizes))
build("latent", latent._part, dict(H=16, DC=512, DR=64, PRECISION="tf32", **latent.sizes_for(16, 512, 64)))
"""


@pytest.mark.skipif(INTERPRETED, reason="compiles, so it needs Triton as it is")
@pytest.mark.skipif(sys.platform != "linux", reason="Triton's compiler comes for Linux alone")
def test_compiled_for_a_hopper_gpu_the_kernels_load_ahead_and_fit_its_shared_memory() -> None:
    from solutions.kernels import grouped, latent

    rows = {name: [int(x) for x in numbers] for name, *numbers in map(str.split, _elsewhere("-c", COMPILE).splitlines())}
    budget = 228 * 1024  # of a multiprocessor; each program needs 1 KB beside its own
    for name, module in (("grouped", grouped), ("latent", latent)):
        shared, ahead, _ = rows[name]
        assert module.RESIDENT * (shared + 1024) <= budget
        assert ahead > 0  # asynchronous copies, 16 bytes to a thread
    assert rows["latent"][2] > 0  # Hopper's own matrix instructions
