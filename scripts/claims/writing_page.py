#!/usr/bin/env python3
"""Writes how policies fare while the model writes: scripts/claims/writing_page.py FOLDER PAGE STORE

Reads FOLDER/writing.json and FOLDER/writing.sqlite (scripts/claims/writing.sh) and puts the section "While the model writes" into
PAGE. STORE is a file with the texts of earlier runs: its prompts count, too, and the new ones are added to it. A prompt counts once all its settings have run, and if the full cache's answer has as many tokens as were asked for.
Intervals: Wilson's of shares, else the percentile bootstrap over the prompts (10 000 resamples).
"""
import json
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from kvloupe.engine import ask  # noqa: E402
from claims_study import plain_name, read_store, write_store  # noqa: E402
from pages import by_policy, fail, opened, put_section, resampled, script, signed, table, wilson  # noqa: E402

TITLE = "## While the model writes\n"
CADENCE = 64
ENTRY = 30 * 3 * (64 + 64) * 2  # bytes of a token in SmolLM2-135M: layers, heads, key and value, float16


def tokens_of(texts, folder, model):
    """The token ids of each text, by the model's tokenizer."""
    path = folder / "texts.json"
    path.write_text(json.dumps([[["answer", text]] for text in texts]))
    made = subprocess.run([ROOT / "build/bin/kvloupe-capture", "tokens", "--model", model, "--prompts", path], check=True,
                          capture_output=True, text=True)
    path.unlink()
    return [one["ids"] for one in json.loads(made.stdout)]


def mean(values):
    means = resampled(values, 10000)
    return f"{statistics.fmean(values):.2f} ({means[250]:.2f} to {means[9749]:.2f})"


def differs(values, comparisons):
    """The mean of paired differences if its bootstrap interval, corrected for so many comparisons, is without 0; else None."""
    means, tail = resampled(values, 10000), round(10000 * 0.025 / comparisons)
    return statistics.fmean(values) if means[tail] > 0 or means[-1 - tail] < 0 else None


def entries_held(policy, budget, prompt, written):
    """Entries of a head after a written token, mean over the tokens, as the schedule has them."""
    every = CADENCE if "+every" in policy else 1
    held, all_held = prompt if policy == "full" else min(prompt, budget), []
    for token in range(1, written + 1):
        held += 1
        if policy != "full" and token % every == 0:
            held = min(held, budget)
        all_held.append(held)
    return statistics.fmean(all_held)


class Results:
    def __init__(self, folder, store):
        study = json.loads((folder / "writing.json").read_text())
        self.asked, self.budget = study["tasks"][0]["tokens"], study["budgets"][0]
        prompts = self.written(folder / "writing.sqlite")
        stored = read_store(store)
        if stored and (stored["asked"], stored["budget"]) != (self.asked, self.budget):
            fail(f"{store} is of {stored['asked']} tokens and a budget of {stored['budget']}, {folder} of {self.asked} "
                     f"and {self.budget}; give another STORE")
        self.whole = dict(sorted({**stored.get("prompts", {}), **prompts}.items()))  # the bootstrap depends on the order
        if not self.whole:
            fail("no prompt has run with all settings; let scripts/claims/writing.sh go on")
        self.policies = list(dict.fromkeys(policy for one in self.whole.values() for policy in one["texts"]))
        lacking = {name for name, one in self.whole.items() if set(one["texts"]) != set(self.policies)}
        if lacking:
            fail(f"{min(lacking)} ran with other policies in {store} than in {folder}; give another STORE")
        write_store(store, {"asked": self.asked, "budget": self.budget, "prompts": self.whole})
        self.text = {(name, policy): text for name, one in self.whole.items() for policy, text in one["texts"].items()}
        self.right = {key: ask("has_answer", [text, self.whole[key[0]]["expected"]]) for key, text in self.text.items()}
        self.length = {name: one["length"] for name, one in self.whole.items()}
        ids = dict(zip(self.text, tokens_of(list(self.text.values()), folder, folder / study["model"])))
        self.loop = {key: ask("first_loop", list(one)) for key, one in ids.items()}
        # A text that is read again may have a token less.
        self.prompts = [name for name in self.whole if len(ids[name, "full"]) >= self.asked - 2]
        self.short = len(self.whole) - len(self.prompts)
        if not self.prompts:
            fail(f"the full cache answers no prompt in {self.asked} tokens or more; let scripts/claims/writing.sh go on")

    @staticmethod
    def written(path):
        """{prompt: its tokens, the words expected, the text of each policy}, of prompts with all their items."""
        found, lacking = {}, set()
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            names = {trace: plain_name(name) for trace, name in file.execute("SELECT trace, name FROM traces")}
            for trace, policy, state, expected, answer, stored in file.execute(
                    "SELECT trace, policy, state, expected, answer, stored FROM items LEFT JOIN run_prompts USING (item) LEFT JOIN prompts "
                    "USING (prompt) ORDER BY item"):
                if state != "done":
                    lacking.add(names[trace])
                    continue
                one = found.setdefault(names[trace], {"length": len(json.loads(stored)["ids"].split()), "expected": json.loads(expected),
                                                      "texts": {}})
                one["texts"][policy] = answer
        return {name: one for name, one in found.items() if name not in lacking}

    def row(self, policy):
        keys = [(prompt, policy) for prompt in self.prompts]
        begins = [self.loop[key] for key in keys]
        known = [begin for begin in begins if begin is not None]
        alike = mean([ask("answer_f1", [self.text[key], [self.text[key[0], "full"]]]) for key in keys]) if policy != "full" else "–"
        held = statistics.fmean(entries_held(policy, self.budget, self.length[prompt], self.asked) for prompt in self.prompts)
        return [wilson(sum(self.right[key] for key in keys), len(keys)), alike, wilson(len(known), len(keys)),
                f"{statistics.median(known):.0f}" if known else "–", f"{held:.0f}", f"{held * ENTRY / 2**20:.1f}"]


    def measures(self):
        """{words: the number of a prompt and a policy}"""
        return {"right": lambda key: float(self.right[key]), "loops": lambda key: float(self.loop[key] is not None),
                "words in common": lambda key: ask("answer_f1", [self.text[key], [self.text[key[0], "full"]]])}

    def apart(self, other_of, names):
        """Which policies differ from another one, measure by measure, in words."""
        known = []
        for words in names:
            value = self.measures()[words]
            pairs = [(policy, other_of(policy)) for policy in self.policies if other_of(policy) not in (None, policy)]
            found = []
            for policy, other in pairs:
                difference = differs([value((prompt, policy)) - value((prompt, other)) for prompt in self.prompts], len(pairs))
                if difference is None:
                    continue
                acts = f", `every({CADENCE})`" if "+every" in policy else ""
                amount = signed(difference) if words == "words in common" else f"{signed(100 * difference, '+.0f')} points"
                found.append(f"`{policy.split('+')[0]}`{acts} ({amount})")
            known.append(f"*{words}*, {', '.join(found) if found else 'none'}")
        return "; ".join(known)


