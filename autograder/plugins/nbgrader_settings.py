"""Set what a course's `nbgrader_config.py` needs: after a call of `configure`, plain `nbgrader …` commands work there."""

import os
import secrets
from typing import Any

# nbgrader's own list with four additions: the solution's source is inserted just before ClearSolutions cuts it to a stub,
# a prediction's stub is replaced just after, a first cell says what to install if the course is missing, and a last cell
# leads to the next lesson.
# InstantiateTests is left out, because every autograded cell is a check(...).
GENERATE = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "autograder.plugins.preprocessors.InjectSolutions",
    "nbgrader.preprocessors.LockCells",
    "nbgrader.preprocessors.ClearSolutions",
    "autograder.plugins.preprocessors.StubPredictions",
    "autograder.plugins.preprocessors.SayWhatToInstall",
    "autograder.plugins.preprocessors.LeadOn",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# `attn grade` marks from outside a sandbox and needs none of what follows. Plain `nbgrader autograde` runs a learner's code
# beside the code that marks it. These settings prevent what settings can prevent; .github/SECURITY.md lists what remains.
SANITIZE = [
    "autograder.plugins.preprocessors.Rebuild",  # puts the answers into the release: no deleted, doubled or forged cells
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
AUTOGRADE = [
    "nbgrader.preprocessors.Execute",
    "autograder.plugins.sanitise.Defuse",  # formgrader shows the result in the marker's browser
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]


def configure(c: Any, *, course_id: str = "course") -> None:
    """Set everything in `c`, the object that `get_config()` returns. Settings made after this call override it."""
    c.CourseDirectory.course_id = course_id
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".nbgrader.log", ".attn"]
    # running the whole notebook stops with this message at the first unwritten function that is called
    c.ClearSolutions.code_stub = {"python": '# YOUR CODE HERE\nraise NotImplementedError("not written yet")'}
    c.ClearSolutions.text_stub = (
        "✎ *Your answer: click this cell, press Enter, write in place of this line, then press Shift+Enter.*"
    )
    c.GenerateAssignment.preprocessors = GENERATE
    c.Autograde.sanitize_preprocessors = SANITIZE
    c.Autograde.autograde_preprocessors = AUTOGRADE
    c.OverwriteCells.add_missing_cells = True
    c.Execute.skip_cells_with_tag = secrets.token_hex(16)  # with the default tag, anybody could keep a cell from being run
    c.ExecutePreprocessor.timeout = 60
    c.ExecutePreprocessor.interrupt_on_timeout = True
    # Files beside a submission are copied into the kernel's folder. This keeps them from being imported in place of a library.
    os.environ["PYTHONSAFEPATH"] = "1"
    c.Execute.extra_arguments = ["--HistoryManager.enabled=False", "--InteractiveShellApp.ignore_cwd=True"]
    c.GenerateFeedback.exporter_class = "autograder.plugins.sanitise.FeedbackExporter"
    c.GenerateFeedback.preprocessors = [
        "autograder.plugins.preprocessors.CurrentGrades",  # updates the penalty to today's before the page shows it
        "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    ]
    c.ExportApp.plugin_class = "autograder.plugins.exporters.CsvExporter"
    # Late submissions count from the due date in the gradebook; without a due date nobody is late.
    c.AssignLatePenalties.plugin_class = "autograder.plugins.late_penalty.LatePenalty"
    # `nbgrader zip_collect` reads the downloads of learning platforms as `attn collect` does.
    c.ZipCollectApp.extractor_plugin = "autograder.grading.collect.SafeExtractor"
    c.ZipCollectApp.collector_plugin = "autograder.grading.collect.SafeCollector"
