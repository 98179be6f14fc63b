"""The version of kvloupe: the package's, of the traces and of the results that it writes."""

VERSION = "0.2.0"
