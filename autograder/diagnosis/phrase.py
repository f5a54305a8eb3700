"""Turn findings into words. This is the only module of the diagnosis that makes sentences, and it does so as the last step.

In: facts and findings. Out: text in the small markup that `panel` renders. Nothing reads the text again. The sentences about a
course's listed mistakes are those of its author, shortened if two mistakes are told at once. The sentences about slips that only
a course knows are in its module of operators, which the fact's key names.
"""

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from autograder.diagnosis.finding import (
    Added,
    Also,
    Departed,
    Diagnosis,
    Fact,
    Finding,
    InOutputs,
    Manner,
    Matched,
    Mistake,
    Quoted,
    Remark,
    Repaired,
)
from autograder.diagnosis.sentences import ENGLISH
from autograder.judging.records import Known, NearSlip
from autograder.mutants.course_operators import installed
from autograder.mutants.source import plain_slip

_words: ContextVar[Mapping[str, str]] = ContextVar("words", default=ENGLISH)
_CONSTANTS = {math.pi: "π", math.log(2): "ln 2", math.sqrt(2): "√2", 2.0**20: "2^20", 2.0**30: "2^30"}


@contextmanager
def translated(catalogue: Mapping[str, str]) -> Iterator[None]:
    """Use another catalogue of sentences, for example another language, inside the block."""
    token = _words.set(catalogue)
    try:
        yield
    finally:
        _words.reset(token)


def say(fact: Fact) -> str:
    """Return the sentence, or part of one, that says a fact.

    >>> from autograder.diagnosis.finding import fact
    >>> say(fact("beside.large", by=0.5))
    'is too large by 0.5 in every entry'
    """
    key = _numbered(fact.key, fact)
    return _fill(_template(key) or _without_words(key), dict(fact.values))


def _template(key: str) -> str | None:
    """Return the sentence with gaps for a key, from the catalogue or from the module that it names before a colon, or None."""
    module, _, name = key.rpartition(":")
    return installed(module).sentences.get(name) if module else _words.get().get(key)


def _without_words(key: str) -> str:
    """Return the sentence for a slip whose course's operators this machine lacks, or has in another version.

    Raises KeyError if the key is not that of a slip.
    """
    if ":" in key or key.startswith("slip."):
        return _words.get()["slip.unnamed"]
    raise KeyError(key)


def _numbered(key: str, fact: Fact) -> str:
    """Return the key of the sentence for a `count` of one, if the fact has that count and the sentence exists, else `key`."""
    return f"{key}.one" if dict(fact.values).get("count") == 1 and _template(f"{key}.one") is not None else key


def next_step(fact: Fact) -> str:
    """Return what to do next about a fact, or ""."""
    return _fill(_template(_numbered(f"{fact.key}.fix", fact)) or "", dict(fact.values))


def text_of(note: str | Fact) -> str:
    """Say a fact, and return text from outside unchanged."""
    return say(note) if isinstance(note, Fact) else note


def clause(mistake: Mistake) -> str:
    """Say a mistake so that it completes "You …"."""
    return mistake.says if isinstance(mistake, Known) else say(_fact_of(mistake))


def clauses(mistakes: Sequence[Mistake], *, brief: bool = False) -> str:
    """Say several mistakes so that together they complete "You …"."""
    texts = [briefly(mistake) if brief else clause(mistake) for mistake in mistakes]
    return _word("join.and_you").join(dict.fromkeys(texts))


def briefly(mistake: Mistake) -> str:
    """Say what was done, without its consequence and without what is right, because a second mistake may make both untrue.

    >>> briefly(Known("x", "left out the factor 1/2: your scores are the squares of the right ones", ""))
    'left out the factor 1/2'
    >>> briefly(Known("x", "got the values right, and returned the weights with one head axis", ""))
    'returned the weights with one head axis'
    """
    if not isinstance(mistake, Known):
        return say(_shortened(_fact_of(mistake)))
    shown = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), mistake.says)
    begin, end = (re.compile(_words.get()[key]) for key in ("author.right_before", "author.consequence"))
    right, after = begin.match(shown), end.search(shown)
    return mistake.says[right.end() if right else 0 : after.start() if after else None]


