"""Make formgrader's *autograde* button grade with `attn grade`, in a sandbox. This is a Jupyter server extension.

Enable it with `c.ServerApp.jpserver_extensions = {"autograder.plugins.formgrader": True}`. Extensions load in alphabetical
order and the first handler of an address answers, so this one comes before nbgrader's own.
"""

import asyncio
import json
import os
import sys
from typing import Any

from jupyter_server.utils import url_path_join
from nbgrader.server_extensions.formgrader.base import BaseApiHandler, check_notebook_dir, check_xsrf
from tornado import web


class AutogradeHandler(BaseApiHandler):  # type: ignore[misc]  # nbgrader ships no types
    """Answers as nbgrader's own handler does, with `success`, `log` and, after a failure, `error`."""

    @web.authenticated
    @check_xsrf  # type: ignore[untyped-decorator]  # as above
    @check_notebook_dir  # type: ignore[untyped-decorator]  # as above
    async def post(self, assignment: str, student: str) -> None:
        self.write(json.dumps(await grade(self.coursedir.root, assignment, student)))


async def grade(root: str, assignment: str, student: str) -> dict[str, Any]:
    """Run `attn grade` for one student in a separate process, so that the server stays responsive, and return its outcome."""
    command = [sys.executable, "-P", "-m", "autograder.cli", "grade", f"--student={student}", "--again", "--", assignment]
    environment = {**os.environ, "ATTN_COURSE": root}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=root,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    log = (await process.communicate())[0].decode(errors="replace")
    if process.returncode == 0:
        return {"success": True, "log": log}
    return {"success": False, "log": log, "error": f"attn grade ended with status {process.returncode}"}


def load_jupyter_server_extension(server: Any) -> None:
    """Put our handler before nbgrader's, and pass the HTML of formgrader's pages through the allow-list."""
    from nbgrader.server_extensions.formgrader import formgrader

    from autograder.plugins.sanitise import PageExporter

    formgrader.HTMLExporter = PageExporter
    address = r"/formgrader/api/submission/([^/]+)/([^/]+)/autograde"
    path = url_path_join(server.web_app.settings["base_url"], address)
    server.web_app.add_handlers(".*$", [(path, AutogradeHandler)])
