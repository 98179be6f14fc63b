"""The section "Looked into" of docs/claims.md: what is behind verdicts that surprise. A sentence stands only if its numbers bear it."""
import statistics

from claims_rows import TASKS, one_less_four
from claims_study import LATE, found, found_early, lower, lower_if, mean, share
from claims_verdict import verdict, written
from pages import fail, table, wilson, wilson_interval

L = "later_perturbation_l1"
SNAP = "snapkv(pool=max)"


def two_stages(studies):
    """Why CriticalKV's two stages lower ℒ in so few heads here."""
    once, critical = studies["once"], studies["critical"]
    variants = {
        "SnapKV, all heads": lambda b: lower(once, L, SNAP + "+critical", SNAP, b),
        "… heads in which stage one holds more than half the attention of every query":
            lambda b: lower_if(once, L, SNAP + "+critical", SNAP, ("assumption_holds", lambda v: v == 1), b),
        "… the other heads": lambda b: lower_if(once, L, SNAP + "+critical", SNAP, ("assumption_holds", lambda v: v < 1), b),
        "SnapKV without smoothing (`kernel=1`), all heads": lambda b: lower(critical, L, "snapkv(kernel=1)+critical", "snapkv(kernel=1)", b),
        "the last query's own attention (`tova`), all heads": lambda b: lower(critical, L, "tova+critical", "tova", b),
        "… with ε = 0": lambda b: lower(critical, L, "tova+critical(eps=0)", "tova", b),
    }
    of = {(words, budget): compute(budget) for words, compute in variants.items() for budget in ("5%", "20%")}
    rows = [[words, *(written(of[words, budget]) if of[words, budget] else "–" for budget in ("5%", "20%"))] for words in variants]
    every, meeting, other, *_ = (of[words, "20%"] for words in variants)
    if verdict(every, "<", 0.9)[2] != "holds":
        return ""
    text = "**Two stages lower ℒ₁ in far fewer heads on SnapKV than the paper's 92 %.** "
    if meeting and verdict(meeting, "<", 0.9)[2] == "holds":
        text += ("Assumption 3.4, which fails more often here, is not the cause: in the heads that meet it the share is "
                 f"{statistics.fmean(meeting):.2f} at 20 %" + (f", in the others {statistics.fmean(other):.2f}. " if other else ". "))
    smoothed, plain = (lower(critical, L, policy + "+critical", policy, "20%") for policy in (SNAP, "snapkv(kernel=1)"))
    if verdict([a - b for a, b in zip(plain, smoothed)], ">", 0)[2] == "holds":
        text += ("The smoothing is a part of the cause: an entry gets the largest attention among its seven neighbours, times the length of its "
                 f"own value, so that stage two takes long values beside attended ones. Without smoothing the share at 20 % rises from {statistics.fmean(smoothed):.2f} to {statistics.fmean(plain):.2f}. ")
    text += ("At 5 % SnapKV's window of 32 takes most of some 50 places. "
             "Share of heads where two stages lower ℒ₁:")
    return f"{text}\n\n{table(['base score', '5 %', '20 %'], rows)}"


def distinct_keys(studies):
    """Rank correlation of likeness and attention, layer by layer."""
    states = studies["states"]
    count = 1 + max(layer for heads in states.heads("key_attention_correlation", "keydiff", "20%").values() for layer, _ in heads)
    of = {layer: share(states, "key_attention_correlation", lambda v: v, layers=(layer,)) for layer in range(count)}
    negative = [layer for layer in of if verdict(of[layer], "<", 0)[2] == "holds"]
    positive = [layer for layer in of if verdict(of[layer], ">", 0)[2] == "holds"]
    if not negative or not positive:
        return ""
    first, last = (choose(of, key=lambda layer: statistics.fmean(of[layer])) for choose in (min, max))
    resting = share(states, "role_sink", lambda v: v > 0.3)
    return (f"**Distinct keys receive more attention in some layers only.** The mean over heads hides this: the correlation is negative in "
            f"{len(negative)} layers and positive in {len(positive)} of {count} (95 % intervals without 0). Lowest: layer {first}, "
            f"{written(of[first])}; highest: layer {last}, {written(of[last])}. The paper shows two heads. It is a rank correlation "
            f"over all tokens, so that the sink, on which {100 * statistics.fmean(resting):.0f} % of the heads rest, is one rank of a thousand.")


