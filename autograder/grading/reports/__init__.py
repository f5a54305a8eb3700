"""Present a graded class: each student's page, and the instructor's report.

In: verdicts, marks and comments. Out: pages without scripts or network, in which everything is escaped. `feedback` writes the
student's page. `class_report` compiles the instructor's report, which `class_report_page` shows as a page and `class_table` as
a table. `recurring_mistakes` finds mistakes that come back, and `templates` loads the `.html` files. May import `authoring`,
`diagnosis`, `notebooks`, `judging`, and of grading `collect`, `gradebook`, `grades`, `ledger`, `read_in_child`, `roster` and
`write_results`.
"""
