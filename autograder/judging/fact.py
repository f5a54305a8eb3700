"""A statement as data: a key, and the values that its sentence needs. The sentences are in the catalogue of `diagnosis`."""

from collections.abc import Iterator
from dataclasses import dataclass

EXACT, WRAPPED, MENDED = "~exact", "~wrapped", "~mended"
_IDS = {"wrapped": WRAPPED, "repair": MENDED}


@dataclass(frozen=True)
class Fact:
    """A statement: its key in the catalogue, and the values that fill the gaps in that sentence.

    Facts with equal content are equal.

    >>> fact("fact.axis", axis=-1) == fact("fact.axis", axis=-1)
    True
    """

    key: str
    values: tuple[tuple[str, object], ...] = ()

    def __getitem__(self, name: str) -> object:
        return dict(self.values)[name]

    @property
    def id(self) -> str:
        """Return the id under which progress and reports record a mistake that no author listed.

        >>> fact("wrapped.plain").id
        '~wrapped'
        """
        return _IDS.get(self.key.partition(".")[0], EXACT)

    @property
    def code(self) -> Iterator[str]:
        """Yield the names and pieces of code among the values, including those of nested facts.

        A value named `text` is prose and is skipped.

        >>> list(fact("place", what=fact("left_out", code="x.T"), line=3, text="Look there.").code)
        ['x.T']
        """
        for name, value in self.values:
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Fact):
                    yield from part.code
                elif isinstance(part, str) and name != "text":
                    yield part


def fact(key: str, **values: object) -> Fact:
    """Make the `Fact` with this key. Values must be hashable: numbers, text from outside, other facts, or tuples of these.

    >>> fact("range", first=1, last=3) == fact("range", last=3, first=1)
    True
    """
    return Fact(key, tuple(sorted(values.items())))
