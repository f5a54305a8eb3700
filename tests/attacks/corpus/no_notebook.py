"""The submission holds no notebook of the right name, but the same under another, and a script."""


def files(folder):
    notebook = next(folder.glob("*.ipynb"))
    notebook.rename(folder / "homework.ipynb")
    (folder / "homework.py").write_text("print('pwned')")
