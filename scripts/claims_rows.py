"""The rows of docs/claims.md: what a paper says, and the numbers per prompt that speak to it (see claims_page.py)."""
import statistics

from claims_study import layer_sums, lower, mean, minus, persistence, ratio, rise, share


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


def caote_rows():
    theirs = {"h2o": ("3.814 → 3.561", "0.104 → 0.160"), "tova": ("0.493 → 0.442", "0.172 → 0.150"),
              "snapkv": ("0.555 → 0.451", "0.154 → 0.172")}
    for policy in theirs:
        yield ("CAOTE", f"Output error, `{policy}+caote` − `{policy}`, 20 %", "fig. 3", "always smaller", "states",
               lambda s, p=policy: minus(s, "output_error", f"{p}+caote", p), "<", 0)
    for policy in theirs:
        yield ("CAOTE", f"Loss of prose (nats), `{policy}+caote` − `{policy}`, 25 %", "tab. 4",
               f"perplexity over the full cache's, 3B, 2k: {theirs[policy][0]}", "sinks",
               lambda s, p=policy: minus(s, "perplexity_loss", f"{p}+caote", p, "25%"), "<", 0)


def keydiff_rows():
    """The answer's change, of the tokens after the prompt: block sizes, anchors and metrics."""
    change = "answer_residual_change"
    for other in ("tova", "snapkv", "h2o"):
        yield ("KeyDiff", f"Rise of the answer's change from the whole prompt to blocks of 32, `{other}` − `keydiff`, 20 %",
               "tab. 7, §4.2", "attention scores lose more", "blocks",
               lambda s, o=other: [value - rise(s, change, "keydiff", "32", "all")[prompt]
                                   for prompt, value in rise(s, change, o, "32", "all").items()], ">", 0)
    yield ("KeyDiff", "Rise of the answer's change from the whole prompt to blocks of 32, `keydiff`, 20 %", "§4.2", "none",
           "blocks", lambda s: list(rise(s, change, "keydiff", "32", "all").values()), "<", 0.02)
    for anchor, place, theirs in (("median", "tab. 2", "35.4 beside 35.1"), ("rawmean", "§3.2", "as good")):
        yield ("KeyDiff", f"Answer's change with anchor={anchor} over that with the mean of unit keys, distance of the quotient to 1, 20 %",
               place, theirs, "variants", lambda s, a=anchor: ratio(s, change, f"keydiff({a})", "keydiff"), "<", 0.1)
    for metric, theirs in (("dot", "30.1 beside 35.1"), ("euclidean", "13.7 beside 35.1")):
        yield ("KeyDiff", f"Answer's change, metric={metric} − cosine, 20 %", "tab. 3", theirs, "variants",
               lambda s, m=metric: minus(s, change, f"keydiff(metric={m})", "keydiff"), ">", 0)
    for other in ("tova", "sink", "h2o"):
        yield ("KeyDiff", f"Objective ‖Σk̂‖² of the kept keys, `keydiff` − `{other}`, 20 %", "eq. 6, thm. 3.1", "smallest",
               "variants", lambda s, o=other: minus(s, "key_objective", "keydiff", o), "<", 0)


def merging_rows():
    merged = "h2o+kvmerger"
    yield ("KVMerger", "Layers by tokens merged: rank correlation of a prompt with the other prompts, threshold 0.75, 50 %",
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
    yield ("H2O", "Answer's change, `h2o` − `h2o(normalise=visible)`, 20 %", "code of kvpress", "plain sums favour early tokens",
           "variants", lambda s: minus(s, "answer_residual_change", "h2o", "h2o(visible)"), ">", 0)
    yield ("H2O", "Answer's change, `h2o` − `h2o+recent(50%)`, 20 %", "alg. 1", "half of the budget is for recent tokens",
           "variants", lambda s: minus(s, "answer_residual_change", "h2o", "h2o+recent(50%)"), ">", 0)


def needle_rows():
    for budget in ("10%", "25%", "50%"):
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"Needles found, `keydiff` − `{other}`, {budget}", "fig. 6", "more, of all depths and lengths",
                   "needles", lambda s, b=budget, o=other: minus(s, "answer_found", "keydiff", o, b), ">", 0)
        yield ("CriticalKV", f"Needles found, with − without two stages on SnapKV, {budget}", "fig. 1", "more, or no loss",
               "needles", lambda s, b=budget: minus(s, "answer_found", "snapkv(pool=max)+critical", "snapkv(pool=max)", b), ">", 0)
        yield ("CAOTE", f"Needles found, `tova+caote` − `tova`, {budget}", "tab. 5", "0.172 → 0.150 (3B, 2k), 0.220 → 0.232 (4k)",
               "needles", lambda s, b=budget: minus(s, "answer_found", "tova+caote", "tova", b), ">", 0)


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
    *merging_rows(),
    *known_rows(),
    *needle_rows(),
]
