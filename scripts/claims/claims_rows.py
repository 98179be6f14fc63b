"""The rows of docs/claims.md: what a paper says, and the numbers per prompt that speak to it (see claims_page.py)."""
import itertools
import statistics

from claims_study import agreement, found, found_early, layer_sums, less, lower, mean, minus, persistence, ratio, rise, share

SNAP = "snapkv(pool=max)"
CHANGE = "answer_residual_change"
OTHERS = ("sink", "tova", "h2o", SNAP)
ATTENTION = ("tova", "snapkv", "h2o")
BUDGETS = ("5%", "10%", "20%", "40%")
TASKS = [  # study, words, a half sentence for the table of chance
    ("questions", "Questions about an essay answered", "a question about one of two essays"),
    ("several", "One of four needles found", "four needles, a question for one of them"),
    ("keyvalue", "A word's number found in a list", "a list of words with numbers"),
    ("variables", "A variable's number found over two assignments", "two chains of three variables in a manual"),
]


def rows(paper, claim, place, theirs, study, numbers, side, threshold, *choices):
    """A row (paper, claim, place, their number, study, numbers of the prompts, side, threshold) for each combination of the choices,
    which stand in the claim, the place, their number and the study, and are arguments of numbers."""
    return [(paper, *(text.format(*chosen) for text in (claim, place, theirs, study)),
             lambda s, chosen=chosen: numbers(s, *chosen), side, threshold) for chosen in itertools.product(*choices)]


def one_less_four(study, text, budgets=("128", "128")):
    """The loss with one first token kept − with four, of the prompts of a kind, each at its budget."""
    one, four = (study.part(f"{text}-500").prompts("perplexity_loss", policy, budget) for policy, budget in zip(("sink(1)", "sink"), budgets))
    return less(one, four)


def taken(study, policy, block):
    """{prompt: what +caote takes from the output error}"""
    with_it = study.prompts("output_error", f"{policy}+caote", "20%", block)
    return {prompt: before - with_it[prompt] for prompt, before in study.prompts("output_error", policy, "20%", block).items()}


def apart(study, measure, other, policy="keydiff", budget="20%"):
    return [a - b for a, b in zip(mean(study, measure, policy, budget), mean(study, other, policy, budget))]


def nearer(study, of):
    """Cosine of neighbours − 64 tokens apart."""
    return apart(study, f"neighbour_{of}_cosine", f"far_{of}_cosine", "full", "99%")


def kept(study, number):
    return list(study.prompts(number).values())


def keydiff_risen(study, block):
    return list(rise(study, CHANGE, "keydiff", block, "all").values())


