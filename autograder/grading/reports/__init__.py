"""Present a graded class: each student's page, and the instructor's report.

In: verdicts, marks and comments. Out: pages without scripts or network, everything escaped. `feedback` writes the student's
page, `class_report` the instructor's report (`class_report_page` as a page, `class_table` as a table), `recurring_mistakes` finds
recurring mistakes, and `templates` fills in the `.html` files. May import `diagnosis`, `notebooks`, `judging`, and of
grading `ledger`, `grades`, `gradebook` and `read_in_child`.
"""
