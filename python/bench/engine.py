"""How long Python waits for a replay and a sweep's frame, by the engine and by the program, in turns:
    python python/bench/engine.py TRACE [ROUNDS]
"""
from __future__ import annotations

import sys
import time
from typing import Any, Callable

import kvloupe
from kvloupe import engine, program

WAYS: dict[str, Callable[[Any, str], Any]] = {
    "a sweep's frame, keydiff at 50%": lambda way, path: way.sweep(path, "keydiff", "50%"),
    "a sweep's frame, 3 policies at 2 budgets": lambda way, path: way.sweep(
        path, ["h2o", "snapkv(window=4)+recent(10%)", "keydiff"], ["25%", "50%"]),
    "a replay with its measures": lambda way, path: dict(way.replay(path, "keydiff", "50%")),
    "a replay's sets": lambda way, path: way.replay(path, "keydiff", "50%", measures="none"),
    "followed tokens": lambda way, path: way.follow(path, "h2o", "50%", tokens="3-8")}


def main() -> None:
    path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with kvloupe.open(path) as trace:
        print(f"{len(trace)} tokens, {trace.model['num_layers']} layers, {engine.needed()._name}")
    for what, run in WAYS.items():
        taken: dict[Any, list[float]] = {kvloupe: [], program: []}
        for _ in range(rounds + 1):
            for way in taken:
                begin = time.perf_counter()
                run(way, path)
                taken[way].append(time.perf_counter() - begin)
        middle = {way: sorted(times[1:])[rounds // 2] * 1e3 for way, times in taken.items()}  # less the first
        print(f"{what}: program {middle[program]:.1f} ms, engine {middle[kvloupe]:.1f} ms, "
              f"{middle[program] / middle[kvloupe]:.1f} times")


if __name__ == "__main__":
    main()
