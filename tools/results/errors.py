"""Errors that are reported as one line."""


class BookError(Exception):
    """An error: what was wrong, where, and what is accepted."""
