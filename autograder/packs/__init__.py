"""Probe packs: what a lesson asks, what is right, and what known mistakes give, in one small file.

`pack_file` reads and writes them, and is all that a check needs; `make_pack` makes one from a lesson's exercises.
"""
