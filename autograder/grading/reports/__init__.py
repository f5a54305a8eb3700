"""What a graded class is told: each student's page (`feedback`), the instructor's report (`class_report`, `class_report_page`).

In: verdicts, marks and comments. Out: pages without scripts or network, everything escaped.
May import `diagnosis`, `notebooks`, `judging`, and of grading `ledger` and `bounded`.
"""
