#!/usr/bin/env python3
"""Writes tasks of real text for a chat model, as JSON lines that studies read (docs/studies.md).

    scripts/claims/claims_prompts.py FOLDER TASK LENGTH COUNT [FIRST]    writes FOLDER/TASK-LENGTH.jsonl
    … --blind    and TASK-blind-LENGTH.jsonl, without the evidence
    … FIRST      lines FIRST to COUNT - 1, as TASK-LENGTH-fromFIRST.jsonl

LENGTH is in tokens, roughly: the script counts characters. Everything follows from the line's number, so a larger COUNT
keeps the lines of a smaller one. A blind prompt lacks what links its question to the answer: a name in the line that holds
the answer, or, for questions, the sentence with the evidence. The share that a model still answers is chance.

    needle     a sentence among others of a manual: on which file a module was tried first; the file's name is a word of the
               manual itself
    needles    four such sentences of four modules, and a question for one of them
    keyvalue   a list of words with a number each, and a question for one of the numbers
    variables  numbers given to variables, which are given to other variables, among sentences of a manual; a question for
               the number of the last variable of one chain (after RULER's variable tracking)
    questions  questions about the project's two essays; a part of an essay that holds the answer
    prose      manuals, for perplexity
    plain      the same without the chat template, so that each begins with another word
    code       Python's own library, for perplexity

The texts: the manuals of Perl's modules, as Debian's package perl-modules brings them (the licence of Perl: Artistic or
GPL, version 1 or later); the library of the python3 that runs this script (Python Software Foundation License, version 2);
the essays and questions of assets/prompts/real (kvloupe's own licence). Each prompt but those of `plain` is written out in the chat
template of SmolLM2-Instruct.
"""
import functools
import glob
import json
import random
import re
import sys
import sysconfig
from pathlib import Path

from pages import fail, script, write

ASSETS = Path(__file__).resolve().parents[2] / "assets/prompts/real"
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
ANSWERS = "<|im_end|>\n<|im_start|>assistant\n"
CHARACTERS = {"prose": 4.3, "code": 3.6}  # of a token
MANUALS = """Locale/Maketext/TPJ13.pod Locale/Maketext.pod Archive/Tar.pm CPAN.pm CPAN/Meta/Spec.pm Compress/Zlib.pm
    Encode/Supported.pod ExtUtils/MakeMaker.pm File/Path.pm File/Temp.pm Getopt/Long.pm HTTP/Tiny.pm IO/Compress/Zip.pm
    IO/Compress/FAQ.pod JSON/PP.pm Math/BigInt.pm Memoize.pm Net/FTP.pm Net/Ping.pm Pod/Man.pm Pod/Simple/Subclassing.pod
    TAP/Parser.pm Term/ANSIColor.pm Test/More.pm Test2/API.pm Text/Balanced.pm Tie/File.pm Unicode/UCD.pm overload.pm
    version/Internals.pod warnings.pm pod/perldiag.pod""".split()
LIBRARY = """argparse ast bdb calendar cgi cmd code codecs collections/__init__ compileall configparser contextlib copy csv
    dataclasses datetime decimal difflib dis doctest email/message enum fileinput filecmp fractions ftplib functools getopt
    gettext glob graphlib gzip heapq imaplib inspect ipaddress json/decoder logging/__init__ mailbox mimetypes optparse pathlib
    pdb pickle pickletools platform plistlib poplib pprint profile random sched selectors shelve shlex shutil smtplib socket
    statistics string subprocess tarfile tempfile textwrap threading timeit tokenize traceback turtle typing uuid warnings
    wave weakref zipfile""".split()
WORDS = """apple anchor basket beacon bottle bridge bucket button candle carpet castle cellar cherry circle copper corner
    cotton cradle dragon eagle engine fabric feather finger flower forest garden ginger glove hammer harbor helmet island
    jacket kettle ladder lantern lemon letter lizard magnet marble meadow mirror monkey mother needle ocean orange oyster
    packet palace parrot pepper pencil pillow planet pocket potato prison puzzle rabbit ribbon river rocket saddle sailor
    salmon school shadow silver spider spring square statue stone sugar summer temple thread ticket timber tomato tunnel
    turtle valley velvet violin wagon walnut window winter wizard yellow""".split()


def perl_folder():
    found = [Path(one) for one in glob.glob("/usr/share/perl/5.*") if (Path(one) / MANUALS[0]).is_file()]
    if not found:
        fail(f"/usr/share/perl/5.*/{MANUALS[0]} is missing; install Perl's modules (Debian: perl-modules)")
    return min(found)


def read(path, package):
    if not path.is_file():
        fail(f"{path} is missing; install {package}")
    return path.read_text(encoding="utf-8", errors="replace")


