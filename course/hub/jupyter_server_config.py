"""Which of nbgrader's parts a server on the hub loads, and when one that nobody uses ends.

The formgrader is for instructors, with `attn grade` behind its button.
"""

import os

c = get_config()  # noqa: F821 - traitlets puts it here

instructor = "ATTN_COURSE" in os.environ
c.ServerApp.jpserver_extensions = {
    "autograder.plugins.formgrader": instructor,
    "nbgrader.server_extensions.formgrader": instructor,
    "nbgrader.server_extensions.course_list": False,  # there is one course
}

# A kernel that rests for two hours ends, its notebook is on disk; a server without kernels that nobody has asked for an hour more
# ends too. The hub starts it again at the next visit.
c.MappingKernelManager.cull_idle_timeout = 2 * 3600
c.MappingKernelManager.cull_interval = 300
c.MappingKernelManager.cull_connected = True  # a tab left open is nobody at work
c.MappingKernelManager.cull_busy = False  # a training that runs is
c.ServerApp.shutdown_no_activity_timeout = 3 * 3600
