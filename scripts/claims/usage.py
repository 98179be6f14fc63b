"""--help for the scripts in Python, and an end for options that they do not know, before they take them for a file's name."""
import sys
from pathlib import Path


def answer_help(text):
    """Prints a script's docstring for --help; refuses an option that it does not name."""
    for argument in sys.argv[1:]:
        if argument in ("-h", "--help"):
            print(text.strip())
            sys.exit(0)
        if argument.startswith("-") and argument not in text.split():
            name = Path(sys.argv[0]).name
            sys.exit(f"{name}: unknown option {argument}; see scripts/claims/{name} --help")
