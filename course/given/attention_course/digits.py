"""1,797 handwritten digits of 8 by 8 pixels, for notebook 04e.

Source: E. Alpaydin and C. Kaynak (1998), *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository,
https://doi.org/10.24432/C50P49, under CC BY 4.0. `digits.csv.gz` is the copy that comes with scikit-learn, the set's test part.
"""

import gzip
from importlib.resources import files

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def load_digits() -> tuple[Float[Tensor, "image 8 8"], Int[Tensor, " image"]]:
    """Load the images, from 0 for white to 1 for black, and the digit that each of them shows.

    >>> images, labels = load_digits()
    >>> images.shape, labels[:4].tolist()
    (torch.Size([1797, 8, 8]), [0, 1, 2, 3])
    """
    with files("attention_course").joinpath("digits.csv.gz").open("rb") as packed, gzip.open(packed) as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    return torch.from_numpy(table[:, :64].reshape(-1, 8, 8) / 16), torch.from_numpy(table[:, 64]).long()
