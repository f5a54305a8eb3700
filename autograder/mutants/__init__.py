"""Mutants: programs that are one or two small slips from a right one, and what they do, so that nobody has to list them.

In: an exercise and its judged cases. Out: fingerprints by the slips that were made, and the slips as facts. May import `judging`.

`operators` and `call_operators` change the text of a program in small ways, `result_and_input_operators` holds what can go wrong
with any result or input, `course_operators` brings in what only a course knows, and `generate` makes, runs and chooses mutants.
`value_trace` is what a program computes on its way.
"""
