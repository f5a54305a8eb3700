"""Notebooks and their files as untrusted data: read with suspicion, never run, written whole.

In: bytes and cells that anybody may have made. Out: roles of cells, answers by their ids, a release with answers in it, HTML.
May import `judging`; nothing here knows a course, a learner's folder or a grade.
"""
