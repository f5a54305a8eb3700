"""What panels say where a learner found one untrue, unclear or useless: each mechanism on a small exercise."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import Case, Exercise
from autograder.authoring.course import course_root, find_lesson
from autograder.diagnosis import python_errors
from autograder.diagnosis.attempt import _quotes_unseen_code, check_answer, with_repair
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.failing_input import MOST_LINES, case_inputs, snippet
from autograder.diagnosis.finding import Diagnosis, Fact, Manner, Matched, fact
from autograder.diagnosis.known_mistakes import match_composed, named
from autograder.diagnosis.own_code import in_own_code
from autograder.diagnosis.panel import to_html, to_text
from autograder.diagnosis.phrase import advice_of, change_of, headline_of, next_step, say
from autograder.diagnosis.repair import describe_change
from autograder.diagnosis.repair.answer_source import source_of
from autograder.diagnosis.single_numbers import diagnose_number
from autograder.judging.observation import Failure
from autograder.judging.records import PAIR, Known, NearSlip
from autograder.judging.values import encode
from autograder.mutants.source import Source
from autograder.packs import make_pack, pack_file
from autograder.workspace.in_cells.check import Score
from tests.diagnosis.test_mistake_names import BYTES, _bytes, told
from tests.diagnosis.test_repair import ATTEND, OWN_WAY, cell, said


def rows(draw: Any) -> dict[str, Any]:
    return {"x": draw.normal(3, 4)}


def bell(x: Any) -> Any:
    return np.exp(-(x**2).sum(axis=-1) / 2)


BELL = Exercise("bell", "Bell", 1, reference=bell, cases=(Case("one", rows), Case("two", rows)), hints=("a", "b", "c"))
TWO = Exercise(
    "two", "Two", 1, reference=lambda x: (x + 1, x[0]), cases=(Case("one", rows), Case("two", rows)), hints=("a", "b", "c")
)

AS_IF = "Your result comes out exactly as if you"


def test_a_list_of_results_is_a_list_and_not_its_first_entry() -> None:
    report = said(BELL, "def bell(x):\n    return [np.exp(-np.sum(row**2) / 2) for row in x]")
    assert report.headline == "What you compute is right, but you returned a Python list where an array is asked for."
    assert "np.stack" in report.advice


def test_results_in_another_order_are_called_so() -> None:
    report = said(TWO, "def two(x):\n    return x[0], x + 1")
    assert "order" in report.headline
    assert "shape" not in report.headline


def test_a_bracket_closed_too_early_is_moved_whole() -> None:
    report = said(BELL, "def bell(x):\n    u = (x**2).sum(axis=1)\n    return np.exp(-u) / 2")
    assert report.headline == "The mistake is in line 3, in `np.exp(-u) / 2`: the bracket of `exp` closes too early."
    assert report.change == "In line 3, replace `np.exp(-u) / 2` with `np.exp(-u / 2)`. Every check passes then."


def test_a_return_indented_too_far_is_named() -> None:
    report = said(BELL, """
        def bell(x):
            out = np.zeros(len(x))
            for i in range(len(x)):
                out[i] = np.exp(-(x[i] ** 2).sum() / 2)
                return out
    """)  # fmt: skip
    assert "`return out` is inside the loop that begins in line 3" in report.headline
    assert report.recorded == "~mended"


def test_the_transpose_is_no_missing_axis() -> None:
    def told(shapes: str) -> str:
        slip = python_errors.raised(
            Failure("raised", "ValueError", f"operands could not be broadcast together with shapes {shapes} ")
        )
        assert slip is not None
        return next_step(slip.what)

    assert "transpose" in told("(3,5) (5,3)")
    assert "axis of length 1 missing" in told("(3,5) (3,)")


def test_an_index_past_the_end_is_told_with_its_number_and_no_loop_is_taken_for_granted() -> None:
    slip = python_errors.raised(Failure("raised", "IndexError", "index 5 is out of bounds for axis 0 with size 3"))
    assert slip is not None
    assert say(slip.what) == "The index 5 points past the end of an axis of length 3."


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("IndexError", "amin(): Expected reduction dim 0 to have non-zero size."),
        ("RuntimeError", "amin(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with"),
    ],
)
def test_the_least_of_nothing_is_told_as_an_empty_axis_and_not_as_an_index(kind: str, message: str) -> None:
    slip = python_errors.raised(Failure("raised", kind, message))
    assert slip is not None
    assert say(slip.what) == "`amin` is taken over an axis of length 0."


def test_an_error_that_nobody_knows_is_told_with_its_line() -> None:
    report = said(BELL, "def bell(x):\n    return x + int('a')")
    assert "stops with an error in line 2" in report.headline
    assert "ValueError" in to_text(report)


def test_what_is_named_stands_in_the_learners_code_or_in_the_exercise() -> None:
    record = make_pack.make_record("a_lesson", BELL, 0, naming="listed")
    answer = cell("bell", "def bell(x):\n    u = x.sum(axis=1)\n    return u")
    result = check_answer(record, answer, repair=False)

    result.exercise = replace(record, hints=("Divide by $t_j$.", "b", "c"))

    def unseen(what: Fact) -> bool:
        return _quotes_unseen_code(result, answer, Diagnosis((), (NearSlip("~slip", what),)))

    assert unseen(fact("slip.lost.summand", code="i"))
    assert unseen(fact("slip.place", what=fact("slip.instead.added", code="b"), code="u - b"))
    assert not unseen(fact("slip.lost.factor", code="u"))
    assert not unseen(fact("slip.place", what=fact("slip.left_out", code="sum"), code="x.T"))
    assert not unseen(fact("slip.lost.divisor", code="t"))  # a hint speaks of it
    listed = Known("listed", "left out the summand `i`", "")
    assert not _quotes_unseen_code(result, answer, Diagnosis((), (listed,)))  # a listed mistake's words are the exercise's own


def test_a_slip_is_told_of_the_line_that_the_learner_wrote() -> None:
    report = released("03", "scaled_scores", """
        import math

        def scaled_scores(Q, K):
            return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[0])
    """)  # fmt: skip
    assert report.headline == f"{AS_IF} wrote 0 where -1 belongs, in line 4, `Q.shape[0]`."


def test_code_that_the_learner_did_not_write_is_not_quoted_as_theirs() -> None:
    source = source_of(cell("bell", "def bell(x):\n    u = x.sum(axis=1)\n    return u"))
    assert source is not None
    slip = fact("slip.left_out", code="sum")
    for code, says in (("x.sum(axis=1)", "left out `sum`, in line 2, `x.sum(axis=1)`"), ("u.T", "left out `sum`")):
        one = NearSlip("~slip", fact("slip.place", what=slip, code=code))
        found = in_own_code(Diagnosis((Matched((one,), Manner.DONE),), (one,)), source)
        assert headline_of(found) == f"You {says}."
        assert [known.id for known in found.known] == ["~slip"]


def test_a_number_is_said_to_be_written_only_where_it_stands_in_the_learners_code() -> None:
    record = make_pack.make_record("a_lesson", BELL, 0, naming="listed")
    answer = cell("bell", "def bell(x):\n    return x.sum(axis=0) - 2")
    result = check_answer(record, answer, repair=False)

    def unseen(what: Fact) -> bool:
        return _quotes_unseen_code(result, answer, Diagnosis((), (NearSlip("~slip", what),)))

    assert unseen(fact("slip.number", got="-2", want="-1"))
    assert not unseen(fact("slip.number", got="2", want="1"))
    assert unseen(fact("slip.place", what=fact("slip.number", got="-2", want="-1"), code="x.shape[-1]"))


def test_what_may_be_beside_is_said_without_what_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Known(name, says, "") for name, says in (("a", "did a"), ("b", "did b. Where, nothing is left"), ("c", "did c"))]
    record = make_pack.make_record("a_lesson", BELL, 0, naming="listed")
    result = check_answer(record, cell("bell", "def bell(x):\n    return x.sum(axis=1)"), repair=False)
    monkeypatch.setattr("autograder.diagnosis.known_mistakes._pair_explains", lambda *_: True)
    for case in record.cases:
        case.pairs.update({f"a{PAIR}b": np.zeros(1), f"a{PAIR}c": np.zeros(1)})
    found = match_composed(replace(record, known=tuple(known)), list(zip(record.cases, result.cases, strict=True)))
    assert found is not None
    assert headline_of(found).endswith("and beside that you either did b, or did c.")


def test_a_factor_is_no_clue_where_it_is_no_whole_number_of_times() -> None:
    assert "factor, or which part" not in advice_of(diagnose_number(2.718, 1.0, coarse=False))
    assert "factor, or which part" in advice_of(diagnose_number(6.0, 3.0, coarse=False))


def test_the_change_is_folded_in_the_panel_and_not_told_in_plain_text() -> None:
    report = said(ATTEND, OWN_WAY.format(axis=0, width="K.shape[1]"))
    shown, folded = to_html(report).split("<summary", 1)
    assert "axis=0" in shown
    assert "line 3" in shown
    assert "axis=-1" not in shown
    assert "Show the change" in folded
    assert "axis=-1" in folded
    assert "axis=-1" not in to_text(report)
    assert to_text(report).splitlines()[-3] == "  To see the change that passes every check, run check(…).change."
    assert "`E / E.sum(axis=-1, keepdims=True)`" in Score(report).change


def test_a_hint_in_plain_text_stands_beside_no_named_mistake_and_before_no_first_try() -> None:
    exercise = replace(BELL, hints=("Which axis is summed over?", "b", "c"))
    tried = said(exercise, "def bell(x):\n    return x[..., 0] ** 3 - 7")
    assert not tried.known
    assert "hint: Which axis" in to_text(tried)
    named_surely = replace(tried, known=(Known("halved", "halved it", ""),))
    assert "hint: " not in to_text(named_surely)
    assert "Which axis" in to_html(named_surely)  # folded, there for who asks
    assert "hint: " not in to_text(said(exercise, "def bell(x):\n    raise NotImplementedError"))


def test_a_difference_is_shown_where_an_entry_is_wrong() -> None:
    record = make_pack.make_record("a_lesson", BELL, 0)
    shown = make_report(check_answer(record, lambda x: bell(x) * (1 + 1e-9) + (np.arange(len(x)) == 1)))
    assert shown.grids[-1].title == "yours − expected"
    assert (shown.grids[-1].cells != 0).sum() == 1


def test_a_change_in_several_places_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    also = fact("repair.elsewhere", count=1)
    edits = iter(
        [
            fact("repair.replaced", before="a(0)", line=3, after="a(1)", also=also, why=""),
            fact("repair.replaced", before="b", line=5, after="c", also="", why=""),
        ]
    )
    monkeypatch.setattr(describe_change, "_describe_edits", lambda *_: next(edits))
    monkeypatch.setattr(describe_change, "_place", lambda *_: object())
    found = describe_change.describe_repair(Source("f", {}, {}, {}), [(), ()])
    assert headline_of(found) == (
        "One mistake is in line 3, in `a(0)` (and likewise in 1 more place). Another mistake is in line 5, in `b`."
    )
    assert change_of(found) == (
        "In line 3, replace `a(0)` with `a(1)` (and likewise in 1 more place). In line 5, replace `b` with `c`. "
        "Every check passes then."
    )


@pytest.mark.parametrize("naming", ["pairs", "near"])
def test_no_story_of_two_mistakes_is_told_of_one_number(naming: str) -> None:
    report = told(BYTES, _bytes(0.5 * 4.4 / 1.7), naming=naming)
    assert report.recorded is None
    assert ", and you " not in report.headline


def test_one_change_of_what_is_written_is_told_before_two_slips_that_amount_to_it() -> None:
    def turns(x: Any) -> Any:
        return x[:, :1] * np.arange(0, 8, 2) / 8

    record = make_pack.make_record(
        "a_lesson",
        Exercise("turns", "T", 1, reference=turns, cases=(Case("one", rows),), hints=("a", "b", "c")),
        0,
        naming="listed",
    )
    answer = cell("turns", "def turns(x):\n    return x[:, :1] * np.arange(0, 8, 2) * 8")
    result = check_answer(record, answer, repair=False)
    result.exercise = replace(record, near=tuple(NearSlip(name, fact("slip.root", code="x")) for name in ("~one", "~two")))
    result.diagnosis = Diagnosis((Matched(result.exercise.near, Manner.RESULT),), result.exercise.near)
    result = with_repair(result, answer)
    assert result.diagnosis.known[0].id == "~mended"
    assert "in line 2, " in headline_of(result.diagnosis)


def test_of_two_mistakes_it_is_said_what_was_done_and_not_what_comes_of_each_alone() -> None:
    one = Known("a", "left the mask out: right for a step, wrong for a chunk (`keep: None`)", "")
    two = Known("b", "divided by $d: k$, so that the weights are too even", "")
    case = make_pack.make_record("a_lesson", BELL, 0, naming="listed").cases[0]
    result = check_answer(
        make_pack.make_record("a_lesson", BELL, 0, naming="listed"), cell("bell", "def bell(x):\n    return x"), repair=False
    )
    told = named([(case, result.cases[0])], one, two)
    assert headline_of(told) == f"{AS_IF} left the mask out, and you divided by $d: k$."
    assert headline_of(named([(case, result.cases[0])], one)) == f"{AS_IF} {one.says}."


RIGHT = "E = np.exp({Q} @ {K}.T / np.sqrt({Q}.shape[-1]))\n    return E / E.sum(axis=-1, keepdims=True) @ {V}"


@pytest.mark.parametrize(
    ("takes", "body", "headline", "advice"),
    [
        ("V, K, value", RIGHT.format(Q="value", K="K", V="V"), "", "the check calls them by name."),
    ],
)
def test_of_parameters_with_other_names_it_is_said_whether_the_rest_is_right(
    takes: str, body: str, headline: str, advice: str
) -> None:
    report = said(ATTEND, f"def attend({takes}):\n    {body}")
    assert report.headline.startswith("Your function does not take the argument `Q`.")
    assert headline in report.headline
    assert advice in report.advice


# ------------------------------------------------------------------------------------------ in the course's own exercises


def _folder(lesson: str) -> Path:
    return course_root() / "release" / find_lesson(lesson).name


def released(lesson: str, name: str, code: str) -> Report:
    """The report on an answer to an exercise of the course, by the pack that learners have."""
    pack = pack_file.load(next(_folder(lesson).glob(f"*{pack_file.SUFFIX}")))
    return make_report(check_answer(pack.exercises[name], cell(name, code)))


def test_an_input_that_is_too_long_to_paste_is_described_and_can_be_read() -> None:
    report = released("02", "bilinear_scores", """
        import numpy as np

        def bilinear_scores(X_q, X_k, W_Q, W_K):
            return X_q @ (W_Q @ W_K.T) @ X_k.T / np.sqrt(W_Q.shape[1])
    """)  # fmt: skip
    lines = report.snippet.splitlines()
    assert len(lines) <= MOST_LINES
    assert "#   W_Q: float64 (1200, 2)" in lines
    assert lines[-1].startswith("bilinear_scores(**case_inputs('bilinear_scores', 'vectors of 1,200 entries")
    seen = dict[str, Any]()
    code = lines[-1].replace("case_inputs(", "dict(case_inputs(").replace("')", f"', {str(_folder('02'))!r}))")
    exec("\n".join([*lines[:-1], code]), {"bilinear_scores": lambda **given: seen.update(given)})
    assert {name: value.shape for name, value in seen.items()}["X_q"] == (3, 1200)


def test_an_input_is_packed_closely_before_it_is_only_described() -> None:
    given = {"x": np.arange(40.0).reshape(20, 2), "n": 3}
    text = snippet("f", "one", encode(given))
    assert text.count("\n") < MOST_LINES
    seen = dict[str, Any]()
    exec(text, {"np": np, "f": lambda **given: seen.update(given)})
    assert np.array_equal(seen["x"], given["x"])
    assert seen["n"] == 3


def test_a_long_sequence_of_calls_is_described_in_few_lines() -> None:
    calls = [["__call__", {"x": np.zeros((9, 9))}, False, None] for _ in range(20)]
    lines = snippet("Layer", "many", encode({"init": {"d": 4}, "weights": None, "calls": calls})).splitlines()
    assert len(lines) == MOST_LINES
    assert "#   __call__(x: float64 (9, 9))" in lines
    assert "#   and 14 more" in lines
    assert 'obj = Layer(**given["init"])' in lines


def test_inputs_are_looked_for_beside_the_notebook(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"has a case 'one' of 'f'.*beside the notebook"):
        case_inputs("f", "one", tmp_path)


@pytest.mark.parametrize(
    ("lesson", "name", "value", "meant"),
    [
        ("01", "ask_for_a_thing", "np.array([2.0, -1.0])", "1: the thing, with the largest weight"),
        ("01", "ask_for_a_thing", "np.array([4.0, -3.5])", "-2: the last adjective"),
        ("02", "choose_m", "np.array([[3.0, 0.0], [0.0, 3.0]])", "-1: itself"),
        ("03c", "most_sensitive_scores", "torch.zeros(8)", "-1: all keys share it"),
    ],
)
def test_codes_are_told_by_what_they_stand_for_and_not_subtracted(lesson: str, name: str, value: str, meant: str) -> None:
    report = released(lesson, name, f"import numpy as np\nimport torch\n\ndef {name}():\n    return {value}")
    assert [grid.title for grid in report.grids] == ["expected", "yours"]
    assert f"{report.advice} {report.detail}".count(meant) == 1
    assert "by hand" not in report.advice
    assert ("Change one number of your answer at a time" in report.advice) == (not report.known)


def test_of_truth_values_the_difference_is_shown() -> None:
    report = released("04d", "three_masks", """
        import torch

        def three_masks(source, n):
            real = (source != 0)[:, None, :]
            causal = torch.ones(n, n, dtype=torch.bool).tril()
            return real, causal, real & torch.ones(n, source.shape[1], dtype=torch.bool).tril()
    """)  # fmt: skip
    assert len(report.grids) == 3


def test_two_changes_are_not_spoken_of_as_if_they_were_shown() -> None:
    report = released("04d", "three_masks", """
        import torch

        def three_masks(source, n):
            real = (source != 0)[:, None, :]
            causal = torch.ones(n, n, dtype=torch.bool).tril()
            decoder = causal & real[:, :, :n]
            return real, decoder, causal
    """)  # fmt: skip
    assert "these changes" not in to_text(report)
    assert "One change in each of these places makes every check pass." in report.advice
    assert report.change.count("replace `") == 2
    assert "Show the change" in to_html(report)


def test_a_transpose_and_a_length_that_are_both_wrong_are_quoted_as_they_are_written() -> None:
    report = released("03", "scaled_scores", "def scaled_scores(Q, K):\n    return Q @ K.T / Q.shape[0] ** 0.5")
    assert report.headline.startswith("The mistake is in line 2, in `Q @ K.T / Q.shape[0] ** 0.5`")


def test_of_several_numbers_it_is_said_which_one_is_off_and_which_are_right() -> None:
    report = released("04e", "best_possible", "def best_possible():\n    return 0.5, 0.5")
    assert report.headline.startswith("The number at `[0]` of your result is too small")
    assert "unit" not in report.advice
    assert report.detail.startswith("Each number has to be right to within")
    report = released("04e", "best_possible", "def best_possible():\n    return 0.7, 0.9")
    assert report.headline.startswith("The number at `[1]` of your result is too large")
    assert "output `[0]`" in report.detail


POOL = "import numpy as np\n\ndef attention_pool(q, K, V, kernel):\n    s = {}\n    return s / max(s.sum(), 1e-300) @ V"


def test_what_stops_inside_a_given_function_is_told_by_its_call() -> None:
    report = released("01", "attention_pool", POOL.format("np.array([kernel(q, k) for k in K])"))
    assert report.headline.startswith("Your call of `kernel` in line 4, `s = np.array([kernel(q, k) for k in K])`, stops inside")
    assert "an array of shape (5,) and an array of shape (5,)" in report.advice
    assert "axis is named" not in report.headline


@pytest.mark.parametrize("scores", ["kernel(q, K).sum(axis=1)", "kernel(K)"])
def test_what_stops_in_the_learners_own_line_is_not_put_down_to_a_given_function(scores: str) -> None:
    assert "stops inside" not in released("01", "attention_pool", POOL.format(scores)).headline


CACHE = """
    import torch

    class KVCache:
        def __init__(self, capacity):
            self.capacity = capacity
            self.K = self.V = None

        @property
        def length(self):
            return 0 if self.K is None else self.K.shape[-2]

        def append(self, k, v):
            if self.length + k.shape[-2] > self.capacity:
                raise ValueError("full")
            self.K = k if self.K is None else torch.cat([self.K, k], dim=-2)
            self.V = v if self.V is None else torch.cat([self.V, v], dim=-2)
            return self.K, self.V

        def rewind(self, n):
            if n > self.length:
                raise ValueError("few")
            self.K, self.V = self.K[..., : self.length - n, :], self.V[..., : self.length - n, :]

        def reset(self):
            self.K = self.V = None
