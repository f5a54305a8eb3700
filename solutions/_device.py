"""Where torch lessons run: the lessons' own choice."""

from attention_course.device import device

__all__ = ["device"]
