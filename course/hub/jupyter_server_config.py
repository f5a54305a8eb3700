"""Which of nbgrader's parts a server on the hub loads: the formgrader for the instructor, and `attn grade` behind its button."""

import os

c = get_config()  # noqa: F821 - traitlets puts it here

instructor = "ATTN_COURSE" in os.environ
c.ServerApp.jpserver_extensions = {
    "autograder.plugins.formgrader": instructor,
    "nbgrader.server_extensions.formgrader": instructor,
    "nbgrader.server_extensions.course_list": False,  # there is one course
}