def block_sizes(studies):
    """The answer's change and the sets kept, by block size."""
    study, kept = studies["blocks"], studies["kept"]
    change = lambda policy, block: study.prompts("answer_residual_change", policy, "20%", block)
    overlap = lambda policy, block: list(kept.prompts(f"{policy} {block} overlap").values())
    single = lambda policy, block="1": studies["single"].prompts("answer_residual_change", policy, "20%", block)
    last = lambda policy, block: list(kept.prompts(f"{policy} {block} last").values())
    policies, blocks = ("keydiff", "tova", "snapkv", "h2o"), ("32", "64", "128", "all")
    rows = [[f"`{policy}`", written(list(single(policy).values())), *(written(list(change(policy, block).values())) for block in blocks),
             *(written(overlap(policy, block)) if overlap(policy, block) else "–" for block in ("32", "128")),
             *(written(last(policy, block)) if last(policy, block) else "–" for block in ("1", "all"))] for policy in policies]
    text = ("**Block sizes.** Answer's change at 20 % by block size, and the overlap (Jaccard index) of the sets kept with those of one "
            "decision after the whole prompt:")
    rises = {policy: [change(policy, "32")[p] - change(policy, "all")[p] for p in change(policy, "32")] for policy in policies}
    less = all(verdict([a - b for a, b in zip(rises["keydiff"], rises[other])], "<", 0)[2] == "holds" for other in ("tova", "snapkv"))
    if less and verdict(rises["keydiff"], ">", 0)[2] == "holds" and overlap("keydiff", "32") and verdict(overlap("keydiff", "32"), "<", 0.95)[2] == "holds":
        text = text.replace("Answer's change", "KeyDiff suffers less than `tova` and `snapkv`, but depends on the block, too: its anchor is the mean of the keys "
                            "that are there, and what an early block evicts does not come back. Answer's change", 1)
    whole = {policy: statistics.fmean(change(policy, "all").values()) for policy in policies}
    if verdict(rises["h2o"], "<", 0.05)[2] == "holds" and whole["h2o"] == max(whole.values()):
        text = text.replace("Answer's change", "`h2o` depends on it less because it is nearly as bad with the whole prompt. Answer's change", 1)
    ones, wholes = single("keydiff"), single("keydiff", "all")
    rise = [ones[p] - wholes[p] for p in ones.keys() & wholes.keys()]
    ends = [last("keydiff", block) for block in ("1", "all")]
    if (len(rise) > 2 and verdict(rise, ">", 0)[2] == "holds" and len(ends[0]) == len(ends[1])
            and verdict([a - b for a, b in zip(*ends)], "<", 0)[2] == "holds"):
        text = text.replace("Answer's change", "With blocks of one token the question at the end of the prompt suffers: `keydiff` holds "
                            f"{statistics.fmean(ends[0]):.2f} of the last 32 tokens, {statistics.fmean(ends[1]):.2f} after one decision on the whole "
                            "prompt. Answer's change", 1)
    head = ["policy", *(f"change, {one}" for one in ("1", "32", "64", "128", "whole")), "overlap, 32", "overlap, 128", "last 32, blocks of 1", "last 32, whole"]
    return f"{text}\n\n{table(head, rows)}"


