"""Measures how far kvloupe and other programs agree, and writes docs/fidelity.md: scripts/fidelity.sh.

    fidelity.py models|real|families|closed|kvpress|readings|promises|tokenizers PART.json      measures one part
    fidelity.py write PART.json... docs/fidelity.md      writes the page
"""
from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import platform
import re
import sqlite3
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = {"1": 1, "7": 7, "64": 64, "all": 90}
REAL = {"SmolLM2 135M": "model", "Gemma 3 270M": "gemma3", "Qwen2.5-Coder 0.5B": "qwen2.5"}  # build/real-model/*.gguf
STATES = ("query", "key", "value", "attention_logsumexp")


def versions(*names: str) -> dict[str, str]:
    from kvloupe import program

    found = {name: metadata.version(name).split("+")[0] for name in names}
    found["kvloupe-capture"] = program.run("--version", name="kvloupe-capture").split()[1]
    return found | {"Python": platform.python_version()}


def models() -> dict[str, Any]:
    """kvloupe-capture against transformers: the largest difference of each quantity, for each family."""
    import h5py
    import kvloupe
    import numpy as np
    import test_witness as witness
    import torch
    from kvloupe import program

    def differ(a: Any, b: Any, names: list[str]) -> float:
        """Of max(1, |x|), the largest."""
        found = 0.0
        for name in names:
            x, y = a[name][:].astype(np.float64), b[name][:].astype(np.float64)
            found = max(found, float(np.nanmax(np.abs(x - y) / np.maximum(1.0, np.abs(y)))))
        return found

    rows = []
    ids = np.random.default_rng(3).integers(3, witness.SHAPE["vocab_size"], 90)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ids.txt").write_text(" ".join(map(str, ids)))
        for family in [*witness.FAMILIES, *witness.MORE]:
            own = folder / family.replace(" ", "-")
            model = witness.made(family, own)
            for dtype, blocks in (("f32", BLOCKS), ("bf16", {"64": 64})):
                row: dict[str, Any] = {"family": family, "dtype": dtype}
                if dtype == "bf16":
                    kvloupe.capture(model, None, ids, folder / "f32.h5", block=64, store="f32", progress=False)
                ran = model.to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
                for block in blocks.values():
                    kvloupe.capture(ran, None, ids, folder / "p.h5", block=block, store="f32", progress=False)
                    program.run("run", "--model", own, "--ids", folder / "ids.txt", "--block", block, "--dtype", dtype,
                                "--store", "f32", "--attention", "none", "--progress", "none", "-o", folder / "c.h5",
                                name="kvloupe-capture")
                    with h5py.File(folder / "p.h5") as p, h5py.File(folder / "c.h5") as c:
                        layers = range(witness.SHAPE["num_hidden_layers"])
                        for quantity in ("query", "key", "value", "attention_logsumexp"):
                            now = differ(p, c, [f"layers/{layer}/{quantity}" for layer in layers])
                            row[quantity] = max(row.get(quantity, 0.0), now)
                        if dtype == "bf16":
                            with h5py.File(folder / "f32.h5") as exact:
                                names = [f"layers/{layer}/query" for layer in layers]
                                row["query from float32"] = [differ(p, exact, names), differ(c, exact, names)]
                        row["loss"] = max(row.get("loss", 0.0), differ(p, c, ["predictions/loss"]))
                        same = p["predictions/token_ids"][:] == c["predictions/token_ids"][:]
                        row["top-5"] = min(row.get("top-5", 1.0), float(same.mean()))
                        row["top-1"] = min(row.get("top-1", 1.0), float(same[:, 0].mean()))
                rows.append(row)
                print(row, file=sys.stderr, flush=True)
    return {"rows": rows, "tokens": len(ids), "versions": versions("transformers", "torch", "numpy", "h5py")}


def real_models() -> list[tuple[str, Path, list[int]]]:
    """The models that are there: label, file, and 600 tokens of a text by kvloupe-capture."""
    from kvloupe import program

    found = [(label, ROOT / f"build/real-model/{name}.gguf") for label, name in REAL.items()]
    told = lambda path: json.loads(program.run("tokens", "--model", path, "--prompt", ROOT / "assets/prompts/real/document.txt",
                                               "--json", "-", name="kvloupe-capture"))["ids"][:600]
    return [(label, path, told(path)) for label, path in found if path.is_file()]


