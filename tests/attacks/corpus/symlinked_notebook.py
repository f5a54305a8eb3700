"""The notebook is a link to the first student's."""

REFUSED = r"(?s).*not a link.*"


def files(folder):
    notebook = next(folder.glob("*.ipynb"))
    notebook.unlink()
    notebook.symlink_to(folder.parent.parent / "000_honest" / folder.name / notebook.name)
    assert notebook.exists(), "inert: the link leads to no notebook"
