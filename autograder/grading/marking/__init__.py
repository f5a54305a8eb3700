"""Mark one submission from outside the process in which it runs.

In: a submitted notebook, the release and its packs (`MarkScheme`), a sandbox. Out: a verdict for each exercise, and the
notebook with its outputs (`Marked`). May import `sandbox`, `authoring`, `diagnosis`, `notebooks`, `judging`, `packs`, and of
grading `read_in_child`; nothing about classes or gradebooks.
"""
