"""Shows HTML, SVG, JavaScript, LaTeX and widgets from cells, and submits forged outputs in the file."""

RAN = dict.fromkeys(("HTML", "Javascript", "Latex", "Markdown", "SVG", "widget", "picture", "print"), "ran NoneType") | {
    "bundle": "ran"
}
FORBIDDEN = r"(?i)text/html[^}]*pwned|image/svg|application/|text/latex|text/markdown"
ANSWERS = {
    "gaussian": r"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
for made in (HTML, Javascript, Latex, Markdown):
    attack(made.__name__, lambda: display(made("<script>pwned()</script>")))
attack("SVG", display, SVG("<svg xmlns='http://www.w3.org/2000/svg'><script>pwned()</script></svg>"))
attack("widget", display, {"text/html": "<script>pwned()</script>",
    "application/vnd.jupyter.widget-view+json": {"model_id": "pwned"}}, raw=True)
attack("picture", display, {"image/png": "AAAA\" onerror=\"pwned()",
    "image/jpeg": "x", "text/plain": "<script>pwned()</script>"}, raw=True)
class Rich:
    def _repr_html_(self): return "<img src=x onerror=pwned()>"
    def _repr_mimebundle_(self, **_):
        attack.after("bundle")
        return {"text/html": "<script>pwned()</script>", "text/plain": "</pre><script>pwned()</script>"}
attack("print", print, "</pre><script>pwned()</script>")
Rich()
"""
}


def tamper(notebook):
    forged = {"output_type": "execute_result", "data": {"text/html": "<script>pwned()</script>"}, "metadata": {}}
    assert any(cell["cell_type"] == "code" for cell in notebook["cells"]), "inert: no code"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [forged | {"execution_count": 1}]
    return notebook
