"""From a class's submissions to marks: collected, marked in sandboxes, written by one hand, told to students and instructor.

In: submitted notebooks and the release. Out: nbgrader's gradebook, feedback pages, the class report.
`collect` reads uploads, `grade` does a class: `rehearsal` tries the lesson itself, `workers` says where each submission is
marked (`marking`), `write_results` writes what came out (`gradebook` its rows), `ledger` remembers, `grades` says what each is
worth today (`roster`: who has more time), `reports` tells. `trials` puts the grader itself to the test.
May import everything below it: `sandbox`, `authoring`, `diagnosis`, `notebooks`, `judging`.
"""
