"""nbgrader's settings for everybody on the hub; the instructor's server is known by `ATTN_COURSE`, which the hub sets for it."""

import os

c = get_config()  # noqa: F821 - traitlets puts it here

c.Exchange.root = os.environ.get("ATTN_EXCHANGE", "/srv/nbgrader/exchange")
c.CourseDirectory.course_id = "attention"
if "JUPYTERHUB_API_TOKEN" in os.environ:  # outside of a server of the hub (over ssh, in a nightly job) there is nobody to ask
    c.Authenticator.plugin_class = "nbgrader.auth.JupyterHubAuthPlugin"  # who is in the course: the hub's groups

c.ExchangeFactory.collect = "autograder.plugins.exchange.Collect"  # follows no link that a student laid
c.ExchangeFactory.release_feedback = "autograder.plugins.exchange.ReleaseFeedback"  # `attn grade` leaves its receipt there

if course := os.environ.get("ATTN_COURSE"):
    load_subconfig("nbgrader_config.py", path=course)  # noqa: F821 - the course's own settings
    c.CourseDirectory.root = course
elif user := os.environ.get("JUPYTERHUB_USER"):
    # nbgrader takes the system's name for the student's: wrong where servers share one account, as in containers.
    c.CourseDirectory.student_id = user
