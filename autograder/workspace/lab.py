"""Start JupyterLab on a workspace, with the course's settings and with the given packages for its kernels to import."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, given_here, search_path
from autograder.notebooks import private_link
from autograder.workspace import progress

# JupyterLab's default settings in a workspace; the learner's own settings win. Otherwise JupyterLab would ask, over the
# notebook, whether it may fetch its news, although no lesson needs a network. nbgrader's menu and buttons are for a server
# with an exchange (see course/hub), not for a workspace.
LAB_CONFIG: dict[str, Any] = {
    "page_config": {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True, "@jupyter/nbgrader": True}},
    "default_setting_overrides": {  # in a small window, long lines wrap and nothing is cut off
        "@jupyterlab/notebook-extension:tracker": {"codeCellConfig": {"lineNumbers": False, "lineWrap": True}}
    },
}
# The buttons Check, Hint and Reset. JupyterLab finds its extensions in the `labextensions` below this folder. A wheel also puts
# them where any JupyterLab in the environment looks, as on a hub or in Binder.
BUTTONS = Path(__file__).parent / "jupyter"


def for_editors(workspace: Path) -> None:
    """Write VS Code's settings for the workspace (the kernel, and extensions for notebooks), unless the files exist."""
    known: dict[str, Any] = {
        "settings.json": {"python.defaultInterpreterPath": sys.prefix, "jupyter.notebookFileRoot": "${fileDirname}"},
        "extensions.json": {"recommendations": ["ms-python.python", "ms-toolsai.jupyter"]},
    }
    (workspace / ".vscode").mkdir(exist_ok=True)
    for name, content in known.items():
        if not (path := workspace / ".vscode" / name).exists():
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def open_lab(workspace: Path, target: Path, *, port: int, browser: bool) -> int:
    """Run JupyterLab in the workspace until it is closed, and return its exit status.

    If JupyterLab is open on the workspace already, only prints and opens its address. Raises CourseError if it is not
    installed.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise CourseError(
            "expected JupyterLab in this environment, found none. Install it: pip install 'attention-course[learn]'."
        )
    if (running := _running(workspace)) is not None:
        address = f"{running['url']}lab/tree/{target.as_posix()}?token={running['token']}"
        print(f"JupyterLab is open on this folder already. Go on there: {address}", flush=True)
        if browser:
            webbrowser.open(private_link.write(address, "attn-lab", again=True).as_uri())
        return 0
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={workspace}", f"--port={port}"]
    command += [f"--LabApp.default_url=/lab/tree/{target.as_posix()}"]
    if not browser:
        command += ["--no-browser"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command += ["--allow-root"]
    with subprocess.Popen(command, cwd=workspace, env=lab_environment(workspace)) as server:
        # Ctrl-C also reaches the server, which asks whether to shut down, so this process waits for the decision.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return server.wait()
        finally:
            signal.signal(signal.SIGINT, before)


def _running(workspace: Path) -> dict[str, Any] | None:
    """Return the Jupyter server that serves this folder, or None."""
    from jupyter_server.serverapp import list_running_servers

    servers: list[dict[str, Any]] = list(list_running_servers())
    return next((server for server in servers if Path(server.get("root_dir", "")).resolve() == workspace.resolve()), None)


def lab_environment(workspace: Path) -> dict[str, str]:
    """Return the environment variables for JupyterLab in the workspace. Our settings rank below the learner's own."""
    folder = workspace / progress.MARKER / "jupyter"
    (folder / "labconfig").mkdir(parents=True, exist_ok=True)
    for name, settings in LAB_CONFIG.items():
        (folder / "labconfig" / f"{name}.json").write_text(json.dumps(settings), encoding="utf-8")
    if os.name != "nt":
        # Without a terminal of its own (in a container, or writing to a log), the server would start terminals as login
        # shells, and /etc/profile would overwrite the path below.
        shell = {"ServerApp": {"terminado_settings": {"shell_command": [os.environ.get("SHELL") or "/bin/sh"]}}}
        (folder / "jupyter_server_config.json").write_text(json.dumps(shell), encoding="utf-8")
    # a terminal, or `!attn` in a cell, finds this environment's commands even if it isn't activated
    variables = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])}
    for name, own in (("JUPYTER_CONFIG_PATH", folder), ("JUPYTER_PATH", BUTTONS)):
        variables[name] = os.pathsep.join(filter(None, [os.environ.get(name), str(own)]))
    return {**os.environ, **variables, **kernel_environment()}


def kernel_environment() -> dict[str, str]:
    """Return the environment variables that let a kernel import the given packages; empty if there is no course here."""
    folders = given_here()
    return {"PYTHONPATH": search_path(*folders)} if folders else {}
