"""Build releases from lesson texts, and examine their exercises.

In: the files of a course (`course` finds them). Out: executed source notebooks, releases and their packs (`make_release`),
the examination of the judge (`verify`), the site to read (`book`), the README's tables, and the files of a new lesson.
"""
