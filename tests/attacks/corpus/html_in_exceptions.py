"""Puts markup into exception messages, type names, source lines, predictions and stub texts that panels quote."""

RAN = {"type": "raised <script>pwned.*", "message": "raised ValueError", "prediction": "ran", "key": "ran dict"}
RAN |= {"cell": "raised ValueError"}
ANSWERS = {
    "gaussian": r"""
class Evil(Exception): pass
Evil.__name__ = "<script>pwned()</script>"
def gaussian(q, K):
    with attack.on("type"):
        raise Evil("<script>pwned()</script>") # <img src=x onerror=pwned()> `</code><script>pwned()</script>
""",
    "attention_pool": r"""
def attention_pool(q, K, V, kernel):
    with attack.on("message"):
        raise ValueError('<script>pwned()</script>') # </code><script>pwned()</script> $\href{javascript:pwned()}{x}$
""",
    "predict_empty": "with attack.on('prediction'): predict_empty = '</b><script>pwned()</script>'",
    "predict_width": "with attack.on('prediction'): predict_width = '\"><img src=x onerror=pwned()>'",
    "normalize": "def normalize(s): return attack('key', lambda: {'<script>pwned()</script>': s})",
    "mix_words": "with attack.on('cell'): raise ValueError('</div><script>pwned()</script>')",
}
