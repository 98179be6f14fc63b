"""Recipes, the loss, training, and the claims of the demo model's card."""
import csv
import json
import math
from pathlib import Path

import pytest
import torch
from trainer.corpus import Corpus, Vocabulary
from trainer.measure import load_model, measure_sinks, needle_accuracy, sink_removal
from trainer.model import Costs, Model, step_loss
from trainer.recipe import LookBack, Rest, RoleWeights, parse_recipe, read_recipe
from trainer.training import State, TrainingError, train

ROOT = Path(__file__).resolve().parents[2]
TINY = {"seed": 5,
        "model": {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "intermediate": 48},
        "optimizer": {"rate": 0.01, "warmup_steps": 5,
                      "decays": [{"begin": 10, "steps": 40, "until": 12}, {"begin": 15, "steps": 15}]},
        "stages": [{"steps": 20, "length": 32, "sequences": 4, "mix": {"drill": 0.5}},
                   {"steps": 10, "length": 48, "sequences": 3, "orthogonal": 0.2, "loss_weights": {"answer": 3}}]}
CORPUS = Corpus(Vocabulary(), 3)


def tiny(**changes):
    return parse_recipe(json.dumps(TINY | changes), "tiny")


def run(recipe, folder, **options):
    return train(recipe, folder, **dict(mixed=False, log_every=5, measure_every=0) | options)


def read_log(folder):
    return [{name: float(value or "nan") for name, value in row.items()}
            for row in csv.DictReader((folder / "log.csv").open())]


def test_rates_and_costs():
    recipe = tiny()
    assert recipe.total_steps == 30
    for step, rate in {0: 0.01 / 5, 7: 0.01, 11: 0.01 * (0.05 + 0.475 * (1 + math.cos(math.pi / 20))), 13: 0.01,
                       29: 0.01 * 0.05}.items():
        assert recipe.rate(step) == pytest.approx(rate, rel=1e-12)
    assert [recipe.stage(step).length for step in (19, 20, 99)] == [32, 48, 48]
    for begin in (0, 30):
        rest = Rest(value=0.2, begin=begin, rise=10, fall=50, end=70)
        costs = {begin - 1: 0.0, begin: 0.02, begin + 9: 0.2, 49: 0.2, 60: 0.1, 70: 0.0, 99: 0.0}
        assert {step: rest.at(step) for step in costs} == pytest.approx(costs)
        assert rest.at(69) > 0.0
    assert recipe.rest.at(0) == 0.0  # a recipe without the field has no such cost


@pytest.mark.parametrize("text, problem", [
    ("{", "is not valid JSON"),
    ('{"stages": [{"steps": 1, "lenght": 5}]}', 'stages[0]: unknown field "lenght"'),
    ('{"stages": [{"steps": 0}]}', "stages[0]: steps must be a whole number from 1 to 1e+09"),
    ('{"stages": []}', "recipe: stages must be a list of at least one stage"),
    ('{"model": {"heads": 3, "kv_heads": 2}, "stages": [{"steps": 1}]}', "model: heads must be a multiple of kv_heads"),
    ('{"rest": {"value": 1, "fall": 9, "end": 5}, "stages": [{"steps": 1}]}', "rest: end must not be before fall"),
    ('{"rest": {"begin": 9, "fall": 5, "end": 9}, "stages": [{"steps": 1}]}', "rest: fall must not be before begin"),
    ('{"rest": {"cost": 1}, "stages": [{"steps": 1}]}', 'rest: unknown field "cost"'),
    ('{"stages": [{"steps": 1, "mix": {"drill": 0.5, "quiz": 0.5}}]}',
     "stages[0].mix: drill, repetition and quiz are shares of the sequences; their sum must not be above 1"),
    ('{"look_back": {"tokens": 9}, "stages": [{"steps": 1}]}', "look_back: tokens must not be more than the model's heads")])
def test_recipes_name_what_is_wrong(text, problem):
    with pytest.raises(ValueError) as error:
        parse_recipe(text, "r.json")
    assert str(error.value) == f"r.json: {problem}"


def test_the_demo_models_log_begins_as_it_was_trained(tmp_path):
    # The run that made the model: its first line, to every digit but the time.
    recipe = read_recipe(ROOT / "assets/demo-model/recipe.json")
    train(recipe, tmp_path, mixed=False, stop_after=20, measure_every=0)
    ours, theirs = (next(csv.DictReader((folder / "log.csv").open())) for folder in (tmp_path, ROOT / "assets/demo-model"))
    for name in ours.keys() - {"seconds_per_step"}:
        assert float(ours[name] or 0) == pytest.approx(float(theirs[name] or 0), rel=2e-3), name


