#!/usr/bin/env python3
"""Writes the section "Why the evidence was lost" of docs/results-real.md from the results of scripts/claims/causes.sh.

    scripts/claims/causes_page.py FOLDER TARGET
"""
import json
import math
import statistics

from pages import put_section, script, spearman, table

HEADING = "## Why the evidence was lost"
POLICIES = ["snapkv", "h2o", "keydiff", "snapkv+adakv"]
CASES = ["number", "h2o", "tova", "snapkv", "sink", "keydiff"]
SHARES = ["kept", "unseen", "misranked", "cut"]
WORDS = {"kept": "kept", "unseen": "not seen", "misranked": "ranked low", "cut": "cut"}
LIMITS = """Limits: one small model and six prompts, each with one needle. *Not seen* is a mean over all queries of the answer: where the answer
is a whole sentence, a head that reads the needle for one word only can fall below the even spread."""
FORETELLERS = [("attention", "attention of the answer's queries to the needle, full cache"),
               ("score_rank", "rank of the needle by `snapkv`'s score"),
               ("drop_blame", "fall of the logit that a replay foretells (`drop_blame`)")]


def heads_of(path):
    """{"layer.head": measures} of a replay's JSON."""
    heads = json.loads(path.read_text(encoding="utf-8"))["heads"]
    return {f"{one['layer']}.{one['head']}": one["measures"] for one in heads}


def percent(share):
    return f"{100 * share:.0f} %"


def share_row(policy, heads):
    """Means over the heads, in brackets weighted by the attention that each gives to the evidence."""
    attention = [one["evidence_attention"] for one in heads.values()]
    cells = []
    for name in SHARES:
        values = [one[f"evidence_{name}"] for one in heads.values()]
        weighted = sum(a * b for a, b in zip(attention, values)) / sum(attention)
        cells.append(f"{percent(statistics.fmean(values))} ({percent(weighted)})")
    ratio = statistics.fmean(one["layer_eviction_ratio"] for one in heads.values())
    return [f"`{policy}`", *cells, percent(ratio), percent(next(iter(heads.values()))["global_eviction_ratio"])]


def causes_of(head):
    """The largest of a head's three causes, in words; nothing lost: kept."""
    lost = {name: head[f"evidence_{name}"] for name in SHARES[1:]}
    name = max(lost, key=lost.get)
    return WORDS[name] if lost[name] > 0 else WORDS["kept"]


def case_rows(folder):
    """The heads that restore an answer, with the cause of their loss; and how many have each cause."""
    rows, counts = [], {}
    for name in CASES:
        replay, rescue = folder / f"case-{name}.json", folder / f"rescue-{name}.json"
        if not replay.exists() or not rescue.exists():
            continue
        heads = heads_of(replay)
        result = json.loads(rescue.read_text(encoding="utf-8"))
        smallest = result["keep"]["smallest"]
        if not smallest:
            continue
        words = {}
        for layer, head in smallest["heads"]:
            own = heads[f"{layer}.{head}"]
            counts[causes_of(own)] = counts.get(causes_of(own), 0) + 1
            words.setdefault(causes_of(own), []).append(f"{layer}.{head} ({own['evidence_attention']:.3f})")
        rows.append([f"`{result['settings']['policy']}`, {name if name == 'number' else 'cases.md'}",
                     "; ".join(f"{cause}: {', '.join(some)}" for cause, some in words.items())])
    return rows, counts


