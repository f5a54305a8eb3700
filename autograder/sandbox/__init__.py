"""Run learners' code for grading in a confined warm worker, and talk to it over a strict pipe.

In: a submission's cells and questions. Out: its outputs and observations, made harmless. The grader uses `client`
(`Sandbox`, `Submission`), `submission_limits` states what a submission may use, and `isolation_tiers` says which isolation works
on this machine. Trusted side: `client`, `run_submission`, `process`, `submission_limits`, `budget`, `submission_time`,
`isolation_tiers`, `launch`, `cgroup`, `refusals`, `untrusted`. Shared by both sides: `wire`, `codec`, `clock`, and
`budget.shorter`. Confined side: the folder `inside`.
"""
