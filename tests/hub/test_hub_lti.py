"""The hub's door for a learning platform (LTI 1.3), walked through with a platform of our own on loopback.

The platform signs what it says with a key that the hub fetches; a browser carries it from one to the other. What differs from
`course/hub/jupyterhub_lti_config.py`: addresses and ports, and no account of this machine is made.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from autograder.authoring.course import course_root
from tests.waiting import WAIT_S, wait_for_server

requests = pytest.importorskip("requests")
jwt = pytest.importorskip("jwt", reason="no PyJWT: `pip install '.[hub]'`")
pytest.importorskip("ltiauthenticator", reason="no ltiauthenticator: `pip install '.[hub]'`")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

pytestmark = [pytest.mark.hub, pytest.mark.timeout(2 * WAIT_S)]

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
ROLE = "http://purl.imsglobal.org/vocab/lis/v2/"
CLIENT, COURSE, TOKEN = "hub-1", "42", "the-token-of-this-test"
SETTINGS = """
c = get_config()
load_subconfig("jupyterhub_lti_config.py", path={recipe!r})
c.LTI13Authenticator.issuer = {platform!r}
c.LTI13Authenticator.client_id = {{{client!r}}}
c.LTI13Authenticator.authorize_url = {platform!r} + "/authorize"
c.LTI13Authenticator.jwks_endpoint = {platform!r} + "/keys"
c.LocalAuthenticator.create_system_users = False
c.JupyterHub.authenticator_class.system_user_exists = lambda self, user: True  # or it would make one
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [{{"name": "test", "services": ["test"], "scopes": ["list:users", "read:users"]}}]
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
"""


@dataclass
class Hub:
    """A running hub, and the platform that it trusts."""

    url: str
    platform: str
    key: Any

    def launch(self, *, key: Any = None, nonce: str | None = None, **said: Any) -> tuple[int, Any]:
        """What the hub answers to a launch in which the platform says `said`, and the browser that carried it."""
        browser = requests.Session()
        asked = {"iss": self.platform, "login_hint": "7", "target_link_uri": f"{self.url}/hub/home", "client_id": CLIENT}
        sent = browser.get(f"{self.url}/hub/lti13/oauth_login", params=asked, allow_redirects=False)
        assert sent.headers["Location"].startswith(f"{self.platform}/authorize?")
        wanted = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["Location"]).query).items()}
        assert wanted["redirect_uri"] == f"{self.url}/hub/lti13/oauth_callback"
        token = jwt.encode(self.claims(nonce or wanted["nonce"], **said), key or self.key, "RS256", headers={"kid": "one"})
        answer = browser.post(wanted["redirect_uri"], data={"id_token": token, "state": wanted["state"]}, allow_redirects=False)
        return answer.status_code, browser

    def claims(self, nonce: str, *, login: str, roles: tuple[str, ...] = (), course: str = COURSE, aud: str = CLIENT) -> Any:
        """A message of the platform about its user `login`."""
        now = int(time.time())
        named = {"version": "1.3.0", "deployment_id": "1", "target_link_uri": self.url, "message_type": "LtiResourceLinkRequest"}
        named |= {"roles": [ROLE + role for role in roles], "resource_link": {"id": "1"}, "context": {"id": course}}
        named |= {"custom": {"login": login}}
        basic = {"iss": self.platform, "aud": aud, "iat": now, "exp": now + WAIT_S, "nonce": nonce, "sub": "7"}
        return basic | {CLAIM + name: value for name, value in named.items()}

    def users(self) -> dict[str, list[str]]:
        """Who the hub knows, and in which groups."""
        answer = requests.get(f"{self.url}/hub/api/users", headers={"Authorization": f"token {TOKEN}"})
        assert answer.ok, answer.text
        found = answer.json()
        return {user["name"]: user["groups"] for user in found}


@pytest.fixture(scope="module")
def platform() -> Iterator[tuple[str, Any]]:
    """The address of a platform that shows its public key, and the key that it signs with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    shown = {"kid": "one", "alg": "RS256", "use": "sig", **json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))}

    class Platform(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": [shown]}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Platform)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", key
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory, new_port: Callable[[], int], platform: tuple[str, Any], hub_path: str
) -> Iterator[Hub]:
    """The recipe's hub behind the platform's door."""
    root, (address, key) = tmp_path_factory.mktemp("lti"), platform
    ports = {name: new_port() for name in ("port", "hub_port", "proxy_port")}
    recipe = str(course_root() / "hub")
    text = SETTINGS.format(recipe=recipe, platform=address, client=CLIENT, token=TOKEN, **ports)
    (root / "test_config.py").write_text(text)
    command = [sys.executable, "-m", "jupyterhub", "-f", str(root / "test_config.py")]
    with (root / "hub.log").open("w") as out:
        server = subprocess.Popen(
            command, cwd=root, env={**os.environ, "PATH": hub_path}, stdout=out, stderr=out, start_new_session=True
        )
    url = f"http://127.0.0.1:{ports['port']}"
    try:
        wait_for_server(f"{url}/hub/api/", server, root / "hub.log")
        yield Hub(url, address, key)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(WAIT_S)