ROWS = [
    *rows("KeyDiff", "Rank correlation of a key's mean cosine to the others and the attention it receives, mean of heads",
          "fig. 2, §3.1", "negative", "states", lambda s: mean(s, "key_attention_correlation"), "<", 0),
    *rows("KeyDiff", "Share of heads whose mean key and mean query have a negative cosine", "fig. 12", "all heads", "states",
          lambda s: share(s, "mean_key_query_cosine", lambda v: v < 0), ">", 0.99),
    *rows("KeyDiff", "Cosine to the mean query, distinct keys − mean key", "fig. 14", "larger", "states",
          lambda s: apart(s, "distinct_keys_query_cosine", "mean_key_query_cosine"), ">", 0),
    *rows("KeyDiff", "Log volume of the retained keys, `keydiff` − `{}`, 20 %", "fig. 5", "larger", "states",
          lambda s, o: minus(s, "log_pseudo_determinant", "keydiff", o), ">", 0, ("sink", "tova", "snapkv")),
    *rows("KeyDiff", "Mean cosine of retained keys, `keydiff` − `tova`, 20 %", "§3.3", "smaller", "states",
          lambda s: minus(s, "key_mean_cosine", "keydiff", "tova"), "<", 0),
    # CriticalKV: one eviction after the context, as in the paper; ℒ of the tokens after the context.
    *rows("CriticalKV", "Share of heads where two stages lower ℒ₁ on {0[0]}, {1}", "{0[2]}", "{0[3]}", "once",
          lambda s, p, b: lower(s, "later_perturbation_l1", p[1] + "+critical", p[1], b), ">", 0.5,
          (("SnapKV", SNAP, "fig. 5, 7", "92 %"), ("AdaKV", SNAP + "+adakv", "fig. 11", "lower at each budget")), BUDGETS),
    *rows("CriticalKV", "Mean ℒ₁ of all heads, two stages on SnapKV − SnapKV, {}", "def. 2.1, fig. 7", "lower", "once",
          lambda s, b: minus(s, "later_perturbation_l1", SNAP + "+critical", SNAP, b), "<", 0, BUDGETS),
    *rows("CriticalKV", "Share of heads where stage one holds more than half the attention (assumption 3.4), {}", "fig. 8", "over 99 %",
          "once", lambda s, b: mean(s, "assumption_holds", SNAP + "+critical", b), ">", 0.99, BUDGETS),
    *rows("CriticalKV", "Share of heads where stage one holds more than half the attention, all layers but the first, 20%", "app. A",
          "exceptions only in the first layer", "once",
          lambda s: share(s, "assumption_holds", lambda v: v, SNAP + "+critical", layers=range(1, 30)), ">", 0.99),
    *rows("CriticalKV", "Mean ℒ₁ with norm=l2 over that with norm=l1, distance of the quotient to 1, {}", "fig. 12, app. F",
          "no notable difference", "once",
          lambda s, b: ratio(s, "later_perturbation_l1", SNAP + "+critical(norm=l2)", SNAP + "+critical", b), "<", 0.05, ("5%", "20%")),
    *rows("CriticalKV", "Share of heads where the lower bound θ₁ has the lower ℒ₁, SnapKV with and without two stages, 20%", "§3.2",
          "lower bound, lower ℒ", "critical",
          lambda s: agreement(s, "later_bound_l1", "later_perturbation_l1", SNAP + "+critical", SNAP, "20%"), ">", 0.5),
    *rows("CriticalKV", "Share of heads where two stages lower θ₁ on SnapKV, 20%", "thm. 3.5", "nearly all, under assumption 3.4",
          "critical", lambda s: lower(s, "later_bound_l1", SNAP + "+critical", SNAP, "20%"), ">", 0.5),
    *rows("CriticalKV", "Largest ℒ₁/θ of any head, two stages on SnapKV, 20 %", "thm. 3.3", "at most 1", "states",
          lambda s: [max(heads.values()) for heads in s.heads("tightness_l1", SNAP + "+critical", "20%").values()], "<", 1),
    # Sets kept; the answer's change, of the tokens after the prompt: block sizes, anchors and metrics.
    *rows("KeyDiff", "Share of the heads resting on token 0 in which `keydiff` keeps token 0, 20 %", "§3.1",
          "distinct keys recover the sink", "kept", lambda s: kept(s, "keydiff 128 token 0"), ">", 0.95),
    *rows("KeyDiff", "Overlap of the sets kept, blocks of {} and whole prompt, `keydiff` − `{}`, 20 %", "§2.3, §3.2",
          "attention depends on the block", "kept",
          lambda s, b, o: less(s.prompts(f"keydiff {b} overlap"), s.prompts(f"{o} {b} overlap")), ">", 0, ("128", "32"), ATTENTION),
    *(row for block, words, place, study in (("32", "32", "tab. 7, §4.2", "blocks"), ("1", "one token", "§2.3, §4.2", "single")) for row in (
        *rows("KeyDiff", f"Rise of the answer's change, blocks of {words}, `{{}}` − `keydiff`, 20 %", place, "attention scores lose more",
              study, lambda s, o, b=block: less(rise(s, CHANGE, o, b, "all"), rise(s, CHANGE, "keydiff", b, "all")), ">", 0, ATTENTION),
        *rows("KeyDiff", f"Rise of the answer's change, blocks of {words}, `keydiff`, 20 %", "§4.2", "none", study,
              lambda s, b=block: keydiff_risen(s, b), "<", 0.02))),
    *rows("KeyDiff", "Answer's change with anchor={0[0]} over that with the mean of unit keys, distance of the quotient to 1, 20 %",
          "{0[1]}", "{0[2]}", "variants", lambda s, a: ratio(s, CHANGE, f"keydiff({a[0]})", "keydiff"), "<", 0.1,
          (("median", "tab. 2", "35.4 beside 35.1"), ("rawmean", "§3.2", "as good"))),
    *rows("KeyDiff", "Answer's change, metric={0[0]} − cosine, 20 %", "tab. 3", "{0[1]}", "variants",
          lambda s, m: minus(s, CHANGE, f"keydiff(metric={m[0]})", "keydiff"), ">", 0,
          (("dot", "30.1 beside 35.1"), ("euclidean", "13.7 beside 35.1"))),
    *rows("KeyDiff", "Objective ‖Σk̂‖² of the kept keys, `keydiff` − `{}`, 20 %", "eq. 6, thm. 3.1", "smallest", "variants",
          lambda s, o: minus(s, "key_objective", "keydiff", o), "<", 0, ("tova", "sink", "h2o")),
    *rows("CAOTE", "Output error, `{0}+caote` − `{0}`, 20 %", "fig. 3", "always smaller", "states",
          lambda s, p: minus(s, "output_error", f"{p}+caote", p), "<", 0, ("h2o", "tova", "snapkv")),
    *rows("CAOTE", "Loss of prose (nats), `{0[0]}+caote` − `{0[0]}`, 25 %", "tab. 4",
          "perplexity above the full cache's (3B, 2k): {0[1]}", "sinks",
          lambda s, p: minus(s, "perplexity_loss", f"{p[0]}+caote", p[0], "25%"), "<", 0,
          (("h2o", "3.814 → 3.561"), ("tova", "0.493 → 0.442"), ("snapkv", "0.555 → 0.451"))),
    *rows("CAOTE", "Output error that `+caote` takes from `{}`, blocks of 32 − of 128, 20 %", "§4.5, tab. 6",
          "the smaller the block, the better", "blocks", lambda s, p: less(taken(s, p, "32"), taken(s, p, "128")), ">", 0,
          ("h2o", "tova", "snapkv")),
    *rows("CAOTE", "Sum of the tokens' own errors over the error of all, `{}`, 20 %: distance of the quotient to 1", "app. A", "taken as 1",
          "variants", lambda s, p: [abs(v - 1) for v in mean(s, "eviction_ratio", p)], "<", 0.1, ("h2o", "tova")),
    *rows("CAOTE", "Output error, 20 %: distance of `tova+fastcaote` to `tova+caote` − distance of `tova+caote` to `tova`", "tab. 4",
          "nearly alike", "states", lambda s: [abs(f) - abs(g) for f, g in zip(
              minus(s, "output_error", "tova+fastcaote", "tova+caote"), minus(s, "output_error", "tova+caote", "tova"))], "<", 0),
    *rows("KVMerger", "Cosine of neighbours, keys − values", "fig. 2, 3a", "keys alike, values not", "states",
          lambda s: apart(s, "neighbour_key_cosine", "neighbour_value_cosine"), ">", 0),
    *rows("KVMerger", "Output error, {0[0]}, 50 %", "{0[1]}", "better answers", "states",
          lambda s, o: minus(s, "output_error", "h2o+kvmerger", o[2], "50%"), "<", 0,
          (("`h2o+kvmerger` − `h2o`", "tab. 1", "h2o"), ("Gaussian weights − mean", "fig. 3c", "h2o+kvmerger(weights=mean)"))),
    *rows("StreamingLLM", "Share of heads in the upper half of the layers that give token 0 more than 0.3", "§3.1",
          "nearly all heads above the first layers", "states",
          lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=range(15, 30)), ">", 0.5),
    *rows("StreamingLLM", "Loss of prose (nats), {0[0]}, 25 %", "§3.1", "{0[1]}", "sinks",
          lambda s, o: minus(s, "perplexity_loss", o[2], "sink", "25%"), ">", 0,
          (("recent tokens alone − with four first tokens", "collapses without", "sink(0)"),
           ("one first token − four", "one is not enough, four are", "sink(1)"))),
    *rows("StreamingLLM", "Loss of prose without the chat template (nats), one first token − four, 128 entries", "§3.1",
          "one is not enough, four are", "firsts", lambda s: one_less_four(s, "plain"), ">", 0),
    # What merging leaves when only the threshold says so (budget 99 %, once, after the whole prompt).
    *rows("KVMerger", "Cosine of neighbouring keys − of all pairs of keys", "fig. 2, 3a", "neighbours more alike", "sets",
          lambda s: apart(s, "neighbour_key_cosine", "key_mean_cosine", "full", "99%"), ">", 0),
    *rows("KVMerger", "Cosine of neighbouring keys − of keys 64 tokens apart", "fig. 2, 3a", "alike near the diagonal", "sets",
          lambda s: nearer(s, "key"), ">", 0),
    *rows("KVMerger", "Cosine of neighbours − 64 tokens apart, of keys − of values", "fig. 3a", "values are not alike locally", "sets",
          lambda s: [a - b for a, b in zip(nearer(s, "key"), nearer(s, "value"))], ">", 0),
    *rows("KVMerger", "Share of the tokens that joined another one, threshold 0.75", "§5.1", "half (the budget is 50 %)", "sets",
          lambda s: [1 - one for one in mean(s, "retained_share", "h2o+kvmerger", "99%")], ">", 0.5),
    *rows("KVMerger", "Share of entries left in the {0[0]} − in all, threshold 0.75", "fig. 3b", "merges less there", "sets",
          lambda s, of: [a - b for a, b in zip(*(share(s, "retained_share", lambda v: v, "h2o+kvmerger", "99%", layers)
                                                 for layers in (of[1], None)))], ">", 0,
          (("first two layers", range(2)), ("last two layers", range(28, 30)))),
    *rows("KVMerger", "Entries left by layer: rank correlation of a prompt with the others, threshold 0.75", "fig. 3b",
          "highly consistent", "sets", lambda s: persistence(s, "retained_share", "h2o+kvmerger", "99%"), ">", 0.9),
    *rows("KVMerger", "Layers by tokens merged: rank correlation of a prompt with the others, threshold 0.75, 50 %", "fig. 3b",
          "highly consistent", "variants", lambda s: persistence(s, "absorbed", "h2o+kvmerger"), ">", 0.9),
    *rows("KVMerger", "Tokens merged in each of the first two layers over the mean of all, threshold 0.75, 50 %", "fig. 3b", "fewer",
          "variants", lambda s: [statistics.fmean(of[:2]) / statistics.fmean(of) for of in
                                 layer_sums(s, "absorbed", "h2o+kvmerger").values()], "<", 1),
    *rows("KVMerger", "Tokens merged, threshold 0.6 − 0.75, 50 %", "§3.2", "more", "variants",
          lambda s: minus(s, "absorbed", "h2o+kvmerger(0.6)", "h2o+kvmerger", "50%"), ">", 0),
    *rows("KVMerger", "Answer's change, `h2o+kvmerger` − {0[0]}, 50 %", "fig. 3c, tab. 1", "better answers", "variants",
          lambda s, o: minus(s, CHANGE, "h2o+kvmerger", o[1], "50%"), "<", 0,
          (("evicting (`h2o`)", "h2o"), ("plain means", "h2o+kvmerger(weights=mean)"), ("a random pivot", "h2o+kvmerger(pivot=random)"),
           ("values that are means", "h2o+kvmerger(value_scale=one)"))),
    # Merging once, after the whole prompt, to exactly half the entries (threshold=auto), as evicting does.
    *rows("KVMerger", "Answer's change, merging once to half − {0[0]}", "fig. 3c, tab. 1, 3, 4", "better answers", "merging",
          lambda s, o: minus(s, CHANGE, "h2o+kvmerger(auto)", o[1], "50%"), "<", 0,
          (("evicting (`h2o`)", "h2o"), ("evicting, recent tokens kept (`h2o+recent(17%)`)", "h2o+recent(17%)"),
           ("plain means", "h2o+kvmerger(auto,weights=mean)"), ("a random pivot", "h2o+kvmerger(auto,pivot=random)"),
           ("σ = 0.5", "h2o+kvmerger(auto,sigma=0.5)"), ("values that are means", "h2o+kvmerger(auto,value_scale=one)"))),
    *rows("KVMerger", "Answer's change, plain means with the last token as pivot − evicting (`h2o`), 50 %", "fig. 3c", "worse answers",
          "merging", lambda s: minus(s, CHANGE, "h2o+kvmerger(auto,pivot=last,weights=mean)", "h2o", "50%"), ">", 0),
    # What others say of the baselines.
    *rows("StreamingLLM", "Share of heads in the first two layers that give token 0 more than 0.3", "§3.1, fig. 2", "hardly any",
          "states", lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=range(2)), "<", 0.1),
    *rows("StreamingLLM", "Loss of prose (nats), four first tokens − sixteen, 25 %", "§3.1", "four are enough", "sinks",
          lambda s: minus(s, "perplexity_loss", "sink", "sink(16)", "25%"), "<", 0.02),
    *rows("H2O", "Mean place of the tokens that `h2o` keeps (0 the first, 1 the last), 20 %", "code of kvpress", "early tokens", "kept",
          lambda s: kept(s, "h2o 128 place"), "<", 0.5),
    *(row for policy, paper in (("tova", "TOVA"), ("snapkv", "SnapKV")) for row in rows(
        paper, "Mean place of the tokens that `{}` keeps, 20 %", "–", "recent tokens", "kept",
        lambda s, p: kept(s, f"{p} 128 place"), ">", 0.5, (policy,))),
    *rows("H2O", "Answer's change, `h2o` − `{0[0]}`, 20 %", "{0[1]}", "{0[2]}", "variants",
          lambda s, o: minus(s, CHANGE, "h2o", o[3]), ">", 0,
          (("h2o(normalise=visible)", "code of kvpress", "plain sums favour early tokens", "h2o(visible)"),
           ("h2o+recent(50%)", "alg. 1", "half of the budget is for recent tokens", "h2o+recent(50%)"))),
    *rows("KeyDiff", "Needles found, `keydiff` − `{1}`, {0}", "fig. 6", "more", "needles",
          lambda s, b, o: found(s, "keydiff", o, b), ">", 0, ("10%", "25%", "50%"), OTHERS),
    *rows("CriticalKV", "Needles found, with − without two stages on SnapKV, {}", "fig. 1", "more, or no loss", "needles",
          lambda s, b: found(s, SNAP + "+critical", SNAP, b), ">", 0, ("10%", "25%", "50%")),
    *rows("CAOTE", "Needles found, `tova+caote` − `tova`, {}", "tab. 5", "0.172 → 0.150 (3B, 2k), 0.220 → 0.232 (4k)", "needles",
          lambda s, b: found(s, "tova+caote", "tova", b), ">", 0, ("10%", "25%", "50%")),
    # Needles in longer texts, and those that are not among the last tokens anyway, at a quarter of the cache.
    *rows("KeyDiff", "Needles found in {0} 000 tokens, `keydiff` − `{1}`, 25 %", "fig. 6", "more", "needles-{0}000",
          lambda s, _, o: found(s, "keydiff", o, "25%"), ">", 0, "246", OTHERS),
    *rows("KeyDiff", "Early needles found in {0[0]} 000 tokens, `keydiff` − `{1}`, 25 %", "fig. 6", "more", "{0[1]}",
          lambda s, _, o: found_early(s, "keydiff", o, "25%"), ">", 0, (("1", "needles"), ("2", "needles-2000")), OTHERS),
    # Policies in the model on other tasks, of the prompts that the full cache answers.
    *rows("KeyDiff", "{0[1]}, `keydiff` − `{1}`, 50 %", "tab. 1", "more on LongBench", "{0[0]}",
          lambda s, _, o: found(s, "keydiff", o, "50%"), ">", 0, TASKS, OTHERS),
    *rows("CriticalKV", "{0[1]}, with − without two stages on SnapKV, 50 %", "fig. 3, tab. 1", "more on LongBench", "{0[0]}",
          lambda s, _: found(s, SNAP + "+critical", SNAP, "50%"), ">", 0, TASKS),
    *rows("CAOTE", "{0[1]}, `tova+caote` − `tova`, 50 %", "tab. 2", "more on LongBench", "{0[0]}",
          lambda s, _: found(s, "tova+caote", "tova", "50%"), ">", 0, TASKS),
    *rows("CAOTE", "Loss of code (nats), `{0}+caote` − `{0}`, 25 %", "tab. 4", "lower perplexity of prose", "code",
          lambda s, p: minus(s, "perplexity_loss", f"{p}+caote", p, "25%"), "<", 0, ("h2o", "tova", "snapkv")),
    *rows("StreamingLLM", "Loss of code (nats), recent tokens alone − with four first tokens, 25 %", "§3.1", "collapses without (prose)",
          "code", lambda s: minus(s, "perplexity_loss", "sink(0)", "sink", "25%"), ">", 0),
]
