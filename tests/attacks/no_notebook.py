"""The submission holds everything but the notebook."""


def files(folder):
    notebook = next(folder.glob("*.ipynb"))
    notebook.rename(folder / "homework.ipynb")
    (folder / "homework.py").write_text("print('pwned')")
