"""An IPython AST transformer that rewrites every later cell, and one that empties the list of transformers."""

ANSWERS = {
    "hard_lookup": """
import ast
class Empty(ast.NodeTransformer):
    def visit_Module(self, node):
        return ast.parse("class Score(float): pass\\ncheck = lambda *_: 99.0\\n99.0")
get_ipython().ast_transformers.append(Empty())
def hard_lookup(q, K, V): return 0
"""
}