_QUOTED = re.compile(r"`[^`]*`|\$[^$]*\$|\([^()]*\)|[“\"][^”\"]*[”\"]")  # punctuation inside these does not end a clause


def _fact_of(mistake: NearSlip | Fact) -> Fact:
    return mistake.what if isinstance(mistake, NearSlip) else mistake


def _shortened(fact: Fact) -> Fact:
    """Return the fact with shorter sentences, for itself and the facts inside it, if the catalogue has them."""
    values = tuple((name, _shortened(value) if isinstance(value, Fact) else value) for name, value in fact.values)
    return Fact(f"{fact.key}.brief" if _template(f"{fact.key}.brief") is not None else fact.key, values)


def headline_of(diagnosis: Diagnosis) -> str:
    """Say what was found."""
    return _headline(diagnosis.findings)


def advice_of(diagnosis: Diagnosis) -> str:
    """Say what to do next. Two findings with the same next step share one sentence."""
    return " ".join(dict.fromkeys(step for finding in diagnosis.findings for step in _steps(finding) if step))


def change_of(diagnosis: Diagnosis) -> str:
    """Say which change of the learner's code passes the checks, for a learner who asks; "" if there is none."""
    edits = [edit for finding in diagnosis.findings if isinstance(finding, Repaired) for edit in _in_order(finding.edits)]
    changes = [_word(f"{edit.key}.change", **dict(edit.values)) for edit in edits if f"{edit.key}.change" in _words.get()]
    return _word("repaired.change", changes=" ".join(changes)) if changes else ""


def _headline(findings: Sequence[Finding]) -> str:
    return " ".join(filter(None, map(_sentence, findings)))


def _sentence(finding: Finding) -> str:
    match finding:
        case Matched():
            return _matched(finding)
        case Also(Fact("exact.raised") as raised):
            return _word("also.raised", told=say(raised))
        case Also(Fact("exact.stopped.known") as stopped):
            return _word("also.stopped", told=say(stopped), cases=stopped["cases"])
        case Also(mistake):
            return _word("also", told=clause(mistake))
        case Remark(sentence):
            return say(sentence) if sentence is not None else ""
        case InOutputs():
            return _in_outputs(finding)
        case Repaired(edits, remaining):
            consequence = _word("repaired.left", told=clauses(remaining, brief=True)) if remaining else ""
            return " ".join(filter(None, [*_edits(edits[:1] if remaining else edits), consequence]))
        case Departed(lines):
            return say(Fact("departed", (("lines", lines),)))
        case Added(findings):
            return _word("also.beside", said=_headline(findings))
        case Quoted():
            return ""


def _in_order(edits: Sequence[Fact]) -> list[Fact]:
    """Return the edits in the order of their lines, or unchanged if one of them has no line."""
    lines = [dict(edit.values).get("line") for edit in edits]
    return sorted(edits, key=lambda edit: int(str(edit["line"]))) if all(isinstance(line, int) for line in lines) else [*edits]


def _edits(edits: Sequence[Fact]) -> Iterator[str]:
    """Yield a sentence for each edit. If there are two, each says that there is another."""
    for edit, suffix in zip(_in_order(edits), ("first", "second"), strict=False):
        key = f"{edit.key}.{suffix}"
        yield say(Fact(key, edit.values) if len(edits) > 1 and key in _words.get() else edit)


def _matched(finding: Matched) -> str:
    text = clauses(finding.mistakes, brief=len(finding.mistakes) > 1)
    if finding.either:
        text += _word("lead.either", told=_word("join.or").join(map(briefly, finding.either)))
    visible = len(finding.mistakes) == 1 and _is_of_result(finding.mistakes[0])  # then "as if" is not needed
    manner = Manner.DONE if visible and finding.manner in (Manner.RESULT, Manner.NUMBER, Manner.STOPS) else finding.manner
    sentence = _word(manner.value, told=text)
    return f"{sentence} {_word('lead.something_else')}" if finding.more else sentence


