"""An IPython input transformer that turns every later cell, checks included, into a bare number."""

RAN = dict.fromkeys(("append", "insert", "register", "event"), "ran NoneType") | {"later cell": "ran", "answer": "ran float"}
ANSWERS = {
    "hard_lookup": """
def rewrite(lines): attack.after("later cell"); return ["2.0\\n"]
attack("append", get_ipython().input_transformers_post.append, rewrite)
attack("insert", get_ipython().input_transformers_cleanup.insert, 0, rewrite)
attack("register", get_ipython().events.register, "post_run_cell", lambda *_: attack("event", print, "2.0"))
def hard_lookup(q, K, V): return attack("answer", float, 2)
"""
}
