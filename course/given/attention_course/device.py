"""Where torch lessons run."""

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@functools.cache
def device() -> "torch.device":
    """The device of the course: `ATTN_DEVICE` if set, else CUDA, else Apple's MPS, else the CPU."""
    import torch

    if wanted := os.environ.get("ATTN_DEVICE"):
        return torch.device(wanted)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
