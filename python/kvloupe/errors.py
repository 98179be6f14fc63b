"""The exception and the warning of this package."""


class KvloupeError(Exception):
    """An error in one line: what is wrong, where, and what to do."""


class KvloupeWarning(UserWarning):
    """A missing part of a trace and the reason, in one line."""


def uncapturable(why: str) -> KvloupeError:
    """Of a model that a trace cannot describe."""
    return KvloupeError(f"{why}; this model cannot be captured")
