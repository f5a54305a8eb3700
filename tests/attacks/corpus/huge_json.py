"""A file just over what is read."""

REFUSED = r"(?s).*at most 20 MiB.*"


def tamper(notebook):
    return b'{"cells": [' + b"{}," * 7_200_000 + b"{}]}"
