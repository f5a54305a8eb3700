"""What one submission may use: seconds, memory, processes, files. Trusted side."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Memory is per process; files, processes and output are per submission."""

    budget_s: float = 60.0  # for everything: cells, exercises and attempts (`autograder.sandbox.budget`)
    wall_s: float = 60.0  # all cells together
    cell_s: float = 20.0  # one cell; less once a cell has run out of time
    cpu_s: int = 90
    memory_bytes: int = 4 << 30
    tree_bytes: int = 6 << 30  # the worker and all its processes together, if a control group can be made
    processes: int = 64
    file_bytes: int = 8 << 20
    open_files: int = 128
    output_bytes: int = 1 << 20  # text and figures
    scratch_bytes: int = 256 << 20  # /tmp, and as much again in /dev/shm (bubblewrap only)
    scratch_files: int = 20_000  # files and folders in /tmp, and as many again in /dev/shm
