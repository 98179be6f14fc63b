"""The model of a run is the one in memory; whatever ends a pass, and whatever thread runs it, it is as it was."""
from __future__ import annotations

import collections
import io
import threading
import warnings
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
import transformers

import kvloupe
from kvloupe.describe import cache_argument, identity
from kvloupe import engine
from test_cache import IDS, forward, greedy, made


def test_every_number_of_a_model_is_in_its_identity() -> None:
    model, found = made("Qwen3"), []
    same = identity(model)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        found.append(identity(model.to(dtype)))
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            for at in (0, weight.numel() // 2 + 1, weight.numel() - 1):
                part = weight.data.view(-1)[at % weight.numel():][:1]
                before = part.clone()
                part += before.abs() + 1
                assert identity(model) != found[-1], (name, at)
                part.copy_(before)
        rows = model.model.layers[1].self_attn.q_proj.weight.data
        rows[[3, 4]] = rows[[4, 3]]
        assert identity(model) != found[-1]
        rows[[3, 4]] = rows[[4, 3]]
        assert identity(model) == found[-1]
    assert len(set(found)) == 3 and identity(made("Qwen3")) == same
    for change in (lambda own: setattr(own.model.norm, "variance_epsilon", 0.5), lambda own: setattr(own.model.layers[0].self_attn, "scaling", 1.0),
                   lambda own: own.config.rope_parameters.update(rope_theta=5.0)):
        own = made("Qwen3")
        change(own)
        assert identity(own) != same
    with torch.inference_mode():
        own = made("Qwen3")
        greedy(own, kvloupe.Cache("h2o", 12, model=own), 2)
    assert identity(own) == same, "a run changes nothing"


@pytest.mark.parametrize("run", [kvloupe.capture, lambda *words, **named: kvloupe.run(*words, policy="h2o", budget=9, **named)])
def test_a_trace_has_the_folders_fingerprint_only_if_the_weights_are_the_folders(run: Any, tmp_path: Path) -> None:
    made("Llama").save_pretrained(tmp_path / "model")
    state = torch.random.get_rng_state()

    def written(change: Any = lambda model: None, **named: Any) -> str:
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", **({"dtype": "float32"} | named)).eval()
        with torch.no_grad():
            change(model)
        run(model, None, IDS[:9], tmp_path / "t.h5")
        with h5py.File(tmp_path / "t.h5") as file:
            return str(file["model"].attrs["fingerprint"])
    own = engine.ask("fingerprint", None, tmp_path / "model")
    assert written() == written(dtype="bfloat16") == own
    assert torch.equal(torch.random.get_rng_state(), state)
    changed = {written(lambda model: model.model.layers[1].mlp.up_proj.weight[7, 5:6].mul_(1.5)),
               written(lambda model: model.model.layers[0].self_attn.o_proj.weight[:, 8:16].zero_()),
               written(rope_parameters={"rope_type": "default", "rope_theta": 500.0})}
    assert len(changed) == 3 and all(one.startswith("weights:") for one in changed)


PLACES = {"a layer": lambda model: model.model.layers[1].mlp, "before the first": lambda model: model.model.embed_tokens,
          "a projection": lambda model: model.model.layers[0].self_attn.k_proj, "the head": lambda model: model.lm_head}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, type("Own", (BaseException,), {})])
