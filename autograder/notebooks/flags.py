"""Say how a submission was read: which cells were missing, doubled, moved or changed, and what was done about it."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "another_lesson", "no_metadata", "repeated", "missing", "unknown", "elsewhere", "in_text", "not_text", "beside_question",
    "locked_changed", "locked_extended", "no_picture",
]  # fmt: skip

_TEXTS: dict[Kind, str] = {
    "another_lesson": "none of this lesson's cells is in it: is it another lesson's notebook?",
    "no_metadata": "the notebook lost its cells' metadata on the way, so answers were found by the names they define",
    "repeated": "cell {name!r} occurs more than once",
    "missing": "missing answer cells: {name}",
    "unknown": "unknown grade_id {name!r}",
    "elsewhere": "the answer to {name!r} was found in another cell",
    "in_text": "the answer to {name!r} stood in a cell of text: it was run as code",
    "not_text": "the answer to {name!r} stood in a cell of another kind: it was read as text",
    "beside_question": "the text beside question {name!r} was read with its answer",
    "locked_changed": "the locked cell {name!r} was changed: the lesson's own was run",
    "locked_extended": "the locked cell {name!r} was changed: the lesson's own was run; what you added to it was kept",
    "no_picture": "{name!r} shows {path!r}, which is not in the notebook: paste it in",
}


@dataclass(frozen=True)
class Flag:
    """A flag for learner and grader, about the cell or question `name` if it is about one. Its words are `str(flag)`.

    For missing answer cells, `name` lists all of them. `path` is that of a picture that is not in the notebook.
    """

    kind: Kind
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        return _TEXTS[self.kind].format(name=self.name, path=self.path)