def real() -> dict[str, Any]:
    """Real models from their GGUF files: states and losses of kvloupe-capture, and of transformers through kvloupe.capture."""
    import h5py
    import kvloupe
    import numpy as np
    import torch
    import transformers
    from kvloupe import program

    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, path, ids in real_models():
            model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
            (folder / "ids.txt").write_text(" ".join(map(str, ids)))
            kvloupe.capture(model, None, ids, folder / "p.h5", block=64, store="f32", progress=False)
            program.run("run", "--model", path, "--ids", folder / "ids.txt", "--block", 64, "--dtype", "f32", "--store", "f32",
                        "--progress", "none", "-o", folder / "c.h5", name="kvloupe-capture")
            with h5py.File(folder / "p.h5") as p, h5py.File(folder / "c.h5") as c:
                row: dict[str, Any] = {"model": label, "tokens": len(ids), "layers": len(c["layers"])}
                for quantity in STATES:
                    pairs = [(p[f"layers/{at}/{quantity}"][:], c[f"layers/{at}/{quantity}"][:]) for at in range(len(c["layers"]))]
                    row[quantity] = max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)
                row["loss"] = float(np.nanmax(np.abs(p["predictions/loss"][:] - c["predictions/loss"][:])))
                row["top-1"] = float((p["predictions/token_ids"][:, 0] == c["predictions/token_ids"][:, 0]).mean())
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    return {"rows": rows, "versions": versions("transformers", "torch")}


