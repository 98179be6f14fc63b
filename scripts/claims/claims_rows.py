"""The rows of docs/claims.md: what a paper says, and the numbers per prompt that speak to it (see claims_page.py)."""
import statistics

from claims_study import agreement, found, found_early, layer_sums, less, lower, mean, minus, persistence, ratio, rise, share


def critical_rows():
    """One eviction after the context, as in the paper; ℒ of the tokens after the context."""
    for name, policy, place, theirs in (("SnapKV", "snapkv(pool=max)", "fig. 5, 7", "92 %"),
                                        ("AdaKV", "snapkv(pool=max)+adakv", "fig. 11", "lower at each budget")):
        for budget in ("5%", "10%", "20%", "40%"):
            yield ("CriticalKV", f"Share of heads where two stages lower ℒ₁ on {name}, {budget}", place, theirs, "once",
                   lambda s, p=policy, b=budget: lower(s, "later_perturbation_l1", p + "+critical", p, b), ">", 0.5)
    for budget in ("5%", "10%", "20%", "40%"):
        yield ("CriticalKV", f"Mean ℒ₁ of all heads, two stages on SnapKV − SnapKV, {budget}", "def. 2.1, fig. 7", "lower", "once",
               lambda s, b=budget: minus(s, "later_perturbation_l1", "snapkv(pool=max)+critical", "snapkv(pool=max)", b), "<", 0)
    for budget in ("5%", "10%", "20%", "40%"):
        yield ("CriticalKV", f"Share of heads where stage one holds more than half the attention (assumption 3.4), {budget}",
               "fig. 8", "over 99 %", "once",
               lambda s, b=budget: mean(s, "assumption_holds", "snapkv(pool=max)+critical", b), ">", 0.99)
    yield ("CriticalKV", "Share of heads where stage one holds more than half the attention, all layers but the first, 20%", "app. A", "exceptions only in the first layer", "once",
           lambda s: share(s, "assumption_holds", lambda v: v, "snapkv(pool=max)+critical", layers=range(1, 30)), ">", 0.99)
    for budget in ("5%", "20%"):
        yield ("CriticalKV", f"Mean ℒ₁ with norm=l2 over that with norm=l1, distance of the quotient to 1, {budget}",
               "fig. 12, app. F", "no notable difference", "once",
               lambda s, b=budget: ratio(s, "later_perturbation_l1", "snapkv(pool=max)+critical(norm=l2)",
                                         "snapkv(pool=max)+critical", b), "<", 0.05)
    yield ("CriticalKV", "Share of heads where the lower bound θ₁ has the lower ℒ₁, SnapKV with and without two stages, 20%",
           "§3.2", "lower bound, lower ℒ", "critical",
           lambda s: agreement(s, "later_bound_l1", "later_perturbation_l1", "snapkv(pool=max)+critical", "snapkv(pool=max)", "20%"),
           ">", 0.5)
    yield ("CriticalKV", "Share of heads where two stages lower θ₁ on SnapKV, 20%", "thm. 3.5", "nearly all, under assumption 3.4", "critical",
           lambda s: lower(s, "later_bound_l1", "snapkv(pool=max)+critical", "snapkv(pool=max)", "20%"), ">", 0.5)


def caote_rows():
    theirs = {"h2o": ("3.814 → 3.561", "0.104 → 0.160"), "tova": ("0.493 → 0.442", "0.172 → 0.150"),
              "snapkv": ("0.555 → 0.451", "0.154 → 0.172")}
    for policy in theirs:
        yield ("CAOTE", f"Output error, `{policy}+caote` − `{policy}`, 20 %", "fig. 3", "always smaller", "states",
               lambda s, p=policy: minus(s, "output_error", f"{p}+caote", p), "<", 0)
    for policy in theirs:
        yield ("CAOTE", f"Loss of prose (nats), `{policy}+caote` − `{policy}`, 25 %", "tab. 4",
               f"perplexity above the full cache's (3B, 2k): {theirs[policy][0]}", "sinks",
               lambda s, p=policy: minus(s, "perplexity_loss", f"{p}+caote", p, "25%"), "<", 0)


