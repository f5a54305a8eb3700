"""What a learner calls in a notebook's cell: `check`, and beside it `hint`, `status`, `solution`.

In: the cell's namespace, the lesson's pack, progress so far. Out: objects that show themselves as panels.
May import `workspace`'s `folder` and `progress`, `authoring` (to find the course), `diagnosis`, `notebooks`, `judging`.
"""
