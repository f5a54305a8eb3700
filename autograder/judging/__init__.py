"""Declare exercises, observe what an answer does, and judge it.

In: exercises as authors declare them (`exercise`), and an answer or the observations of one. Out: a `Result`.
This package imports NumPy and itself, nothing else of the engine. It knows nothing of notebooks, courses or files.

`values` and `observation` hold the data, only `call_answer` calls learners' code, and `compare` judges what it observed.
"""
