"""Prompts as messages of a chat: kvloupe-capture beside apply_chat_template of transformers, text by text and token by token."""
from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import h5py
import pytest
import transformers

from kvloupe import program
from needs import need
from test_gguf import called
from test_package import tokenizer as byte_level

need("kvloupe-capture")
ROOT = Path(__file__).resolve().parents[2]
# Templates as models have them, most without their branches for tools.
TEMPLATES = {file.stem: file.read_bytes().decode() for file in sorted((ROOT / "tests/python/chat_templates").glob("*.jinja"))}
CHATML, GEMMA, LLAMA3 = (TEMPLATES[name] for name in ("chatml", "gemma", "llama3"))
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<start_of_turn>", "[INST]"]
TEXTS = ["Where is the owl?", "  blanks at both ends \n\n", "\n{{ 7 * 7 }} {% if x %} {# c #} }}%}", "Grüße, 世界\u3000",
         "<|im_start|>user\nhi<|im_end|>", "<s> [INST] a </s>", "<tool_response>x</tool_response>", "user", "a\r\nb\tc", "'\"\\n\\", "</think> /no_think"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a tokenizer that can write every text."""
    path = tmp_path_factory.mktemp("chat")
    made = byte_level(path)
    made.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": SPECIAL[2:]})
    made.save_pretrained(path)
    return path, made


def tokens(path: Path, text: str, *more: Any) -> subprocess.CompletedProcess[str]:
    return called("tokens", "--model", path, f"--text={text}", "--json", "-", *more)


def with_template(path: Path, template: Any) -> None:
    """As a folder of transformers has it."""
    (path / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))


def prompts_file(path: Path) -> Path:
    file = path / "prompts.json"
    file.write_text(json.dumps([[["context", text]] for text in TEXTS]))
    return file


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("system", ["", "Be brief. "])
def test_every_template_gives_the_tokens_of_transformers(folder: tuple[Path, Any], name: str, system: str) -> None:
    path, own = folder
    with_template(path, TEMPLATES[name])
    more = ["--system", system] if system else []
    done = called("tokens", "--model", path, "--prompts", prompts_file(path), "--json", "-", "--chat", *more)
    said = [{"role": "system", "content": system}] if system else []
    expected = []
    for text in TEXTS:
        try:
            expected.append(own.apply_chat_template([*said, {"role": "user", "content": text}], chat_template=TEMPLATES[name],
                                                    add_generation_prompt=True, tokenize=True, return_dict=False))
        except Exception as error:  # what the template raises
            assert done.returncode == 1 and str(error) in done.stderr and len(done.stderr.splitlines()) == 1
            return
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    for text, ids, one in zip(TEXTS, expected, got):
        assert one["ids"] == ids, text
        context = [token for token, segment in zip(one["ids"], one["segments"]) if segment == "context"]
        assert any(word in text for word in SPECIAL) or own.decode(context).strip() == text.strip()


@pytest.mark.parametrize("file", ["model.gguf", "qwen2.5.gguf"])
def test_real_files_have_their_templates(file: str) -> None:
    path = ROOT / "build/real-model" / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=file)
    for text in TEXTS:
        done = tokens(path, text, "--chat")
        assert done.returncode == 0, done.stderr
        written = theirs.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False)
        plain = json.loads(tokens(path, written).stdout)  # SmolLM2's ids differ in transformers where digits stand (test_gguf.py)
        assert json.loads(done.stdout)["ids"] == plain["ids"]
        if file != "model.gguf":
            assert plain["ids"] == theirs(written, add_special_tokens=False)["input_ids"]


def test_segments_and_the_beginning_of_an_answer_survive(folder: tuple[Path, Any], tmp_path: Path) -> None:
    path, own = folder
    with_template(path, LLAMA3)
    prompt = tmp_path / "p.txt"
    prompt.write_text("\n  The owl is grey.\n@@needle\nIt lives in Rome.\n@@question\nWhere?\n@@answer\nIt lives in")
    done = called("tokens", "--model", path, "--prompt", prompt, "--chat", "--list")
    parts: dict[str, str] = {}
    for line in done.stdout.splitlines()[:-1]:
        parts[line.split()[2]] = parts.get(line.split()[2], "") + line[29:]
    assert parts["context"].startswith("The owl is grey.") and parts["needle"] == "It lives in Rome.\\n" and parts["question"] == "Where?"
    assert parts["answer"] == "It lives in" and "assistant" in parts["template"]
    ids = [int(line.split()[1]) for line in done.stdout.splitlines()[:-1]]
    message = "\n  The owl is grey.\nIt lives in Rome.\nWhere?"
    written = own.apply_chat_template([{"role": "user", "content": message}], chat_template=LLAMA3, add_generation_prompt=True,
                                      tokenize=False)
    assert ids == own(written + "It lives in", add_special_tokens=False)["input_ids"]


def test_where_a_template_stands(folder: tuple[Path, Any]) -> None:
    path, _ = folder
    with_template(path, [{"name": "tool_use", "template": "no"}, {"name": "default", "template": CHATML}])
    listed = tokens(path, "Hi", "--chat").stdout
    with_template(path, CHATML)
    assert tokens(path, "Hi", "--chat").stdout == listed
    with_template(path, None)
    (path / "chat_template.json").write_text(json.dumps({"chat_template": CHATML}))
    assert tokens(path, "Hi", "--chat").stdout == listed
    (path / "chat_template.json").unlink()
    done = tokens(path, "Hi", "--chat")
    assert done.returncode == 1 and "has no chat template" in done.stderr and len(done.stderr.splitlines()) == 1
    (path / "chat_template.jinja").write_text(CHATML)
    assert tokens(path, "Hi", "--chat").stdout == listed
    assert tokens(path, "Hi", "--system", "Be brief").returncode == 2
    (path / "chat_template.jinja").unlink()


@pytest.mark.parametrize("template, said", [
    ("{{ messages[0].content }}{{ look_up('x') }}", "line 1 of its chat template calls the function look_up()"),
    ("\n{{ messages | shuffle }}", "line 2 of its chat template uses the filter shuffle"), ("{{ 1 is prime }}", "asks the test prime"),
    ("{{ messages[0].content.encode() }}", "calls encode()"), ("{% call x %}", "has the tag call"),
    ("{{ x.y }}", "reads y of something undefined"),
    ("{{ 'a", "does not end"), ("{% for a in %}", "where it cannot stand"), ("{{ " + "(" * 200 + "1" + ")" * 200 + " }}", "nested too deeply"),
    ("{% for a in [1,2,3] %}" * 16 + "{{ a }}" + "{% endfor %}" * 16, "goes on without an end"),
    ("{% set ns = namespace(t='aaaaaaaa') %}" + "{% set ns.t = ns.t + ns.t %}" * 30, "makes too much text"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
    ("always the same", "does not write a message once"),
    ("{{ messages[0].content }} {{ messages[0].content }}", "does not write a message once"),
    ("{{ raise_exception('not\nso') }}", "refuses these messages: not")])
def test_what_is_refused(folder: tuple[Path, Any], template: str, said: str) -> None:
    path, _ = folder
    with_template(path, template)
    done = tokens(path, "Hi", "--chat")
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert said in done.stderr and "apply_chat_template" in done.stderr and str(path) in done.stderr


def model_folder(path: Path, template: str) -> Path:
    """A small model with the demo model's config and weights, and a template."""
    path.mkdir()
    (path.parent / "prompts").symlink_to(ROOT / "assets/prompts")  # needle.json names its filler
    for file in (ROOT / "assets/demo-model").iterdir():
        (path / file.name).symlink_to(file)
    (path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "chat_template": template}))
    return path


