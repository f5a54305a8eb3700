"""Serve the marking page with Tornado, on this machine only, to markers who were given an address that contains a token.

Another site can neither read nor write here. Requests must name this machine as their host (which prevents DNS rebinding)
and carry a signed cookie that no other site's request carries (`SameSite=Strict`). To write, they also need Tornado's token
in a header and this page's origin. Learners' answers pass the allow-list, and the policy forbids every script except the
page's own file.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from sqlalchemy.exc import OperationalError
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from autograder.authoring.course import CourseError
from autograder.grading.reports.templates import template
from autograder.hand_marking.answers import shown
from autograder.hand_marking.marking_session import Desk, RequestError
from autograder.hand_marking.store import ConflictError, Verdict

HOSTS = frozenset({"127.0.0.1", "localhost"})
PAGES = Path(__file__).parent / "pages"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MAX_BODY = 1 << 20
T = TypeVar("T")


def origin_is_ours(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a request that would write comes from one of our pages."""
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site", "same-origin")
    return site == "same-origin" and (origin is None or origin == f"http://{host}")


class _Handler(web.RequestHandler):
    """Base of all handlers: decides who may ask, and sets the headers of every response."""

    desk: Desk
    tokens: Mapping[str, str]
    cookie: str

    def initialize(self, desk: Desk, tokens: Mapping[str, str], cookie: str) -> None:
        self.desk, self.tokens, self.cookie = desk, tokens, cookie

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if urlsplit(f"//{self.request.host}").hostname not in HOSTS:
            raise web.HTTPError(403, "expected this machine's own name as host")
        if self.request.method != "GET" and not origin_is_ours(self.request.headers, self.request.host):
            raise web.HTTPError(403, "expected a request from this page")
        if self.current_user is None:
            raise web.HTTPError(403, "expected the address that `attn mark` printed, with its token")

    def get_current_user(self) -> str | None:
        signed = self.get_signed_cookie(self.cookie)
        marker = signed.decode("utf-8", "replace") if signed else ""
        return marker if marker in self.tokens.values() else None

    def page(self, name: str, **values: Any) -> None:
        page = template(name, PAGES)
        self.finish(page.render(marker=self.current_user, desk=self.desk, token=self.xsrf_token.decode(), **values))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        kind, error, _ = kwargs.get("exc_info", (None, None, None))
        message = str(error) if kind is not None and issubclass(kind, RequestError) else getattr(error, "log_message", None)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"error": message or self._reason}))

    def _handle_request_exception(self, error: BaseException) -> None:
        if isinstance(error, RequestError):
            self.log_exception = lambda *_: None  # type: ignore[method-assign]  # the request is at fault, so nothing is logged
            self.send_error(404, exc_info=(RequestError, error, None))
        else:
            super()._handle_request_exception(error)


class _Enter(_Handler):
    """Handles `/enter?token=…`, the only address that needs no cookie, because it sets the cookie."""

    def get_current_user(self) -> str | None:
        given = self.get_query_argument("token", "")
        markers = [name for token, name in self.tokens.items() if hmac.compare_digest(token.encode(), given.encode())]
        return markers[0] if markers else None

    def get(self) -> None:
        marker = self.current_user
        self.set_signed_cookie(self.cookie, marker, expires_days=None, httponly=True, samesite="Strict", path="/")
        self.set_header("Refresh", "0; url=/")  # a redirect from elsewhere would not send the cookie
        self.finish('<!doctype html><title>Marking</title><a href="/">Go on</a>')


class _Questions(_Handler):
    def get(self) -> None:
        self.page("questions.html", overview=self.desk.overview(self.current_user))


class _Question(_Handler):
    def get(self, name: str) -> None:
        self.page("question.html", question=self.desk.question(name))


class _Trail(_Handler):
    def get(self, name: str) -> None:
        self.page("trail.html", question=self.desk.question(name), changes=self.desk.trail(self.current_user, name))


class _State(_Handler):
    def get(self, name: str) -> None:
        self.finish(self.desk.state(self.current_user, name))