def keydiff_rows():
    """Sets kept; the answer's change, of the tokens after the prompt: block sizes, anchors and metrics."""
    yield ("KeyDiff", "Share of the heads resting on token 0 in which `keydiff` keeps token 0, 20 %", "§3.1",
           "distinct keys recover the sink", "kept", lambda s: list(s.prompts("keydiff 128 token 0").values()), ">", 0.95)
    for block in ("128", "32"):
        for other in ("tova", "snapkv", "h2o"):
            yield ("KeyDiff", f"Overlap of the sets kept, blocks of {block} and whole prompt, `keydiff` − `{other}`, 20 %",
                   "§2.3, §3.2", "attention depends on the block", "kept",
                   lambda s, b=block, o=other: less(s.prompts(f"keydiff {b} overlap"), s.prompts(f"{o} {b} overlap")), ">", 0)
    change = "answer_residual_change"
    for other in ("tova", "snapkv", "h2o"):
        yield ("KeyDiff", f"Rise of the answer's change, blocks of 32, `{other}` − `keydiff`, 20 %",
               "tab. 7, §4.2", "attention scores lose more", "blocks",
               lambda s, o=other: less(rise(s, change, o, "32", "all"), rise(s, change, "keydiff", "32", "all")), ">", 0)
    yield ("KeyDiff", "Rise of the answer's change, blocks of 32, `keydiff`, 20 %", "§4.2", "none",
           "blocks", lambda s: list(rise(s, change, "keydiff", "32", "all").values()), "<", 0.02)
    for other in ("tova", "snapkv", "h2o"):
        yield ("KeyDiff", f"Rise of the answer's change, blocks of one token, `{other}` − `keydiff`, 20 %",
               "§2.3, §4.2", "attention scores lose more", "single",
               lambda s, o=other: less(rise(s, change, o, "1", "all"), rise(s, change, "keydiff", "1", "all")), ">", 0)
    yield ("KeyDiff", "Rise of the answer's change, blocks of one token, `keydiff`, 20 %", "§4.2", "none",
           "single", lambda s: list(rise(s, change, "keydiff", "1", "all").values()), "<", 0.02)
    for anchor, place, theirs in (("median", "tab. 2", "35.4 beside 35.1"), ("rawmean", "§3.2", "as good")):
        yield ("KeyDiff", f"Answer's change with anchor={anchor} over that with the mean of unit keys, distance of the quotient to 1, 20 %",
               place, theirs, "variants", lambda s, a=anchor: ratio(s, change, f"keydiff({a})", "keydiff"), "<", 0.1)
    for metric, theirs in (("dot", "30.1 beside 35.1"), ("euclidean", "13.7 beside 35.1")):
        yield ("KeyDiff", f"Answer's change, metric={metric} − cosine, 20 %", "tab. 3", theirs, "variants",
               lambda s, m=metric: minus(s, change, f"keydiff(metric={m})", "keydiff"), ">", 0)
    for other in ("tova", "sink", "h2o"):
        yield ("KeyDiff", f"Objective ‖Σk̂‖² of the kept keys, `keydiff` − `{other}`, 20 %", "eq. 6, thm. 3.1", "smallest",
               "variants", lambda s, o=other: minus(s, "key_objective", "keydiff", o), "<", 0)


def block_rows():
    """What CAOTE takes from the output error, with blocks of 32 and of 128."""
    for policy in ("h2o", "tova", "snapkv"):
        def gain(s, block, p=policy):
            return {prompt: before - s.prompts("output_error", f"{p}+caote", "20%", block)[prompt]
                    for prompt, before in s.prompts("output_error", p, "20%", block).items()}
        yield ("CAOTE", f"Output error that `+caote` takes from `{policy}`, blocks of 32 − of 128, 20 %", "§4.5, tab. 6",
               "the smaller the block, the better", "blocks", lambda s, g=gain: less(g(s, "32"), g(s, "128")), ">", 0)


def equal_count_rows():
    """Merging once, after the whole prompt, to exactly half the entries (threshold=auto), as evicting does."""
    change, merged = "answer_residual_change", "h2o+kvmerger(auto)"
    for other, words in (("h2o", "evicting (`h2o`)"), ("h2o+recent(17%)", "evicting, recent tokens kept (`h2o+recent(17%)`)"),
                         ("h2o+kvmerger(auto,weights=mean)", "plain means"), ("h2o+kvmerger(auto,pivot=random)", "a random pivot"),
                         ("h2o+kvmerger(auto,sigma=0.5)", "σ = 0.5"), ("h2o+kvmerger(auto,value_scale=one)", "values that are means")):
        yield ("KVMerger", f"Answer's change, merging once to half − {words}", "fig. 3c, tab. 1, 3, 4", "better answers", "merging",
               lambda s, o=other: minus(s, change, merged, o, "50%"), "<", 0)
    yield ("KVMerger", "Answer's change, plain means with the last token as pivot − evicting (`h2o`), 50 %", "fig. 3c",
           "worse answers", "merging", lambda s: minus(s, change, "h2o+kvmerger(auto,pivot=last,weights=mean)", "h2o", "50%"), ">", 0)


