// The program of the child process of python(): it loads one function of a file and calls it on
// request.

#include "analysis/policy/kit/python_process.h"

namespace kvloupe {

const char* const kPythonRunner = R"py(
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # not the working folder: it may hold any json.py
import array, importlib.util, json, mmap, os, select, socket, threading, time, traceback
try:
    import numpy
except ImportError:
    numpy = None

path, name, talk, memory = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
connection = socket.socket(fileno=talk)
lines = connection.makefile("r", encoding="utf-8", newline="\n")


def leave_with_kvloupe():
    """Ends this process after the other end of the socket is gone, also where the function never returns."""
    gone = select.poll()
    gone.register(talk, 0)
    gone.poll()
    time.sleep(0.2)  # one that is idle ends by itself
    os._exit(1)


threading.Thread(target=leave_with_kvloupe, daemon=True).start()


def say(**message):
    connection.sendall((json.dumps(message) + "\n").encode())


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


class Memory:
    """The numbers that kvloupe shares, seen where they are."""

    size, view = 0, None

    def grown_to(self, size):
        if size != self.size:
            self.size, self.view = size, memoryview(mmap.mmap(memory, size))

    def vector(self, at, count, kind="f"):
        view = self.view[at:at + 4 * count].cast(kind)
        return numpy.frombuffer(view, dtype=kind) if numpy else view

    def matrix(self, at, rows, columns):
        values = self.vector(at, rows * columns)
        return values.reshape(rows, columns) if numpy else Rows(values, columns)


shared = Memory()


class Step:
    """The argument of score(step). All numbers lie in memory that kvloupe wrote."""

    def __init__(self, m):
        for field in ("layer", "layers", "head", "heads", "query_heads", "number", "first_new", "end_new",
                      "first_visible", "budget", "attention_scale"):
            setattr(self, field, m[field])
        n, d, new = m["n"], m["d"], m["m"]
        self.tokens = shared.vector(m["tokens"], n, "i")
        self.keys = shared.matrix(m["keys"], n, d)
        self.values = shared.matrix(m["values"], n, m["value_dim"])
        self.queries = [shared.matrix(at, new, d) for at in m["queries"]]
        self._n = n

    def __len__(self):
        return self._n

    def attention(self, query=0, count=None):
        """[count, n]: the last softmax rows of one of the head's query heads over the cache; all without count."""
        say(ask="attention", query=int(query), count=(2**31 - 1) if count is None else int(count))
        told = json.loads(lines.readline())
        if "problem" in told:
            raise ValueError(told["problem"])
        shared.grown_to(told["size"])
        rows = shared.matrix(told["at"], told["rows"], self._n)
        # The next question is answered in the same place.
        return rows.copy() if numpy else Rows(array.array("f", rows.values), self._n)


def put(result, at, n):
    """The scores, checked, where kvloupe reads them."""
    if numpy:
        try:
            scores = numpy.asarray(result, dtype=numpy.float32)
        except (TypeError, ValueError):
            raise TypeError("%s returned %s, not an array of numbers" % (name, type(result).__name__)) from None
        if scores.shape != (n,):
            raise ValueError("%s returned an array of shape %s, not (%d,)" % (name, scores.shape, n))
        data = scores.tobytes()
    else:
        try:
            scores = array.array("f", [float(x) for x in result])
        except (TypeError, ValueError):
            raise TypeError("%s returned %s, not an array of numbers" % (name, type(result).__name__)) from None
        if len(scores) != n:
            raise ValueError("%s returned an array of shape (%d,), not (%d,)" % (name, len(scores), n))
        data = scores.tobytes()
    shared.view[at:at + 4 * n] = data


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

for line in lines:
    try:
        message = json.loads(line)
        shared.grown_to(message["size"])
        put(function(Step(message)), message["scores"], message["n"])
        say(done=True)
    except BaseException as error:
        say(error=raised(error))
)py";

}  // namespace kvloupe
