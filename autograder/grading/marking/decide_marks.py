"""Decide the mark of each answer: ask it in the sandbox, on visible probes and then on hidden ones, and judge the replies.

The points of a verdict are computed in `judging.compare.score_of`. `credit` says what a wrong answer keeps despite a mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autograder.diagnosis import hidden
from autograder.diagnosis.attempt import explained, judge_missing
from autograder.diagnosis.explain import Report, make_report
from autograder.diagnosis.finding import fact
from autograder.grading.marking.credit import Credit, credit_for, said
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging.compare import judge, judge_choice
from autograder.judging.exercise import Prediction
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import AnyResult, ExerciseRecord, PredictionResult, Result
from autograder.sandbox import untrusted
from autograder.sandbox.run_submission import REPLY_BYTES, Question, Submission

REPLY_TIMES = 8  # a reply may have this many times the bytes of the largest right answer


def on_visible(scheme: MarkScheme, submission: Submission, names: Sequence[str]) -> Mapping[str, AnyResult]:
    """Return each exercise's result on its visible probes.

    These results decide a mark only if an answer gave no reply at all (`_settled`), so the exercises share a process.
    """
    records = {name: scheme.visible.exercises[name] for name in names}
    chosen = submission.texts([name for name, record in records.items() if isinstance(record, Prediction)])
    observations = submission.observe_all([question(record) for record in records.values() if isinstance(record, ExerciseRecord)])
    return {
        name: judge_choice(record, chosen[name]) if isinstance(record, Prediction) else judged_from(record, observations[name])
        for name, record in records.items()
    }


@dataclass
class Verdict:
    """What an answer gets, and the probes shown for it: hidden ones only if all visible ones pass."""

    result: AnyResult
    hidden: bool = False
    credit: Credit | None = None
    common: Result | None = None  # the result on the class's hidden probes, if the student's own fail

    @property
    def own_alone(self) -> bool:
        """Whether only this student's own inputs show that the answer is wrong."""
        return self.common is not None and self.common.passed

    def report(self, *, explain: bool = True) -> Report:
        """Return the report. Without `explain`, the report names no mistake, because finding it takes longest."""
        if isinstance(self.result, PredictionResult):
            return make_report(self.result)
        report = self._report(self.result, explain=explain)
        if self.credit is None or self.credit.points <= report.score:
            if not 0 < report.score < report.points or self.result.exercise.behaviour:
                return report
            kept = Credit(report.score, fact("credit.edges"))
            return replace(report, advice=f"{report.advice} {said(kept, report.points)}".strip())
        advice = f"{report.advice} {said(self.credit, report.points)}".strip()
        return replace(report, status="part", score=self.credit.points, advice=advice)

    def _report(self, result: Result, *, explain: bool) -> Report:
        result = explained(result) if explain and self.common is None else result
        if not self.hidden:
            return make_report(result)
        findings = hidden.findings_of(result)
        if explain and self.common is not None:
            findings = hidden.with_mistakes_of(findings, hidden.findings_of(explained(self.common)))
        return hidden.report(result.exercise, findings)


def on_hidden(scheme: MarkScheme, submission: Submission, visible: Mapping[str, AnyResult]) -> dict[str, Verdict]:
    """Return the verdict on each exercise. Hidden probes give the score; visible ones are shown if they failed too.

    The score comes from `scheme.own`, the student's records. An answer that passes the visible probes and fails the student's
    own is also asked the class's, because the outcome of each listed mistake is known only for those inputs.
    """
    unsettled = {name: result for name, result in visible.items() if isinstance(result, Result) and not _settled(result)}
    asked = {name: scheme.record_of(name) for name in unsettled}
    observations = submission.observe_all([question(record) for record in asked.values()], apart=True)
    verdicts = {name: Verdict(result) for name, result in visible.items()}
    results = {name: judged_hidden(record, observations[name]) for name, record in asked.items()}
    alone = [name for name in results if name in scheme.own and unsettled[name].passed]
    unexplained = [name for name in alone if not _needs_no_more(results[name])]
    common = {name: scheme.hidden.in_code[name] for name in unexplained if not submission.budget.spent}
    observations = submission.observe_all([question(record) for record in common.values()], apart=True)
    for name, result in results.items():
        credit = credit_for(result, scheme.shares.get(name, {}))
        if result.passed or unsettled[name].passed:
            shared = judged_hidden(common[name], observations[name]) if name in common else None
            verdicts[name] = Verdict(result, hidden=True, credit=credit, common=shared)
        else:
            verdicts[name] = Verdict(replace(unsettled[name], score=result.score), credit=credit)
    return verdicts


def judged_hidden(record: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """Return the verdict on the observations of hidden probes, without explaining it."""
    pairs = zip(observations, record.cases, strict=False)  # if its process ended early, the last are missing
    clean = [untrusted.clean_hidden(observation, case, behaviour=bool(record.behaviour)) for observation, case in pairs]
    return judged_from(record, clean)


def _settled(visible: Result) -> bool:
    """Return whether the hidden probes would only repeat the result of the visible ones, and take as long."""
    ended = visible.failure is not None and visible.failure.kind in ("timeout", "crashed", "missing", "blank")
    return ended and visible.score == 0


def _needs_no_more(result: Result) -> bool:
    """Return whether further questions would say nothing more: the answer is right, or it doesn't finish."""
    return result.passed or (result.failure is not None and result.failure.kind in ("timeout", "crashed"))


def question(record: ExerciseRecord) -> Question:
    largest = max((case.expected.nbytes for case in record.cases), default=0)
    room = max(REPLY_BYTES, REPLY_TIMES * largest)
    return Question(record.id, [case.probe for case in record.cases], record.timeout_s, room)


def judged_from(record: ExerciseRecord, observations: Sequence[Observation]) -> Result:
    """Return the verdict on `observations`, without explaining it."""
    if observations and all(seen.failure and seen.failure.kind == "missing" for seen in observations):
        return judge_missing(record)
    lost = [Observation(failure=Failure("crashed"))] * (len(record.cases) - len(observations))
    return judge(record, [*observations, *lost])
