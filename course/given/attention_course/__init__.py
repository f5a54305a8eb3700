"""What the lessons are given: drawings, plots, the heads of a trained model, and the language model itself.

A released notebook imports from here and from `autograder`, never from `solutions`.
"""
