"""The exception and the warning of this package."""


class KvloupeError(Exception):
    """An error in one line: what is wrong, where, and what to do."""


class KvloupeWarning(UserWarning):
    """A missing part of a trace and the reason, in one line."""
