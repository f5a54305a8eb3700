"""From a lesson's text to what is released, and the examination of its exercises.

In: the files of a course (`course` finds them). Out: executed source notebooks, releases and their packs (`build`), the
examination of the judge (`verify`), the site to read (`book`), the tables of the README, the files of a new lesson.
May import `judging` and `notebooks`.
"""
