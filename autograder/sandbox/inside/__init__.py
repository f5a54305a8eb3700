"""Everything that runs inside the sandbox: the warm worker, the submission and exercise processes, and their confinement.

In: cells and questions over the pipe. Out: frames, of which the trusted side believes only what `wire` and `codec` let
through. `drop_root` steps down from root, `worker` imports everything and gives up its rights (`confine`), `runner` is a
submission's process, `cells` runs its cells, and `wipe` deletes what it left. `disk` limits its files, and `no_display` keeps
figures from being drawn. May import `judging`, and of the sandbox `wire`, `codec`, `clock`, `budget`.
"""
