"""What a learner calls in a notebook's cell: `check`, and beside it `hint`, `status`, `solution`.

In: the cell's namespace, the lesson's pack, progress so far. Out: objects that show themselves as panels.
May import `workspace`'s `folder` and `progress`, `authoring` (to find the course), `diagnosis`, `notebooks`, `packs`, `judging`.

`check` is the call itself. `hint_status_solution` holds the other three, `next_hint` which hint comes next, `overview` how far
the learner is. `missing_exercise` speaks where a cell calls an exercise that is not written yet.
"""
