"""Shows HTML, SVG, JavaScript, LaTeX and widgets from cells, and submits forged outputs in the file."""

FORBIDDEN = r"(?i)text/html[^}]*pwned|image/svg|application/|text/latex|text/markdown"
ANSWERS = {
    "gaussian": r"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
for made in (HTML, Javascript, Latex, Markdown): display(made("<script>pwned()</script>"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><script>pwned()</script></svg>"))
display({"text/html": "<script>pwned()</script>", "application/vnd.jupyter.widget-view+json": {"model_id": "pwned"}}, raw=True)
display({"image/png": "AAAA\" onerror=\"pwned()", "image/jpeg": "x", "text/plain": "<script>pwned()</script>"}, raw=True)
class Rich:
    def _repr_html_(self): return "<img src=x onerror=pwned()>"
    def _repr_mimebundle_(self, **_):
        return {"text/html": "<script>pwned()</script>", "text/plain": "</pre><script>pwned()</script>"}
print("</pre><script>pwned()</script>")
Rich()
"""
}


def tamper(notebook):
    forged = {"output_type": "execute_result", "data": {"text/html": "<script>pwned()</script>"}, "metadata": {}}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [forged | {"execution_count": 1}]
    return notebook
