"""Choose how a decode step is computed here: by PyTorch's fused kernel or by two matrix products.

Neither is the faster everywhere. With one thread and 16 heads of keys, the products take 0.65 of the fused kernel's time on one
processor and 1.5 times its time on another (docs/SPEED.md). So in the first steps of each class of shapes both take turns, and
later steps of the class are done by the one that was faster. These steps are measured as they come, among all else that the
program does: keys that the last call has left in a cache of the processor would favour the fused kernel.

The environment variable `ATTN_DECODE` overrules this: if it is `fused` or `products` when this module is imported, every step is
done so and nothing is measured. The two round differently, so with `measure`, the default, the last bits of a result may depend
on the machine.
"""

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Hashable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

Way = Callable[[Tensor, Tensor, Tensor], Tensor]

VARIABLE = "ATTN_DECODE"
SMALL = 2**18  # bytes of keys and values below which the fused kernel, one call, is not worth comparing
ROUNDS = 8  # steps of each way that are timed, of which the fastest counts
STEPS = (ROUNDS + 1) * 2  # of a class until it is decided: each way has a step to warm up


def fused(
    Q: Float[Tensor, "... group size d_k"], K: Float[Tensor, "... group n d_k"], V: Float[Tensor, "... group n d_v"]
) -> Float[Tensor, "... group size d_v"]:
    """Let each query attend to all keys of its group, by PyTorch's fused kernel.

    >>> fused(torch.zeros(1, 1, 2), torch.ones(1, 2, 2), torch.tensor([[[1.0], [3.0]]]))
    tensor([[[2.]]])
    """
    return scaled_dot_product_attention(Q, K, V)


def products(
    Q: Float[Tensor, "... group size d_k"], K: Float[Tensor, "... group n d_k"], V: Float[Tensor, "... group n d_v"]
) -> Float[Tensor, "... group size d_v"]:
    """Compute the same by two matrix products. The keys, which are many, are on the left of the first.

    >>> products(torch.zeros(1, 1, 2), torch.ones(1, 2, 2), torch.tensor([[[1.0], [3.0]]]))
    tensor([[[2.]]])
    """
    S = (K @ (Q / Q.shape[-1] ** 0.5).mT).mT  # (..., group, size, n)
    return torch.softmax(S, dim=-1) @ V


WAYS: dict[str, Way] = {"fused": fused, "products": products}


class Trial:
    """Let the ways take turns in the first steps of a class of shapes, and remember the one that was the fastest."""

    def __init__(self) -> None:
        """Begin with no step."""
        self._lock = threading.Lock()
        self._turns = itertools.cycle(WAYS)
        self._costs: dict[str, list[float]] = {name: [] for name in WAYS}
        self.fastest: str | None = None

    def next_turn(self) -> str:
        """Return the name of the way whose turn it is."""
        with self._lock:
            return next(self._turns)

    def record(self, name: str, cost: float) -> None:
        """Record what a step of the way `name` took. When all have had their rounds, the least cost of each decides."""
        with self._lock:
            self._costs[name].append(cost)
            if self.fastest is None and all(len(costs) > ROUNDS for costs in self._costs.values()):
                least = {name: min(costs[1:]) for name, costs in self._costs.items()}  # the first step warmed up
                self.fastest = min(least, key=least.__getitem__)


class DecodeChoice:
    """Compute decode steps, each class of shapes by the way that was the fastest in its first steps."""

    def __init__(self, asked: str = "measure", clock: Callable[[], float] = time.perf_counter) -> None:
        """Remember nothing yet. `asked` is one of `WAYS`, which then does all steps, or `measure`. `clock` returns seconds.

        Raises ValueError where something else is asked for.
        """
        if asked not in (*WAYS, "measure"):
            raise ValueError(f"{VARIABLE}: expected {', '.join(WAYS)} or measure, got {asked!r}.")
        self._asked, self._clock = asked, clock
        self._trials: dict[Hashable, Trial] = {}

    def compute(
        self,
        Q: Float[Tensor, "... group size d_k"],
        K: Float[Tensor, "... group n d_k"],
        V: Float[Tensor, "... group n d_v"],
    ) -> Float[Tensor, "... group size d_v"]:
        """Compute one decode step.

        The fused kernel does it where there is little to gain, in half precision, in which products would round the scores, and
        where PyTorch is asked for deterministic algorithms, and in compiled functions. No time is taken while a CUDA graph or a
        dispatch mode records the calls: the step is done as earlier ones of its class have decided, else by the fused kernel.
        """
        if self._asked != "measure":
            return WAYS[self._asked](Q, K, V)
        if torch.compiler.is_compiling() or not _ways_compete(Q, K, V):
            return fused(Q, K, V)
        shapes = shape_class(Q, K, V)
        trial = self._trials.get(shapes) or self._trials.setdefault(shapes, Trial())
        if trial.fastest is not None:
            return WAYS[trial.fastest](Q, K, V)
        return self._timed(trial, Q, K, V) if _can_measure(Q) else fused(Q, K, V)

    def _timed(self, trial: Trial, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        name = trial.next_turn()
        _wait_for(Q.device)
        start = self._clock()
        outputs = WAYS[name](Q, K, V)
        _wait_for(Q.device)
        trial.record(name, (self._clock() - start) / _bytes(K, V))  # lengths within a class differ
        return outputs


def shape_class(Q: Tensor, K: Tensor, V: Tensor) -> Hashable:
    """Return what a choice is remembered by: device, dtype, threads, and the exponents of sizes rounded up to powers of two.

    >>> cache = torch.zeros(2, 3, 100, 64)
    >>> shape_class(torch.zeros(2, 3, 4, 64), cache, cache)[3:]
    (3, 2, 7, 6, 6)
    """
    *lead, n, d_k = K.shape
    sizes = (math.prod(lead), Q.shape[-2], n, d_k, V.shape[-1])
    return Q.device, Q.dtype, torch.get_num_threads(), *[(size - 1).bit_length() for size in sizes]


def _ways_compete(Q: Tensor, K: Tensor, V: Tensor) -> bool:
    return _bytes(K, V) >= SMALL and Q.dtype.itemsize >= 4 and not torch.are_deterministic_algorithms_enabled()


def _bytes(K: Tensor, V: Tensor) -> int:
    return K.nbytes + V.nbytes


def _can_measure(Q: Tensor) -> bool:
    """Whether calls made now are carried out, and by nobody recorded."""
    if type(Q) not in (Tensor, nn.Parameter) or Q.device.type == "meta":  # stands for other tensors, or has no values
        return False
    return not torch._C._len_torch_dispatch_stack() and not _is_captured(Q.device)


def _is_captured(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _wait_for(device: torch.device) -> None:
    """Wait until the device has done all that it was asked for: a CPU has when it answers."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


choice = DecodeChoice(os.environ.get(VARIABLE, "measure"))
