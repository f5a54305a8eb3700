"""A Matplotlib backend for a function that is asked for its answer: figures can be made and saved, and showing one closes it.

Drawing takes most of an answer's seconds where it plots, and nobody would see the picture. Matplotlib imports this by name.
"""

from typing import ClassVar

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class Manager(FigureManagerBase):
    """A figure's manager without a window."""

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Close all figures."""
        Gcf.destroy_all()

    def show(self) -> None:
        """Close this figure (`figure.show()`)."""
        Gcf.destroy(self)


class FigureCanvas(FigureCanvasAgg):
    """Draws where it is told to, as into a file."""

    manager_class: ClassVar[type[FigureManagerBase]] = Manager

    def draw_idle(self, *_given: object, **_named: object) -> None:
        """Draw nothing: `%matplotlib inline` asks for this at each change of a figure."""
