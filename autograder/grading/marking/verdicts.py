"""What the sandbox is asked about each exercise, and the verdicts on what it answers: visible probes first, then hidden ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autograder import sandbox as box
from autograder.diagnosis.attempt import explained, judge_missing
from autograder.diagnosis.explain import Report, make_report
from autograder.grading.marking.scheme import MarkScheme
from autograder.judging.judge import judge, judge_choice
from autograder.judging.observation import Failure, Observation
from autograder.judging.records import ExerciseRecord, Result
from autograder.judging.values import EncodedValue
from autograder.sandbox import untrusted

REPLY_TIMES = 8  # the arrays of the largest right answer, and of a wrong one as much


def on_visible(scheme: MarkScheme, submission: box.Submission, names: Sequence[str]) -> Mapping[str, Result]:
    """The result of each exercise on its visible probes. They decide no mark but of what never ran, so they share a process."""
    records = {name: scheme.visible.exercises[name] for name in names}
    asked = [name for name, record in records.items() if not record.choices]
    chosen = submission.values([name for name in names if name not in asked])
    seen = submission.observe_all([question(records[name]) for name in asked])
    return {
        name: judge_choice(record, _plain_text(chosen[name])) if record.choices else judged_from(record, seen[name])
        for name, record in records.items()
    }


@dataclass
class Verdict:
    """What an answer gets, and the probes that are shown for it: hidden ones only where all visible ones pass."""

    result: Result
    reveal: bool = True

    def report(self, *, explain: bool = True) -> Report:
        """The report; without `explain` it leaves out which mistake it was, which takes longest to find."""
        return make_report(explained(self.result) if explain else self.result, reveal=self.reveal)


def on_hidden(scheme: MarkScheme, submission: box.Submission, visible: Mapping[str, Result]) -> dict[str, Verdict]:
    """The verdict on each exercise: *hidden* probes give the score; if the visible ones failed too, they are what is shown."""
    asked = {name: scheme.hidden.exercises[name] for name, result in visible.items() if not _settled(result)}
    seen = submission.observe_all([question(record) for record in asked.values()], apart=True)
    found = {name: Verdict(result) for name, result in visible.items()}
    for name, record in asked.items():
        hidden = judged_from(record, [untrusted.clean_hidden(one) for one in seen[name]])
        if hidden.passed or visible[name].passed:
            found[name] = Verdict(hidden, reveal=False)
        else:
            found[name] = Verdict(replace(visible[name], score=hidden.score))
    return found


def _settled(visible: Result) -> bool:
    """Whether the hidden probes would only say the same as the visible ones, and take as long."""
    ended = visible.failure is not None and visible.failure.kind in ("timeout", "crashed", "missing", "blank")
    return bool(visible.exercise.choices) or (ended and visible.score == 0)


def question(record: ExerciseRecord) -> box.Question:
    largest = max((case.expected.nbytes for case in record.cases), default=0)
    room = max(box.REPLY_BYTES, REPLY_TIMES * largest)
    return box.Question(record.id, [case.probe for case in record.cases], record.timeout_s, room)


def judged_from(record: ExerciseRecord, seen: Sequence[Observation]) -> Result:
    """The verdict on `seen`, not yet explained."""
    observations = list(seen)
    if observations and all(one.failure and one.failure.kind == "missing" for one in observations):
        return judge_missing(record)
    observations += [Observation(failure=Failure("crashed"))] * (len(record.cases) - len(observations))
    return judge(record, observations)


def _plain_text(tree: EncodedValue | None) -> str | None:
    return tree.content if tree is not None and isinstance(tree.content, str) else None
