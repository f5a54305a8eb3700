"""The answers to the sample course."""
