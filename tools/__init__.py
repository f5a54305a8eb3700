"""What maintainers run from a clone: the benchmark, the lessons' tables, recordings of long computations, the README's pictures.

`bench` measures the package in `solutions`, `real_model_table` measures lessons 11 and 12 again, each `record_*` writes a file
beside the module in `course/given` that reads it, and `readme_pictures` films JupyterLab. None of it is in a wheel.
"""