def set_rows():
    """What merging leaves when only the threshold says so (budget 99 %, once, after the whole prompt)."""
    yield ("KVMerger", "Cosine of neighbouring keys − of all pairs of keys", "fig. 2, 3a", "neighbours more alike", "sets",
           lambda s: [a - b for a, b in zip(mean(s, "neighbour_key_cosine", "full", "99%"), mean(s, "key_mean_cosine", "full", "99%"))],
           ">", 0)
    def nearer(s, of):
        return [a - b for a, b in zip(mean(s, f"neighbour_{of}_cosine", "full", "99%"), mean(s, f"far_{of}_cosine", "full", "99%"))]
    yield ("KVMerger", "Cosine of neighbouring keys − of keys 64 tokens apart", "fig. 2, 3a", "alike near the diagonal", "sets",
           lambda s: nearer(s, "key"), ">", 0)
    yield ("KVMerger", "Cosine of neighbours − 64 tokens apart, of keys − of values", "fig. 3a", "values are not alike locally", "sets",
           lambda s: [a - b for a, b in zip(nearer(s, "key"), nearer(s, "value"))], ">", 0)
    yield ("KVMerger", "Share of the tokens that joined another one, threshold 0.75", "§5.1", "half (the budget is 50 %)", "sets",
           lambda s: [1 - one for one in mean(s, "retained_share", "h2o+kvmerger", "99%")], ">", 0.5)
    for layers, words in ((range(2), "first two layers"), (range(28, 30), "last two layers")):
        yield ("KVMerger", f"Share of entries left in the {words} − in all, threshold 0.75", "fig. 3b", "merges less there", "sets",
               lambda s, of=layers: [a - b for a, b in zip(
                   share(s, "retained_share", lambda v: v, "h2o+kvmerger", "99%", of),
                   share(s, "retained_share", lambda v: v, "h2o+kvmerger", "99%"))], ">", 0)
    yield ("KVMerger", "Entries left by layer: rank correlation of a prompt with the others, threshold 0.75", "fig. 3b",
           "highly consistent", "sets", lambda s: persistence(s, "retained_share", "h2o+kvmerger", "99%"), ">", 0.9)


def merging_rows():
    merged = "h2o+kvmerger"
    yield ("KVMerger", "Layers by tokens merged: rank correlation of a prompt with the others, threshold 0.75, 50 %",
           "fig. 3b", "highly consistent", "variants", lambda s: persistence(s, "absorbed", merged), ">", 0.9)
    yield ("KVMerger", "Tokens merged in each of the first two layers over the mean of all, threshold 0.75, 50 %", "fig. 3b", "fewer",
           "variants", lambda s: [statistics.fmean(of[:2]) / statistics.fmean(of) for of in
                                  layer_sums(s, "absorbed", merged).values()], "<", 1)
    yield ("KVMerger", "Tokens merged, threshold 0.6 − 0.75, 50 %", "§3.2", "more", "variants",
           lambda s: minus(s, "absorbed", "h2o+kvmerger(0.6)", merged, "50%"), ">", 0)
    for other, words in (("h2o", "evicting (`h2o`)"), ("h2o+kvmerger(weights=mean)", "plain means"),
                         ("h2o+kvmerger(pivot=random)", "a random pivot"), ("h2o+kvmerger(value_scale=one)", "values that are means")):
        yield ("KVMerger", f"Answer's change, `h2o+kvmerger` − {words}, 50 %", "fig. 3c, tab. 1", "better answers", "variants",
               lambda s, o=other: minus(s, "answer_residual_change", merged, o, "50%"), "<", 0)


