"""Serve the site to this machine only, for `attn book --live --serve`."""

import gzip
from collections.abc import Callable
from functools import lru_cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

TYPES = {  # types that browsers insist on; Windows may map a suffix to another type
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
PACKED = (".js", ".mjs", ".wasm", ".json", ".css", ".html", ".ipynb", ".svg")  # types that gzip makes smaller


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder's files with the types that browsers expect, compressed if that makes them smaller, as web hosts do."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012  # as the standard library has it

    def send_head(self) -> BytesIO | BinaryIO | None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() and self.path.partition("?")[0].endswith("/") else path
        wanted = "gzip" in self.headers.get("Accept-Encoding", "")
        if not (wanted and path.suffix in PACKED and path.is_file()):
            return super().send_head()
        content = _packed(path, path.stat().st_mtime_ns)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return BytesIO(content)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a rebuilt site is visible at once
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the parameter's name in the standard library
        """Print nothing, because a line per file would hide the address."""


@lru_cache(maxsize=64)
def _packed(path: Path, _modified: int) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server for `folder` on the loopback address; `port` 0 takes any free port. Call `serve_forever` on the result."""
    handler: Callable[..., SimpleHTTPRequestHandler] = partial(Handler, directory=str(folder))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)
