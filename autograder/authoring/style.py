"""Find what a lesson's text still lacks, with file and line (`attn style`). Reads the text and runs nothing.

The rules, and what satisfies them:

- *figure*: a code cell that draws describes the figure: `alt="…"` in the call, or `# alt: …` in the cell. A Markdown image
  has its text in the brackets. course.toml sets which calls draw: `[style] drawing = ["Drawing", "figure", …]`.
- *exercise*: an answer cell follows a heading `### Exercise NN.k: Title`, numbered through the lesson, and its declaration
  states `minutes` and `difficulty`. Each heading has one exercise. Predictions may be anywhere.
- *sentence*: at most 40 words, where a formula counts as one.
- *claim*: a block quotation (`> …`) of twelve words or more, and a quotation of eight in “…” or "…", has a link in its
  paragraph.
- *symbol*: a letter in a formula is in the glossary, or in `<!-- local symbols: z, u -->` if only this lesson uses it.
- *prose* and *limit*, in a lesson whose front matter states its `kind`: sentences, colons and brackets as in well-edited
  texts (see `prose`); words, minutes, exercises and the box `Common claim, tested` (see `sitting_limits`).
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from markdown_it.token import Token

from autograder.authoring import prose, sitting_limits
from autograder.authoring.course import Lesson, course_root, settings, shown
from autograder.authoring.sitting_limits import Miss
from autograder.authoring.workload import HEADING
from autograder.judging.exercise import Prediction

MAX_WORDS = 40
QUOTED_WORDS, BLOCK_WORDS = 8, 12
MIN_ALT = 15  # characters, because a name is not a description
_FORMULA = re.compile(r"\$\$.*?\$\$|(?<![\\$\d])\$(?!\s)[^$]+?(?<!\s)\$", re.DOTALL)
_LINK = re.compile(r"\]\(https?://|<https?://|\]\(#|\]\(\.?\.?/?[\w/]+\.(?:md|ipynb)")
_WORDS_THAT_ARE_NOT_SYMBOLS = re.compile(
    r"\\(?:mathrm|text|operatorname\*?|textbf|mathtt|texttt|tag)\{[^{}]*\}|\\begin\{\w+\*?\}|\\end\{\w+\*?\}"
)
_INDICES = frozenset("ijktlrnmNTed")  # indices over rows, heads and steps; e and d as in exp and differentials


@dataclass
class Part:
    """A cell of a lesson's text: its `kind` ("text" or "code"), its first line, and the name of the answer in it, if any."""

    kind: str
    line: int
    source: str
    answer: str = ""


def findings(lesson: Lesson) -> list[Miss]:
    """Return what `lesson` still lacks, by line."""
    text = lesson.path.read_text(encoding="utf-8")
    parts = list(_parts(text))
    misses = [*_figures(parts), *_exercises(lesson, parts), *_symbols(parts, text)]
    for part in parts:
        if part.kind == "text":
            misses += [*_sentences(part), *_claims(part)]
    misses += sitting_limits.misses(lesson)
    return sorted(misses, key=lambda miss: (miss.line, miss.rule))


def lines(lesson: Lesson, only: str | None = None) -> list[str]:
    """Return `findings`, or those of the rule `only`, as lines that name the file and the line to edit."""
    found = [miss for miss in findings(lesson) if only in (None, miss.rule)]
    return [f"{lesson.path}:{miss.line}: {miss.rule}: {miss.says}" for miss in found]


def _parts(text: str) -> Iterator[Part]:
    """Yield the cells of MyST notebook text with their first lines, without the front matter."""
    lines = text.split("\n")
    first, answer = 0, ""
    for token in prose.LESSON.parse(text):
        start, end = token.map or (0, 0)
        if token.type == "front_matter":
            first = end
        elif token.type == "myst_block_break":
            yield Part("text", first + 1, "\n".join(lines[first:start]), answer)
            first, answer = end, _answer(lines[start])
        elif token.type == "fence" and not token.level and token.info.startswith("{code-cell}"):
            yield Part("text", first + 1, "\n".join(lines[first:start]), answer)
            first, answer = end, ""
            code = token.content.removesuffix("\n").split("\n")
            options = list(takewhile(lambda line: line.startswith(":"), code))
            at = start + 2 + len(options)
            yield Part("code", at, "\n".join(code[len(options) :]), _answer(" ".join(options)))
    yield Part("text", first + 1, "\n".join(lines[first:]), answer)


def _answer(options: str) -> str:
    named = re.search(r"""["']?grade_id["']?: *["']?(\w+)""", options)
    return named[1] if named and re.search(r"""["']?solution["']?: *true""", options) else ""


