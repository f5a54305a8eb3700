"""Provide what a learner calls in a notebook cell: `check`, `hint`, `status`, `solution`.

In: the cell's namespace, the lesson's pack, progress so far. Out: objects that show themselves (`shown`). `check` is the
call itself. `learner_commands` holds the other three, `choose_hint` picks the next hint, `overview` shows how far the
learner is, and `missing_exercise` explains a call of an exercise that is not written yet. May import `folder`,
`learner_status` and `progress` of `workspace`, `authoring` (to find the course and its answers), `diagnosis`, `notebooks`,
`packs`, `judging`.
"""
