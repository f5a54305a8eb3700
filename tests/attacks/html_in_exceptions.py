"""Puts markup into exception messages, type names, source lines, predictions and stub texts that panels quote."""

ANSWERS = {
    "gaussian": r"""
class Evil(Exception): pass
Evil.__name__ = "<script>pwned()</script>"
def gaussian(q, K): raise Evil("<script>pwned()</script>") # <img src=x onerror=pwned()> `</code><script>pwned()</script>
""",
    "attention_pool": r"""
def attention_pool(q, K, V, kernel):
    raise ValueError('<script>pwned()</script>') # </code><script>pwned()</script> $\href{javascript:pwned()}{x}$
""",
    "predict_empty": "predict_empty = '</b><script>pwned()</script>'",
    "predict_width": "predict_width = '\"><img src=x onerror=pwned()>'",
    "normalize": "def normalize(s): return {'<script>pwned()</script>': s}",
    "mix_words": "raise ValueError('</div><script>pwned()</script>')",
}
