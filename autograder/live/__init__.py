"""The live book: exercises that are answered and checked in the page, with Python in a Web Worker and no server behind it.

In: the pages of `attn book`, the released notebooks and packs, a copy of Pyodide. Out: a folder that any web server can
serve. `session` and `needed_cells` run in the browser and use the standard library and the engine alone; `static/` holds the
page's scripts. May import `workspace`, `authoring` and what is below them.
"""
