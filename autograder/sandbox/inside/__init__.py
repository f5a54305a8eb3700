"""What runs inside the sandbox: the warm worker, one process for each submission, one for each question, and their walls.

In: cells and questions over the pipe. Out: frames that the trusted side believes only as far as `wire` and `codec` let them.
`drop_root` steps down from root, `worker` imports and gives its rights away (`confine`), `runner` is a submission's process,
`cells` runs its cells, `wipe` deletes what it left. May import `judging`, and of the sandbox `wire`, `codec`, `clock`, `budget`.
"""
