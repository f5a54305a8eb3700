"""What a graded class is told: each student's page (`feedback`), the instructor's report (`class_report`; as a page
`class_report_page`, as a table `class_table`), and which mistakes come back (`across`). `templates` fills in the `.html`.

In: verdicts, marks and comments. Out: pages without scripts or network, everything escaped.
May import `diagnosis`, `notebooks`, `judging`, and of grading `ledger`, `grades`, `gradebook` and `bounded`.
"""
