#!/usr/bin/env python3
"""Kills kvloupe's programs and lets their disk fail, and looks at what is left.

    python3 tests/faults/campaign.py --bin build/bin [--runs N] [--seed S] [--only PART,...] [--short]

After each fault: the file that is written is the old one or a whole new one, nothing else is left in its
folder, and a program that goes on living says one line and ends with exit code 1. Prints a table of counts
(Markdown); the exit code is 1 where something was found, and 77 where this system does not allow tracing.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.model", "needle.json")
TEXT = "Remember the number 4711. " * 4
LINE = re.compile(r"(kvloupe|kvloupe-capture|save_session): .+")
PROGRESS = re.compile(r" |\d+ (of|items)")  # of sweeps and studies
TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.tmp$")


def is_whole_trace(path):
    return run([program("kvloupe"), "info", path]).returncode == 0


def is_whole_json(path):
    with open(path, encoding="utf-8") as file:
        try:
            json.load(file)
        except ValueError:
            return False
    return True


def is_whole_sqlite(path):
    """A study's results: whole, whether all of it is done or not."""
    try:
        with sqlite3.connect(path) as database:
            return database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    except sqlite3.Error:
        return False


def ends_with(end):
    def check(path):
        with open(path, "rb") as file:
            return file.read().endswith(end)
    return check


def is_one_line(error):
    lines = [line for line in error.splitlines() if not PROGRESS.match(line)]
    return len(lines) == 1 and LINE.match(lines[0]) is not None



class Operation:
    """One program that writes `target`. `inputs`: files whose reading may fail."""

    def __init__(self, name, command, target, is_whole, inputs=(), grows=False):
        self.name, self.command, self.target = name, command, target
        self.is_whole, self.inputs, self.grows = is_whole, inputs, grows


class Found(Exception):
    """An invariant that does not hold."""


def program(name):
    return os.path.join(OPTIONS.bin, name)


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
                          timeout=300, check=False, **more)


