"""Tasks with policies in the model's own cache: kvloupe-capture study, for models of transformers."""
import bisect
import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator, Sequence

import torch
from transformers import DynamicCache

from . import engine, program
from .attention import evaluating
from .cache import Cache, Recorder
from .describe import describe_weights, layers_of, run_block, text_config, with_uncompiled
from .errors import KvloupeError
from .full_run import DTYPES, end_tokens, output_head
from .functions import AnyPolicy, name_of, spec_of
from .places import Hooked, tensor_of
from .policy import Policy
from .progress import reporter
from .prompt import PromptPlace, block_tokens, encoded, find_prompts, has_start_token, plain_tokens, text_after
from .tables import of_runs, read_study
from .version import VERSION

_MEASURES = {"needle": ("found", "hidden_distance"), "answer": ("found", "f1", "loops", "loop_begin", "hidden_distance", "all", "rules"),
             "perplexity": ("loss", "loss_difference", "kl", "same_top1", "hidden_distance")}
_FULL = "full"
_ROOM = 1 << 30  # bytes of the full cache's distributions and hidden states
_SHARED_ROOM = 1 << 30  # bytes of the blocks that runs take from the full cache's run; 0: each computes all
_STEP, _ALL = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclasses.dataclass
class _Task:
    task: str
    lengths: list[int]  # of generated prompts; none: prompts are read
    depths: list[float]
    samples: int
    needles: int
    seed: int
    tokens: int  # answers: the most that the model says
    prompts: list[PromptPlace] = dataclasses.field(default_factory=list)
    own_prompts: bool = False

    def text(self) -> str:
        """As a results file says it."""
        listed = lambda numbers: ", ".join(map(_plain, numbers))
        text = (f"{self.task} (lengths [{listed(self.lengths)}], depths [{listed(self.depths)}], samples {self.samples}, needles "
                f"{self.needles}, seed {self.seed})")
        if self.own_prompts:
            text += f" prompts [{', '.join(place.name for place in self.prompts)}]"
        return text + (f" tokens {self.tokens}" if self.task == "answer" else "")


def _plain(number: float) -> str:
    return repr(float(number)).removesuffix(".0")


@dataclasses.dataclass
class _Source:
    """One prompt of a task, or how it is generated."""

    name: str
    identity: str
    task: _Task
    place: PromptPlace | None = None
    length: int = 0
    depth: float = 0.0
    sample: int = 0


@dataclasses.dataclass
class _Prompt:
    ids: list[int]
    segments: list[str]
    answers: list[str]
    answer_tokens: int
    rules: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    # Of a later question about a context: the tokens that are compressed for all, and those of the prompt with the first one.
    common: int = 0
    first: int = 0

    @property
    def question(self) -> int:
        """The first token of the question; behind the prompt where there is none."""
        return self.segments.index("question") if "question" in self.segments else len(self.ids)


@dataclasses.dataclass
class Item:
    """One run of a plan, as the engine reads one; its place in the list is its number."""

    trace: int  # the number of its source
    task: str
    policy: str
    budget: str
    block_word: str  # tokens, or all
    block: int  # its tokens
    compression: str


@dataclasses.dataclass
class Outcome:
    """What a run gave."""

    entries: int = 0
    seconds: float = 0.0
    problem: str = ""  # why it failed
    at_once: bool = False
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    layers: dict[str, list[float]] = dataclasses.field(default_factory=dict)  # by layer
    stored: str = ""  # the prompt as JSON
    expected: str = ""  # the right answers as a JSON list
    answer: str = ""


