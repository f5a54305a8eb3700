"""What would make a wrong answer right? Small changes of the learner's own code, tried until every check passes.

In: an exercise, the learner's function or class, and what was seen of it. Out: a `Diagnosis` that names the place in their
code, or None. It runs in the learner's own process, where their code runs anyway, and nowhere else.

`answer_source` finds the code, `insertions` and `mutants.operators` hold what is tried, `search` tries it, and `describe_change`
makes a fact of what worked. `first_wrong_step` watches what the code computes and finds the first steps whose numbers no right
program has: there `search` looks first. `two_mistakes` repairs two places one after the other. Where nothing repairs the answer,
the first wrong steps are what is said of it.
"""