def merging_and_recency(studies):
    """Whether merging or the recent tokens make the difference to h2o, and what the parts of KVMerger do."""
    merging, early = studies["merging"], list(studies["kept"].prompts("h2o 128 place").values())
    change = lambda policy: mean(merging, "answer_residual_change", policy, "50%")
    plain, recent, merged = change("h2o"), change("h2o+recent(17%)"), change("h2o+kvmerger(auto)")
    better = lambda one, other: verdict([a - b for a, b in zip(one, other)], "<", 0)[2] == "holds"
    rows = []
    for policy, words in (("h2o", "evicting"), ("h2o+recent(17%)", "evicting, the last 17 % stay"), ("h2o+kvmerger(auto)", "merging as in the paper"),
                          ("h2o+kvmerger(auto,weights=mean)", "plain means"), ("h2o+kvmerger(auto,pivot=random)", "a random pivot"),
                          ("h2o+kvmerger(auto,sigma=0.5)", "σ = 0.5"), ("h2o+kvmerger(auto,value_scale=one)", "values not multiplied by the size of the set"),
                          ("h2o+kvmerger(auto,log_size=1)", "the size of the set in the logit instead")):
        members = mean(merging, "merge_effective_members", policy, "50%")
        rows.append([f"`{policy}`", words, written(change(policy)), written(members) if members else "–"])
    text = "**Merging beside evicting.** "
    if better(merged, plain) and better(recent, plain):
        text += ("Merging beats plain `h2o`, but so does evicting that keeps the last 17 % of the cache, as KVMerger does"
                 + (f": plain `h2o` keeps early tokens (mean place {statistics.fmean(early):.2f} at 20 %). " if early else ". "))
        if not better(merged, recent):
            text += "Beside `h2o` with the recent tokens merging has no gain here. "
    if better(change("h2o+kvmerger(auto,value_scale=one)"), merged):
        text += "Without the paper's factor, the size of the set, merged values change the answer less here"
        text += (", and least with that size in the logit, which gives a merged entry the attention of all its members. "
                 if better(change("h2o+kvmerger(auto,log_size=1)"), change("h2o+kvmerger(auto,value_scale=one)")) else ". ")
    text += "Answer's change at exactly half of the entries, after one decision on the whole prompt, and the members of a set that count:"
    return f"{text}\n\n{table(['policy', '', 'change', 'members'], rows)}"


def single_errors(studies):
    """CAOTE's errors of single tokens beside the error of all that leave."""
    ratios = {policy: mean(studies["variants"], "eviction_ratio", policy) for policy in ("h2o", "tova")}
    text = ("**Single and joint errors.** The sum of the errors of the tokens that a step evicts, each as if it left alone, over the error when all "
            f"leave: `h2o` {written(ratios['h2o'])}, `tova` {written(ratios['tova'])}, means over heads and steps.")
    if all(verdict(of, ">", 1)[2] == "holds" for of in ratios.values()):
        text += " Changes of single tokens partly cancel."
    return text


def thresholds(studies):
    sets = studies["sets"]
    rows = [[threshold, written([1 - one for one in mean(sets, "retained_share", policy, "99%")])] for threshold, policy in
            (("0.6", "h2o+kvmerger(0.6)"), ("0.75", "h2o+kvmerger"), ("0.9", "h2o+kvmerger(0.9)"))]
    return ("**How much a threshold merges.** Share of the tokens that joined another one, after one decision on the whole prompt; 29 % "
            f"(the recent and the heavy) take no part:\n\n{table(['threshold', 'share'], rows)}")


