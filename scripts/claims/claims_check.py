#!/usr/bin/env python3
"""Computes rows of docs/claims.md a second time, from the traces alone.

    build/python/bin/python scripts/claims/claims_check.py FOLDER [COUNT]

Reads the first COUNT (all) of FOLDER/traces/*.h5 with h5py, computes with NumPy in float64 as the formulas read, and writes FOLDER/check.json:
one number per trace for each row, under the row's claim. Shares no code with kvloupe; scripts/claims/claims_page.py sets its
numbers beside those of the studies.
"""
import json

from pages import fail, script, write

try:
    import h5py
    import numpy as np
except ImportError as missing:
    np, lacking = None, str(missing)

SHARE = 0.2  # the budget of all rows with a policy
BLOCK = 128


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def ranks(values):
    """From 1; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class Head:
    """One key-value head: keys and values [T, d], queries of its group [G, T, d]."""

    def __init__(self, layer, head, group, scale):
        states = [layer[name][part].astype(np.float64) for name, part in
                  (("key", head), ("value", head), ("query", slice(head * group, (head + 1) * group)))]
        self.keys, self.values, self.queries = states
        self.scale = scale

    def attention(self):
        """[G, T, T], causal, with the full cache."""
        logits = self.queries @ self.keys.T * self.scale
        tokens = len(self.keys)
        logits[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        return softmax(logits)

    def replay(self, score, steps, budget):
        """The tokens left after the last step: after each, those with the highest scores, of equals the later."""
        kept = np.array([], int)
        for begin, end in steps:
            kept = np.concatenate([kept, np.arange(begin, end)])
            if len(kept) > budget:
                best = np.lexsort((kept, score(self, kept, end)))[-budget:]
                kept = np.sort(kept[best])
        return kept


def keydiff(head, kept, _end):
    keys = unit(head.keys[kept])
    return -keys @ unit(keys.mean(axis=0))


def tova(head, kept, end):
    logits = head.queries[:, end - 1] @ head.keys[kept].T * head.scale
    return softmax(logits).mean(axis=0)


def mean_cosine(keys):
    """Of two different keys."""
    keys = unit(keys)
    count = len(keys)
    return ((keys.sum(axis=0) ** 2).sum() - count) / (count * (count - 1))


def log_volume(keys):
    eigenvalues = np.linalg.eigvalsh(keys.T @ keys)
    return np.log(eigenvalues[eigenvalues > max(keys.shape) * np.finfo(float).eps * eigenvalues.max()]).sum()


def correlation(head, attention):
    """Spearman's, of a key's mean cosine to the others and the mean attention of the queries that see it."""
    tokens = len(head.keys)
    keys = unit(head.keys)
    alike = (keys @ keys.sum(axis=0) - 1) / (tokens - 1)
    received = attention.sum(axis=1).mean(axis=0) / np.arange(tokens, 0, -1)
    return np.corrcoef(ranks(alike), ranks(received))[0, 1]


def neighbours(rows):
    rows = unit(rows)
    return (rows[1:] * rows[:-1]).sum(axis=1).mean()


def numbers_of(path):
    """{claim: number} of one trace."""
    with h5py.File(path) as trace:
        model, run = trace["model"].attrs, trace["run"].attrs
        layers, heads = int(model["num_layers"]), int(model["num_kv_heads"])
        group = int(model["num_heads"]) // heads
        prompt, tokens = int(run["prompt_length"]), len(trace["tokens/ids"])
        steps = [(begin, min(begin + BLOCK, prompt)) for begin in range(0, prompt, BLOCK)]
        steps += [(token, token + 1) for token in range(prompt, tokens)]
        budget = int(prompt * SHARE)
        found = {name: [] for name in ("correlation", "opposed", "keys", "values", "sink", "alike", "volume")}
        for layer in range(layers):
            states = trace[f"layers/{layer}"]
            for index in range(heads):
                head = Head(states, index, group, float(run["attention_scale"]))
                attention = head.attention()
                found["correlation"].append(correlation(head, attention))
                mean_key = head.keys.mean(axis=0)
                found["opposed"].append(np.mean([unit(mean_key) @ unit(q.mean(axis=0)) for q in head.queries]) < 0)
                found["keys"].append(neighbours(head.keys))
                found["values"].append(neighbours(head.values))
                if layer >= layers // 2:
                    found["sink"].append(attention[:, 1:, 0].mean() > 0.3)
                left, other = (head.keys[head.replay(score, steps, budget)] for score in (keydiff, tova))
                found["alike"].append(mean_cosine(left) - mean_cosine(other))
                found["volume"].append(log_volume(left) - log_volume(other))
    mean = {name: float(np.mean(values)) for name, values in found.items()}
    return {
        "Rank correlation of a key's mean cosine to the others and the attention it receives, mean of heads": mean["correlation"],
        "Share of heads whose mean key and mean query have a negative cosine": mean["opposed"],
        "Cosine of neighbours, keys − values": mean["keys"] - mean["values"],
        "Share of heads in the upper half of the layers that give token 0 more than 0.3": mean["sink"],
        "Mean cosine of retained keys, `keydiff` − `tova`, 20 %": mean["alike"],
        "Log volume of the retained keys, `keydiff` − `tova`, 20 %": mean["volume"],
    }


@script(__doc__)
def main(folder, count=None):
    if np is None:
        fail(f"{lacking}; run it with build/python/bin/python (scripts/test-python.sh --prepare makes it)")
    if count is not None and not (str(count).isdigit() and int(str(count))):
        fail("takes FOLDER [COUNT]")
    paths = sorted((folder / "traces").glob("*.h5"))[:count and int(str(count))]
    if not paths:
        fail(f"{folder}/traces has no traces; run scripts/claims/claims.sh")
    rows = {}
    for path in paths:
        for claim, number in numbers_of(path).items():
            rows.setdefault(claim, []).append(number)
    write(folder / "check.json", json.dumps({"traces": [path.name for path in paths], "rows": rows}, ensure_ascii=False, indent=1) + "\n")