def alone(folder):
    """What keeping the needle in one head alone gains, in words: the heads that help most, and those that hurt."""
    path = folder / "rescue-number.json"
    heads = heads_of(folder / "case-number.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    gains = sorted(((one["gain"], f"{one['layer']}.{one['head']}") for one in result["keep"]["heads"]), reverse=True)
    told = lambda some: ", ".join(f"{name} {gain:+.2f} ({causes_of(heads[name])})" for gain, name in some)
    text = (f"Kept in one head alone (*number*, {len(gains)} heads were run, the most blamed ones), the needle raises the\n"
            f"log-probability of the answer most in {told(gains[:4])} nats.\n")
    hurt = [one for one in reversed(gains) if one[0] < -0.1]
    if hurt:
        text += f"It lowers it in {told(hurt)}: a head that reads the evidence is not yet a head that helps."
    unseen = [one for one in gains if causes_of(heads[one[1]]) == WORDS["unseen"]]
    if unseen:
        text += (f"\nOf the heads run, {len(unseen)} do not read the needle; their gains lie between "
                 f"{min(unseen)[0]:+.2f} and {max(unseen)[0]:+.2f} nats.")
    return text


def interval(rho, count):
    """As Bonett and Wright (2000) have it."""
    if abs(rho) == 1:
        return rho, rho
    reach = 1.959964 * math.sqrt((1 + rho * rho / 2) / (count - 3))
    return tuple(math.tanh(math.atanh(rho) + sign * reach) for sign in (-1, 1))


def leave_one_out(folder):
    result = json.loads((folder / "leave-one-out.json").read_text(encoding="utf-8"))
    fall = {(one["layer"], one["head"]): -one["gain"] for one in result["drop"]["heads"]}
    heads = [one for one in result["predicted"]["heads"] if (one["layer"], one["head"]) in fall]
    falls = [fall[one["layer"], one["head"]] for one in heads]
    rows = []
    told = lambda rho: "{:.2f} ({:.2f} to {:.2f})".format(rho, *interval(rho, len(heads)))
    for field, words in FORETELLERS:
        numbers = [one[field] for one in heads]
        rows.append([words, told(spearman(numbers, falls)), told(spearman(list(map(abs, numbers)), list(map(abs, falls))))])
    first = sorted(zip(falls, heads), key=lambda one: -one[0])[:5]
    largest = ", ".join(f"{one['layer']}.{one['head']} {value:.2f}" for value, one in first)
    signs = [sum(value > 0.005 for value in falls), sum(value < -0.005 for value in falls)]
    return rows, largest, -result["drop"]["all"]["gain"], len(heads), signs


def section(folder):
    rows = [share_row(policy, heads_of(folder / f"needle-{policy}.json")) for policy in POLICIES]
    first = heads_of(folder / f"needle-{POLICIES[0]}.json")
    readers = sum(one["evidence_unseen"] == 0 and one["evidence_kept"] < 1 for one in first.values())
    parts = [HEADING, f"""The needle of `build/real-model/needle.h5` (17 tokens of 927), blocks of 128, 25 % of the entries. Each head's loss is
split by its cause ([follow.md](follow.md#why-it-was-lost)): means over the {len(first)} heads, and in brackets over the same heads weighted by
the attention that the answer's queries give to the needle with the full cache (`evidence_attention`). *Layers*, *model*: the
share of the needle that no head of a layer holds (mean over the layers), and that no head of any layer holds. With `snapkv`, {readers} heads
lost some of the needle though they read it, that is, give it more attention than an even spread would.""",
             table(["policy", *WORDS.values(), "layers", "model"], rows)]
    rows, counts = case_rows(folder)
    told = ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda one: -one[1]))
    parts += [f"""Do the causes name the right heads? The running model restores a wrong answer when the needle is kept in these heads alone
(smallest sets of `kvloupe-capture rescue`; *number*: the same prompt with the beginning of its answer, so that the number is
next; the others are those of [cases.md](cases.md)). Of these heads, {told}. In brackets: `evidence_attention`.""",
              table(["policy and case", "heads that restore the answer, and why each had lost the needle"], rows)]
    parts.append(alone(folder))
    rows, largest, whole, count, (hurt, helped) = leave_one_out(folder)
    parts += [f"""The opposite run: the full cache drops the needle in one head alone (*number*, {count} heads). The log-probability of the answer falls
by {whole:.2f} nats when all heads drop it; in one head alone most in {largest}. It falls by more than 0.005 nats in {hurt} heads and rises by more
in {helped}; in the others nothing happens, because other heads have the same evidence. Spearman's ρ over the heads, with its 95 % interval, of three
numbers and this fall, and of their sizes without signs:""",
              table(["number", "ρ with the fall", "ρ of the sizes"], rows), "![Leave-one-out, head by head](images/real/cause-scatter.svg)",
              LIMITS,
              "    scripts/claims/causes.sh      # makes this section"]
    return "\n\n".join(parts) + "\n"


@script(__doc__)
def main(folder, target):
    put_section(target, section(folder), HEADING)
