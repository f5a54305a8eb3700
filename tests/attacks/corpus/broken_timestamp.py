"""The time stamp beside the notebook is not a time."""


def files(folder):
    (folder / "timestamp.txt").write_text("[bold]tomorrow[/] <script>pwned()</script>\n" * 50)