def test_a_trace_and_a_study_say_that_they_are_chats(tmp_path: Path) -> None:
    """With tokenizer.model alone: its control tokens are found in what the template writes."""
    path = model_folder(tmp_path / "model", "{{ bos_token }}U: {{ messages[-1]['content'] | trim }}\nA:")
    ids = json.loads(tokens(path, " The owl is grey. ", "--chat").stdout)["ids"]
    assert ids[0] == 1 and ids.count(1) == 1 and ids[1:] == json.loads(tokens(path, "U: The owl is grey.\nA:").stdout)["ids"][1:]
    run = ["run", "--model", path, "--text", "The owl is grey.", "--progress", "none", "--chat"]
    assert called(*run, "-o", tmp_path / "t.h5").returncode == 0
    with h5py.File(tmp_path / "t.h5") as trace:
        assert trace["run"].attrs["chat"].startswith("template ") and "template" in list(trace["tokens/segment"].attrs["names"].astype(str))
    told = program.run("info", tmp_path / "t.h5", "--json")
    assert json.loads(told)["run"]["chat"].startswith("template ")
    (tmp_path / "set.jsonl").write_text("".join(json.dumps({"context": f"The code is {code}.", "question": "Which code?", "answer_prefix": "The code is",
                                                            "answers": [str(code)]}) + "\n" for code in (47, 83)))
    study = {"model": "model", "tasks": [{"task": "answer", "tokens": 3}], "prompts": ["set.jsonl"], "policies": ["keydiff"], "budgets": ["50%"]}
    (tmp_path / "study.json").write_text(json.dumps(study))
    begin = ["study", tmp_path / "study.json", "--progress", "none", "-o"]
    assert called(*begin, tmp_path / "s.sqlite", "--chat").returncode == 0
    assert called(*begin, tmp_path / "s.sqlite", "--chat").returncode == 0
    for more in ([], ["--chat", "--system", "Be brief."]):
        done = called(*begin, tmp_path / "s.sqlite", *more)
        assert done.returncode == 1 and "holds a study with other tasks" in done.stderr
    (tmp_path / "study.json").write_text(json.dumps(study | {"chat": True}))
    assert called(*begin, tmp_path / "s.sqlite").returncode == 0
    done = called("run", "--model", path, "--results", tmp_path / "s.sqlite", "--row", 0, "-o", tmp_path / "row.h5", "--progress", "none")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "row.h5") as trace:
        text = "".join(piece.decode() for piece in trace["tokens/text"][:])
        assert text.startswith("<s>") and "U: The code is 47." in text and "Which code?\\nA:The code is" in text.replace("\n", "\\n")


