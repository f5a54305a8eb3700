"""Our own entries: files as a learner submits them. `python -m attention_course.capstone.record` runs them all."""
