"""Quote the learner's own code: a slip was found in a right program, but the report places it in the learner's own line.

In: a diagnosis and the text of the answer. Out: the diagnosis, in which each quoted piece of code occurs in the answer and has
its line number. A quotation that does not occur in the answer is left out.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from autograder.diagnosis.finding import Diagnosis, Fact, Matched, Mistake, fact
from autograder.judging.records import NearSlip
from autograder.mutants.source import Source, plain_slip

_WRITTEN = ("slip.number", "slip.name", "slip.truth")  # in these, `got` is what was written and `want` what belongs there


def in_own_code(diagnosis: Diagnosis, source: Source) -> Diagnosis:
    """Return the diagnosis with every slip placed in the learner's own lines."""
    lines = _lines(source)

    def located(mistake: Mistake) -> Mistake:
        return replace(mistake, what=_own(mistake.what, lines)) if isinstance(mistake, NearSlip) else mistake

    findings = tuple(
        replace(finding, mistakes=tuple(map(located, finding.mistakes))) if isinstance(finding, Matched) else finding
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=findings, known=tuple(map(located, diagnosis.known)))


def _lines(source: Source) -> dict[str, int | None]:
    """Return the line of each expression in the code, or None if it occurs on several lines."""
    line_of: dict[str, int | None] = {}
    for tree in source.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                code = ast.unparse(node)
                line_of[code] = node.lineno if line_of.get(code, node.lineno) == node.lineno else None
    return line_of


def _own(what: Fact, lines: dict[str, int | None]) -> Fact:
    if what.key != "slip.place" or not isinstance(inner := what["what"], Fact):
        return Fact(
            what.key, tuple((name, _own(value, lines) if isinstance(value, Fact) else value) for name, value in what.values)
        )
    code = next((code for code in _candidates(str(what["code"]), plain_slip(inner)) if code in lines), None)
    if code is None:
        return inner
    if (line := lines[code]) is None:
        return fact("slip.place", what=inner, code=code)
    return fact("slip.place.line", what=inner, code=code, line=line)


def _candidates(code: str, slip: Fact) -> Iterator[str]:
    """Yield the code as a learner with this slip would write it, then as it is in the right program."""
    if slip.key in _WRITTEN:
        want, got = str(slip["want"]), str(slip["got"])
        if code.count(want) == 1:
            yield code.replace(want, got)
    yield code