class StudyResults:
    """The file of these settings and items: a new one, or one to go on with; no other study, of the program too, writes to it until
    close(). Raises KvloupeError for a file of others."""

    def __init__(self, path: Path, settings: dict[str, str], sources: list[tuple[str, str]], measures: list[str],
                 items: list[Item]) -> None:
        """sources: name and identity of each."""
        self._path, self._measures = path, measures
        tasks = {item.trace: item.task for item in items}
        named = [{"name": name, "identity": identity, "task": tasks.get(at, "")} for at, (name, identity) in enumerate(sources)]
        plan = json.dumps({"settings": list(settings.items()), "measures": measures, "items": list(map(vars, items)),
                           "sources": named}).encode()
        self._file = engine.made("results_open", "results_close", os.fsencode(path), plan, len(plan))
        self.close = self._file.close

    def missing(self) -> list[int]:
        """The items that wait or failed."""
        return [at for at, item in enumerate(engine.ask("results_table", False, self._path)["items"]) if item[0] != "done"]

    def record(self, item: int, outcome: Outcome) -> None:
        """Writes all of a run, or its problem."""
        values = [(name, -1, value) for name, value in outcome.values.items()]
        values += [(name, layer, value) for name, layers in outcome.layers.items() for layer, value in enumerate(layers)]
        fields = vars(outcome) | {"item": item, "layers": {}, "values": [
            (self._measures.index(name), layer, float(value) if math.isfinite(value) else None) for name, layer, value in values]}
        words = json.dumps(fields | {"prompt": fields}).encode()
        engine.call("results_record", self._file, words, len(words))


@with_uncompiled
def evaluate(model: Any, tokenizer: Any, output: str | os.PathLike[str], *, policies: AnyPolicy | Sequence[AnyPolicy], budgets: Any,
             tasks: Any, prompts: Any = None, blocks: Any = (128,), compression: str = "regular", positions: str = "original",
             progress: Any = True) -> Any:
    """Runs tasks with each policy at each budget, and with the full cache, and writes the results file `output` of a study.

    tasks: names, or dictionaries with `task` and the settings of a study file: {"task": "needle", "lengths": [512], "depths":
    [0, 50, 100], "samples": 4}, {"task": "answer", "tokens": 32}, {"task": "perplexity", "lengths": [512]}. prompts: files,
    folders, or files of JSON lines, for the tasks answer and perplexity; or a list of texts, or of dictionaries, or a DataFrame:
    {"text": "…", "question": "…", "answers": ["…"]}, or several about one context: {"context": "…", "questions": [{"question": "…",
    "answers": ["…"]}, …]}. budgets: entries or shares of the prompt, [128, "25%"].
    blocks: tokens that are read at once, or "all". compression, positions: as in kvloupe.Cache. Prompts, scores and the file are
    those of `kvloupe-capture study` (docs/studies.md).

    Each run is in the file when it is done: after Ctrl-C the same call goes on. Returns a row for each run that is done, as a
    pandas DataFrame or, without pandas, a dictionary of columns, as kvloupe.results; `policy_given` and `budget_given` are policy and
    budget as given. Raises KvloupeError for wrong settings before the first run.
    If runs fail, it goes on with the others, raises KvloupeError at the end, and the same call tries them again.
    """
    given = {str(one): one for one in program.listed(budgets)}
    shared = [] if prompts is None else find_prompts(prompts)
    study = _Study(model, tokenizer, _tasks(tasks, shared), program.listed(policies), list(given),
                   [str(one) for one in program.listed(blocks)], compression, positions)
    path, (report, clear) = Path(output), reporter(progress)
    settings = study.settings(", ".join(place.name for place in shared))
    results = StudyResults(path, settings, [(one.name, one.identity) for one in study.sources], study.measures, study.items)
    try:
        with evaluating(model):
            failures = _run(study, results, report)
        columns, _, counts = read_study(path)
    finally:
        results.close()
        clear()
    if failures:
        raise KvloupeError(f"{path}: {len(failures)} of {len(study.items)} runs failed, the first: {failures[0]}; the same call "
                           "tries them again")
    return of_runs(columns, counts, settings | {"fingerprint": study.fingerprint}, study.given | given)