def sentences_of_manual(name):
    """The prose of a manual: its paragraphs without headings, examples and marks, in sentences."""
    found, inside = [], False
    for paragraph in re.split(r"\n\s*\n", read(perl_folder() / name, "Perl's modules (Debian: perl-modules)")):
        paragraph = paragraph.strip("\n")
        if paragraph.startswith("="):
            inside = not paragraph.startswith("=cut")
        elif inside and not paragraph[:1].isspace():
            for _ in range(3):  # marks can be nested
                paragraph = re.sub(r"\b[A-Z]<+\s*([^<>]*?)\s*>+", lambda m: m[1].split("|")[0], paragraph)
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(paragraph.split())):
                if 40 < len(sentence) < 400 and re.match(r"[A-Z].*[.!?]$", sentence) and not re.search(r"[<>{}|]", sentence):
                    found.append(sentence)
    return found


manual = functools.cache(sentences_of_manual)


def parts_of_manuals(characters):
    """[(name, sentences of about so many characters)], without overlap: of one manual each, in random order; and after these
    of the manuals' ends, which are too short for a part, one end after the other."""
    parts, ends = [], []
    for name in MANUALS:
        of_manual, end = cut(manual(name), characters)
        parts += [(name, one) for one in of_manual]
        ends += end
    order = list(range(len(parts)))
    random.Random("parts of manuals").shuffle(order)
    return [parts[k] for k in order] + [("ends of manuals", one) for one in cut(ends, characters)[0]]


def cut(sentences, characters):
    """The sentences in parts of at least so many characters, and those left over."""
    parts, rest, size = [], [], 0
    for sentence in sentences:
        rest.append(sentence)
        size += len(sentence) + 1
        if size >= characters:
            parts.append(rest)
            rest, size = [], 0
    return parts, rest


def part(i, parts, what):
    if i >= len(parts):
        fail(f"only {len(parts)} {what} of this length can be cut without overlap; ask for fewer prompts, or shorter ones")
    return parts[i]


def prompt(context, question, prefix, answer, evidence):
    return {"input": f"{SYSTEM}<|im_start|>user\n{context}\n\n{question}", "answer_prefix": f"{ANSWERS}{prefix}",
            "outputs": [answer], "needle": evidence}


def among(chance, sentences, facts):
    """The sentences with the facts among them, in this order, never first or last."""
    text = list(sentences)
    for fact, at in sorted(zip(facts, sorted(chance.sample(range(1, len(text)), len(facts)))), key=lambda one: -one[1]):
        text.insert(at, fact)
    return " ".join(text)


def hidden_facts(i, length, blind, count, chance):
    name, sentences = part(i, parts_of_manuals((length - 90) * CHARACTERS["prose"]), "parts")
    own = re.findall(r"\b[a-z]{5,10}\b", " ".join(sentences))
    files = chance.sample(sorted(set(own)), count)
    modules = chance.sample([word.capitalize() for word in WORDS], count)
    facts = [f"The module {module} was first tried on a file called {file}.txt." for module, file in zip(modules, files)]
    asked = chance.randrange(count)
    shown = [fact.replace(f"The module {modules[asked]}", "Another module") if blind else fact for fact in facts]
    text = among(chance, sentences, shown)
    return prompt(f"Read this text and answer the question at its end.\n\n{text}",
                  f"On which file was the module {modules[asked]} first tried?",
                  f"The module {modules[asked]} was first tried on a file called", files[asked],
                  [] if blind else facts[asked])


def needle(i, length, blind):
    return hidden_facts(i, length, blind, 1, random.Random(f"needle {i}"))


def needles(i, length, blind):
    return hidden_facts(i, length, blind, 4, random.Random(f"needles {i}"))


def keyvalue(i, length, blind):
    chance = random.Random(f"keyvalue {i}")
    wanted = int((length - 90) / 12.5)  # tokens of a line
    if wanted > len(WORDS):
        fail(f"keyvalue has {len(WORDS)} names, and {length} tokens need {wanted}; ask for 1200 tokens or fewer")
    keys = chance.sample(WORDS, wanted)
    numbers = chance.sample(range(1000, 10000), wanted)
    asked = chance.randrange(wanted)
    lines = [f"The number of the {key} is {number}." for key, number in zip(keys, numbers)]
    shown = [line.replace(f"the {keys[asked]} is", "another thing is") if blind else line for line in lines]
    return prompt("Read this list and answer the question at its end.\n\n" + "\n".join(shown),
                  f"What is the number of the {keys[asked]}?", f"The number of the {keys[asked]} is",
                  str(numbers[asked]), [] if blind else lines[asked])


