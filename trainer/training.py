"""Training: everything that a run needs to continue exactly where it stopped, and the run itself."""
from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .corpus import Corpus, Random, Vocabulary
from .measure import measure_sinks, needle_accuracy
from .model import Costs, Model, step_loss, weight_shapes
from .prompts import tokenizer_model
from .recipe import Recipe, Stage

_SAVED = ("parameters", "first_moment", "second_moment")


class TrainingError(RuntimeError):
    """A file that does not fit, or a loss that is no longer a number."""


class State:
    """All parameters are in one flat float32 tensor; the weights are views of it, and so are their gradients. So the
    optimiser consists of a few operations on whole vectors. There is no other random state: the data follow from (seed,
    step), the first weights from the seed.

    The first weights are normal with the recipe's deviation (for weights that write into the residual stream divided by
    the root of twice the layers); norms are one. Drawn on the CPU, so that every device starts with the same.
    """

    def __init__(self, recipe: Recipe, device: str = "cpu") -> None:
        self.recipe, self.step, self.vocabulary = recipe, 0, Vocabulary()
        self.shapes = weight_shapes(recipe.model, len(self.vocabulary))
        random, parts = Random(recipe.seed, (1 << 64) - 1), []
        for name, shape in self.shapes.items():
            into_residual = "o_proj" in name or "down_proj" in name
            deviation = recipe.deviation / (math.sqrt(2.0 * recipe.model.layers) if into_residual else 1.0)
            parts.append(_normal(math.prod(shape), deviation, random) if len(shape) > 1 else torch.ones(shape[0]))
        self.parameters = torch.cat(parts).to(device)
        self.first_moment, self.second_moment, self.gradients = (torch.zeros_like(self.parameters) for _ in range(3))
        decayed = [torch.full((math.prod(shape),), float(len(shape) > 1)) for shape in self.shapes.values()]
        self.decayed = torch.cat(decayed).to(device)  # 1 for matrices, 0 for norms

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """One tensor for each weight, of a flat tensor."""
        parts = flat.split([math.prod(shape) for shape in self.shapes.values()])
        return {name: part.view(shape) for part, (name, shape) in zip(parts, self.shapes.items())}

    def model(self) -> Model:
        """The model with these weights, whose gradients accumulate in `gradients`."""
        weights = self.views(self.parameters.detach())
        for name, gradient in self.views(self.gradients).items():
            weights[name].requires_grad_(True).grad = gradient
        return Model(self.recipe.model, weights)

    def start_from(self, folder: str | Path) -> None:
        """Replaces the first weights by those of a model folder. Raises TrainingError."""
        given = load_file(Path(folder) / "model.safetensors")
        for name, weight in self.views(self.parameters).items():
            if name not in given or given[name].shape != weight.shape:
                raise TrainingError(f"{folder}: {name} has another shape than in the recipe's model; start from a model "
                                    "of that shape")
            weight.copy_(given[name])

    def save(self, path: Path) -> None:
        """Writes the checkpoint through a temporary file beside it."""
        part = path.with_name(path.name + ".part")
        torch.save({"step": self.step} | {name: getattr(self, name).cpu() for name in _SAVED}, part)
        part.replace(path)

    def load(self, path: Path) -> None:
        """Raises TrainingError if the file is broken or belongs to another model."""
        try:
            saved = torch.load(path, weights_only=True)
            self.step = saved["step"]
            sizes = {saved[name].shape for name in _SAVED}
        except Exception as error:
            raise TrainingError(f"{path}: is not a complete checkpoint of the trainer; remove it to start again") from error
        if sizes != {self.parameters.shape}:
            raise TrainingError(f"{path}: this checkpoint belongs to another model than the recipe's; use another folder")
        for name in _SAVED:
            getattr(self, name).copy_(saved[name])

    @torch.no_grad()
    def update(self, rate: float, stage: Stage) -> Tensor:
        """One step from the clipped gradients, with the rate and weight decay of this step; counts the step and clears
        the gradients. AdamW; or, for the matrices of the layers if `orthogonal` is above 0, Muon (Jordan 2024): the
        direction of the momentum with all singular values set to one, times the rate and orthogonal times the root of
        the matrix's longer side; 0.2 gives it the length of Adam's steps (Liu et al. 2025). Circuits of several layers
        form in fewer steps this way, because their gradients begin small in all but a few directions. Returns the
        gradient's norm before clipping."""
        settings = self.recipe.optimizer
        norm = self.gradients.norm()
        self.gradients.mul_((settings.gradient_clip / (norm + 1e-6)).clamp_max(1.0))
        self.step += 1
        self.parameters.addcmul_(self.parameters, self.decayed, value=-rate * stage.weight_decay)
        self.first_moment.lerp_(self.gradients, 1.0 - settings.beta1)
        self.second_moment.mul_(settings.beta2).addcmul_(self.gradients, self.gradients, value=1.0 - settings.beta2)
        divisor = (self.second_moment / (1.0 - settings.beta2**self.step)).sqrt_().add_(settings.epsilon)
        direction = self.first_moment / divisor / (1.0 - settings.beta1**self.step)
        if stage.orthogonal > 0.0:
            # The momentum, looked ahead by one gradient.
            momentum = self.views(self.first_moment.add(self.gradients, alpha=0.1))
            for name, part in self.views(direction).items():
                if part.dim() == 2 and "layers." in name:
                    length = stage.orthogonal * math.sqrt(max(part.shape))
                    part.copy_(with_unit_singular_values(momentum[name]) * length)
        self.parameters.add_(direction, alpha=-rate)
        self.gradients.zero_()
        return norm

    def export(self, folder: Path) -> None:
        """Writes config.json, model.safetensors (bfloat16) and tokenizer.model."""
        config = self.recipe.model.config(len(self.vocabulary))
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "tokenizer.model").write_bytes(tokenizer_model(self.vocabulary))
        weights = {name: weight.to(torch.bfloat16).cpu().contiguous() for name, weight in self.views(self.parameters).items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _normal(size: int, deviation: float, random: Random) -> Tensor:
    """Two normal numbers at a time (Box, Muller 1958)."""
    numbers = []
    for _ in range(0, size, 2):
        radius = math.sqrt(-2.0 * math.log(1.0 - random.uniform())) * deviation
        angle = 6.283185307179586 * random.uniform()
        numbers += [radius * math.cos(angle), radius * math.sin(angle)]
    return torch.tensor(numbers[:size])


def with_unit_singular_values(matrix: Tensor) -> Tensor:
    """The matrix with its singular values brought near one: five Newton-Schulz steps with the coefficients of Jordan
    (2024)."""
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-12)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


