"""Read notebooks and their files as untrusted data: they are never run, and files are written whole or not at all.

In: bytes and cells from anybody. Out: the roles of cells, answers by their ids, a release with answers in it, HTML.
Nothing here knows a course, a learner's folder or a grade.
"""