def needles(studies):
    """The shares behind the rows of needles."""
    study, kept = studies["needles"], studies["kept"]
    right = study.answered()
    policies = ["keydiff", "tova", "tova+caote", "sink", "h2o", SNAP, SNAP + "+critical"]
    rows = []
    for policy in policies:
        answers = [study.prompts("answer_found", policy, budget) for budget in ("10%", "25%", "50%")]
        still = kept.prompts(f"{policy} 128 needle")
        rows.append([f"`{policy}`", *(wilson(sum(one[p] == 1 for p in one if p in right), sum(p in right for p in one)) for one in answers),
                     written(list(still.values())) if still else "–"])
    text = (f"**Needles.** The full cache answers {len(right)} of {len(study.whole)} prompts; the others are left out of all rows. Share of "
            "the rest that a policy answers, with Wilson's 95 % interval, and the share of the needle's tokens that a head still holds "
            f"after the prompt at 20 %, in a replay:\n\nThe figure counts all prompts, also those left out of the table.\n\n![Share of needles found by budget](images/claims-needles.svg)\n\n{table(['policy', '10 %', '25 %', '50 %', 'needle kept at 20 %'], rows)}")
    holds, early = [list(kept.prompts(f"{policy} 128 needle").values()) for policy in ("h2o", "keydiff")], list(kept.prompts("h2o 128 place").values())
    if (early and verdict(early, "<", 0.5)[2] == "holds" and statistics.fmean(holds[0]) > statistics.fmean(holds[1])
            and verdict(found(study, "keydiff", "h2o", "50%"), ">", 0)[2] == "holds"):
        text += ("\n\nOn the mean `h2o` keeps more of the needle than `keydiff` does, and answers less often. The tokens that it keeps "
                 f"are early ones: their mean place is {statistics.fmean(early):.2f} (0 the first, 1 the last).")
    return text


def lengths(studies):
    """Needles by the length of the prompt and by their place, at a quarter of the cache."""
    policies, shares, counts, interval = ["keydiff", "tova", "sink", "h2o", SNAP], [], [], {}
    place = studies["places"].prompts("place")
    for name, tokens in (("needles", "1 000"), ("needles-2000", "2 000"), ("needles-4000", "4 000"), ("needles-6000", "6 000")):
        study = studies[name]
        right, prompts = study.answered(), len(study.whole)
        late = {prompt for prompt in right if place[prompt] >= LATE}
        hits, by_place = {"full": (len(right), prompts), "late": (len(late), len(right))}, [f"{len(late)} · {len(right - late)}"]
        for policy in policies:
            answers = study.prompts("answer_found", policy, "25%")
            hits[policy] = (sum(answers[p] == 1 for p in right), len(right))
            by_place.append(" · ".join(str(sum(answers[p] == 1 for p in of)) for of in (late, right - late)))
        interval |= {(tokens, one): wilson_interval(*hit) if hit[1] else (0, 1) for one, hit in hits.items()}
        shares.append([tokens, str(prompts), *(wilson(*hit) if hit[1] else "–" for one, hit in hits.items() if one != "late")])
        counts.append([tokens, *by_place])
    rises = {one: interval["6 000", one][0] > interval["1 000", one][1] for one in ("late", *policies)}
    text = "**Needles in longer prompts.** "
    if interval["6 000", "full"][1] < interval["1 000", "full"][0]:
        text += "The full cache itself answers less often at 6 000 tokens than at 1 000. "
    larger = [f"`{policy}`" for policy in policies if rises[policy]]
    if larger:
        text += f"At 6 000 tokens {' and '.join(larger)} {'find' if len(larger) > 1 else 'finds'} a larger share of the needles that the full cache finds than at 1 000. "
        if rises["late"]:
            text += "A larger share of these is late there: in the last quarter of the prompt, which a cache of a quarter holds if it keeps recent tokens. "
    text += "Share of prompts that the full cache answers, and share of these that a policy answers at a quarter of the cache:"
    head = [f"`{one}`" for one in policies]
    early = [verdict(found_early(studies["needles"], "keydiff", other, "25%"), ">", 0)[2] == "holds" for other in policies[1:]]
    second = (" At 1 000 tokens `keydiff` finds more of the early ones than each of the others." if all(early) else "")
    return (f"{text}\n\n{table(['tokens', 'prompts', 'full cache', *head], shares)}\n\nThe same by place, in prompts: late needles (in the last quarter of the prompt) · the others. The rows of early needles were added after these counts were seen.{second}\n\n"
            f"{table(['tokens', 'full cache', *head], counts)}")


