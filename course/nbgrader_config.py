"""Settings for plain `nbgrader …` commands run in this folder."""

c = get_config()  # noqa: F821 - traitlets puts it here

c.CourseDirectory.course_id = "attention"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".nbgrader.log", ".attn"]
# `nbgrader zip_collect`: the archives of `attn submit` hold STUDENT/LESSON/LESSON.ipynb
c.FileNameCollectorPlugin.named_regexp = r".*[/\\](?P<student_id>[^/\\]+)[/\\]\d\d_\w+[/\\](?P<file_id>\w+)\.ipynb$"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}

# nbgrader's own list, with our two steps: the solution's source goes in just before ClearSolutions cuts it to a stub,
# and a prediction's stub is mended just after. InstantiateTests is left out: every autograded cell is a check(...).
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "autograder.nbgrader_plugins.InjectSolutions",
    "nbgrader.preprocessors.LockCells",
    "nbgrader.preprocessors.ClearSolutions",
    "autograder.nbgrader_plugins.StubPredictions",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# A cell that a learner deleted comes back as it was released, instead of leaving a mark of "none" for ever.
c.OverwriteCells.add_missing_cells = True
c.ExecutePreprocessor.timeout = 60
c.ExecutePreprocessor.interrupt_on_timeout = True
c.Execute.extra_arguments = ["--HistoryManager.enabled=False"]
