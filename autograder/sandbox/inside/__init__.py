"""Everything that runs inside the sandbox: the warm worker, the submission and exercise processes, and their confinement.

In: cells and questions over the pipe. Out: frames, which the trusted side believes only as far as `wire` and `codec` let
them. `drop_root` steps down from root, `worker` imports everything and gives up its rights (`confine`), `runner` is a
submission's process, `cells` runs its cells, and `wipe` deletes what it left. May import `judging`, and of the sandbox
`wire`, `codec`, `clock`, `budget`.
"""
