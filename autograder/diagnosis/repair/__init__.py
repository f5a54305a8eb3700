"""Find small changes of the learner's own code that make every check pass.

In: an exercise, the learner's function or class, and the judged cases. Out: a `Diagnosis` that names the place in their code,
or None. It runs only in the learner's own process, where their code runs anyway.

`answer_source` finds the code, `insertions` and `mutants.operators` supply the changes, `search` tries them, and
`describe_change` describes the one that worked. If nothing repairs the answer, the learner is told the first wrong steps:
`first_wrong_step` watches what the code computes and finds the first steps whose numbers no right program has.
"""