def _figures(parts: list[Part]) -> Iterator[Miss]:
    drawing = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, settings().style.drawing))})\(")
    for part in parts:
        if part.kind == "text":
            for image in re.finditer(r"!\[([^\]]*)\]\(", part.source):
                if len(image[1]) < MIN_ALT:
                    yield Miss("figure", _line(part, image.start()), "the image has no text in its brackets")
        elif not part.answer and (match := drawing.search(re.sub(r"(?m)^\s*(def|from|import) .*", "", part.source))):
            texts = re.findall(r"""\balt=[frFR]*(?:\s*\(\s*[fr]?)?("{3}|"|')(.*?)\1|# alt: (.+)""", part.source, re.DOTALL)
            named = re.search(r"\balt=[A-Za-z_]", part.source)
            if not named and not any(len(text or comment) >= MIN_ALT for _, text, comment in texts):
                at = part.source.find(match[0])
                yield Miss("figure", _line(part, at), f'{match[0]}…) says nowhere what is seen: give it alt="…"')


def _exercises(lesson: Lesson, parts: list[Part]) -> Iterator[Miss]:
    declared = {exercise.id: exercise for exercise in lesson.exercises()}
    count, below, heading = 0, "", 0
    for part in parts:
        if part.kind == "text" and not part.answer:
            for match in re.finditer(r"^#{1,3} .*$", part.source, re.MULTILINE):
                own = HEADING.match(match[0])
                heading, below = (_line(part, match.start()) if own else 0), ""
                if own:
                    count += 1
                    if (own[1], int(own[2])) != (lesson.label, count):
                        wanted = f"{lesson.label}.{count}"
                        yield Miss("exercise", heading, f"expected number {wanted}, got {own[1]}.{own[2]}")
        exercise = declared.get(part.answer)
        if not part.answer or isinstance(exercise, Prediction):
            continue
        if not heading:
            says = f"`{part.answer}` stands below no heading `### Exercise {lesson.label}.k: Title`"
            yield Miss("exercise", part.line, says)
        if exercise is None:
            continue
        if heading and below:
            yield Miss("exercise", part.line, f"`{part.answer}` and `{below}` share a heading")
        below = part.answer
        if not exercise.stated:
            yield Miss("exercise", part.line, f"`{part.answer}` states no minutes and difficulty where it is declared")


def _sentences(part: Part) -> Iterator[Miss]:
    text = prose.DISPLAYED.sub(lambda formula: re.sub(r"[^\n]", " ", formula[0]), part.source)
    for opening, token in pairwise(prose.TEXT.parse(text)):
        if opening.type != "paragraph_open" or token.content.startswith("|"):  # a row of a table
            continue
        plain = _FORMULA.sub(lambda m: "X" + "\n" * m[0].count("\n"), token.content)
        plain = re.sub(r"\]\([^)]*\)|<!--.*?-->|`[^`]*`", lambda m: "X" if m[0][0] == "`" else "", plain, flags=re.DOTALL)
        for sentence in re.split(r"(?<=[.!?:;])[\"”’)*_]*\s+(?=[\"“(*_\w`\[])", plain):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MAX_WORDS:
                line = _first(part, token) + plain[: max(0, plain.find(sentence))].count("\n")
                says = f"{len(words)} words, at most {MAX_WORDS}: “{' '.join(words[:8])} …”"
                yield Miss("sentence", line, says)


def _claims(part: Part) -> Iterator[Miss]:
    end, lines = 0, part.source.split("\n")
    for token in prose.TEXT.parse(part.source):
        start, stop = token.map or (0, 0)
        if token.type not in ("paragraph_open", "blockquote_open") or start < end:  # a paragraph inside a quotation
            continue
        end, paragraph = stop, "\n".join(lines[start:stop])
        if _LINK.search(paragraph):
            continue
        quoted = [m[0] for m in re.finditer(r"“[^”]+”|(?<![\w=(])\"[^\"\n]+\"", paragraph) if len(m[0].split()) >= QUOTED_WORDS]
        if quoted or (token.type == "blockquote_open" and len(paragraph.split()) >= BLOCK_WORDS):
            shown = " ".join((quoted[0] if quoted else paragraph).split()[:8])
            yield Miss("claim", _first(part, token), f"quoted without a link to its source: {shown} …")


def _first(part: Part, token: Token) -> int:
    """Return the line of the lesson on which a block of `part` begins."""
    return part.line + (token.map or [0])[0]


def _symbols(parts: list[Part], text: str) -> Iterator[Miss]:
    known = _glossary() | _INDICES
    for local in re.findall(r"<!-- local symbols: (.*?) -->", text, re.DOTALL):
        known |= set(_letters(local))
    reported: set[str] = set()
    for part in parts:
        if part.kind != "text":
            continue
        for formula in _FORMULA.finditer(re.sub(r"(?s)`[^`]*`", lambda m: " " * len(m[0]), part.source)):
            for letter in _letters(formula[0]):
                if letter not in known and letter not in reported:
                    reported.add(letter)
                    where = shown(course_root() / "glossary.toml")
                    says = f"${letter}$ is not in {where}: add it, or say <!-- local symbols: {letter} -->"
                    yield Miss("symbol", _line(part, formula.start()), says)


def _letters(latex: str) -> list[str]:
    r"""Return the letters of a formula that name something, without their indices: `$\alpha_j v_j$` has \alpha and v."""
    plain = _WORDS_THAT_ARE_NOT_SYMBOLS.sub(" ", latex)
    plain = re.sub(r"[_^]\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\\?\w)", " ", plain)
    plain = re.sub(r"\\(?:mathcal|mathbf|mathbb|hat|bar|tilde|vec|boldsymbol)\s*\{?\s*(\w)\}?", r" \1 ", plain)
    greek = re.findall(
        r"\\(alpha|beta|gamma|delta|epsilon|varepsilon|eta|theta|kappa|lambda|mu|rho|sigma|tau|phi|varphi|chi|psi|omega)(?![a-zA-Z])",
        plain,
    )
    latin = re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", plain))
    return [*("\\" + name for name in greek), *latin]


def _glossary() -> set[str]:
    path = course_root() / "glossary.toml"
    if not path.exists():
        return set()
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    names = [str(symbol["name"]) for symbol in data.get("symbol", [])] + list(data.get("axes", {}))
    return {letter for name in names for word in name.split(",") for letter in _letters(word.split("_")[0].strip())}


def _line(part: Part, offset: int) -> int:
    return part.line + part.source[: max(0, offset)].count("\n")
