"""Make mutants, programs that are one or two small slips from a right one, so that slips are recognised that nobody listed.

In: an exercise and its cases. Out: the mutants' fingerprints, by the slips that were made, and the slips as facts. May import
`judging`.

`operators` and `call_operators` change the text of a program in small ways, `result_and_input_operators` has the slips that are
possible with any result or input, `course_operators` loads the slips that only a course knows, and `generate` makes, runs and
chooses mutants. `value_trace` records what a program computes on its way.
"""
