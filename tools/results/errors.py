"""Errors that are reported as one line."""


class BookError(Exception):
    """An error: what was wrong, where, and what is accepted."""


class CommandError(BookError):
    """A command that failed. `reason`: the last line that it printed about it."""

    def __init__(self, command, reason, exit_code):
        super().__init__(f"`{command}` failed: {reason}")
        self.reason, self.exit_code = reason, exit_code