def known_rows():
    """What others say of the baselines."""
    yield ("StreamingLLM", "Share of heads in the first two layers that give token 0 more than 0.3", "§3.1, fig. 2",
           "hardly any", "states", lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=range(2)), "<", 0.1)
    yield ("StreamingLLM", "Loss of prose (nats), four first tokens − sixteen, 25 %", "§3.1", "four are enough", "sinks",
           lambda s: minus(s, "perplexity_loss", "sink", "sink(16)", "25%"), "<", 0.02)
    yield ("H2O", "Mean place of the tokens that `h2o` keeps (0 the first, 1 the last), 20 %", "code of kvpress",
           "early tokens", "kept", lambda s: list(s.prompts("h2o 128 place").values()), "<", 0.5)
    for policy, paper, place in (("tova", "TOVA", "–"), ("snapkv", "SnapKV", "–")):
        yield (paper, f"Mean place of the tokens that `{policy}` keeps, 20 %", place, "recent tokens", "kept",
               lambda s, p=policy: list(s.prompts(f"{p} 128 place").values()), ">", 0.5)
    yield ("H2O", "Answer's change, `h2o` − `h2o(normalise=visible)`, 20 %", "code of kvpress", "plain sums favour early tokens",
           "variants", lambda s: minus(s, "answer_residual_change", "h2o", "h2o(visible)"), ">", 0)
    yield ("H2O", "Answer's change, `h2o` − `h2o+recent(50%)`, 20 %", "alg. 1", "half of the budget is for recent tokens",
           "variants", lambda s: minus(s, "answer_residual_change", "h2o", "h2o+recent(50%)"), ">", 0)


def one_less_four(study, text, budgets=("128", "128")):
    """The loss with one first token kept − with four, of the prompts of a kind, each at its budget."""
    one, four = (study.part(f"{text}-500").prompts("perplexity_loss", policy, budget) for policy, budget in zip(("sink(1)", "sink"), budgets))
    return less(one, four)


def needle_rows():
    for budget in ("10%", "25%", "50%"):
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"Needles found, `keydiff` − `{other}`, {budget}", "fig. 6", "more",
                   "needles", lambda s, b=budget, o=other: found(s, "keydiff", o, b), ">", 0)
        yield ("CriticalKV", f"Needles found, with − without two stages on SnapKV, {budget}", "fig. 1", "more, or no loss",
               "needles", lambda s, b=budget: found(s, "snapkv(pool=max)+critical", "snapkv(pool=max)", b), ">", 0)
        yield ("CAOTE", f"Needles found, `tova+caote` − `tova`, {budget}", "tab. 5", "0.172 → 0.150 (3B, 2k), 0.220 → 0.232 (4k)",
               "needles", lambda s, b=budget: found(s, "tova+caote", "tova", b), ">", 0)


def early_rows():
    """Needles that are not among the last tokens anyway, at a quarter of the cache."""
    for study, tokens in (("needles", "1 000"), ("needles-2000", "2 000")):
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"Early needles found in {tokens} tokens, `keydiff` − `{other}`, 25 %", "fig. 6",
                   "more", study, lambda s, o=other: found_early(s, "keydiff", o, "25%"), ">", 0)


def longer_rows():
    """Needles in longer texts, at a quarter of the cache."""
    for study, tokens in (("needles-2000", "2 000"), ("needles-4000", "4 000"), ("needles-6000", "6 000")):
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"Needles found in {tokens} tokens, `keydiff` − `{other}`, 25 %", "fig. 6", "more",
                   study, lambda s, o=other: found(s, "keydiff", o, "25%"), ">", 0)


TASKS = [  # study, words, a half sentence for the table of chance
    ("questions", "Questions about an essay answered", "a question about one of two essays"),
    ("several", "One of four needles found", "four needles, a question for one of them"),
    ("keyvalue", "A word's number found in a list", "a list of words with numbers"),
    ("variables", "A variable's number found over two assignments", "two chains of three variables in a manual"),
]


def task_rows():
    """Policies in the model on other tasks, of the prompts that the full cache answers."""
    for task, words, _ in TASKS:
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"{words}, `keydiff` − `{other}`, 50 %", "tab. 1", "more on LongBench", task,
                   lambda s, o=other: found(s, "keydiff", o, "50%"), ">", 0)
        yield ("CriticalKV", f"{words}, with − without two stages on SnapKV, 50 %", "fig. 3, tab. 1", "more on LongBench", task,
               lambda s: found(s, "snapkv(pool=max)+critical", "snapkv(pool=max)", "50%"), ">", 0)
        yield ("CAOTE", f"{words}, `tova+caote` − `tova`, 50 %", "tab. 2", "more on LongBench", task,
               lambda s: found(s, "tova+caote", "tova", "50%"), ">", 0)


def code_rows():
    """Loss of Python code."""
    for policy in ("h2o", "tova", "snapkv"):
        yield ("CAOTE", f"Loss of code (nats), `{policy}+caote` − `{policy}`, 25 %", "tab. 4", "lower perplexity of prose", "code",
               lambda s, p=policy: minus(s, "perplexity_loss", f"{p}+caote", p, "25%"), "<", 0)
    yield ("StreamingLLM", "Loss of code (nats), recent tokens alone − with four first tokens, 25 %", "§3.1", "collapses without (prose)", "code",
           lambda s: minus(s, "perplexity_loss", "sink(0)", "sink", "25%"), ">", 0)