def _run(study: "_Study", results: StudyResults, report: Callable[[str, int, int], None]) -> list[str]:
    missing, failures = results.missing(), []
    runs: Any = None
    opened: Any = None
    for at, number in enumerate(missing, len(study.items) - len(missing)):
        item = study.items[number]
        report(item.task, at, len(study.items))
        start = time.monotonic()
        try:
            if opened != (item.trace, item.block_word):
                runs, opened = None, None
                runs = _Runs(study, study.sources[item.trace], item)
                opened = item.trace, item.block_word
            outcome = runs.run(item)
        except KvloupeError as error:
            failures.append(str(error))
            outcome = Outcome(problem=str(error))
        outcome.seconds = time.monotonic() - start
        results.record(number, outcome)
    return failures


def _tasks(given: Any, shared: list[PromptPlace]) -> list[_Task]:
    """The tasks as a study file has them. Raises KvloupeError."""
    tasks = []
    for one in [given] if isinstance(given, (str, dict)) else given:
        fields = {"task": one} if isinstance(one, str) else dict(one)
        name = fields.get("task")
        if name not in _MEASURES:
            raise KvloupeError(f"tasks: {name!r} is not one of {', '.join(_MEASURES)}")
        known = {field.name for field in dataclasses.fields(_Task)} - {"own_prompts"}
        if wrong := set(fields) - known:
            raise KvloupeError(f"tasks: {sorted(wrong)[0]!r} is not a field of a task; the fields are {', '.join(sorted(known))}")
        try:
            task = _Task(name, list(map(int, fields.get("lengths", []))),
                         list(map(float, fields.get("depths", [0, 25, 50, 75, 100]))),
                         *(int(fields.get(*own)) for own in (("samples", 1), ("needles", 1), ("seed", 1), ("tokens", 32))))
        except (TypeError, ValueError) as error:
            raise KvloupeError(f"tasks: {name}: samples, needles, seed and tokens are numbers, lengths and depths lists of "
                               f"numbers ({error})") from error
        if any(task.task == other.task for other in tasks):
            raise KvloupeError(f"tasks: {name} is there twice; keep one")
        if min(task.samples, task.needles, task.tokens, *task.lengths, 1) < 1:
            raise KvloupeError(f"tasks: {name}: lengths, samples, needles and tokens are at least 1")
        if name != "needle":
            task.depths = []
        if not all(0 <= depth <= 100 for depth in task.depths):
            raise KvloupeError("tasks: depths are percent, from 0 to 100")
        if "prompts" in fields:
            task.prompts, task.own_prompts = find_prompts(fields["prompts"]), True
        elif not task.lengths:
            task.prompts = shared
        if name == "answer" and task.lengths or name == "needle" and task.prompts or not (task.lengths or task.prompts):
            raise KvloupeError(f"tasks: {name} needs " + {
                "needle": "lengths, such as [512, 1024], and makes its own prompts", "answer": "prompts with answers, in JSON lines",
                "perplexity": "lengths of generated texts, or prompts"}[name])
        tasks.append(task)
    if not tasks:
        raise KvloupeError("tasks: name at least one of " + ", ".join(_MEASURES))
    return tasks


def _splitmix(state: int) -> int:
    """splitmix64 (Steele, Lea, Flood 2014)."""
    state = (state + _STEP) & _ALL
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _ALL
    return state ^ (state >> 31)


