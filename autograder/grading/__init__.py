"""Turn a class's submissions into marks, feedback pages and a report.

In: submitted notebooks and the release. Out: nbgrader's gradebook, feedback pages, the class report. `collect` reads
uploads. `grade` grades a class: `rehearsal` first tries the lesson itself, `workers` decides where each submission is marked
(`marking`), `write_results` writes the outcome (its rows through `gradebook`), and `ledger` records it. `grades` computes what
each submission is worth today, `roster` reads who has more time, `reports` presents the results, and `trials` tests the
grader itself.
"""
