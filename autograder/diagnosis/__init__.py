"""From a verdict to what the learner reads: which mistake it was, and how it is said.

In: an exercise's record and the judged cases. Out: a `Diagnosis`, a `Report`, HTML or text. May import `judging` and itself.

`attempt` goes from an answer to its verdict in one step. `diagnose` finds the explanation: by the outputs of known `mistakes`
and of programs near a right one, in `parts`, by `related` numbers; `outcome` is what came out of a case. `slips` explains
exceptions and wrong kinds of results; `mending` tries changes of the learner's own code. `explain` says it in words, `panel`
draws it.
"""
