"""Do what a learner needs on their own machine: open lessons, check, follow progress, get hints, update, hand in.

In: a release and the learner's own folder (`folder`). Out: scores and panels (`check`), progress, archives to upload. A
notebook's cells call `in_cells`.
"""
