"""nbgrader's settings for the sample course, as `attn init` would write them."""

from autograder.plugins.nbgrader_settings import configure

c = get_config()  # noqa: F821 - traitlets puts it here
configure(c, course_id="attention")
c.LatePenalty.per_day = 0.1
c.LatePenalty.most = 0.5
c.LatePenalty.grace_minutes = 15