def families() -> dict[str, Any]:
    """Captures from Python: the outputs that a trace alone gives against the untouched model's, for each family."""
    import h5py
    import kvloupe
    import numpy as np
    import tiny_models as tiny
    import transformers

    ids = np.random.default_rng(5).integers(3, tiny.VOCABULARY, 44).tolist()
    rows, refused = [], []
    ways = [(name, mla) for name in tiny.FAMILIES for mla in ("latent", "expanded")
            if mla == "latent" or "kv_lora_rank" in tiny.FAMILIES[name][1]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.h5"
        for name, mla in ways:
            kvloupe.capture(tiny.made(name), None, ids, path, block=7, generate=3, store="f32", mla=mla)
            with h5py.File(path) as file:
                tokens, blocks = file["tokens/ids"][:].tolist(), file["run/blocks"][:].tolist()
            own, *_ = tiny.own_outputs(tiny.made(name), tokens, blocks)
            whole, *_ = tiny.own_outputs(tiny.made(name), tokens)
            mine = tiny.outputs_of(path)
            far = lambda theirs: max(float(np.abs(one["output"] - theirs[at]).max() / np.abs(theirs[at]).max())
                                     for at, one in mine.items())
            rows.append({"family": name + (", expanded" if mla == "expanded" else ""), "blocks": far(own), "pass": far(whole)})
            print(rows[-1], file=sys.stderr, flush=True)
        for name, (case, _) in tiny.REFUSED.items():
            try:
                kvloupe.capture(tiny.made(name, {name: case}), None, ids[:27], path)
            except kvloupe.KvloupeError as error:
                refused.append({"family": name, "line": str(error)})
    return {"rows": rows, "refused": refused, "tokens": len(ids) + 3,
            "versions": {"transformers": transformers.__version__} | {
                name: metadata.version(name).split("+")[0] for name in ("torch", "numpy", "h5py")}}


def likenesses(rows: dict[str, Any], pairs: list[Any], case: Any, sets: Any, *shares: Any) -> None:
    """Adds to each press's row how alike its sets and its policy's are on a case; sets(pair, kept) gives both, and who shares places."""
    import presses

    for pair in pairs:
        for kept in presses.budgets(pair, len(case.ids), *shares):
            row = rows.setdefault(pair.name, {"press": pair.name, "likeness": presses.Likeness(), "spec": pair.policy(kept, len(case.ids))})
            row["likeness"].add(*sets(pair, kept))
    print(case.name, file=sys.stderr, flush=True)


def of_presses(rows: dict[str, Any], contexts: list[str], **more: Any) -> dict[str, Any]:
    return {"rows": [row | {"likeness": vars(row["likeness"])} for row in rows.values()], "contexts": contexts,
            "versions": versions("kvpress", "transformers", "torch"), **more}


def kvpress() -> dict[str, Any]:
    """Policies against presses: shares of equal sets; and a block press against a run that evicts."""
    import numpy as np
    import presses

    rows: dict[str, Any] = {}
    contexts, closed = [], []
    with tempfile.TemporaryDirectory() as name:
        for case in presses.cases(Path(name)):
            contexts.append(f"{case.name}: {len(case.ids)} tokens")
            likenesses(rows, presses.pairs(), case,
                       lambda pair, kept: (presses.press_sets(pair, case, kept), presses.policy_sets(pair, case, kept)))
            if "demo" in case.name:
                pair = next(pair for pair in presses.pairs() if pair.name.startswith("BlockPress"))
                kept = len(case.ids) // 4 // presses.BLOCK * presses.BLOCK
                press = presses.press_sets(pair, case, kept).sets
                runs = presses.closed_loop_sets(case, "keydiff", kept, presses.BLOCK, Path(name))
                closed.append({"context": case.name, "budget": kept, "equal": [
                    float(np.mean([x.tolist() == y.tolist() for x, y in zip(a, b)])) for a, b in zip(press, runs)],
                    "shared": [float(np.mean([len(np.intersect1d(x, y)) / len(x) for x, y in zip(a, b)]))
                               for a, b in zip(press, runs)]})
    return of_presses(rows, contexts, closed=closed, block=presses.BLOCK)


def readings() -> dict[str, Any]:
    """Policies that look at the whole model first, such as by a second reading of the context, and their presses."""
    import presses
    import second_readings

    rows: dict[str, Any] = {}
    contexts = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def sets(pair: Any, kept: int) -> tuple[Any, Any, str]:
            read = second_readings.read_again(pair, case, folder)
            return second_readings.press_sets(pair, read, kept), presses.policy_sets(pair, read, kept), pair.across
        # Not all cases: the presses read the context again for each budget.
        for case in itertools.chain(presses.cases(folder, names="demo model, needle"), presses.cases(folder, names="random")):
            contexts.append(f"{case.name}: {len(case.ids)} tokens")
            likenesses(rows, second_readings.reading_pairs(), case, sets, (0.8, 0.3))
    return of_presses(rows, contexts)


def closed() -> dict[str, Any]:
    """A policy in a model's own cache: kvloupe.run against kvloupe-capture run --policy, with states of 32 bits."""
    import h5py
    import kvloupe
    import numpy as np
    import torch
    import transformers
    from kvloupe import program

    policies = ["h2o", "keydiff", "h2o+caote", "snapkv+adakv", "h2o+kvmerger(threshold=0.5)"]
    demo = ROOT / "assets/demo-model"
    ids = json.loads(program.run("tokens", "--model", demo, "--prompt", ROOT / "assets/prompts/needle.txt", "--json", "-",
                                 name="kvloupe-capture"))["ids"][:600]
    models = [("demo model", demo, ids, 32), *((*one, 16) for one in real_models())]
    rows, equal_logits = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, path, ids, made in models:
            source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name} if path.is_file() else {
                "pretrained_model_name_or_path": path}
            model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
            (folder / "ids.txt").write_text(" ".join(map(str, ids)))
            full = kvloupe.Cache("h2o", len(ids), model=model, block=128)
            with torch.inference_mode():
                own = model(torch.tensor([ids]), use_cache=True).logits
                equal_logits.append([label, bool(torch.equal(own, model(torch.tensor([ids]), **{cache_name(model): full}).logits))])
            full.close()
            for policy in policies:
                program.run("run", "--model", path, "--ids", folder / "ids.txt", "--block", 64, "--generate", made, "--policy",
                            policy, "--budget", "25%", "--dtype", "f32", "--store", "f32", "--attention", "none", "--progress",
                            "none", "-o", folder / "c.h5", name="kvloupe-capture")
                kvloupe.run(model, None, ids, folder / "p.h5", policy=policy, budget="25%", block=64, generate=made, store="f32",
                            progress=False)
                with h5py.File(folder / "c.h5") as c, h5py.File(folder / "p.h5") as p:
                    texts = [file["tokens/ids"][len(ids):].tolist() for file in (c, p)]
                    row = {"model": label, "tokens": len(ids), "policy": policy, "sets": 0, "equal": 0, "first": None, "text": [sum(itertools.takewhile(bool, (int(a == b) for a, b in zip(*texts)))),
                                                               max(map(len, texts))]}
                    for at in range(len(c["layers"])):
                        a, b = (file[f"layers/{at}/evicted_at"][:, :len(ids)] for file in (c, p))
                        prompt_steps = -(-len(ids) // 64)  # of both: texts may part
                        a, b = (np.where(one < prompt_steps, one, -1) for one in (a, b))
                        differ = (a != b).sum(1)
                        row["sets"] += len(differ)
                        row["equal"] += int((differ == 0).sum())
                        if differ.any() and row["first"] is None:
                            first = int(min(one[one >= 0].min() for one in (a[a != b], b[a != b]) if (one >= 0).any()))
                            row["first"] = [at, first]
                rows.append(row)
                print(row, file=sys.stderr, flush=True)
    return {"rows": rows, "logits": equal_logits, "versions": versions("transformers", "torch")}


def cache_name(model: Any) -> str:
    from kvloupe.describe import cache_argument

    return cache_argument(model)


LIMIT, RISK = 0.1, 0.05
EXPECTED = {"10%": 0.3, "20%": 0.101, "40%": 0.03}  # losses; the middle budget is just above the limit: the hardest case


def worst_expected(losses: int, prompts: int) -> float:
    """The largest expected loss with which so few losses or fewer come with the chance RISK: exact binomial, by bisection."""
    low, high = losses / prompts, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = sum(math.comb(prompts, k) * middle**k * (1 - middle)**(prompts - k) for k in range(losses + 1))
        low, high = (middle, high) if chance > RISK else (low, middle)
    return high


def promises(studies: int = 400) -> dict[str, Any]:
    """kvloupe advise on results of simulated studies, whose expected losses are known: how often it promises what is not so."""
    import numpy as np
    from kvloupe import program
    from kvloupe.evaluation import Item, StudyResults

    policies, chance, rows = ("keydiff", "h2o", "snapkv", "tova", "sink"), np.random.default_rng(11), []
    names = "blocks budgets compression dtype measures model policies positions prompts reduce tasks traces version"
    for together in (False, True):
        for prompts in (60, 100, 200):
            found = dict.fromkeys(("promised", "broken", "any_broken", "apart"), 0)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "study.sqlite"
                items = [Item(prompt, "", policy, budget, "128", 128, "regular") for prompt in range(prompts)
                         for policy, budgets in (("full", ("full",)), *((one, EXPECTED) for one in policies)) for budget in budgets]
                settings = dict.fromkeys(names.split(), "") | {"policies": ", ".join(policies), "budgets": ", ".join(EXPECTED), "blocks": "128"}
                results = StudyResults(path, settings, [(f"prompt {i}", f"v1:{i:064x} {i:064x}") for i in range(prompts)],
                                       ["answer_found"], items)
                results.close()
                file = sqlite3.connect(path)
                file.execute("PRAGMA synchronous = OFF")
                file.executemany("UPDATE items SET state = 'done', entries = ? WHERE budget = ?",
                                 [(1000, "full"), (100, "10%"), (200, "20%"), (400, "40%")])
                loss_of = np.array([EXPECTED.get(item.budget, 0.0) for item in items])
                for _ in range(studies):
                    lost = chance.random(len(items)) < loss_of
                    with file:
                        file.execute("DELETE FROM replay_values")
                        file.executemany("INSERT INTO replay_values VALUES (?, 0, ?)", [(at, 1.0 - one) for at, one in enumerate(lost.tolist())])
                    said = program.run("advise", path, "--loss", "answer_found", "--at-most", LIMIT, "--risk", RISK,
                                       *(["--together"] if together else []), "-o", "-")
                    kept, broken = set(), set()  # policies with a promise, and with one that is not so
                    for row in csv.DictReader(io.StringIO(said)):
                        if row["promised"] == "1":
                            kept.add(row["policy"])
                            if EXPECTED[row["budget"]] > LIMIT:
                                broken.add(row["policy"])
                        if not together:
                            counted = sum(one for one, item in zip(lost.tolist(), items) if (item.policy, item.budget) == (row["policy"], row["budget"]))
                            found["apart"] = max(found["apart"], abs(worst_expected(counted, prompts) - float(row["bound"])))
                    found["promised"] += len(kept)
                    found["broken"] += len(broken)
                    found["any_broken"] += len(broken) > 0
                file.close()
            rows.append({"together": together, "prompts": prompts, "studies": studies, "policies": len(policies), **found})
    return {"rows": rows, "versions": versions("numpy")}


def tokenizers() -> dict[str, Any]:
    """Ids of kvloupe-capture against those of the tokenizers and SentencePiece libraries."""
    import sentencepiece
    import tokenizer_texts as samples
    from kvloupe import KvloupeError, program

    every = samples.texts()
    # A few large files, because the program starts anew for each. At the end of a file one line end is not text.
    files = ["\n".join(every[at::4]) for at in range(4)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def ours(model: Path, text: str) -> list[int]:
            (folder / "text.txt").write_text(text + "\n", encoding="utf-8", newline="")
            return json.loads(program.run("tokens", "--model", model, "--prompt", folder / "text.txt", "--json", "-",
                                          name="kvloupe-capture"))["ids"]

        def compare(label: str, file: str, model: Path, encode: Any) -> None:
            row: dict[str, Any] = {"layout": label, "file": file, "tokens": 0, "differ": 0, "first": ""}
            for text in files:
                expected, found = encode(text), ours(model, text)
                row["tokens"] += len(expected)
                if expected != found:
                    at = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b),
                              min(len(expected), len(found)))
                    row["differ"] += 1
                    row["first"] = f"token {at}: {expected[at:at + 3]}, kvloupe {found[at:at + 3]}"
            rows.append(row)
            print(row, file=sys.stderr, flush=True)

        for label, made in samples.layouts().items():
            own = folder / "json"
            own.mkdir(exist_ok=True)
            made.save(str(own / "tokenizer.json"))
            compare(label, "tokenizer.json", own, lambda text: made.encode(text).ids)
        models = {f"trained here: {label}": path for label, path in samples.sentencepiece_models(folder).items()}
        models["demo model"] = ROOT / "assets/demo-model"
        for path in filter(None, os.environ.get("KVLOUPE_CHECKPOINTS", "").split(os.pathsep)):
            if (Path(path) / "tokenizer.model").is_file():
                models[f"checkpoint {Path(path).name}"] = Path(path)
        for label, own in models.items():
            read = sentencepiece.SentencePieceProcessor(model_file=str(own / "tokenizer.model"))
            compare(label, "tokenizer.model", own, lambda text: [read.bos_id()] + read.encode(text))
        (folder / "refused").mkdir()
        samples.unigram().save(str(folder / "refused" / "tokenizer.json"))
        try:
            ours(folder / "refused", "text")
            refused = "is read"
        except KvloupeError as error:
            refused = str(error).replace(str(folder / "refused") + "/", "")
    return {"rows": rows, "texts": len(every), "characters": sum(map(len, every)), "refused": refused,
            "versions": versions("tokenizers", "sentencepiece")}


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def percent(part: float, whole: float) -> str:
    return "100 %" if part == whole else "0 %" if part == 0 else f"{min(100.0 * part / whole, 99.9):.1f} %"


