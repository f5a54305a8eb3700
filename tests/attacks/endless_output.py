"""Prints without end, in a cell and in an answer."""

ANSWERS = {"gaussian": "def gaussian(q, K): return 0\nwhile True: print('endless', flush=True)"}