class _Haystack:
    """Makes prompts with a hidden needle, and texts of filler, as kvloupe-capture eval and study do (docs/evaluation.md). A prompt
    follows from seed, length and sample; the depth only moves the needles."""

    def __init__(self, folder: Path | None, tokenizer: Any) -> None:
        """The template of its words (analysis/study/needle_template.h): needle.json of a model's folder, or without one the
        general template. Raises KvloupeError."""
        self.template, self._tokenizer = SimpleNamespace(**engine.ask("needle_template", None, folder)), tokenizer
        self._counts: list[int] | None = None  # tokens of each sentence of the filler

    def _sentence(self, at: int) -> tuple[str, int]:
        """A sentence of the filler, which begins anew at its end, and its tokens."""
        if self._counts is None:
            self._counts = plain_tokens(self._tokenizer, self.template.filler)
        at %= len(self.template.filler)
        return self.template.filler[at], max(self._counts[at], 1)

    @staticmethod
    def _random(seed: int, length: int, sample: int, draw: int) -> int:
        for part in (length, sample, draw):
            seed = _splitmix((seed + part) & _ALL)
        return seed

    def needle(self, seed: int, length: int, depth: float, sample: int, needles: int) -> tuple[list[int], list[str], str]:
        """Ids, their segments, and the right number. Raises KvloupeError where the length has no room for the needles."""
        of = self.template
        if needles > len(of.words):
            raise KvloupeError(f"{needles} needles: the template has only {len(of.words)} words")
        first = self._random(seed, length, sample, 1)
        room, hidden, question, answer = length - has_start_token(self._tokenizer), [], "", ""
        for at in range(needles):
            word = of.words[((first + at) & _ALL) % len(of.words)]
            number = str(of.lowest + self._random(seed, length, sample, 100 + at) % (of.highest - of.lowest + 1))
            hidden.append(of.needle.replace("{word}", word).replace("{number}", number))
            if at == 0:
                question, answer = of.question.replace("{word}", word), number
        room -= sum(plain_tokens(self._tokenizer, [*hidden, question]))
        start = self._random(seed, length, sample, 0) % len(of.filler)
        ends: list[int] = []  # tokens of the filler up to and with each sentence
        while (total := (ends[-1] if ends else 0) + self._sentence(start + len(ends))[1]) <= room:
            ends.append(total)
        if not ends:
            raise KvloupeError(f"length {length}: no room for {needles} needles, a question and filler; ask for more tokens")

        def place_of(wanted: float) -> int:
            before = wanted / 100.0 * ends[-1]
            return bisect.bisect_left(ends, before) + (before > 0.0)
        places = sorted((place_of(depth if at == 0 else (depth + 100.0 * at / needles) % 100.0), at) for at in range(needles))
        parts: list[tuple[str, str]] = []
        for at in range(len(ends) + 1):
            parts += [("needle" if which == 0 else "distractor", hidden[which]) for place, which in places if place == at]
            if at < len(ends):
                parts.append(("context", self._sentence(start + at)[0]))
        joined = [(name, "".join(text for _, text in group)) for name, group in itertools.groupby(parts, lambda part: part[0])]
        ids, segments = encoded(self._tokenizer, [*joined, ("question", question)])
        return ids, segments, answer

    def text(self, seed: int, length: int, sample: int) -> tuple[list[int], list[str]]:
        """Filler alone, `length` tokens with the start token."""
        start, total, text, at = self._random(seed, length, sample, 0) % len(self.template.filler), 0, "", 0
        while total < length + 8:
            sentence, tokens = self._sentence(start + at)
            text, total, at = text + sentence, total + tokens, at + 1
        ids, segments = encoded(self._tokenizer, [("context", text)])
        return ids[:length], segments[:length]


