"""A hub for one class on one machine: students with the assignment list, an instructor with the formgrader.

Copy this folder to where all may read and root alone may write, edit the four names below, and start the hub with
`jupyterhub -f …/jupyterhub_config.py`. `docs/teaching/hub.md` says what else the machine needs; `tests/hub/test_hub.py` runs a
round of the course, from release to fetched feedback, through this file.
"""

import os
from pathlib import Path

c = get_config()  # noqa: F821 - traitlets puts it here
HERE = Path(__file__).resolve().parent

# ---- edit these ------------------------------------------------------------------------------------------------------
INSTRUCTORS = ["grace"]
STUDENTS = ["ada", "bob"]
COURSE = Path(os.environ.get("ATTN_COURSE", "/home/grace/attention-course/course"))  # the instructor's clone, closed to others
EXCHANGE = os.environ.get("ATTN_EXCHANGE", "/srv/nbgrader/exchange")  # exists, and everybody may write there (mode 1777)
# ----------------------------------------------------------------------------------------------------------------------

# Loopback: a web server in front of it holds the certificate. A hub that speaks plain HTTP to the world gives passwords away.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# A UNIX account for each name, checked by PAM, and each server runs as its user: this is what keeps students' files apart,
# and what makes the owner of a submission its author. Another sign-on gives names without accounts, and a
# server of a name without one does not start: `jupyterhub_lti_config.py` makes them; elsewhere use a spawner of containers.
c.JupyterHub.authenticator_class = "pam"
c.JupyterHub.spawner_class = "localprocess"
c.Authenticator.allowed_users = {*INSTRUCTORS, *STUDENTS}

# nbgrader's names: members of `nbgrader-<course>` may fetch and submit, members of `formgrade-<course>` grade.
c.JupyterHub.load_groups = {
    "formgrade-attention": {"users": INSTRUCTORS},
    "nbgrader-attention": {"users": STUDENTS},
}
# nbgrader asks the hub in which groups its user is. The default rights of a server do not cover that question.
c.Spawner.server_token_scopes = ["users:activity!user", "access:servers!server", "read:users:groups!user"]

# Settings for everybody's server come from this folder; the student's part only hides what is not for them.
c.Spawner.default_url = "/lab"
c.Spawner.environment = {"ATTN_EXCHANGE": EXCHANGE, "JUPYTER_CONFIG_PATH": f"{HERE / 'student'}{os.pathsep}{HERE}"}

# An instructor's server stands in the clone, because the formgrader serves no course outside of its server's root. It opens
# as a page of its own: since JupyterHub 4.1 a server's pages may not be framed, and in JupyterLab the formgrader is a frame.
c.Spawner.group_overrides = {
    "instructors": {
        "groups": ["formgrade-attention"],
        "spawner_override": {
            "environment": {"ATTN_COURSE": str(COURSE), "JUPYTER_CONFIG_PATH": str(HERE)},
            "notebook_dir": str(COURSE.parent),
            "default_url": "/formgrader",
        },
    }
}
