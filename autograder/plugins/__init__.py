"""What nbgrader and Jupyter load by name: preprocessors, exporters, the late penalty, the exchange, formgrader's button.

In: what nbgrader hands over. Out: what it expects. Each is named in a course's `nbgrader_config.py` and used nowhere else.
May import everything but `cli`.
"""