@pytest.mark.parametrize("place", [*PLACES, "the policy"])
def test_whatever_ends_a_pass_the_model_is_as_it_was(place: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch,
                                                     tmp_path: Path) -> None:
    model, count = made("Llama"), [0]
    ids = torch.tensor([IDS])
    generate = lambda cache: model.generate(ids, **{cache_argument(model): cache}, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    plain, alone, cache = model(ids).logits, model.generate(ids, max_new_tokens=3, do_sample=False), kvloupe.Cache("h2o", "25%", model=model)
    wanted = generate(kvloupe.Cache("h2o", "25%", model=model))

    def stop(*_: Any, **__: Any) -> None:
        count[0] += 1
        if count[0] == 3:
            raise error
    with monkeypatch.context() as patch:
        step = kvloupe.Policy.step
        patch.setattr(kvloupe.Policy, "step", lambda *words, **named: stop() or step(*words, **named)) if place == "the policy" else None
        hook = PLACES[place](model).register_forward_hook(stop) if place in PLACES else None
        with pytest.raises(error):
            generate(cache)
        if hook is not None:
            hook.remove()
    assert model.config._attn_implementation == "sdpa" and torch.equal(model(ids).logits, plain)
    assert torch.equal(model.generate(ids, max_new_tokens=3, do_sample=False), alone)
    kvloupe.capture(model, None, IDS, tmp_path / "t.h5")
    with pytest.raises(kvloupe.KvloupeError, match="do not begin its sequence"):
        forward(model, IDS[5:], cache)
    for again in (cache, kvloupe.Cache("h2o", "25%", model=model)):
        assert torch.equal(generate(again), wanted) and again.budget == 15


def test_a_share_is_of_the_whole_prompt_or_refused() -> None:
    model, ids = made("Llama"), torch.tensor([IDS])
    make = lambda budget="25%", **named: kvloupe.Cache(budget=budget, policy="h2o", model=model, block=9, **named)
    if cache_argument(model) == "cache":
        for size in (1, 16, 59):
            cache = make()
            model.generate(ids, cache=cache, prefill_chunk_size=size, max_new_tokens=3, min_new_tokens=3, do_sample=False)
            assert cache.budget == 15 and max(len(cache.kept(0, head)) for head in range(2)) == 15
    for parts in ([1, 1], [20, 40], [30, 29, 1]):
        for named, refuses in (({}, True), ({"prompt_length": 60}, False), ({"budget": 15}, False)):
            cache, first = make(**named), 0
            with torch.inference_mode():
                try:
                    for part in parts:
                        forward(model, IDS[first:first + part], cache)
                        first += part
                    assert not refuses and cache.budget == 15
                except kvloupe.KvloupeError as error:
                    assert refuses and "prompt_length=" in str(error)
    cache = make()
    with torch.inference_mode():
        for part in (IDS, [5], [6], IDS[:7]):  # a prompt, two tokens of the answer, and another turn
            forward(model, part, cache)
    with pytest.raises(kvloupe.KvloupeError):
        make("25%bytes")


def test_another_thread_never_changes_numbers_or_the_verdict_on_a_model(tmp_path: Path) -> None:
    models = made("Llama"), made("Qwen3")
    cached = [lambda at=at: greedy(models[at], kvloupe.Cache("h2o", 12, model=models[at]), 2) for at in range(2)]
    trace = [lambda at=at: str(kvloupe.capture(models[at], None, IDS[:20], tmp_path / f"{at}.h5", progress=False)) for at in range(2)]
    for model in models:
        model.set_attn_implementation("eager")
    plain = lambda: models[0](torch.tensor([IDS])).logits.tolist()
    for both in (cached, trace, [plain, cached[0]], [plain, trace[0]]):
        wanted, found = [run() for run in both], collections.Counter[str]()

        def go(run: Any, right: Any) -> None:
            for _ in range(15):
                try:
                    found["right" if run() == right else "other"] += 1
                except kvloupe.KvloupeError as error:
                    found["right" if "thread" in str(error) else str(error)] += 1
        threads = [threading.Thread(target=go, args=one) for one in zip(both, wanted)]
        [one.start() for one in threads], [one.join() for one in threads]
        assert found == {"right": 30}


def test_models_and_settings_that_cannot_be_are_told_in_one_line(tmp_path: Path) -> None:
    model, path = made("Llama"), tmp_path / "t.h5"
    classifier = transformers.LlamaForSequenceClassification(model.config).eval()
    for other, said in ((model.model, "has no output head"), (classifier, "has no output head"), (made("Llama").to("meta"), "device meta")):
        for run in (lambda: kvloupe.capture(other, None, IDS, path), lambda: kvloupe.run(other, None, IDS, path, policy="h2o", budget=9)):
            with pytest.raises(kvloupe.KvloupeError, match=said):
                run()
    for named in ({"layers": [0, 1]}, {"layers": 1.5}, {"block": 1.5}, {"generate": "8"}, {"generate": 1.5}):
        with pytest.raises(kvloupe.KvloupeError, match=next(iter(named))):
            kvloupe.capture(model, None, IDS, path, **named)
    with pytest.warns(kvloupe.KvloupeWarning, match="token 256 and those after it"), torch.inference_mode():
        forward(model, IDS * 5, kvloupe.Cache("h2o", 12, model=model))
    with warnings.catch_warnings(), kvloupe.Cache("h2o", 12, model=model):
        torch.save(model, file := io.BytesIO())
        file.seek(0)
        assert torch.equal(torch.load(file, weights_only=False)(torch.tensor([IDS])).logits, model(torch.tensor([IDS])).logits)
