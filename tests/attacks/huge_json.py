"""A file just over what is read."""


def tamper(notebook):
    return b'{"cells": [' + b"{}," * 7_200_000 + b"{}]}"
