"""Settings for plain `nbgrader …` commands run in this folder. What the one call sets: autograder.plugins.nbgrader_settings."""

from autograder.plugins.nbgrader_settings import configure

c = get_config()  # noqa: F821 - traitlets puts it here
configure(c, course_id="attention")

# Late submissions, counted from the due date in the gradebook; without one nobody is late. See autograder.plugins.late_penalty.
c.LatePenalty.per_day = 0.1  # a tenth of the score for each day begun ...
c.LatePenalty.most = 0.5  # ... up to a half
c.LatePenalty.grace_minutes = 15
c.LatePenalty.extensions = {}  # {"student id": days}, for every assignment; by assignment: students.csv