ROWS = [  # paper, claim, place, their number, study, numbers of the prompts, side, threshold
    ("KeyDiff", "Rank correlation of a key's mean cosine to the others and the attention it receives, mean of heads",
     "fig. 2, §3.1", "negative", "states", lambda s: mean(s, "key_attention_correlation"), "<", 0),
    ("KeyDiff", "Share of heads whose mean key and mean query have a negative cosine", "fig. 12", "all heads", "states",
     lambda s: share(s, "mean_key_query_cosine", lambda v: v < 0), ">", 0.99),
    ("KeyDiff", "Cosine to the mean query, distinct keys − mean key", "fig. 14", "larger", "states",
     lambda s: [a - b for a, b in zip(mean(s, "distinct_keys_query_cosine"), mean(s, "mean_key_query_cosine"))], ">", 0),
    *[("KeyDiff", f"Log volume of the retained keys, `keydiff` − `{other}`, 20 %", "fig. 5", "larger", "states",
       lambda s, o=other: minus(s, "log_pseudo_determinant", "keydiff", o), ">", 0) for other in ("sink", "tova", "snapkv")],
    ("KeyDiff", "Mean cosine of retained keys, `keydiff` − `tova`, 20 %", "§3.3", "smaller", "states",
     lambda s: minus(s, "key_mean_cosine", "keydiff", "tova"), "<", 0),
    *critical_rows(),
    ("CriticalKV", "Largest ℒ₁/θ of any head, two stages on SnapKV, 20 %", "thm. 3.3", "at most 1", "states",
     lambda s: [max(heads.values()) for heads in s.heads("tightness_l1", "snapkv(pool=max)+critical", "20%").values()], "<", 1),
    *keydiff_rows(),
    *caote_rows(),
    *block_rows(),
    *[("CAOTE", f"Sum of the tokens' own errors over the error of all, `{policy}`, 20 %: distance of the quotient to 1", "app. A", "taken as 1",
       "variants", lambda s, p=policy: [abs(v - 1) for v in mean(s, "eviction_ratio", p)], "<", 0.1) for policy in ("h2o", "tova")],
    ("CAOTE", "Output error, 20 %: distance of `tova+fastcaote` to `tova+caote` − distance of `tova+caote` to `tova`", "tab. 4", "nearly alike", "states",
     lambda s: [abs(f) - abs(g) for f, g in zip(minus(s, "output_error", "tova+fastcaote", "tova+caote"),
                                               minus(s, "output_error", "tova+caote", "tova"))], "<", 0),
    ("KVMerger", "Cosine of neighbours, keys − values", "fig. 2, 3a", "keys alike, values not", "states",
     lambda s: [a - b for a, b in zip(mean(s, "neighbour_key_cosine"), mean(s, "neighbour_value_cosine"))], ">", 0),
    ("KVMerger", "Output error, `h2o+kvmerger` − `h2o`, 50 %", "tab. 1", "better answers", "states",
     lambda s: minus(s, "output_error", "h2o+kvmerger", "h2o", "50%"), "<", 0),
    ("KVMerger", "Output error, Gaussian weights − mean, 50 %", "fig. 3c", "better answers", "states",
     lambda s: minus(s, "output_error", "h2o+kvmerger", "h2o+kvmerger(weights=mean)", "50%"), "<", 0),
    ("StreamingLLM", "Share of heads in the upper half of the layers that give token 0 more than 0.3", "§3.1",
     "nearly all heads above the first layers", "states",
     lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=range(15, 30)), ">", 0.5),
    ("StreamingLLM", "Loss of prose (nats), recent tokens alone − with four first tokens, 25 %", "§3.1", "collapses without", "sinks",
     lambda s: minus(s, "perplexity_loss", "sink(0)", "sink", "25%"), ">", 0),
    ("StreamingLLM", "Loss of prose (nats), one first token − four, 25 %", "§3.1", "one is not enough, four are", "sinks",
     lambda s: minus(s, "perplexity_loss", "sink(1)", "sink", "25%"), ">", 0),
    ("StreamingLLM", "Loss of prose without the chat template (nats), one first token − four, 128 entries", "§3.1", "one is not enough, four are", "firsts",
     lambda s: one_less_four(s, "plain"), ">", 0),
    *set_rows(),
    *merging_rows(),
    *equal_count_rows(),
    *known_rows(),
    *needle_rows(),
    *longer_rows(),
    *early_rows(),
    *task_rows(),
    *code_rows(),
]