class _Study:
    """What is to be run, in the order of kvloupe-capture study. Raises KvloupeError for policies that cannot run in the model."""

    def __init__(self, model: Any, tokenizer: Any, tasks: list[_Task], policies: list[AnyPolicy], budgets: list[str],
                 blocks: list[str], compression: str, positions: str) -> None:
        self.model, self.tokenizer, self.tasks, self.budgets, self.blocks = model, tokenizer, tasks, budgets, blocks
        self.compression, self.positions = compression, positions
        if not policies or not budgets:
            raise KvloupeError("policies and budgets: give at least one of each")
        output_head(model)
        sizes = [block_tokens(block) for block in blocks]
        for budget in budgets:
            engine.entries_of(budget)
        with Cache(policies[0], budgets[0], model=model, compression=compression, positions=positions) as cache:
            self._shape = cache.model_shape
            attending = next(own for own in cache.layer_shapes if own.attends)
        self.given = {self._canonical(spec_of(policy), attending): name_of(policy) for policy in policies}
        self.policies = list(self.given)  # each once
        name = getattr(model.config, "_name_or_path", "") or ""
        folder = Path(name) if name and Path(name).is_dir() else None
        self.name = str(name) or type(model).__name__
        describe_weights(model, self._shape)
        self.fingerprint = self._shape.fingerprint
        self.haystack = _Haystack(folder, tokenizer)
        self.sources = [source for task in tasks for source in self._sources(task)]
        self.measures = [f"{task.task}_{name}" for task in tasks for name in _MEASURES[task.task]]
        self.items = [Item(at, source.task.task, policy, budget, block, size, compression)
                      for at, source in enumerate(self.sources) for block, size in zip(blocks, sizes)
                      for policy, budget in [(_FULL, _FULL), *((policy, budget) for policy in self.policies if policy != _FULL
                                                               for budget in budgets)]]

    def _canonical(self, spec: str, layer: Any) -> str:
        bits = engine.reads_of(spec, self.compression == "context-only" or any(task.task == "perplexity" for task in self.tasks))
        weights = torch.zeros(layer.heads, layer.value_dim, 1) if bits & engine.READS_OUTPUT_WEIGHTS else None
        return Policy(spec, heads=layer.kv_heads, query_heads=layer.heads, key_dim=layer.key_dim, value_dim=layer.value_dim,
                      budget=1 << 20, layers=self._shape.layers, output_weight=weights, prompt_length=1).spec

    def _sources(self, task: _Task) -> Iterator[_Source]:
        for place in task.prompts if not task.lengths else []:
            yield _Source(f"{task.task}: {place.name}", f"{self.fingerprint} {place.identity}", task, place)
        for length in task.lengths:
            for sample in range(task.samples):
                for depth in task.depths or [0.0]:
                    at_depth = f", depth {_plain(depth)} %" if task.depths else ""
                    yield _Source(f"{task.task}: {length} tokens{at_depth}, sample {sample}",
                                  f"{self.fingerprint} seed {task.seed} needles {task.needles}", task, None, length, depth, sample)

    def settings(self, prompts: str) -> dict[str, str]:
        """What must be equal for a file to go on."""
        kind = str(next(self.model.parameters()).dtype)
        return {"version": VERSION, "traces": "", "policies": ", ".join(self.policies),
                "policy files": ", ".join(filter(None, (engine.ask("policy_files", policy) for policy in self.policies))),
                "budgets": ", ".join(self.budgets),
                "blocks": ", ".join(self.blocks), "compression": self.compression, "measures": "", "reduce": "steps",
                "model": self.name, "prompts": prompts, "tasks": ", ".join(task.text() for task in self.tasks),
                "dtype": DTYPES.get(kind, kind), "positions": self.positions}

    def prompt(self, source: _Source) -> _Prompt:
        task = source.task
        if task.task == "needle":
            ids, segments, answer = self.haystack.needle(task.seed, source.length, source.depth, source.sample, task.needles)
            return _Prompt(ids, segments, [answer], self.haystack.template.answer_tokens)
        if source.place is None:
            return _Prompt(*self.haystack.text(task.seed, source.length, source.sample), [], 0)
        place = source.place
        found = place.parts()
        prompt = (self._later(place, found["segments"]) if place.question > 0 and task.task == "answer" else
                  _Prompt(*encoded(self.tokenizer, found["segments"]), [], 0))
        where = (str(place.path) + (f": line {place.line + 1}" if place.line >= 0 else "") +
                 (f", question {place.question + 1}," if place.question >= 0 else ""))
        if task.task == "answer":
            prompt.answers, prompt.answer_tokens, prompt.rules = found["answers"], task.tokens, found["rules"]
            if not prompt.answers and not prompt.rules:
                raise KvloupeError(f'{where} has no answers; the task answer needs JSON lines with "answers"')
            if self.compression == "context-only" and prompt.question == len(prompt.ids):
                raise KvloupeError(f"{where} has no question; compression of the context only needs one")
        elif len(prompt.ids) < 2:
            raise KvloupeError(f"{where} has fewer than two tokens; give a longer text")
        return prompt

    def _later(self, place: PromptPlace, parts: list[tuple[str, str]]) -> _Prompt:
        """A later question, after the context or after the prompt with the first question (kvloupe-capture's run_worker.cpp)."""
        first = dataclasses.replace(place, question=0).read()[0]
        ids, segments = encoded(self.tokenizer, first)
        only = self.compression == "context-only"
        common = segments.index("question") if only else len(ids)
        before, question = [*parts[:-1], ("context", first[-1][1])], ("" if only else "\n\n") + parts[-1][1]
        begun, names = (part[:common] for part in encoded(self.tokenizer, before))
        joint = encoded(self.tokenizer, [*(parts[:-1] if only else before), ("question", question)])
        if joint[0][:common] != begun or len(joint[0]) == common:  # letters of both are one token
            own = [token for token, name in zip(*encoded(self.tokenizer, [("question", question)])) if name != "special"]
            joint = [*begun, *own], [*names, *["question"] * len(own)]
        return _Prompt(*joint, [], 0, common=common, first=len(ids))


