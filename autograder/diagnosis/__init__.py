"""From a verdict to what the learner reads: which mistake it was, and how it is said.

In: an exercise's record and the judged cases. Out: a `Diagnosis`, a `Report`, HTML or text. May import `packs`, `mutants`,
`judging` and itself.

`attempt` goes from an answer to its verdict in one step. `diagnose` finds the explanation, and these propose one each:
`certain` (what the checks themselves prove), `known_mistakes` (listed ones and mutants), `partial_matches` (another explanation
for each output), `python_errors` (exceptions), `result_structure` (a list for an array), `single_numbers`, `relations` (a factor,
a transpose) and `repair` (changes of the learner's own code). They return facts (`finding`). `explain` makes a `Report` of them,
`phrase` turns it into the words of `sentences`, and `panel` draws it.
"""
