"""The same hub, entered from a learning platform by LTI 1.3 (Moodle, Canvas, Brightspace …) instead of by password.

Start it with `jupyterhub -f …/jupyterhub_lti_config.py`; all else is as in `jupyterhub_config.py`, which this file loads.
Register the hub with the platform as an external tool: `https://<hub>/hub/lti13/config` says what it asks for, its login
address is `https://<hub>/hub/lti13/oauth_login`, its redirect address `https://<hub>/hub/lti13/oauth_callback`. Have the platform
send a custom field `login` with the user's name there (Moodle: `login=$User.username`, Canvas: `login=$Canvas.user.loginId`).
`tests/hub/test_hub_lti.py` walks through it with a platform of its own.
"""

import grp
import os
import pwd
import re
from pathlib import Path

from jupyterhub.auth import LocalAuthenticator
from ltiauthenticator.lti13.auth import LTI13Authenticator

c = get_config()  # noqa: F821 - traitlets puts it here
load_subconfig("jupyterhub_config.py", path=str(Path(__file__).resolve().parent))  # noqa: F821 - and this

# ---- edit these; the platform shows the first four when the tool is registered -------------------------------------------
c.LTI13Authenticator.issuer = "https://moodle.example.org"
c.LTI13Authenticator.client_id = {"the client id of the registration"}
c.LTI13Authenticator.authorize_url = "https://moodle.example.org/mod/lti/auth.php"
c.LTI13Authenticator.jwks_endpoint = "https://moodle.example.org/mod/lti/certs.php"
CONTEXT = "42"  # the platform's id of this course: others of its courses may use the same registration
ACCOUNTS = "attention"  # `groupadd attention`: the UNIX group of those whose accounts come from the platform
# ----------------------------------------------------------------------------------------------------------------------

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
TEACHES = re.compile(r"/membership#Instructor$|/membership/Instructor#TeachingAssistant$")  # of this course, not of the school


class FromPlatform(LocalAuthenticator, LTI13Authenticator):
    """The platform says who it is, in which course and role; an account of that name is made at the first visit.

    A platform's user may be called like an account of this machine (`root`, `backup`, a colleague). So an account that exists is
    used only where it is a member of the group `ACCOUNTS`; put those in by hand who had one before (`adduser grace attention`).
    """

    async def authenticate(self, handler, data=None):
        name = str((data.get(f"{CLAIM}custom") or {}).get("login", ""))
        course = str((data.get(f"{CLAIM}context") or {}).get("id", ""))
        if course != CONTEXT:
            self.log.warning("expected a launch from course %r, got one from %r", CONTEXT, course)
            return None
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
            self.log.warning("expected the custom field `login` with a name of a-z, 0-9 and -, got %r", name)
            return None
        if not self.may_be_used(name):
            self.log.warning("expected the account %r to be in the UNIX group %r, or not to exist", name, ACCOUNTS)
            return None
        teaches = any(TEACHES.search(str(role)) for role in data.get(f"{CLAIM}roles") or ())
        return {"name": name, "groups": ["formgrade-attention" if teaches else "nbgrader-attention"]}

    def may_be_used(self, name):
        """Whether there is no account `name` yet, or one that came from the platform."""
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            return True
        groups = {grp.getgrgid(number).gr_name for number in os.getgrouplist(name, account.pw_gid)}
        return ACCOUNTS in groups


c.JupyterHub.authenticator_class = FromPlatform
c.JupyterHub.load_groups = {}  # the roles say so
c.Authenticator.manage_groups = True
c.Authenticator.allowed_users = set()
c.Authenticator.allow_all = True  # whom the platform lets into the course
c.LocalAuthenticator.create_system_users = True
c.LocalAuthenticator.add_user_cmd = ["adduser", "-q", "--gecos", "", "--disabled-password", "--ingroup", ACCOUNTS]