COLUMNS = ("step,length,rate,loss_text,loss_quoted,loss_answer,quoted_right,answer_right,gradient_norm,seconds_per_step,"
           "rest_cost,resting,resting_value,look_back_cost,looking_back,needle_256,needle_512,four_needles_512,"
           "sink_head_share,strongest_sink")
_MEASURED = 5  # of these columns, the last


def _measured(state: State, corpus: Corpus) -> list[str]:
    """Retrieval and sinks on fresh prompts."""
    model = state.model()
    found = [needle_accuracy(model, corpus, length, needles, prompts)
             for length, needles, prompts in ((256, 1, 32), (512, 1, 16), (512, 4, 8))]
    sinks = measure_sinks(model, corpus.needle_prompt(0, 512, 1).ids)
    return [f"{number:.3g}" for number in (*found, sinks.head_share, sinks.strongest)]


def train(recipe: Recipe, folder: str | Path, *, start: str | None = None, device: str = "cpu", mixed: bool = True,
          stop_after: int = -1, log_every: int = 20, save_every: int = 200, measure_every: int = 200,
          seconds: float = 0.0, on_line: Callable[[str], None] = lambda line: None) -> State:
    """Trains from the folder's checkpoint, or from the seed (or the model in `start`) if there is none, until the
    recipe's last step; after the step `stop_after`, or after so many seconds, as if interrupted. Appends to log.csv
    (means over the steps since the line before), calls `on_line` for every line, and exports the model. Every so many
    steps: a line, a checkpoint, a measurement (0: never). Raises TrainingError."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"
    state = State(recipe, device)
    resumed = checkpoint.exists()
    if resumed:
        state.load(checkpoint)
    elif start:
        state.start_from(start)
    corpus, model = Corpus(state.vocabulary, recipe.seed), state.model()
    begin = line_begin = time.monotonic()
    sums, means, line_steps = torch.zeros(3, 3, device=device), torch.zeros(4, device=device), 0
    with open(folder / "log.csv", "a" if resumed else "w", encoding="utf-8") as log:
        def say(line: str) -> None:
            print(line, file=log, flush=True)
            on_line(line)
        if not resumed:
            say(COLUMNS)
        stop = False
        while state.step < recipe.total_steps and not stop:
            stage, rate = recipe.stage(state.step), recipe.rate(state.step)
            # A step has at most 65 536 sequences (the recipe's limits).
            drawn = [corpus.sequence((state.step << 16) + row, stage.length, stage.mix) for row in range(stage.sequences)]
            ids, roles = (torch.tensor(part, device=device) for part in zip(*drawn))
            costs = Costs(recipe.rest.at(state.step), recipe.rest.small_value, recipe.look_back.at(state.step),
                          recipe.look_back.tokens)
            result = step_loss(model, ids, roles, stage.loss_weights, costs, mixed)
            result.loss.backward()
            norm = state.update(rate, stage)
            sums += result.sums
            means += torch.stack([torch.as_tensor(one, device=device, dtype=torch.float32)
                                  for one in (norm, result.resting, result.value, result.looking_back)])
            line_steps += 1
            stop = state.step == stop_after or 0.0 < seconds < time.monotonic() - begin
            last = state.step == recipe.total_steps or stop
            if last or state.step % log_every == 0:
                count, loss, right = (sums / sums[:, :1].clamp_min(1.0)).T.tolist()
                gradient, resting, value, looking_back = (means / line_steps).tolist()
                if not math.isfinite(loss[0] + gradient):
                    raise TrainingError(f"the loss at step {state.step} is not a number; lower the learning rate and "
                                        "start again from the checkpoint")
                numbers = [rate, *loss, *right[1:], gradient, (time.monotonic() - line_begin) / line_steps, costs.rest,
                           resting, value, costs.look_back, looking_back]
                measured = measure_every > 0 and (last or state.step % measure_every == 0)
                say(",".join([str(state.step), str(stage.length), *(f"{number:.4g}" for number in numbers),
                              *(_measured(state, corpus) if measured else [""] * _MEASURED)]))
                sums.zero_()
                means.zero_()
                line_begin, line_steps = time.monotonic(), 0
            if last or state.step % save_every == 0:
                state.save(checkpoint)
                state.export(folder)
    return state
