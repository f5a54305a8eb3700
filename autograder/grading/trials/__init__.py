"""Test the grader: a small class with expected marks, its speed, and answers that nobody prepared it for.

In: a course. Out: the results, next to what was expected. `course_copy` makes the course folder for a trial. May import all of
`grading`, which imports nothing from here.
"""