def variables(i, length, blind):
    chance = random.Random(f"variables {i}")
    _, sentences = part(i, parts_of_manuals((length - 150) * CHARACTERS["prose"]), "parts")
    names = chance.sample([word.upper() for word in WORDS], 6)
    numbers = chance.sample(range(1000, 10000), 2)
    chains = [[f"The variable {names[3 * c]} is {numbers[c]}."] +
              [f"The variable {names[3 * c + k]} is the same as {names[3 * c + k - 1]}." for k in (1, 2)] for c in (0, 1)]
    asked = chance.randrange(2)
    order = [0, 0, 0, 1, 1, 1]
    chance.shuffle(order)
    rest = [list(chain) for chain in chains]
    facts = [rest[c].pop(0) for c in order]
    if blind:
        facts[facts.index(chains[asked][1])] = f"The variable {names[3 * asked + 1]} is the same as another."
    text = among(chance, sentences, facts)
    last = names[3 * asked + 2]
    return prompt(f"Follow the variables in this text.\n\n{text}", f"Which number is the variable {last}?", f"The variable {last} is the number", str(numbers[asked]), [] if blind else chains[asked])


def essays():
    """{name: paragraphs}"""
    found = {}
    for name in ("document", "needle"):
        text = read(ASSETS / f"{name}.txt", "kvloupe's assets")
        context = "".join(re.findall(r"^@@context\n(.*?)(?=^@@|\Z)", text, flags=re.M | re.S))
        body = re.sub(r"^.*?answer the question at its end\.\s*", "", context, flags=re.S)
        found[name] = [" ".join(one.split()) for one in re.split(r"\n\s*\n", body) if one.strip()]
    return found


def questions(i, length, blind):
    asked = json.loads(read(ASSETS / "questions.json", "kvloupe's assets"))
    one = asked[i % len(asked)]
    paragraphs = essays()[one["essay"]]
    home = [k for k, paragraph in enumerate(paragraphs) if one["evidence"] in paragraph]
    if len(home) != 1:
        fail(f"{ASSETS}/questions.json: the evidence {one['evidence']!r} stands {len(home)} times in its essay, not once")
    chance = random.Random(f"questions {i // len(asked)} {i % len(asked)}")
    first = last = home[0]
    size = len(paragraphs[first])
    while size < (length - 90) * CHARACTERS["prose"] and (first > 0 or last + 1 < len(paragraphs)):
        if last + 1 == len(paragraphs) or (first > 0 and chance.random() < 0.5):
            first -= 1
            size += len(paragraphs[first])
        else:
            last += 1
            size += len(paragraphs[last])
    text = "\n\n".join(paragraphs[first:last + 1])
    if blind:
        text = text.replace(one["evidence"], "")
    return {**prompt(f"Read this text and answer the question at its end.\n\n{text}", one["question"],
                     one.get("prefix", ""), one["answers"][0], [] if blind else one["evidence"]),
            "outputs": one["answers"]}


def prose(i, length, blind):
    name, sentences = part(i, parts_of_manuals((length - 60) * CHARACTERS["prose"]), "parts")
    return {"text": f"{SYSTEM}<|im_start|>user\nWrite a part of a manual.{ANSWERS}{' '.join(sentences)}"}


def plain(i, length, blind):
    return {"text": " ".join(part(i, parts_of_manuals((length - 60) * CHARACTERS["prose"]), "parts")[1])}


def code(i, length, blind):
    folder, characters = Path(sysconfig.get_paths()["stdlib"]), (length - 60) * CHARACTERS["code"]
    parts = []
    for name in LIBRARY:
        text, size = [], 0
        for line in read(folder / f"{name}.py", "Python's library (Debian: libpython3-stdlib)").splitlines():
            text.append(line)
            size += len(line) + 1
            if size >= characters:
                parts.append("\n".join(text))
                text, size = [], 0
    random.Random("parts of the library").shuffle(parts)
    body = part(i, parts, "parts")
    return {"text": f"{SYSTEM}<|im_start|>user\nWrite a part of a Python module.{ANSWERS}{body}"}


TASKS = {make.__name__: make for make in (needle, needles, keyvalue, variables, questions, prose, plain, code)}


@script(__doc__)
def main(folder, task, length, count, first="0"):
    task, numbers, blind = str(task), [str(one) for one in (length, count, first)], "--blind" in sys.argv
    if task not in TASKS or not all(one.isdigit() for one in numbers):
        fail(f"takes FOLDER TASK LENGTH COUNT [FIRST] [--blind]; tasks: {', '.join(TASKS)}")
    length, count, first = map(int, numbers)
    if first >= count:
        fail(f"FIRST is {first}, which is not below COUNT, {count}")
    if length < 300:
        fail(f"{length} tokens are too few for a template and a text; ask for 300 or more")
    if blind and task in ("prose", "plain", "code"):
        fail(f"{task} has no question, so that it has no prompts without evidence")
    lines = [json.dumps(TASKS[task](i, length, blind), ensure_ascii=False) + "\n" for i in range(first, count)]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"{task}{'-blind' if blind else ''}-{length}{f'-from{first}' if first else ''}.jsonl", "".join(lines))
