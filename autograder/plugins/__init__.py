"""Define what nbgrader and Jupyter load by name: preprocessors, exporters, late penalty, exchange, formgrader's button.

In: what nbgrader passes. Out: what nbgrader expects. A course names each plugin in its `nbgrader_config.py`, and nothing else
uses them.
"""