def first_tokens(studies):
    """What the first tokens are worth, where a template gives each prompt the same first token and where it does not."""
    study, rows, of = studies["firsts"], [], {}
    for text, words in (("prose", "in the chat template"), ("plain", "without it")):
        of[text] = [one_less_four(study, text, budgets) for budgets in (("128", "128"), ("125", "128"))]
        rows.append([f"prose {words}", str(len(of[text][0])), *map(written, of[text])])
    says = {text: [verdict(one, ">", 0)[2] for one in of[text]] for text in of}
    text = "**First tokens.** "
    if says["prose"][0] == "does not hold here":
        text += "In the chat template one first token is enough: four cost three recent tokens, which bring more. "
    elif says["prose"][0] == "cannot be told":
        text += "In the chat template four first tokens cannot be told from one. "
    if says["prose"][0] != "holds":
        text += "The template begins each prompt with the same token, on which the heads rest. "
        text += {"holds": "Without the template each text begins with another word, and four are better than one: so the paper explains why its models, which were not "
                          "trained with a fixed first token, need several. ",
                 "does not hold here": "This is not the reason: without the template, where each text begins with another word, one is enough, too. ",
                 "cannot be told": "Without the template, where each text begins with another word, the two cannot be told apart. "}[says["plain"][0]]
    if says["plain"][0] == "cannot be told" and [says["plain"][1], says["prose"][1]] == ["holds", "cannot be told"]:
        text += ("Beside equally many recent tokens, however, tokens 1 to 3 lower the loss there, but not in the template: where no first token is fixed, "
                 "several are of use, as the paper explains. ")
    text += "Difference of loss in nats, one first token − four, in caches of the same size, and with the same number of recent tokens (124):"
    return f"{text}\n\n{table(['text', 'prompts', 'both 128 entries', '125 and 128 entries'], rows)}"


def tasks(studies):
    """How often the full cache and the policies do the other tasks, and chance."""
    policies = ["keydiff", "tova", "tova+caote", "sink", "h2o", SNAP, SNAP + "+critical"]
    rows, left_out = [], []
    for name, _, words in TASKS:
        study = studies[name]
        right, blind = study.answered(), study_of_chance(studies, name)
        shares = []
        for policy in policies:
            answers = study.prompts("answer_found", policy, "50%")
            shares.append(wilson(sum(answers[p] == 1 for p in answers if p in right), sum(p in right for p in answers)) if right else "–")
        rows.append([words, str(len(study.whole)), wilson(sum(value == 1 for value in blind.values()), len(blind)),
                     wilson(len(right), len(study.whole)), *shares])
        left_out += [] if above_chance(studies, name) else [words]
    text = ("**Other tasks.** How often the full cache answers (with Wilson's 95 % interval), also without the link between question and "
            "answer in the prompt (chance); and how often a policy at 50 % answers what the full cache answers:\n\n" +
            table(["task", "prompts", "chance", "full cache", *(f"`{one}`" for one in policies)], rows))
    if left_out:
        text += ("\n\nThe full cache is not above chance (the intervals overlap) in these tasks, so that they have no rows above: "
                 f"{'; '.join(left_out)}.")
    return text


def study_of_chance(studies, task):
    """{prompt: found}: the full cache on a task's blind prompts."""
    word = {"several": "needles"}.get(task, task) + "-blind"
    found_without = studies["chance"].part(word).prompts("answer_found", "full", "full")
    if not found_without:
        fail(f"chance.sqlite has no prompt of {word} with all its items done; run scripts/claims/claims.sh again")
    return found_without


def above_chance(studies, task):
    """Whether the full cache does a task more often than it answers blind prompts: intervals that do not overlap."""
    study, blind = studies[task], study_of_chance(studies, task)
    return (wilson_interval(len(study.answered()), len(study.whole))[0] >
            wilson_interval(sum(value == 1 for value in blind.values()), len(blind))[1])


def looked_into(studies):
    parts = [part(studies) for part in (two_stages, distinct_keys, block_sizes, merging_and_recency, thresholds, single_errors, needles, lengths, first_tokens, tasks)]
    return "\n\n".join(part for part in parts if part)
