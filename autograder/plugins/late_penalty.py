"""Deduct a share of the score for each day begun after the due date, with a grace period and extensions (an nbgrader plugin).

`course/nbgrader_config.py` names it in `AssignLatePenalties.plugin_class` and sets its numbers. It deducts nothing while an
assignment has no due date (`nbgrader db assignment add 03_scaled_dot_product --duedate="2026-10-01 23:59 UTC"`). The time of a
submission is in its `timestamp.txt`, which nbgrader's `collect` writes. A submission without a `timestamp.txt` counts as on time.

A further attempt replaces the one before (`nbgrader collect --update`), and its own time counts. The class list
(`autograder.grading.roster`) says who has more time for which assignment, and that time is subtracted before this plugin is
asked. The plugin's own `extensions` apply to every assignment. `autograder.grading.grades` asks the plugin whenever a grade is
computed, so a change takes effect at once.
"""

import math

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Dict, Float, Unicode

DAY = 86_400


class LatePenalty(LateSubmissionPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """Deduct `score x min(most, per_day x days begun)`, and nothing within the grace period."""

    per_day = Float(0.1, min=0, max=1, help="Share of the score taken for each day begun.").tag(config=True)
    most = Float(0.5, min=0, max=1, help="The largest share taken, however late.").tag(config=True)
    grace_minutes = Float(15, min=0, help="Nobody is late before.").tag(config=True)
    extensions = Dict(
        key_trait=Unicode(), value_trait=Float(min=0), help="Days that a student has beyond the due date, by student id."
    ).tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Return the points to deduct, or None if the submission counts as on time."""
        late = total_seconds_late - self.extensions.get(student_id, 0.0) * DAY
        if late <= self.grace_minutes * 60:
            return None
        share: float = min(self.most, self.per_day * math.ceil(late / DAY))
        return score * share
