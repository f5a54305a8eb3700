"""`python -m tools.bench.first_run FOLDER`: what to run first where there is a GPU of the H100's class, in half an hour.

The kernels' tests on the GPU, parity with other implementations, a sweep over the latent kernel's tiles, the benchmark. Each step
has a time limit, none stops the next, and each leaves a file in FOLDER.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

TESTS = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short")
BENCH = ("-m", "tools.bench", "--device", "cuda", "--no-flex", "--seconds", "1")


def steps(folder: Path) -> dict[str, tuple[list[str], int]]:
    """For each step its command and the seconds it may take."""
    return {
        "machine": (["nvidia-smi"], 60),
        "kernels": ([sys.executable, *TESTS, "tests/solutions/test_kernels.py", "-k", "not interpreter and not compiled"], 300),
        "parity": (
            [sys.executable, *TESTS, *(f"tests/solutions/test_{name}.py" for name in ("parity", "latent_attention", "tiled"))],
            300,
        ),
        "tiles": ([sys.executable, "-m", "tools.bench.first_run", "--tiles", str(folder)], 300),
        "bench": (
            [sys.executable, *BENCH, "--json", str(folder / "gpu.json"), "--plot", str(folder / "gpu.png")],
            600,
        ),
    }


def tiles(
    device: torch.device, *, n: int = 32_768, cases: Sequence[tuple[int, int]] = ((16, 1), (16, 32), (128, 32))
) -> list[str]:
    """A line for each way to cut the latent kernel's work, per (heads, sequences): its time, its rate, its error."""
    from solutions.lib.kernels import latent, latent_decode
    from tools.bench.clock import Work, interleaved, median

    kept, lines = (latent.sizes_for, latent.resident), list[str]()
    try:
        for heads, batch in cases:
            asks, rows = (torch.randn(batch, m, 576, device=device).bfloat16() for m in (heads, n))
            wide = rows[:1].double()
            exact = torch.softmax(asks[:1].double() @ wide.mT / 24, -1) @ wide[..., :512]
            for rows_in, stages, warps, resident in ((32, 3, 4, 2), (32, 3, 8, 1), (32, 2, 4, 3), (64, 2, 4, 1), (64, 2, 8, 1)):
                sizes: dict[str, int] = kept[0](heads, 512, 64) | {"BLOCK_N": rows_in, "num_stages": stages, "num_warps": warps}
                latent.sizes_for = lambda *_, sizes=sizes: sizes  # type: ignore[assignment]
                latent.resident = lambda _, resident=resident: resident  # type: ignore[misc]
                name = f"{heads} heads, batch {batch}: {rows_in} rows, {stages} stages, {warps} warps, {resident} resident"
                try:
                    got = latent_decode(asks, rows, 512, scale=1 / 24)
                    error = float((got[:1].double() - exact).norm() / exact.norm())
                    call = {name: Work(lambda i, a=asks, r=rows: latent_decode(a, r, 512, scale=1 / 24))}  # type: ignore[misc]
                    took = median(interleaved(call, device, seconds=0.5)[name])
                    lines.append(f"{name}: {took * 1e6:.1f} us, {rows.nbytes / took / 1e9:.0f} GB/s, error {error:.1e}")
                except Exception as problem:  # too large for the shared memory, say: the next one may fit
                    lines.append(f"{name}: {type(problem).__name__}")
                print(lines[-1], flush=True)
    finally:
        latent.sizes_for, latent.resident = kept
    return lines


def _step(name: str, command: list[str], limit: int, folder: Path) -> int:
    path = folder / f"{name}.txt"
    with path.open("w") as out:
        try:
            code: Any = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=limit, check=False).returncode
        except (subprocess.TimeoutExpired, OSError) as problem:
            code = type(problem).__name__
    print(f"{name}: {code}", *path.read_text().splitlines()[-6:], sep="\n  ", flush=True)
    return int(code != 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all steps; returns how many failed."""
    kind = argparse.ArgumentParser(prog="python -m tools.bench.first_run", description="Tests and speed on a GPU, at first.")
    kind.add_argument("folder", type=Path, metavar="FOLDER", help="where results go")
    kind.add_argument("--tiles", action="store_true", help="the sweep over the latent kernel's tiles alone")
    kind.add_argument("--dry-run", action="store_true", help="say what would be run")
    arguments = kind.parse_args(argv)
    planned = steps(arguments.folder)
    if arguments.dry_run:
        print("\n".join(" ".join(command) for command, _ in planned.values()))
        return 0
    if not torch.cuda.is_available():
        print("first_run: expected an NVIDIA GPU, found none.", file=sys.stderr)
        return 2
    if arguments.tiles:
        return int(not tiles(torch.device("cuda")))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    return sum(_step(name, command, limit, arguments.folder) for name, (command, limit) in planned.items())


if __name__ == "__main__":
    sys.exit(main())
