"""What is asked, what was seen of an answer, and whether it is right.

In: exercises as declared (`exercise`), an answer or what was seen of one. Out: a `Result`.
Imports nothing of the engine but itself; NumPy only. Nothing here knows notebooks, courses or files.

`values` and `observation` are the data, `observe` alone calls learners' code, and `judge` compares.
"""