def gradient(state, costs, weights=RoleWeights()):
    """The loss, and its gradient for every weight."""
    ids = torch.tensor([CORPUS.needle_prompt(0, 90, 1).ids])
    state.gradients.zero_()
    result = step_loss(state.model(), ids, torch.zeros_like(ids), weights, costs, False)
    result.loss.backward()
    return result, state.gradients.clone()


def by_formula(state, cost):
    """The sum of a cost of each layer (number, attention, values), one element at a time and in double; its gradient."""
    ids, parts = torch.tensor([CORPUS.needle_prompt(0, 90, 1).ids]), []
    state.gradients.zero_()
    state.model()(ids, lambda layer: parts.append(cost(layer.number, layer.attention[0].double(), layer.values[0].double())))
    total = sum(parts)
    total.backward()
    return total.item(), state.gradients.clone()


def resting(number, attention, values):
    return sum((1.0 - attention[head, query, 0] for head in range(2) for query in range(8, attention.size(1))),
               torch.zeros(())) / (2 * 2 * (attention.size(1) - 8))


def small_value(number, attention, values):
    rests = attention[:, 8:, 0].detach().mean()
    squares = [values[0, token].square().sum() for token in range(values.size(1))]
    return rests * squares[0] / (sum(one.item() for one in squares) / len(squares)) / 2  # layers


def looking_back(number, attention, values):
    given = [attention[head, query, query - 1 - head] for head in range(2)
             for query in range(head + 1, attention.size(1))] if number == 0 else []
    return -sum((one.log() for one in given), torch.zeros(())) / max(1, len(given))


@pytest.mark.parametrize("cost, with_, without", [
    (resting, Costs(rest=0.7), Costs()),
    (small_value, Costs(rest=0.7, small_value=2.5), Costs(rest=0.7)),
    (looking_back, Costs(look_back=0.7, look_back_tokens=2), Costs())])
def test_gradients_of_the_costs_equal_those_of_the_formulas(cost, with_, without):
    state = State(tiny())
    state.parameters.mul_(4.0)  # first weights are small: attention would be nearly even
    more, fast = gradient(state, with_)
    less, other = gradient(state, without)
    exact, slow = by_formula(state, cost)
    factor = 0.7 * (with_.small_value or 1.0)
    assert (more.loss - less.loss).item() == pytest.approx(factor * exact, abs=1e-4)
    assert slow.norm() > 1e-4
    assert (fast - other - factor * slow).norm() < 1e-3 * factor * slow.norm()


def test_costs_are_learnt_and_the_log_shows_it(tmp_path):
    recipe = tiny()
    recipe.look_back, recipe.optimizer.decays = LookBack(value=5.0, rise=1, fall=30, end=30, tokens=1), []
    run(recipe, tmp_path / "back")
    first, *_, last = read_log(tmp_path / "back")
    assert first["look_back_cost"] == 5.0 and last["looking_back"] > 2.0 * first["looking_back"]
    values = []
    for small in (0.0, 20.0):
        recipe = tiny()
        recipe.rest = Rest(value=5.0, rise=1, fall=25, end=30, small_value=small)
        run(recipe, tmp_path / str(small))
        first, *_, last = read_log(tmp_path / str(small))
        assert (first["rest_cost"], last["rest_cost"]) == (5.0, 1.0)  # the step before the end
        values.append(last["resting_value"])
        if not small:
            assert last["resting"] > first["resting"] + 0.1
    assert values[1] < 0.8 * values[0]


def test_training_lowers_the_loss_and_resumes_exactly(tmp_path):
    whole = run(tiny(), tmp_path / "whole")
    assert run(tiny(), tmp_path / "parts", stop_after=13).step == 13
    resumed = run(tiny(), tmp_path / "parts")
    assert whole.step == resumed.step == 30
    assert resumed.parameters.equal(whole.parameters) and resumed.second_moment.equal(whole.second_moment)
    losses = [line["loss_text"] for line in read_log(tmp_path / "whole")]
    assert losses[0] > 6.5 and losses[-1] < losses[0] - 0.5  # about log of the vocabulary's size


