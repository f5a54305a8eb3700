"""An IPython AST transformer that rewrites every later cell, and one that empties the list of transformers."""

RAN = {"append": "ran NoneType", "later cell": "ran", "answer": "ran int"}
ANSWERS = {
    "hard_lookup": """
import ast
class Empty(ast.NodeTransformer):
    def visit_Module(self, node):
        attack.after("later cell")
        return ast.parse("class Score(float): pass\\ncheck = lambda *_: 99.0\\n99.0")
attack("append", get_ipython().ast_transformers.append, Empty())
def hard_lookup(q, K, V): return attack("answer", int)
"""
}
