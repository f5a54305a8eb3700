"""Explain a wrong answer to the learner: find the mistake behind a verdict and put it into words.

In: an exercise's record and the judged cases. Out: a `Diagnosis`, a `Report`, HTML or text.

`attempt` takes an answer to its verdict in one step, and `diagnose` looks for the explanation. These modules propose one:
`from_checks` (what the checks themselves prove), `known_mistakes` (listed mistakes and mutants), `by_output` (a mistake for
each output), `python_errors` (exceptions), `result_structure` (such as a list instead of an array), `single_numbers` (how far
off a number is) and `repair` (changes of the learner's own code). If none explains why values differ, `facts` says how
they differ. All return facts (`finding`). `explain` makes a `Report` from these facts, `phrase` puts them into the words of
`sentences`, and `panel` draws the report.
"""
