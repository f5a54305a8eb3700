"""A Matplotlib backend for answers: figures can be made and saved, and showing a figure closes it.

Drawing would take most of the time of an answer that plots, and nobody would see the picture. Matplotlib imports this module
by name.
"""

from typing import ClassVar

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class Manager(FigureManagerBase):
    """Manages a figure without a window."""

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Close all figures."""
        Gcf.destroy_all()

    def show(self) -> None:
        """Close this figure (`figure.show()`)."""
        Gcf.destroy(self)


class FigureCanvas(FigureCanvasAgg):
    """Draws only on request, for example when saving to a file."""

    manager_class: ClassVar[type[FigureManagerBase]] = Manager

    def draw_idle(self, *_given: object, **_named: object) -> None:
        """Draw nothing, although `%matplotlib inline` asks for it after each change of a figure."""
