#!/usr/bin/env python3
"""Writes docs/cases.md from the results of scripts/claims/cases.sh.

    scripts/claims/cases_page.py FOLDER TARGET

Reads FOLDER/cases/NAME.json (kvloupe-capture rescue) and NAME-follow.json (kvloupe follow); the figures are
images/cases/NAME.svg beside TARGET.
"""
import json
import math

from pages import fail, script, table, write

POLICIES = ("h2o", "tova", "snapkv", "sink", "keydiff")
HOW = {  # what the policy goes by
    "h2o": "keeps the entries that received most attention in sum, so that an entry that came early had more queries to receive from",
    "tova": "keeps what the last query of each block attends to",
    "snapkv": "keeps what the last 32 queries of each block attend to, smoothed over seven neighbours, and their own window",
    "sink": "keeps the first four tokens and the most recent ones, whatever they say",
    "keydiff": "keeps the keys least like the others",
}


def share(logprob):
    """exp(logprob) in percent."""
    percent = 100 * math.exp(logprob)
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.2g} %"


def places(heads):
    return ", ".join(f"{layer}.{head}" for layer, head in heads)


def quoted(text):
    return "`" + text.strip().replace("\n", "⏎").replace("`", "'") + "`"


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        fail(f"{path} cannot be read ({why}); run scripts/claims/cases.sh")


def case(name, rescue, follow):
    settings, full, policy, keep, drop = (rescue[field] for field in ("settings", "full", "policy", "keep", "drop"))
    heads = follow["heads"]
    count = len(heads)
    kept = sum(head["kept"] for head in heads) / count
    whole, lost = sum(head["kept"] == 1 for head in heads), sum(head["kept"] == 0 for head in heads)
    steps = sorted(head["first_loss"] for head in heads if head["first_loss"] is not None)
    length = len(settings["prompt_ids"])
    at = 100 * follow["tokens"][0] / length
    readers = sorted(heads, key=lambda head: -head["read"])[:5]
    rows = [[f"{head['layer']}.{head['head']}", f"{head['read']:.2f}", f"{100 * head['kept']:.0f} %",
             "–" if head["first_loss"] is None else str(head["first_loss"]),
             "–" if head.get("restored_logit") is None else f"{round(head['restored_logit'], 2) + 0.0:.2f}"] for head in readers]
    text = f"""## {settings["policy"]}, {settings["budget"]} of {length} entries

The needle, *{"".join(follow["text"]).strip()}*, stands at {at:.0f} % of the prompt. The full cache goes on with {quoted(full["says"])} (the right
text has a probability of {share(full["logprob"])}), `{settings["policy"]}` with {quoted(policy["says"])} ({share(policy["logprob"])}).

**Where it is lost.** The policy {HOW[name]}. At the end a head holds {100 * kept:.0f} % of the needle's tokens on the mean;
{whole} of {count} heads hold all of it, {lost} nothing. """
    if steps:
        text += f"The median head that loses some loses the first at step {steps[len(steps) // 2]} (the needle comes in step {follow['tokens'][0] // settings['block']}). "
    text += f"""The heads that read it most for the answer:

{table(["head", "attention to the needle, full cache", "needle left", "first loss at step", "logit that would come back"], rows)}

"""
    smallest = keep["smallest"]
    if not keep["all"]["right"]:
        text += (f"**Rescue.** With the needle kept in all {count} heads the answer is still wrong ({share(keep['all']['logprob'])}): here the "
                 "policy has lost something else that the answer needs.")
    elif not smallest:
        text += f"**Rescue.** With the needle kept in all {count} heads the answer is right ({share(keep['all']['logprob'])}); the search ended before it found fewer."
    else:
        several = len(smallest["heads"]) > 1
        text += (f"**Rescue.** With the needle kept in {'these heads' if several else 'this head'} alone the answer is right: {places(smallest['heads'])}"
                 f"{'' if smallest.get('minimal', True) else ' (the search ended before it had tried to leave out each)'}. All heads: "
                 f"{share(keep['all']['logprob'])}.")
        if smallest.get("minimal", True):
            text += (f" {'They are' if several else 'The head is'} among the first {rescue['predicted']['set_within']} of {count} heads by "
                     "the replay's blame.")
    text += f" Runs of the model: {len(rescue['runs'])}."
    if not drop["all"]["right"]:
        text += f" Dropped from the full cache in all heads: {share(drop['all']['logprob'])}."
    return f"{text}\n\n![Blame and proof for {settings['policy']}, head by head](images/cases/{name}.svg)"


@script(__doc__)
def main(folder, target):
    names = [name for name in POLICIES if (folder / "cases" / f"{name}.json").is_file()]
    if not names:
        fail(f"{folder}/cases has no results; run scripts/claims/cases.sh")
    of = {name: (read(folder / "cases" / f"{name}.json"), read(folder / "cases" / f"{name}-follow.json")) for name in names}
    begun = [name for name in names if "keep" not in of[name][0]]
    if begun:
        fail(f"the search of {folder}/cases/{begun[0]}.json has not ended; run scripts/claims/cases.sh again")
    wrong = [name for name in names if not of[name][0]["full"]["right"] or of[name][0]["policy"]["right"]]
    if wrong:
        fail(f"{folder}/cases/{wrong[0]}.json is no case: the full cache fails too, or the policy answers")
    sets = [{tuple(head) for head in (rescue["keep"]["smallest"] or {"heads": []})["heads"]} for rescue, _ in of.values()]
    often = sorted(head for head in set().union(*sets) if sum(head in one for one in sets) > len(sets) / 2)
    again = (f"Heads {places(often)} are in the sets of more than half of the cases: the model finds its answer through few heads.\n\n"
             if often and len(sets) > 2 else "")
    cases = "\n\n".join(case(name, *of[name]) for name in names)
    first = of[names[0]][0]["settings"]
    text = f"""# Cases: a wrong answer, followed to its cause

For each policy one prompt that SmolLM2-135M-Instruct answers with the full cache and not with the policy, at half of the
prompt, blocks (steps) of {first["block"]}. The prompts are needles in some 1 000 tokens of manuals ([claims.md](claims.md)). They were chosen
because other policies answer them: each is an example of how a policy fails, not of how often. `kvloupe follow` says which heads read
the needle and lost it ([follow.md](follow.md)); `kvloupe-capture rescue` keeps the needle in some heads and runs the model again.
A head is written LAYER.HEAD. In the figures: the replay's blame, the gain when the needle is kept in that head alone, the change
when the full cache loses it there; heads that were not run are empty, the smallest sets are shaded. The search tries heads in the
order of the replay's blame: of several sets that would do, it finds one whose heads come early in this order.

{again}{cases}

## The commands

    scripts/claims/claims.sh 100 {folder}      # prompts and traces
    scripts/claims/cases.sh {folder}           # all cases, their figures and this page; RUNS=20 searches less

One case by itself, here the first:

    build/bin/kvloupe-capture rescue --model build/real-model/model.gguf --trace {first["prompt"]} \\
        --policy "{first["policy"]}" --budget {first["budget"]} --segment needle --expect "{first["expect"] or of[names[0]][0]["expected"]["text"]}" --runs {len(of[names[0]][0]["runs"])} --dtype f32 -o case.json
    build/bin/kvloupe follow {first["prompt"]} --segment needle --policy "{first["policy"]}" --budget {first["budget"]}
    build/bin/kvloupe export case.json --figure rescue -o case.svg
"""
    write(target, text)
