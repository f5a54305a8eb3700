"""Writes scripts, event handlers, frames, styles and script links into markdown cells, new and old."""

_EVIL = """# A note
<script>pwned()</script> <img src=x onerror=pwned()> <iframe src="javascript:pwned()"></iframe> <!-- x -->
<style>*{display:none}</style>
[link](javascript:pwned()) [link](JaVaScRiPt&colon;pwned()) ![x](javascript:pwned()) [ref] <javascript:pwned()>
[tab](java\tscript:pwned()) [data](data:text/html,<script>pwned()</script>) ![out](http://pwned.example/x.png)

[ref]: javascript:pwned()

$\\href{javascript:pwned()}{x}$ $<script>pwned()</script>$ $$\\unicode{x3c}script>$$ `<script>pwned()</script>`

<svg onload=pwned()> <details open ontoggle=pwned()> <form action=javascript:pwned()> <a href="javascript:pwned()">x</a>
<base href="http://pwned.example/">
<meta http-equiv=refresh content="0;url=javascript:pwned()"> <math href="javascript:pwned()">x</math>
"""


def tamper(notebook):
    assert any(cell["cell_type"] == "markdown" for cell in notebook["cells"]), "inert: no prose"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _EVIL
    notebook["cells"].append(
        {"cell_type": "markdown", "metadata": {}, "id": "m", "source": _EVIL, "attachments": {"x": {"text/html": "pwned"}}}
    )
    notebook["cells"].append({"cell_type": "raw", "metadata": {"format": "text/html"}, "id": "r", "source": _EVIL})
    return notebook
