"""The hub's recipe, read without a hub: settings load, idle servers end, unit and proxy fit what the hub listens to."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from traitlets.config.loader import PyFileConfigLoader

from autograder.authoring.course import course_root

HUB = course_root() / "hub"


def settings(name: str) -> Any:
    return PyFileConfigLoader(f"{name}_config.py", path=str(HUB)).load_config()


def test_a_server_that_nobody_uses_ends_and_its_kernels_before_it() -> None:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

    found = settings("jupyter_server")
    kernels = found.MappingKernelManager
    assert 0 < kernels.cull_interval < kernels.cull_idle_timeout < found.ServerApp.shutdown_no_activity_timeout
    assert kernels.cull_busy is False
    for kind, section in ((ServerApp, found.ServerApp), (MappingKernelManager, kernels)):
        assert set(section) <= set(kind.class_trait_names()), kind


def test_the_proxy_passes_on_what_the_hub_listens_to_and_kernels_need() -> None:
    text = (HUB / "nginx.conf").read_text()
    assert f"proxy_pass {settings('jupyterhub').JupyterHub.bind_url};" in text
    for line in ("Upgrade $http_upgrade", "Connection $connection_upgrade", "Host $host", "X-Forwarded-Proto $scheme"):
        assert f"proxy_set_header {line};" in text
    assert text.count("{") == text.count("}")
    assert re.search(r"listen 80;.*?return 301 https://", text, re.DOTALL), "plain HTTP is sent on"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (HUB / "attention-hub.service").read_text()
    unit = tmp_path / "attention-hub.service"
    unit.write_text(text.replace("/opt/attention/bin/jupyterhub", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    said = [line for line in (done.stderr + done.stdout).splitlines() if "attention-hub" in line]
    assert not said, said
    assert "StateDirectoryMode=0700" in text


def test_the_instructors_page_names_every_file_of_the_recipe() -> None:
    text = (course_root().parent / "docs" / "teaching" / "hub.md").read_text()
    for path in HUB.iterdir():
        assert f"hub/{path.name}" in text, path.name