class _Answer(_Handler):
    async def get(self, name: str, group: str) -> None:
        chosen = self.desk.group(self.current_user, name, group)
        self.desk.look(self.current_user, name, group)
        html = await asyncio.to_thread(shown, chosen)  # a text that is slow to render must not keep others waiting
        self.finish({"html": html})


class _Place(msgspec.Struct):
    """The group after which to look for the next one."""

    after: str = ""


class _Next(_Handler):
    def post(self, name: str) -> None:
        self.finish({"group": self.desk.take(self.current_user, name, _body(self, _Place).after)})


class _Marks(msgspec.Struct):
    """The answers as the marker saw them ({id: version}), and the verdict on them."""

    seen: dict[str, str]
    score: float | None = None
    comment: str = ""
    given: tuple[float, ...] = ()


class _Mark(_Handler):
    def post(self, name: str) -> None:
        marks = _body(self, _Marks)
        verdict = Verdict(marks.score, marks.comment.strip(), marks.given)
        try:
            rows = self.desk.mark(self.current_user, name, marks.seen, verdict)
        except ConflictError as conflict:
            self.set_status(409)
            self.finish({"conflict": [row.id for row in conflict.rows], **self.desk.state(self.current_user, name)})
        except OperationalError:
            self.set_status(503)
            self.finish({"error": "the gradebook is busy: nothing was written. Try again"})
        else:
            self.finish({"saved": [row.id for row in rows], **self.desk.state(self.current_user, name)})


def _body(handler: web.RequestHandler, kind: type[T]) -> T:
    """Return the JSON of a request as a `kind`, ignoring unknown fields. Raises RequestError if it is not JSON for a `kind`."""
    if handler.request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
        raise RequestError("expected JSON")
    try:
        return msgspec.json.decode(handler.request.body, type=kind)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"expected a request as this page sends it: {error}") from None


def application(desk: Desk, tokens: Mapping[str, str], port: int) -> web.Application:
    """Return the application for the markers in `tokens` ({token: marker}).

    The cookie is named after the port, because browsers send a machine's cookies to all of its ports.
    """
    shared = {"desk": desk, "tokens": tokens, "cookie": f"attn_marker_{port}"}
    addresses: list[tuple[str, type[_Handler]]] = [
        (r"/", _Questions), (r"/enter", _Enter), (r"/question/(\w+)", _Question), (r"/question/(\w+)/trail", _Trail),
        (r"/question/(\w+)/state", _State), (r"/question/(\w+)/next", _Next), (r"/question/(\w+)/mark", _Mark),
        (r"/question/(\w+)/answer/(\w+)", _Answer),
    ]  # fmt: skip
    served = [(address, kind, shared) for address, kind in addresses]
    static = (r"/(marking\.(?:js|css))", _Static, {"path": PAGES, **shared})
    options: dict[str, Any] = {"xsrf_cookies": True, "xsrf_cookie_kwargs": {"samesite": "Strict", "httponly": True}}
    return web.Application([*served, static], cookie_secret=secrets.token_hex(32), log_function=lambda _: None, **options)


class _Static(web.StaticFileHandler):
    """Serves the page's script and style, which hold nothing secret, with the same headers as everything else."""

    def initialize(self, path: Path, **_: Any) -> None:  # type: ignore[override]  # as StaticFileHandler, less what it does not need
        super().initialize(str(path))

    def set_extra_headers(self, path: str) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)


def serve(desk: Desk, markers: list[str], *, port: int, ready: Callable[[dict[str, str]], None]) -> None:
    """Serve until interrupted, passing each marker's address to `ready`. Raises CourseError if a marker is named twice."""
    if len(set(markers)) != len(markers):
        raise CourseError(f"expected each marker once, got {', '.join(markers)}.")
    tokens = {secrets.token_urlsafe(32): marker for marker in markers}

    async def run() -> None:
        sockets = bind_sockets(port, "127.0.0.1")
        number = sockets[0].getsockname()[1]
        server = HTTPServer(application(desk, tokens, number), max_body_size=MAX_BODY)
        server.add_sockets(sockets)
        ready({marker: f"http://127.0.0.1:{number}/enter?token={token}" for token, marker in tokens.items()})
        await asyncio.Event().wait()

    asyncio.run(run())
