"""One plot style for the whole course: colour-blind-safe, readable in print, axes that say what they show.

A figure ends with `show(fig, alt="what a reader who cannot see it must know")`. Matplotlib is imported by the first figure: where
answers are graded no figure is made, and half a second and much memory are saved in each process.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_course.drawing.colours import INK
from attention_course.plot_svg import plot_svg

# Okabe & Ito (2008), "Color Universal Design": distinguishable with every common colour vision deficiency.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK[0])
DPI = 144  # of what is an image within a figure, such as a heat map
WIDEST = 8.75  # inches, as wide as a notebook's column beside the list of files: a wider figure would be cut off there
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def use_style() -> None:
    """Set the course's style for all figures that follow in this process."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(
        {
            "axes.edgecolor": INK[0],
            "axes.formatter.min_exponent": 6,  # 0.001 and not 10⁻³, whose exponent nobody can read on a phone
            "axes.labelcolor": INK[0],
            "axes.prop_cycle": cycler(color=COLOURS),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 11,
            "figure.constrained_layout.use": True,
            "figure.dpi": DPI,
            "figure.figsize": (6.4, 3.2),
            "font.size": 10,
            "image.cmap": "cividis",
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "text.color": INK[0],
            "xtick.color": INK[0],
            "ytick.color": INK[0],
        }
    )


def figure(columns: int = 1, *, height: float = 3.0, width: float = 4.2) -> tuple[Any, Any]:
    """A figure with `columns` panels side by side; returns `(figure, axes)`, axes a single one for one column."""
    import matplotlib.pyplot as plt

    use_style()
    return plt.subplots(1, columns, figsize=(min(width * columns, WIDEST), height))


def show(fig: Any, *, alt: str) -> None:
    """Display `fig` with its alternative text, and close it. Raises ValueError where `alt` says nothing."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    if not isinstance(alt, str) or len(alt.split()) < 3:
        raise ValueError(f"alt: expected a sentence that says what the figure shows, got {alt!r}.")
    alt = " ".join(alt.split())
    svg = plot_svg(fig, alt)
    plt.close(fig)
    display({"image/svg+xml": svg, "text/plain": f"Figure. {alt}"}, raw=True)


def heatmap(
    ax: Any,
    A: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    xlabel: str = "key",
    ylabel: str = "query",
    title: str = "",
    vmin: float | None = 0.0,
    vmax: float | None = None,
    numbers: bool | None = None,
    mask: Any = None,
) -> Any:
    """Draw the matrix `A` (query, key) with its tokens on the axes; writes the numbers in when it is small.

    `mask` (True: may attend) hatches the other cells, so that they do not look like low weights.
    """
    from matplotlib.patches import Rectangle

    A = np.asarray(A, dtype=float)
    keep = np.ones(A.shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    for i, j in np.argwhere(~keep):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="none", edgecolor="0.6", hatch="////", linewidth=0))
    image = ax.imshow(np.ma.masked_array(A, ~keep), vmin=vmin, vmax=vmax, aspect="auto" if max(A.shape) > 16 else "equal")
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    ax.spines[:].set_visible(False)
    if columns is not None:
        ax.set_xticks(range(A.shape[1]), columns, rotation=45 if max(map(len, columns)) > 3 else 0)
    if rows is not None:
        ax.set_yticks(range(A.shape[0]), rows)
    if numbers if numbers is not None else A.size <= 64:
        low, high = image.get_clim()
        for i, j in np.argwhere(keep):
            dark = (A[i, j] - low) < 0.55 * (high - low)
            ax.text(j, i, f"{A[i, j]:.2f}", ha="center", va="center", fontsize=8, color="white" if dark else "black")
    return image