def likeness_table(rows: list[dict[str, Any]]) -> str:
    """A list of the presses whose sets are all equal, and the others as a table."""
    found = [(row["press"], f"`{row['spec']}`", *(row["likeness"][name] for name in ("sets", "equal", "tied", "shared", "entries"))) for row in rows]
    same = "; ".join(f"{press} ({spec}, {sets})" for press, spec, sets, equal, *_ in found if equal == sets)
    untied = "".join(f", except {sets - equal - tied} sets of {press}" for press, _, sets, equal, tied, *_ in found if equal + tied < sets)
    return (f"All sets are equal (policy, sets): {same}.\n\nOther sets are equal or tied{untied}.\n\n"
            + table(["press", "policy", "sets", "equal", "entries shared"], [
                [press, spec, str(sets), percent(equal, sets), percent(shared, entries)]
                for press, spec, sets, equal, _, shared, entries in found if equal < sets]))


def page(parts: dict[str, dict[str, Any]]) -> str:
    number = lambda value: "0" if value == 0.0 else f"{value:.1e}"
    text = ["""<!-- Written by scripts/fidelity.sh. Do not edit: run it again. -->
# Fidelity: kvloupe beside other programs

How far kvloupe's numbers, decisions and tokens agree with those of programs that share no code with it. This script measures
everything, writes this page, and leaves each single number in `build/fidelity`:

    scripts/fidelity.sh

"""]
    if "models" in parts:
        part = parts["models"]
        text.append(f"""## States and predictions: kvloupe-capture and transformers

Random models of 3 layers of all families and their variants (`test_witness.py`), {part["tokens"]} tokens; float32 in blocks of 1, 7,
64 and all tokens, bfloat16 in blocks of 64. The table shows the model that differs most, in units of max(1, |x|); for the
shares of equal ids among the most probable next tokens, the model with the fewest.

""")
        of = {dtype: [row for row in part["rows"] if row["dtype"] == dtype] for dtype in ("f32", "bf16")}

        def worst(dtype: str, name: str) -> str:
            share = name.startswith("top")
            row = (min if share else max)(of[dtype], key=lambda row: row[name])
            return "100 %" if row[name] == 1.0 else f"{percent(row[name], 1.0) if share else number(row[name])} ({row['family']})"

        text.append(table(["quantity", "float32", "bfloat16"], [
            [name, worst("f32", name), worst("bf16", name)]
            for name in ("query", "key", "value", "attention_logsumexp", "loss", "top-5", "top-1")]))
        theirs, ours = (max((row["query from float32"][at], row["family"]) for row in of["bf16"]) for at in (0, 1))
        text.append(f"""
Random weights amplify the rounding of bfloat16 from layer to layer, and with experts a token may go another way. Either
program alone is as far from float32 as from the other: queries differ by up to {number(theirs[0])} ({theirs[1]}) for
transformers, {number(ours[0])} ({ours[1]}) for kvloupe.

""")
    if "real" in parts:
        part = parts["real"]
        text.append("""## Real models from GGUF files: kvloupe-capture and transformers

The first tokens of `assets/prompts/real/document.txt`, float32, blocks of 64. States: the largest difference in units of the
layer's largest number. Loss: the largest difference in nats. `tests/python/test_real_models.py` holds these, tokens and
decisions.

""")
        text.append(table(["model", "layers", "tokens", *STATES, "loss", "same most probable token"], [
            [row["model"], str(row["layers"]), str(row["tokens"]), *(number(row[name]) for name in (*STATES, "loss")),
             percent(row["top-1"], 1.0)] for row in part["rows"]]) + "\n")
    if "families" in parts:
        part = parts["families"]
        text.append(f"""## Families from Python: a trace alone, and the model's own outputs

Random models of 5 layers from transformers' own classes, captured with `kvloupe.capture` in blocks of 7 tokens and 3
generated ones, {part["tokens"]} tokens, float32. A second program computes each attention layer's output in float64 from the trace alone.
The numbers are the distance to the untouched model's output, in units of the layer's largest number: in the same blocks,
and in one pass (a scan over tokens then sums in another order). [Which models](which-models.md) describes the families.

""")
        most = max(part["rows"], key=lambda row: row["blocks"])
        apart = "; ".join(f"{row['family']} {number(row['pass'])}" for row in part["rows"] if row["pass"] > 1e-5)
        text.append(f"""Same blocks: at most {number(most["blocks"])} ({most["family"]}). One pass: at most 1e-05, but for {apart}. Tried:
{"; ".join(row["family"] for row in part["rows"])}.
""")
        text.append("\nRefused, with this line:\n\n")
        lines: dict[str, list[str]] = {}  # families by what is said of them
        for row in part["refused"]:
            line = re.sub(r"\w+ForCausalLM", "…", row["line"].removesuffix("; this model cannot be captured"))
            lines.setdefault(line, []).append(row["family"])
        text.extend(f"- {', '.join(names)}: {line}\n" for line, names in lines.items())
        text.append("\n")
    if "closed" in parts:
        part = parts["closed"]
        text.append("""## Runs with a policy in the model's own cache: kvloupe.run and kvloupe-capture

Both programs run the same model with the same policy, in blocks of 64 tokens, with 25 % of the prompt as the
budget, in float32. A history is the step at which each prompt token left one head of one layer.

""")
        whole = lambda row: row["equal"] == row["sets"] and row["text"][0] == row["text"][1]
        equal: dict[str, list[str]] = {}  # the models by policies
        for model in dict.fromkeys(row["model"] for row in part["rows"]):
            if same := [row for row in part["rows"] if row["model"] == model and whole(row)]:
                equal.setdefault(", ".join(f"`{row['policy']}`" for row in same), []).append(
                    f"{model} ({same[0]['tokens']} tokens, {same[0]['sets']} histories, {same[0]['text'][1]} generated tokens)")
        for policies, names in equal.items():
            text.append(f"- All histories and generated tokens are equal with {policies}: {', '.join(names)}.\n")
        for row in (row for row in part["rows"] if not whole(row)):
            first = "" if row["first"] is None else f"; first difference in layer {row['first'][0]}, step {row['first'][1]}"
            text.append(f"- {row['model']}, {row['tokens']} tokens, `{row['policy']}`: {percent(row['equal'], row['sets'])} of {row['sets']} histories, "
                        f"{row['text'][0]} of {row['text'][1]} generated tokens are equal{first}.\n")
        for words, found in (("are", True), ("are not", False)):
            if names := [label for label, one in part["logits"] if one == found]:
                text.append(f"- With a budget of the whole prompt the logits {words} the model's own, bit for bit: {', '.join(names)}.\n")
        text.append("\n")
    if "kvpress" in parts:
        part = parts["kvpress"]
        text.append(f"""## Decisions: policies and presses of kvpress

A press compresses each layer once, after the whole context; kvloupe replays the same context as one block (BlockPress:
blocks of {part["block"]}). A set is the tokens that one layer and head keep, at 90, 50, 25 and 10 % of the context if the press
allows this. *Tied* sets differ only in entries whose scores (small ones: their logarithms) are equal to 5 digits, such as
equal tokens' keys in layer 0 (CriticalKVPress: in either stage).

{likeness_table(part["rows"])}
Contexts: {"; ".join(part["contexts"])}. Windows are 16 tokens (PyramidKV: 4, β = 8) unless the row says 64.

- CriticalKVPress fills half of the budget by the score: `critical(of=budget)`. Plain `critical` fills a share α of what is
  left after the window, as the paper says.
- PyramidKVPress leaves the window out of the first layer's share and uses equal budgets if the last layer would hold less
  than its window: `pyramid(window=64)` for the press's own window.
- A budget N in kvloupe is int(S (1 - compression_ratio)) of S tokens in kvpress.

### A block press scores an uncompressed run

BlockPress takes the full run's keys. A model that evicts after each block computes other keys above layer 0.
`kvloupe-capture run --policy keydiff` beside BlockPress(KeyDiffPress), heads with equal sets and equal entries by layer:

""")
        for row in part["closed"]:
            layers = [", ".join(f"{100 * one:.0f}" for one in row[name]) for name in ("equal", "shared")]
            text.append(f"- {row['context']}, budget {row['budget']}: {layers[0]} % of heads; {layers[1]} % of entries.\n")
        text.append("\n")
    if "readings" in parts:
        part = parts["readings"]
        text.append(f"""## Decisions of presses that look at the whole model first

KVzip and KVCompose read the context a second time; kvloupe replays a trace with `probe="repeat"` or `"reread"`.
DuoAttention takes mean queries and keys over the context instead of 50 long texts, and keeps 4 first and 64 last tokens
instead of 128 and 256. Sets at 80 and 30 % of all entries; for DuoAttention, of heads that keep everything.
Where heads or layers share the places, the entries (KVCompose: composite tokens) that compete for the last places may tie.

{likeness_table(part["rows"])}
Contexts: {"; ".join(part["contexts"])}. A policy's share of heads is that of the first budget.

- KVzipPress always keeps the first 4 tokens, as `kvzip` does; `kvzip(keep_sinks=0)` keeps them by their score.
- KVComposePress makes layer 0 as large as the largest layer. With `add_v_norm` it fails in kvpress 0.5.5, so
  `kvcompose(values=1)` was not compared. The unstructured press leaves the second reading in the cache; its sets are those
  that it masks by.

""")
    if "promises" in parts:
        part = parts["promises"]
        first = part["rows"][0]
        text.append(f"""## Promises: kvloupe advise on studies whose expected losses are known

{first["studies"]} simulated studies in each row, {first["policies"]} policies with the expected losses {", ".join(map(str, EXPECTED.values()))} at three budgets; a prompt's
loss is 0 or 1. `advise` may promise at most {LIMIT} at a risk of {100 * RISK:.0f} %. *Broken*: the promised budget loses more.

""")
        text.append(table(["risk is for", "prompts", "policies with a promise", "with a broken one", "studies with a broken one"], [
            ["all policies (`--together`)" if row["together"] else "each policy", str(row["prompts"]),
             *(percent(row[name], row["studies"] * row["policies"]) for name in ("promised", "broken")),
             percent(row["any_broken"], row["studies"])] for row in part["rows"]]))
        text.append(f"""
Whoever chooses among policies by these results needs `--together`. The bounds were computed again, by bisection of the
binomial distribution; the largest difference is {max(row["apart"] for row in part["rows"]):.0e}.

""")
    if "tokenizers" in parts:
        part = parts["tokenizers"]
        text.append(f"""## Tokens: kvloupe-capture and the tokenizers and SentencePiece libraries

{part["texts"]} texts in 25 scripts, code, and words drawn from all of Unicode 14, {part["characters"]} characters, in four
files; tokenizers trained on the spot. All ids are equal for

""")
        for file in dict.fromkeys(row["file"] for row in part["rows"]):
            text.append(f"- `{file}`: " + "; ".join(row["layout"] for row in part["rows"] if row["file"] == file and not row["differ"]) + ".\n")
        text.extend(f"- Different: {row['layout']}, `{row['file']}`, {row['differ']} of the files ({row['first']}).\n"
                    for row in part["rows"] if row["differ"])
        text.append(f"""
A unigram model as `tokenizer.json` is refused: "{part["refused"]}". [Models](models.md#tokenizers) describes a larger check.

""")
    environments: dict[str, dict[str, str]] = {}  # that of the presses, and the other
    for part in parts.values():
        environments.setdefault("kvpress" if "kvpress" in part["versions"] else "", {}).update(part["versions"])
    text.append("Measured with " + "; the presses with ".join(
        ", ".join(f"{one} {version}" for one, version in found.items() if not name or environments.get("", {}).get(one) != version)
        for name, found in sorted(environments.items())) + ".\n")
    return "".join(text).rstrip() + "\n"


def main() -> int:
    verb, *paths = sys.argv[1:]
    if verb == "write":
        *inputs, output = map(Path, paths)
        parts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in inputs}
        output.write_text(page(parts), encoding="utf-8")
        return 0
    sys.path.insert(0, str(Path(__file__).parent))
    part = {"models": models, "real": real, "families": families, "closed": closed, "kvpress": kvpress, "readings": readings,
            "promises": promises, "tokenizers": tokenizers}[verb]()
    Path(paths[0]).write_text(json.dumps(part, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