"""


def test_a_class_that_returns_only_what_is_new_is_told_so_by_its_call() -> None:
    report = released("07", "KVCache", CACHE.replace("return self.K, self.V", "return k, v"))
    assert report.recorded == "returned_the_new"
    assert "output `[0]` of call 2, `append(k, v)`" in report.detail


def test_a_method_that_is_read_as_a_value_is_told_so() -> None:
    report = released("07", "KVCache", CACHE.replace("@property\n", "\n"))
    assert report.headline == "A method is used as if it were a value, without being called."


def test_results_in_the_wrong_order_are_quoted_as_they_are_written() -> None:
    report = released("07", "KVCache", CACHE.replace("return self.K, self.V", "return self.V, self.K"))
    assert "in `return self.V, self.K`: its parts are in the wrong order." in report.headline


def test_a_mistake_that_a_wrong_shape_hides_is_told_beside_it() -> None:
    report = released("01", "attention_pool", """
        def attention_pool(q, K, V, kernel):
            w = kernel(q, K)
            w = w / w.sum()
            return V @ w
    """)  # fmt: skip
    assert report.headline.startswith("The mistake is in line 4, in `V @ w`")
    assert "Once that is corrected, your result comes out as if you divided by a sum of zero" in report.headline


def test_the_error_of_the_shown_input_is_told_before_a_mistake_at_an_edge() -> None:
    report = released("01", "normalize", "def normalize(s):\n    return s / s.sum(axis=-1)")
    first, rest = report.headline.split(" There is another mistake. ")
    assert first == "Two arrays have shapes that don't fit together: (5,7) and (5,)."
    assert rest.startswith(f"{AS_IF} divided 0 by 0")
    assert "(`keepdims`)" in report.advice


def test_a_helper_that_is_left_at_its_default_is_named() -> None:
    report = released("06", "rope_angles", """
        import torch

        def angles(pos, d, base=500.0):
            theta = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
            return pos[..., None].to(torch.promote_types(pos.dtype, torch.float32)) * theta.to(
                torch.promote_types(pos.dtype, torch.float32)
            )

        def rope_angles(pos, d, base=10_000.0):
            return angles(pos, d)
    """)  # fmt: skip
    assert "`angles` is called without its `base`, so it uses the default value." in report.headline


def test_an_error_that_is_plain_is_told_first_and_a_precision_not_twice() -> None:
    report = released("03", "scaled_scores", """
        import math
        import torch

        def scaled_scores(Q, K):
            S = torch.zeros(len(Q), len(K))
            for i in range(len(Q)):
                for j in range(len(K)):
                    S[i, j] = Q[i].dot(K[j])
            return S / math.sqrt(Q.shape[-1])
    """)  # fmt: skip
    assert report.headline.startswith("`dot` takes two vectors")
    assert report.headline.count("float32") == 1
    assert "precision" not in report.headline


def test_code_is_quoted_as_people_write_it() -> None:
    tree = ast.parse("def f(x):\n    return x.var() + 1e-5, x @ y").body[0]
    assert isinstance(tree, ast.FunctionDef)
    assert describe_change._text(tree.body[0]) == "return x.var() + 1e-5, x @ y"


def test_a_size_that_is_fixed_is_told_as_such() -> None:
    report = said(ATTEND, """
        def attend(Q, K, V):
            S = Q @ K.T
            E = np.exp(S / np.sqrt(64))
            return E / E.sum(axis=-1, keepdims=True) @ V
    """)  # fmt: skip
    assert report.headline == (
        "The mistake is in line 3, in `np.exp(S / np.sqrt(64))`: 64 is a fixed number, but what belongs there depends on the"
        " inputs."
    )