def test_an_evaluation_with_a_chat(tmp_path: Path) -> None:
    path = model_folder(tmp_path / "model", "U: {{ messages[-1]['content'] }} A:")
    run = ["eval", "--model", path, "--policies", "keydiff", "--budgets", "50%", "--lengths", 96, "--depths", 50, "--progress", "none", "-o"]
    assert called(*run, tmp_path / "e.json", "--task", "needle", "--chat").returncode == 0
    made = json.loads((tmp_path / "e.json").read_text())
    assert made["settings"]["chat"].startswith("template ") and all(one["tokens"] <= 96 for one in made["runs"])
    assert made["prompts"][0]["segments"][0] == ["special", 1] or made["prompts"][0]["segments"][0][0] == "template"
    assert called(*run, tmp_path / "e.json", "--task", "needle").returncode == 1
    assert called(*run, tmp_path / "plain.json", "--task", "needle").returncode == 0
    assert "chat" not in json.loads((tmp_path / "plain.json").read_text())["settings"]
    done = called(*run, tmp_path / "p.json", "--task", "perplexity", "--chat")
    assert done.returncode == 2 and "perplexity" in done.stderr and len(done.stderr.splitlines()) == 1


def test_gemma_has_no_system_message(folder: tuple[Path, Any]) -> None:
    with_template(folder[0], GEMMA)
    done = tokens(folder[0], "Hi", "--chat", "--system", "Be brief.")
    assert done.returncode == 1 and "refuses these messages: System role not supported" in done.stderr
