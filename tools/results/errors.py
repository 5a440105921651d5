"""Errors that are reported as one line."""


class BookError(Exception):
    """What went wrong, where, and what is accepted."""
