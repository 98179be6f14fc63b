// The program of the child process of python(): it loads one function of a file and calls it on
// request.

#include "analysis/policy/kit/python_process.h"

namespace kvloupe {

const char* const kPythonRunner = R"py(
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # not the working folder: it may hold any json.py
import array, importlib.util, json, os, select, socket, threading, time, traceback
try:
    import numpy
except ImportError:
    numpy = None

path, name, talk = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = socket.socket(fileno=talk)
stream = connection.makefile("rb")


def leave_with_kvloupe():
    """Ends this process after the other end of the socket is gone, also where the function never returns."""
    gone = select.poll()
    gone.register(talk, 0)
    gone.poll()
    time.sleep(0.2)  # one that is idle ends by itself
    os._exit(1)


threading.Thread(target=leave_with_kvloupe, daemon=True).start()


def say(numbers=b"", **message):
    connection.sendall((json.dumps(dict(message, bytes=len(numbers))) + "\n").encode() + numbers)


def hear():
    """What kvloupe says next, and the numbers behind it; None at the end."""
    line = stream.readline()
    if not line:
        return None, None
    message = json.loads(line)
    return message, Numbers(stream.read(message["bytes"]))


def raised(error):
    """The last line of the traceback, with the place in the person's own file."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    place = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if os.path.abspath(frame.filename) == os.path.abspath(path)]
    return text + (" (line %d)" % place[-1] if place else "")


class Rows:
    """Rows of numbers without numpy: rows[i] is a memoryview, without a copy."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns
        self.shape = (len(values) // columns if columns else 0, columns)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, row):
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError("row %d of %d" % (row, len(self)))
        return self.values[row * self.columns:(row + 1) * self.columns]


class Numbers:
    """The numbers of a message, taken one part after the other."""

    def __init__(self, data):
        self.view, self.at = memoryview(bytearray(data)), 0

    def vector(self, count, kind="f"):
        view = self.view[self.at:self.at + 4 * count].cast(kind)
        self.at += 4 * count
        return numpy.frombuffer(view, dtype=kind) if numpy else view

    def matrix(self, rows, columns):
        values = self.vector(rows * columns)
        return values.reshape(rows, columns) if numpy else Rows(values, columns)


class Step:
    """The argument of score(step)."""

    def __init__(self, m, numbers):
        for field in ("layer", "layers", "head", "heads", "query_heads", "number", "first_new", "end_new",
                      "first_visible", "budget", "attention_scale"):
            setattr(self, field, m[field])
        self._n, d = m["n"], m["d"]
        self.tokens = numbers.vector(self._n, "i")
        self.keys = numbers.matrix(self._n, d)
        self.values = numbers.matrix(self._n, m["value_dim"])
        self.queries = [numbers.matrix(self.end_new - self.first_new, d) for _ in range(self.query_heads // self.heads)]

    def __len__(self):
        return self._n

    def attention(self, query=0, count=None):
        """[count, n]: the last softmax rows of one of the head's query heads over the cache; all without count."""
        say(ask="attention", query=int(query), count=(2**31 - 1) if count is None else int(count))
        told, numbers = hear()
        if "problem" in told:
            raise ValueError(told["problem"])
        return numbers.matrix(told["rows"], self._n)


def checked(result, n):
    """The scores as bytes."""
    try:
        scores = numpy.asarray(result, dtype=numpy.float32) if numpy else array.array("f", [float(x) for x in result])
    except (TypeError, ValueError):
        raise TypeError("%s returned %s, not an array of numbers" % (name, type(result).__name__)) from None
    shape = scores.shape if numpy else (len(scores),)
    if shape != (n,):
        raise ValueError("%s returned an array of shape %s, not (%d,)" % (name, shape, n))
    return scores.tobytes()


try:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("kvloupe_policy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise NameError("the file has no function " + name)
    say(done=True)
except BaseException as error:
    say(error=raised(error))
    sys.exit(1)

while True:
    message, numbers = hear()
    if message is None:
        break
    try:
        say(checked(function(Step(message, numbers)), message["n"]), done=True)
    except BaseException as error:
        say(error=raised(error))
)py";

}  // namespace kvloupe
