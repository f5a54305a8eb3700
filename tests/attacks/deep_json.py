"""A file of a million nested lists."""


def tamper(notebook):
    return b'{"cells": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
