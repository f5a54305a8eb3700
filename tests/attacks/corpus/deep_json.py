"""A file of a million nested lists."""

REFUSED = r"(?s).*lists and brackets.*"


def tamper(notebook):
    return b'{"cells": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
