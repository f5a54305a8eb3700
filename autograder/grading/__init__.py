"""From a class's submissions to marks: collected, marked in sandboxes, written by one hand, told to students and instructor.

In: submitted notebooks and the release. Out: nbgrader's gradebook, feedback pages, the class report.
`collect` reads uploads, `mark` marks one submission, `workers` says where, `grade` does a class, `ledger` remembers.
May import everything below it: `sandbox`, `workspace`, `authoring`, `notebooks`, `judging`.
"""
