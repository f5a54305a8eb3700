"""The whole submission is a link to the first student's."""

import shutil

REFUSED = r"(?s).*is a link.*"


def files(folder):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent.parent / "000_honest" / folder.name)
    assert list(folder.glob("*.ipynb")), "inert: the link leads to no notebook"
