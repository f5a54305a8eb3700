"""Ships modules, start-up files, a second notebook, a probe pack and a gradebook beside the notebook."""

import json
import shutil


def files(folder):
    notebook = next(folder.glob("*.ipynb"))
    shutil.copy(notebook, folder / "zz_second.ipynb")
    for name in ("numpy.py", "sitecustomize.py", "ipykernel_launcher.py", "conftest.py", "autograder.py", "nbgrader_config.py"):
        (folder / name).write_text("open('/tmp/pwned-import', 'w').write('x')\nraise SystemExit('pwned')")
    packs = list(folder.parent.parent.parent.glob("release/*/*.npz"))
    assert packs, "inert: no pack whose name to take"
    for pack in packs:
        (folder / pack.name).write_bytes(b"pwned")
    (folder / "gradebook.db").write_text("pwned")
    (folder / ".attn").mkdir()
    (folder / ".attn" / "progress.json").write_text(json.dumps({"gaussian": 99}))
    (folder / "link").symlink_to("/etc/passwd")
