"""From an answer to its verdict, and from the verdict to the panel that the learner reads.

In: exercises as declared (`exercise`), an answer or what was seen of one. Out: a `Result`, a `Report`, HTML or text.
Imports nothing of the engine but itself; NumPy only. Nothing here knows notebooks, courses or files but `pack`'s own.

`values` and `observation` are the data, `observe` alone calls learners' code, `judge` compares and diagnoses, `explain`
says it in words, `panel` draws it, `pack` keeps an exercise as a file, `attempt` goes from an answer to its verdict in one step.
"""