def test_a_learner_and_a_teacher_come_in_under_their_names_and_in_their_groups(hub: Hub) -> None:
    for login, roles in (
        ("lti-ada", ("membership#Learner",)),
        ("lti-grace", ("membership#Instructor",)),
        ("lti-linus", ("membership/Instructor#TeachingAssistant",)),
        ("lti-eve", ("institution/person#Instructor", "membership#Learner")),  # teaches elsewhere, learns here
    ):
        status, browser = hub.launch(login=login, roles=roles)
        assert status == 302
        page = browser.get(f"{hub.url}/hub/token").text
        assert re.search(rf'user: "{login}"|{login}', page)
    learners, graders = ["nbgrader-attention"], ["formgrade-attention"]
    assert hub.users() == {"lti-ada": learners, "lti-eve": learners, "lti-grace": graders, "lti-linus": graders}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        pytest.param(403, {"login": "lti-bob", "course": "43"}, id="another course"),
        pytest.param(403, {"login": "root"}, id="an account of this machine"),
        pytest.param(403, {"login": "daemon"}, id="a service of this machine"),
        pytest.param(403, {"login": "../bob"}, id="no name"),
        pytest.param(403, {"login": ""}, id="without a name"),
        pytest.param(401, {"login": "lti-bob", "aud": "another"}, id="meant for another tool"),
        pytest.param(400, {"login": "lti-bob", "nonce": "0" * 64}, id="said before"),
    ],
)
def test_the_door_stays_shut(hub: Hub, status: int, said: dict[str, Any]) -> None:
    before = hub.users()
    answer, browser = hub.launch(**said)
    assert answer == status
    assert browser.get(f"{hub.url}/hub/home", allow_redirects=False).status_code == 302  # to the login
    assert hub.users() == before


def test_what_another_key_signed_is_not_believed(hub: Hub) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert hub.launch(login="lti-bob", key=other)[0] == 400
    assert "lti-bob" not in hub.users()


def test_an_account_that_came_from_the_platform_is_used_again_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    from traitlets.config.loader import PyFileConfigLoader

    found = PyFileConfigLoader("jupyterhub_lti_config.py", path=str(Path(course_root()) / "hub")).load_config()
    door = found.JupyterHub.authenticator_class()
    names, mine = {"ada": 2001, "root": 0}, {2001: "attention", 0: "root"}

    def account(name: str) -> Any:
        return pwd.struct_passwd((name, "x", names[name], names[name], "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", account)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group])
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((mine[number], "x", number, [])))
    assert [door.may_be_used(name) for name in ("ada", "root", "somebody-new")] == [True, False, True]
