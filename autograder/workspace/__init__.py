"""What a learner does on their own machine: open lessons, check, follow progress, get hints, update, hand in.

In: a release and the learner's own folder (`folder`). Out: scores and panels (`check`), progress, archives to upload. Cells
call `in_cells`.
"""
