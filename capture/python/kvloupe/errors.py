"""The exception and the warning of this package."""


class KvloupeError(Exception):
    """What went wrong, where, and what to do: one line."""


class KvloupeWarning(UserWarning):
    """What a trace does not have, and why: one line."""