class _Hidden:
    """The outputs of each layer for the tokens from `first` on."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.states: list[list[Any]] = []  # [layers] of [t, D], block by block

    def distances(self, full: "_Hidden") -> list[float]:
        """‖h' - h‖ / ‖h‖ after each layer, mean over the tokens, with six digits as results have it."""
        found = []
        for parts, of_full in zip(self.states, full.states):
            own, other = torch.cat(parts).double(), torch.cat(of_full).double()
            apart = (own - other).norm(dim=-1) / other.norm(dim=-1).clamp_min(1e-300)
            found.append(float(f"{float(apart.mean()):.6g}"))
        return found


class Reader:
    """Reads tokens block by block into a cache."""

    def __init__(self, model: Any, cache: Any, block: int, keep: _Hidden | None = None) -> None:
        self.model, self.cache, self.block, self.keep, self.seen = model, cache, block, keep, 0
        self.logits: Any = None  # [V], after the last token
        self.recorder: Recorder | None = None  # of a run with the full cache
        # By a block's end, what it gave: its last token's logits, and each layer's outputs that are kept.
        self.ends: dict[int, tuple[Any, list[Any]]] = {}

    def read(self, ids: Sequence[int], take: Callable[[int, Any], None] | None = None) -> None:
        """take(first token, logits [t, V]) gets the block's logits, None where the block was followed; without it only the last
        ones are computed."""
        layers = layers_of(self.model)
        if self.keep is not None and not self.keep.states:
            self.keep.states = [[] for _ in layers]
        watched = Hooked()
        if self.keep is not None:
            watched.hooks = [layer.register_forward_hook(functools.partial(self._keep_states, at)) for at, layer in enumerate(layers)]
        try:
            for at in range(0, len(ids), self.block):
                part = ids[at:at + self.block]
                self._end = end = self.seen + len(part)
                if end in self.ends and self.recorder is None:
                    self._follow_block(end, take)
                    continue
                last = {} if take is not None else {"logits_to_keep": 1}
                out = run_block(self.model, part, self.seen, self.cache, **last)
                if take is not None:
                    take(self.seen, out.logits[0])
                if self.recorder is not None:
                    self.recorder.end_block(self.seen, end)
                    keeps = self.keep is not None and end > self.keep.first
                    self.ends[end] = out.logits[0, -1], [states[-1] for states in self.keep.states] if keeps else []
                self.seen, self.logits = end, out.logits[0, -1]
        finally:
            watched.close()

    def answer(self, ids: list[int], context: int, count: int) -> list[int]:
        """Reads the prompt, its first `context` tokens before the others; at most `count` greedy tokens before an end token."""
        said, ends = [], end_tokens(self.model)
        self.read(ids[:context])
        if context < len(ids):
            self.read(ids[context:])
        self.keep = None
        for made in range(count):
            token = int(self.logits.argmax())
            if token in ends:
                break
            said.append(token)
            if made + 1 < count:
                self.read([token])
        return said

    def follow(self, full: "Reader") -> None:
        """Takes the first blocks from a run of the same tokens with the full cache: until the policy first evicts, both compute
        the same."""
        self.cache.take(full.recorder.blocks)
        self.ends = {end: block for end, block in full.ends.items() if end <= self.cache.seen}

    def _follow_block(self, end: int, take: Callable[[int, Any], None] | None) -> None:
        self.logits, kept = self.ends[end]
        for layer, states in enumerate(kept):
            self.keep.states[layer].append(states)
        if take is not None:
            take(self.seen, None)
        self.seen = end

    def _keep_states(self, layer: int, module: Any, arguments: Any, output: Any) -> None:
        states = tensor_of(output)
        states = states[0] if states.ndim == 3 else states
        first = self._end - len(states)  # layers that share a cache may get the block's last tokens alone
        if self._end > self.keep.first:
            self.keep.states[layer].append(states[max(0, self.keep.first - first):].detach().cpu())


