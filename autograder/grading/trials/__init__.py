"""The grader put to the test: a small class with its expected marks, its speed, answers that nobody prepared it for.

In: a course. Out: what came of it, beside what was expected. `twin` makes the course folder in which it happens.
May import all of `grading`; nothing of it imports this.
"""