def test_orthogonal_steps_go_all_directions_alike():
    # Five Newton-Schulz steps bring singular values to between 0.7 and 1.2 (Jordan 2024), whatever the gradient's own;
    # those of a random square matrix reach down to zero and stay below.
    state = State(tiny())
    before = {name: weight.clone() for name, weight in state.views(state.parameters).items()}
    state.gradients.copy_(torch.rand(state.gradients.shape, generator=torch.Generator().manual_seed(8)) - 0.5)
    stage = state.recipe.stages[1]
    stage.weight_decay = 0.0
    state.update(0.01, stage)
    for name, weight in state.views(state.parameters).items():
        step = (before[name] - weight) / 0.01
        if "layers." in name and step.dim() == 2:
            values = torch.linalg.svdvals(step) / (0.2 * math.sqrt(max(step.shape)))
            assert values.max() < 1.3 and values.median() > 0.6, name
        else:
            assert step.abs().max().item() == pytest.approx(1.0, abs=0.01), name  # Adam's first step
    assert state.gradients.abs().max() == 0.0


def test_a_model_is_exported_and_another_run_starts_from_it(tmp_path):
    state, other = State(tiny()), State(tiny(seed=6))
    state.export(tmp_path)
    other.start_from(tmp_path)
    assert torch.allclose(other.parameters, state.parameters, rtol=0.01)
    ids = torch.tensor([CORPUS.needle_prompt(0, 90, 1).ids])
    assert torch.equal(load_model(tmp_path)(ids), other.model()(ids))
    with pytest.raises(TrainingError, match="another shape"):
        State(tiny(model={"hidden": 64})).start_from(tmp_path)
    state.save(tmp_path / "checkpoint.pt")
    with pytest.raises(TrainingError, match="another model"):
        State(tiny(model={"hidden": 64})).load(tmp_path / "checkpoint.pt")
    (tmp_path / "checkpoint.pt").write_text("not a checkpoint")
    with pytest.raises(TrainingError, match="not a complete checkpoint"):
        state.load(tmp_path / "checkpoint.pt")


def test_a_model_without_queries_attends_evenly():
    state = State(tiny())
    weights = {name: weight * ("q_proj" not in name) for name, weight in state.views(state.parameters).items()}
    model, prompt = Model(state.recipe.model, weights), CORPUS.needle_prompt(0, 200, 1)
    sinks = measure_sinks(model, prompt.ids)
    expected = sum(1.0 / (q + 1) for q in range(1, len(prompt.ids))) / (len(prompt.ids) - 1)
    assert sinks.strength.shape == (2, 2) and sinks.value_ratio.shape == (2, 1)
    assert (sinks.strength - expected).abs().max() < 1e-6 and sinks.head_share == 0.0
    assert needle_accuracy(model, CORPUS, 128, 1, 10) < 0.5
    # One token among hundreds, evenly attended to, hardly matters.
    loss, without = sink_removal(model, prompt.ids)
    assert abs(loss - without) < 0.05


@torch.no_grad()
def test_the_demo_model_finds_needles_and_rests_on_token_0():
    # The claims of its card, with a margin; and its states are those that kvloupe captures.
    model, corpus = load_model(ROOT / "assets/demo-model"), Corpus(Vocabulary(), 31)
    assert needle_accuracy(model, corpus, 256, 1, 20) >= 0.95
    assert needle_accuracy(model, corpus, 512, 4, 5) >= 0.8
    shares = []
    for index in range(4):
        sinks = measure_sinks(model, corpus.needle_prompt(index, 1000, 1).ids)
        assert sinks.strongest > 0.9 and sinks.ratio < 0.3
        shares.append(sinks.head_share)
    assert sum(shares) / 4 > 0.26
    ids = torch.tensor([corpus.needle_prompt(0, 200, 1).ids])
    rows = []
    model(ids, lambda layer: rows.append(layer.attention[:, :, -1]))
    model(ids, lambda layer: rows.append(layer.attention[:, :, -1]), first_unseen=True)
    for whole, unseen in zip(rows[:4], rows[4:]):  # the first layer sees the same hidden states
        assert unseen[..., 0].max() == 0.0
        if whole is rows[0]:
            assert torch.allclose(unseen[..., 1:], whole[..., 1:] / whole[..., 1:].sum(-1, keepdim=True), atol=1e-6)