class _Runs:
    """The runs of one prompt with one block size; the first is the full cache's, which the others are compared with."""

    def __init__(self, study: _Study, source: _Source, item: Item) -> None:
        self._study, self._task = study, source.task.task
        self._prompt = prompt = study.prompt(source)
        config, count = text_config(study.model), len(prompt.ids)
        longest = getattr(config, "max_position_embeddings", 0) or 0
        if longest and count + prompt.answer_tokens > longest:
            raise KvloupeError(f"{source.name}: {count + prompt.answer_tokens} tokens, but the model has positions for {longest}")
        self._first = prompt.first or count
        self._block = min(item.block, self._first)
        only = study.compression == "context-only" and self._task != "perplexity"
        self._end = prompt.common or (prompt.question if only else count)
        lengths = [[name, len(list(group))] for name, group in itertools.groupby(prompt.segments)]
        self._stored = json.dumps({"ids": " ".join(map(str, prompt.ids)), "segments": lengths,
                                   "answer_tokens": prompt.answer_tokens, **({"rules": prompt.rules} if prompt.rules else {}),
                                   "probe": "repeat", "fingerprint": study.fingerprint},
                                  ensure_ascii=False, separators=(",", ":"))
        first = 0 if self._task == "perplexity" else count - 1
        bytes_of_states = (count - first) * len(layers_of(study.model)) * config.hidden_size * 4
        bytes_of_distributions = 4 * count * config.vocab_size if self._task == "perplexity" else 0
        self._full_hidden = _Hidden(first) if bytes_of_states + bytes_of_distributions <= _ROOM else None
        self._full_rows: list[Any] | None = [] if bytes_of_distributions <= _ROOM else None  # log p, [t, V] by block
        with torch.inference_mode(), contextlib.ExitStack() as stack:
            room = _SHARED_ROOM if self._full_rows is not None else 0
            if room:  # the other runs follow this one until their first eviction
                cache = stack.enter_context(Cache(_FULL, 1 << 20, model=study.model, block=self._block, store="f32"))
            else:
                cache = DynamicCache(config=study.model.config)
            self._full = reader = self._reader(cache, self._full_hidden)
            if room:
                reader.recorder = Recorder(cache, min(max(map(self._entries, study.budgets)), count - 1), room)
            if self._task == "perplexity":
                self._full_losses = self._losses(reader, self._full_rows)[0]
            else:
                self._full_answer, self._full_loop = self._answer(reader)
            reader.cache = reader.keep = None

    def _entries(self, budget: str) -> int:
        return engine.entries_of(budget, self._first)

    def _reader(self, cache: Any, hidden: _Hidden | None) -> Reader:
        return Reader(self._study.model, cache, self._block, hidden)

    def run(self, item: Item) -> Outcome:
        study, prompt, task = self._study, self._prompt, self._task
        full, count = item.policy == _FULL, len(prompt.ids)
        outcome = Outcome(stored=self._stored, entries=count, at_once=not full and item.block >= self._end)
        if prompt.answers:
            outcome.expected = json.dumps(prompt.answers, ensure_ascii=False, separators=(",", ":"))
        answer, begin, losses, compared = None, None, None, None
        if full:
            if task != "perplexity":
                answer, begin = self._full_answer, self._full_loop
            losses = self._full_losses if task == "perplexity" else None
        else:
            hidden = None if self._full_hidden is None else _Hidden(self._full_hidden.first)
            outcome.entries = self._entries(item.budget)
            with torch.inference_mode(), Cache(
                    item.policy, item.budget, model=study.model, block=self._block, compression=study.compression,
                    context=self._end, positions=study.positions, store="f32", prompt_length=self._first) as cache:
                reader = self._reader(cache, hidden)
                if self._full.recorder is not None:
                    reader.follow(self._full)
                if task == "perplexity":
                    losses, *compared = self._losses(reader, None)
                else:
                    answer, begin = self._answer(reader)
            if hidden is not None:
                distances = hidden.distances(self._full_hidden)
                outcome.layers[f"{task}_hidden_distance"] = distances
                outcome.values[f"{task}_hidden_distance"] = sum(distances) / len(distances)
        values = outcome.values
        if losses is not None:
            values["perplexity_loss"] = sum(losses) / len(losses)
            values["perplexity_loss_difference"] = values["perplexity_loss"] - sum(self._full_losses) / len(losses)
            if compared is not None:
                values["perplexity_kl"], values["perplexity_same_top1"] = compared
        else:
            outcome.answer = answer.replace("\0", "\\x00")
            if task == "needle":
                values["needle_found"] = float(engine.ask("first_number", answer) == prompt.answers[0])
            else:
                for name, function in (("found", "has_answer"), ("all", "found_share"), ("f1", "answer_f1")):
                    asked = float(engine.ask(function, [answer, prompt.answers])) if prompt.answers else float("nan")
                    values[f"answer_{name}"] = asked
                values["answer_rules"] = engine.ask("rules_followed", [answer, prompt.rules]) if prompt.rules else float("nan")
                values["answer_loops"] = float(begin is not None)
                values["answer_loop_begin"] = float("nan") if begin is None else float(begin)
        return outcome

    def _answer(self, reader: Reader) -> tuple[str, int | None]:
        """What the model says after the prompt, greedily, and the token of the answer at which its first loop begins (None: it
        has no loop). The hidden states are those of the prompt."""
        said = reader.answer(self._prompt.ids, self._end, self._prompt.answer_tokens)
        return text_after(self._study.tokenizer, self._prompt.ids, said), engine.ask("first_loop", said)

    def _losses(self, reader: Reader, rows: list[Any] | None) -> tuple[list[float], float, float]:
        """-log p of every token but the first; KL(full ‖ policy) and the share of equal most probable tokens, each NaN where
        the full cache's distributions do not fit. rows: gets the distributions of the full cache."""
        ids, losses = self._prompt.ids, []
        sums = {"kl": 0.0, "same": 0.0}
        known = self._full_rows if rows is None else None

        def take(first: int, logits: Any) -> None:
            own = known[first // self._block] if logits is None else logits.float().log_softmax(-1).cpu()
            following = torch.tensor(ids[first + 1:first + 1 + len(own)])
            losses.extend((-own[torch.arange(len(following)), following]).tolist())
            if rows is not None:
                rows.append(own)
            if known:
                full = known[first // self._block]
                sums["kl"] += float((full.exp() * (full - own)).sum())
                sums["same"] += float((full.argmax(-1) == own.argmax(-1)).sum())
        reader.read(ids, take)
        share = len(ids) if known else float("nan")
        return losses, sums["kl"] / share, sums["same"] / share