def listing(folder):
    return sorted(os.listdir(folder))


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Campaign:
    def __init__(self, work):
        self.work = work
        self.random = random.Random(OPTIONS.seed)
        self.counts = collections.Counter()
        self.outcomes = collections.defaultdict(collections.Counter)
        self.found = []
        self.inject = os.path.join(work, "inject")
        subprocess.run(["cc", "-O1", "-o", self.inject, os.path.join(ROOT, "tests/faults/inject.c")], check=True)
        self.model = os.path.join(work, "model")
        os.mkdir(self.model)
        for name in MODEL_FILES:
            shutil.copy(os.path.join(ROOT, "assets/demo-model", name), self.model)
        shutil.copytree(os.path.join(ROOT, "assets/prompts"), os.path.join(work, "prompts"))  # needle.json's filler
        self.folder = os.path.join(work, "out")
        self.inputs = os.path.join(work, "in")
        os.mkdir(self.folder)
        os.mkdir(self.inputs)
        self.prepare()

    def prepare(self):
        self.trace = os.path.join(self.inputs, "trace.h5")
        self.prompt = os.path.join(self.inputs, "prompt.txt")
        with open(self.prompt, "w", encoding="utf-8") as file:
            file.write(TEXT)
        self.must(self.capture(self.trace))
        self.session = os.path.join(self.inputs, "session.json")
        study = os.path.join(self.inputs, "study.json")
        with open(study, "w", encoding="utf-8") as file:
            json.dump({"traces": ["trace.h5"], "policies": ["h2o", "keydiff"], "budgets": ["20%", 30],
                       "measures": ["retained"]}, file)
        out = lambda name: os.path.join(self.folder, name)
        kvloupe, capture = program("kvloupe"), program("kvloupe-capture")
        replayed = [self.trace, "--policy", "h2o", "--budget", "25%"]
        self.operations = [
            Operation("capture", self.capture(out("trace.h5")), out("trace.h5"), is_whole_trace,
                      [self.prompt, os.path.join(self.model, "tokenizer.model")]),
            Operation("closed loop", self.capture(out("closed.h5"), "--policy", "keydiff", "--budget", "20"),
                      out("closed.h5"), is_whole_trace, [self.prompt]),
            Operation("eval", [capture, "eval", "--model", self.model, "--task", "needle", "--lengths", "96",
                               "--depths", "50", "--samples", "1", "--policies", "h2o", "--budgets", "20%,40",
                               "--threads", "1", "--progress", "none", "-o", out("eval.json")],
                      out("eval.json"), is_whole_json, [os.path.join(self.model, "config.json")], grows=True),
            Operation("study", [kvloupe, "study", study, "-o", out("study.sqlite")], out("study.sqlite"),
                      is_whole_sqlite, [self.trace, study], grows=True),
            Operation("figure", [kvloupe, "export", *replayed, "--figure", "filmstrip", "-o", out("figure.svg")],
                      out("figure.svg"), ends_with(b"</svg>\n"), [self.trace]),
            Operation("sweep", [kvloupe, "sweep", self.trace, "--policies", "h2o", "--budgets", "25%", "-o",
                                out("sweep.csv")], out("sweep.csv"), ends_with(b"\n"), [self.trace]),
            Operation("replay", [kvloupe, "replay", *replayed, "--steps", "last", "--json", out("replay.json")],
                      out("replay.json"), is_whole_json, [self.trace]),
        ]
        if os.path.exists(program("save_session")):
            with open(self.session, "w", encoding="utf-8") as file:
                json.dump({"format": "kvloupe-session", "format_version": 1, "trace": self.trace}, file)
            self.operations.append(
                Operation("session", [program("save_session"), self.session, out("session.json")],
                          out("session.json"), is_whole_json, [self.session]))
        self.old, self.calls = {}, {}
        for operation in self.operations:
            self.must(operation.command)
            if not operation.is_whole(operation.target):
                raise SystemExit(f"{operation.name}: what a run without faults writes is not whole")
            # An older file that a new one cannot equal: what grows goes on from it, so there is none.
            self.old[operation.name] = None if operation.grows else b"the old file of " + operation.name.encode()

    def capture(self, target, *more):
        return [program("kvloupe-capture"), "run", "--model", self.model, "--prompt", self.prompt, "--block", "16",
                "--generate", "2", "--threads", "1", "--progress", "none", *more, "-o", target]

    def must(self, command):
        result = run(command)
        if result.returncode != 0:
            raise SystemExit(f"a run without faults fails: {' '.join(command)}: {result.stderr.decode()}")

    def reset(self, operation):
        for name in listing(self.folder):
            os.remove(os.path.join(self.folder, name))
        old = self.old[operation.name]
        if old is not None:
            # A replaced file may be of another kind, but a sweep goes on from its own file only.
            if operation.name == "sweep":
                return
            with open(operation.target, "wb") as file:
                file.write(old)

    def injected(self, operation, *how, under=None):
        return run([self.inject, "--under", under or self.folder, *map(str, how), "--", *operation.command])

    def number_of_calls(self, operation, kind, under=None):
        key = operation.name, kind, under
        if key not in self.calls:
            self.reset(operation)
            count = os.path.join(self.work, "count")
            result = self.injected(operation, "--class", kind, "--count", count, under=under)
            if result.returncode != 0:
                raise SystemExit(f"{operation.name} fails under the tracer: {result.stderr.decode()}")
            self.calls[key] = int(read(count))
        return self.calls[key]

    def look(self, part, operation, result, killed=False, may_hold=()):
        """Checks what is left; `may_hold`: endings of names that the next run takes away."""
        self.counts[part, operation.name] += 1
        code, error = result.returncode, result.stderr.decode(errors="replace")
        kind = "killed" if killed and code == 137 else f"code {code}"
        self.outcomes[part][kind] += 1
        if code not in ((0, 1, 137) if killed else (0, 1)):
            raise Found(f"exit code {code}: {error}")
        if code == 1 and not is_one_line(error):
            raise Found(f"not one line: {error!r}")
        others = [name for name in listing(self.folder) if os.path.join(self.folder, name) != operation.target]
        others = [name for name in others if not any(name.endswith(end) for end in may_hold)]
        # A killed program leaves its unfinished file under a temporary name; nothing takes it for an output.
        if killed and any(TEMPORARY.search(name) for name in others):
            self.outcomes[part]["of these, with a temporary file left"] += 1
            for name in [name for name in others if TEMPORARY.search(name)]:
                os.remove(os.path.join(self.folder, name))
                others.remove(name)
        if others:
            raise Found(f"left behind: {others}")
        old = self.old[operation.name]
        if not os.path.exists(operation.target):
            if old is not None and operation.name != "sweep":
                raise Found("the old file is gone")
            return
        if old is not None and read(operation.target) == old:
            if code == 0:
                raise Found("exit code 0, but the old file is there")
            return
        if not operation.is_whole(operation.target):
            raise Found("neither the old file nor a whole new one")

    def trial(self, part, operation, what, check):
        try:
            check()
        except Found as found:
            self.found.append(f"{part}, {operation.name}, {what}: {found}")
            print("FOUND", self.found[-1], file=sys.stderr, flush=True)
        except subprocess.TimeoutExpired:
            self.found.append(f"{part}, {operation.name}, {what}: does not end")
            print("FOUND", self.found[-1], file=sys.stderr, flush=True)

    def places(self, operation, kind, runs, under=None):
        calls = self.number_of_calls(operation, kind, under)
        if calls <= runs:
            return list(range(1, calls + 1))
        return sorted(self.random.sample(range(1, calls + 1), runs))

    LOCKS = (".lock", "-journal")  # of a study: the next run takes them over

    def part_kill(self):
        """Killed at the Nth call that changes a file."""
        for operation in self.operations:
            for at in self.places(operation, "write", OPTIONS.runs):
                def check():
                    self.reset(operation)
                    result = self.injected(operation, "--class", "write", "--at", at, "--kill")
                    may_hold = self.LOCKS if operation.name == "study" else ()
                    self.look("kill", operation, result, killed=True, may_hold=may_hold)
                    if at % 4 == 0:  # the next run is not hurt by what is there
                        self.look("kill", operation, run(operation.command))
                self.trial("kill", operation, f"call {at}", check)

    def part_kill_any_time(self):
        """Killed after a random time."""
        for operation in self.operations:
            self.reset(operation)
            begin = time.monotonic()
            self.must(operation.command)
            usual = time.monotonic() - begin
            for _ in range(OPTIONS.runs):
                after = self.random.uniform(0.0, 1.1 * usual)
                def check():
                    self.reset(operation)
                    child = subprocess.Popen(operation.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             env=ENVIRONMENT)
                    time.sleep(after)
                    child.send_signal(signal.SIGKILL)
                    _, error = child.communicate(timeout=60)
                    code = 137 if child.returncode == -signal.SIGKILL else child.returncode
                    result = subprocess.CompletedProcess(operation.command, code, b"", error)
                    may_hold = self.LOCKS if operation.name == "study" else ()
                    self.look("kill at any time", operation, result, killed=True, may_hold=may_hold)
                self.trial("kill at any time", operation, f"after {after:.3f} s", check)

    def part_full(self):
        """The disk is full from the Nth call on."""
        for operation in self.operations:
            for at in self.places(operation, "write", OPTIONS.runs):
                def check():
                    self.reset(operation)
                    result = self.injected(operation, "--class", "write", "--at", at, "--all", "--fail", "ENOSPC")
                    self.look("full disk", operation, result, may_hold=self.LOCKS if operation.name == "study" else ())
                self.trial("full disk", operation, f"from call {at}", check)

    def part_write_error(self):
        """The Nth call alone fails with an input/output error."""
        for operation in self.operations:
            for at in self.places(operation, "write", OPTIONS.runs):
                def check():
                    self.reset(operation)
                    result = self.injected(operation, "--class", "write", "--at", at, "--fail", "EIO")
                    self.look("write error", operation, result, may_hold=self.LOCKS if operation.name == "study" else ())
                self.trial("write error", operation, f"call {at}", check)

    def part_read_error(self):
        """The Nth reading of one input fails."""
        for operation in self.operations:
            for path in operation.inputs:
                for at in self.places(operation, "read", OPTIONS.runs, under=path):
                    def check():
                        self.reset(operation)
                        result = self.injected(operation, "--class", "read", "--at", at, "--fail", "EIO", under=path)
                        self.look("read error", operation, result)
                    self.trial("read error", operation, f"{os.path.basename(path)}, read {at}", check)

    def part_shrink(self):
        """An input becomes shorter while it is read: the trace at its Nth reading, the weights
        when their file is closed, which is mapped then, and while the result is written."""
        weights = os.path.join(self.model, "model.safetensors")
        for operation in self.operations:
            if operation.name in ("capture", "closed loop", "eval"):
                for kind, under in (("close", weights), ("write", self.folder)):
                    self.shrink(operation, weights, kind, under)
            elif self.trace in operation.inputs:
                self.shrink(operation, self.trace, "read", self.trace)

    def shrink(self, operation, path, kind, under):
        whole = read(path)
        for at in self.places(operation, kind, OPTIONS.runs, under=under):
            size = self.random.choice([0, 8, len(whole) // 3, len(whole) - 1, self.random.randrange(len(whole))])
            def check():
                self.reset(operation)
                try:
                    result = self.injected(operation, "--class", kind, "--at", at, "--truncate", path, size,
                                           under=under)
                finally:
                    with open(path, "wb") as file:
                        file.write(whole)
                self.look("shrink", operation, result)
                if b"became shorter while it was read" in result.stderr:
                    self.outcomes["shrink"]["of these, mapped pages that were gone"] += 1
            self.trial("shrink", operation, f"{os.path.basename(path)} to {size} at {kind} {at}", check)

    def part_two(self):
        """Two programs write one file at the same time."""
        for operation in self.operations:
            for _ in range(max(1, OPTIONS.runs // 3)):
                def check():
                    self.reset(operation)
                    both = [subprocess.Popen(operation.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             env=ENVIRONMENT) for _ in range(2)]
                    for child in both:
                        _, error = child.communicate(timeout=300)
                        result = subprocess.CompletedProcess(operation.command, child.returncode, b"", error)
                        if child.poll() is not None and all(one.poll() is not None for one in both):
                            self.look("two at once", operation, result)
                        else:
                            self.outcomes["two at once"][f"code {result.returncode}"] += 1
                            if result.returncode == 1 and not is_one_line(error.decode()):
                                raise Found(f"not one line: {error!r}")
                            if result.returncode not in (0, 1):
                                raise Found(f"exit code {result.returncode}: {error!r}")
                self.trial("two at once", operation, "", check)

    def part_clock(self):
        """Clocks that jump: leftovers and inputs with times of the past and the future."""
        hour = 3600
        for operation in self.operations:
            if operation.grows or operation.name == "sweep":
                continue
            for offset, stays in ((-30 * 24 * hour, False), (-2 * hour, False), (-60, True), (2 * hour, True),
                                  (30 * 365 * 24 * hour, True)):
                def check():
                    self.reset(operation)
                    leftover = operation.target + ".0123abcd.tmp"
                    with open(leftover, "w", encoding="utf-8") as file:
                        file.write("of a killed program")
                    then = time.time() + offset
                    os.utime(leftover, (then, then))
                    for path in operation.inputs:
                        os.utime(path, (then, then))
                    result = run(operation.command)
                    there = os.path.exists(leftover)
                    if there != stays:
                        raise Found(f"a leftover of {offset} s {'stays' if there else 'is gone'}")
                    if there:
                        os.remove(leftover)
                    if result.returncode != 0:
                        raise Found(f"exit code {result.returncode}: {result.stderr.decode()}")
                    self.look("clock", operation, result)
                self.trial("clock", operation, f"{offset} s", check)

    def part_damaged_traces(self):
        """Traces in HDF5's older metadata, which has no checksums, with changed bytes. The child that
        tries them first may die; the program may not."""
        seeds = self.old_traces()
        reader = Operation("replay", None, None, None)
        for _ in range(20 * OPTIONS.runs if seeds else 0):
            good = self.random.choice(seeds)
            data = bytearray(good)
            for _ in range(2 ** self.random.randrange(4)):
                at = self.random.randrange(len(data))
                for _ in range(6):
                    if data[at] != 0:
                        break
                    at = self.random.randrange(len(data))
                how = self.random.randrange(4)
                if how == 0:
                    data[at] = self.random.randrange(256)
                elif how == 1:
                    data[at] ^= 1 << self.random.randrange(8)
                elif how == 2:
                    data[at:at + 8] = b"\xff" * len(data[at:at + 8])
                else:
                    data[at] = self.random.choice([0, 1, 2, 4, 8, 16, 127, 128, 255])
            path = os.path.join(self.inputs, "damaged.h5")
            def check():
                with open(path, "wb") as file:
                    file.write(data)
                result = run([program("kvloupe"), "replay", path, "--policy", "h2o", "--budget", "2", "--json", "-"])
                error = result.stderr.decode(errors="replace")
                self.counts["damaged traces", "replay"] += 1
                how = "crashed only the child" if "made the HDF5 library crash" in error else \
                    "read" if result.returncode == 0 else "refused"
                self.outcomes["damaged traces"][how] += 1
                if result.returncode not in (0, 1) or (result.returncode == 1 and not is_one_line(error)):
                    keep = os.path.join(tempfile.gettempdir(), f"kvloupe-found-{self.counts['damaged traces', 'replay']}.h5")
                    shutil.copy(path, keep)
                    raise Found(f"exit code {result.returncode}: {error!r}; kept as {keep}")
            self.trial("damaged traces", reader, "", check)

    def old_traces(self):
        """Small traces as h5py writes them (python3-h5py); none without it."""
        make = """
import sys, h5py, numpy as np
for number, options in enumerate([{}, {"chunks": (1, 2, 2)}, {"compression": "gzip", "chunks": (1, 2, 2)},
                                  {"compression": "gzip", "shuffle": True, "fletcher32": True, "chunks": (1, 4, 2)}]):
    with h5py.File(sys.argv[1] + str(number), "w") as trace:
        trace.attrs.update(format="kvloupe-trace", format_version=1, complete=1)
        trace.create_group("model").attrs.update(num_layers=1, num_heads=1, num_kv_heads=1, head_dim=2,
                                                 hidden_size=2, vocab_size=10)
        trace.create_group("run").attrs.update(block_size=2, prompt_length=3, generated=1, attention_scale=0.7)
        trace["tokens/ids"] = np.arange(4)
        trace["tokens/text"] = [f"t{i}" for i in range(4)]
        for name in "query", "key", "value":
            states = np.random.default_rng(1).standard_normal((1, 4, 2)).astype(np.float16)
            trace.create_dataset(f"layers/0/{name}", data=states, **options)
"""
        start = os.path.join(self.work, "old")
        done = subprocess.run(["/usr/bin/python3", "-c", make, start], stderr=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            print("damaged traces: left out, python3-h5py is missing", file=sys.stderr)
            return []
        return [read(start + str(number)) for number in range(4)]

    PARTS = ["kill", "kill_any_time", "full", "write_error", "read_error", "shrink", "two", "clock", "damaged_traces"]

    def report(self):
        names = [operation.name for operation in self.operations]
        print("| fault | " + " | ".join(names) + " | how they ended |")
        print("| --- |" + " ---: |" * len(names) + " --- |")
        parts = list(dict.fromkeys(part for part, _ in self.counts))
        for part in parts:
            ends = ", ".join(f"{count} {kind}" for kind, count in sorted(self.outcomes[part].items()))
            cells = [str(self.counts[part, name] or "") for name in names]
            print(f"| {part} | " + " | ".join(cells) + f" | {ends} |")
        print(f"\n{sum(self.counts.values())} runs with a fault, {len(self.found)} finds")
        for line in self.found:
            print("found:", line)


def can_trace(inject):
    return subprocess.run([inject, "--class", "write", "--", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def main():
    global OPTIONS, ENVIRONMENT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="the folder of the programs")
    parser.add_argument("--runs", type=int, default=20, help="faults of each kind for each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="some of: " + ",".join(Campaign.PARTS))
    parser.add_argument("--operations", default="", help="some of the programs, by name")
    parser.add_argument("--short", action="store_true", help="some seconds, as one of the tests")
    OPTIONS = parser.parse_args()
    OPTIONS.bin = os.path.abspath(OPTIONS.bin)
    if OPTIONS.short:
        OPTIONS.runs = 1
    with tempfile.TemporaryDirectory(prefix="kvloupe-faults-") as work:
        ENVIRONMENT = dict(os.environ, XDG_CACHE_HOME=os.path.join(work, "cache"),
                           XDG_CONFIG_HOME=os.path.join(work, "config"), LC_ALL="C.UTF-8")
        campaign = Campaign(work)
        if not can_trace(campaign.inject):
            print("this system does not allow tracing", file=sys.stderr)
            return 77
        if OPTIONS.short and not OPTIONS.operations:
            OPTIONS.operations = "capture,figure,sweep,session"
        if OPTIONS.operations:
            wanted = OPTIONS.operations.split(",")
            campaign.operations = [one for one in campaign.operations if one.name in wanted]
        # Stopped in between (Ctrl C, SIGTERM), it says what it has done.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for part in OPTIONS.only.split(",") if OPTIONS.only else Campaign.PARTS:
                getattr(campaign, "part_" + part)()
        except KeyboardInterrupt:
            print("stopped before its end")
        campaign.report()
        return 1 if campaign.found else 0


if __name__ == "__main__":
    sys.exit(main())
