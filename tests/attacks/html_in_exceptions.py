"""Puts markup into exception messages, type names, source lines, predictions and stub texts that panels quote."""

ANSWERS = {
    "gaussian": r"""
class Evil(Exception): pass
Evil.__name__ = "<script>pwned()</script>"
def gaussian(q, K): raise Evil("<script>pwned()</script>") # <img src=x onerror=pwned()> `</code><script>pwned()</script>
""",
    "boxcar": r"""
def boxcar(q, K): raise ValueError('<script>pwned()</script>') # </code><script>pwned()</script> $\href{javascript:pwned()}{x}$
""",
    "predict_empty": "predict_empty = '</b><script>pwned()</script>'",
    "predict_width": "predict_width = '\"><img src=x onerror=pwned()>'",
    "normalize": "def normalize(w): return {'<script>pwned()</script>': w}",
    "triangular": "raise ValueError('</div><script>pwned()</script>')",
}
