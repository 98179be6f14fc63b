"""The one exception of this package."""


class KvloupeError(Exception):
    """What went wrong, where, and what to do: one line."""