def section(results):
    lengths = [results.length[prompt] for prompt in results.prompts]
    cadence = f"every({CADENCE})"
    same = (f"The first {CADENCE} tokens are\nthen the full cache's, because the prompt fits the budget. "
            if max(lengths) <= results.budget else "")
    few = "" if len(lengths) >= 30 else (f" With {len(lengths)} prompts most of them overlap, so the table ranks no two policies whose "
                                         "brackets do; the script goes on with more prompts.")
    text = f"""{TITLE}
{len(lengths)} instructions to write a long essay that also answers a question ({min(lengths)} to {max(lengths)} tokens), in the chat template;
SmolLM2-135M-Instruct writes {results.asked} tokens to each. {f"{results.short} more are left out, which the full cache answers in fewer tokens. " if results.short else ""}Each policy has {results.budget} entries in a head, {100 * results.budget / (statistics.fmean(lengths) + results.asked):.0f} % of a
prompt and its answer, and keeps the first 4 tokens and the latest 16 whatever their score. It acts after each written token, or after
each {CADENCE}th (`{cadence}`): then the cache grows in between, so compare the two cadences with the entries that they hold in mind. {same}`random` keeps the same protected entries and draws the rest: a score that is no better does not help.

*Right*: the essay has the answer's word. *Words in common*: F1 of the words of the essay and of the full cache's. *Loops*: the
essay has a span that stands three times or more in a row and takes 16 tokens or more; *begin*: the median token of those essays at
which the first loop begins. *Entries*: in a head after a written token, on average; *MiB*: of all heads in float16.
Brackets: 95 % intervals over the prompts. Two numbers: after each token / `{cadence}`.{few}

"""
    names = {(policy.split("+")[0], "+every" in policy): policy for policy in results.policies}
    rows = by_policy(sorted(names, key=lambda one: (one[0] != "full", one[1])), lambda *one: results.row(names[one]))
    text += table(["policy", "right", "words in common", "loops", "begin", "entries", "MiB"], rows) + "\n"
    chance = {every: next(name for name in results.policies if name.startswith("random") and ("+every" in name) == every)
              for every in (False, True)}
    text += f"""
Which policies differ from another one? Paired over the prompts, with intervals for all comparisons of a measure together (Bonferroni):

- from `random` at the same cadence: {results.apart(lambda name: None if name == "full" else chance["+every" in name], ("right", "loops", "words in common"))};
- from the full cache: {results.apart(lambda name: None if name == "full" else "full", ("right", "loops"))}.
"""
    return text + "\n    scripts/claims/writing.sh      # the texts: assets/results/writing.json.gz\n"


@script(__doc__)
def main(folder, page, store):
    put_section(page, section(Results(folder, store)), TITLE)