def _is_of_result(mistake: Mistake) -> bool:
    if isinstance(mistake, Known):
        return mistake.says.startswith(_word("author.returned"))
    return isinstance(mistake, NearSlip) and plain_slip(mistake.what).key.startswith("slip.returned")


def _in_outputs(finding: InOutputs) -> str:
    mistake, suffix = clause(finding.mistake), "" if finding.sure else ".hedged"
    if finding.call is not None:
        return _word(f"in_call.told{suffix}", call=finding.call, told=mistake)
    outputs = _word("join.and").join(_word("output", path=path) if path else _word("your_result") for path in finding.paths)
    return _word(f"in_outputs{suffix}", outputs=_word("outputs", outputs=outputs), told=mistake)


def _steps(finding: Finding) -> Iterator[str]:
    match finding:
        case Matched(mistakes):
            yield from (_step(mistake) for mistake in mistakes if len(mistakes) == 1 or not isinstance(mistake, NearSlip))
        case Also(mistake):
            yield _step(mistake)
        case Remark(sentence, then):
            yield from (next_step(fact) for fact in (sentence, *then) if fact is not None)
        case InOutputs(_, mistake):
            yield _step(mistake)
        case Repaired(edits, remaining):
            yield from (_step(mistake) for mistake in remaining)
            if len(edits) > 1:
                yield _word("repaired.two.fix")
            elif not remaining:
                yield next_step(edits[0]) or _word("repaired.one.fix")
        case Departed(_, result_fact):
            yield from (say(result_fact) if result_fact is not None else "", _word("departed.fix"))
        case Added(findings):
            yield from (step for inner in findings for step in _steps(inner))
        case Quoted(key, findings):
            yield _word(key, said=_headline(findings))


def _step(mistake: Mistake) -> str:
    if isinstance(mistake, Fact):
        return next_step(mistake["sentence"] if mistake.key in ("exact.raised", "exact.stopped.known") else mistake)  # type: ignore[arg-type]  # a fact
    return _word("unlisted.fix") if isinstance(mistake, NearSlip) else mistake.fix


def _word(key: str, **values: object) -> str:
    return _fill(_words.get()[key], values)


def _fill(template: str, values: Mapping[str, object]) -> str:
    return _Gaps().vformat(template, (), values)


class _Gaps(string.Formatter):
    """Fills each gap by the type of its value: a fact becomes its sentence, and a tuple is joined as the gap's format says."""

    def get_value(self, key: int | str, args: object, kwargs: Mapping[str, object]) -> object:
        return kwargs[str(key)] if key in kwargs else _words.get()[str(key)]  # a fixed word from the catalogue

    def format_field(self, value: object, format_spec: str) -> str:
        if format_spec == "question":  # the question that follows a fact's sentence
            asked = _words.get().get(f"{value.key}.question", "") if isinstance(value, Fact) else ""
            return asked and f" {asked}"
        text = say(value) if isinstance(value, Fact) else str(value)
        if format_spec == "stop":  # text from outside may already end with a stop
            return text if text.endswith(("?", "!", "…")) else f"{text.rstrip('.')}."
        if format_spec == "article":
            return f"{'an' if text[:1] in 'AEIOUaeio' else 'a'} {text}"
        if isinstance(value, Fact) or format_spec == "tuple":
            return text
        if isinstance(value, tuple):
            return _listed(value, format_spec)
        if format_spec == "number" and isinstance(value, int | float):
            return _CONSTANTS.get(value, f"{value:g}")
        return str(format(value, format_spec))


_LISTS = {  # the keys of the text between the entries, and of the sentence that quotes each entry
    "list": ("join.list", ""), "and": ("join.and", ""), "or": ("join.or_in", ""), "code": ("join.list", "quote.code"),
    "code_and": ("join.and", "quote.code"), "cases": ("join.and", "quote.case"),
}  # fmt: skip


def _listed(values: Sequence[object], how: str) -> str:
    join, quote = _LISTS[how]
    texts = [say(value) if isinstance(value, Fact) else str(value) for value in values]
    return _word(join).join(_word(quote, text=text) if quote and text != "…" else text for text in texts)
