"""Weights of linear modules, even quantised ones and adapters: their outputs for unit vectors."""
import dataclasses
import math
from typing import Any

import numpy as np
import torch

_BLOCK = 64  # unit vectors that go through a module at once
# A module may round its inputs to 8 bits: how far the product of its weights may be from its output, in the norm.
_TOLERANCE = 0.1


@dataclasses.dataclass
class Weight:
    """What `x @ rows` says of a module, without its bias."""

    rows: np.ndarray  # [inputs, outputs], in the type that was asked for
    bits: int  # of a stored number: 32, or 16 where the module has no more
    bias: np.ndarray | None = None  # [outputs], which the module adds


def is_plain(module: Any) -> bool:
    """Whether the module is torch's own linear layer with ordinary numbers, which nothing wraps."""
    weight = getattr(module, "weight", None)
    return (type(module) is torch.nn.Linear and type(weight) in (torch.Tensor, torch.nn.Parameter)
            and weight.is_floating_point() and weight.element_size() >= 2 and weight.device.type != "meta"
            and "forward" not in vars(module) and not module._forward_hooks and not module._forward_pre_hooks)


def weight_of(module: Any, inputs: int, dtype: Any, device: Any, kind: Any = np.float32,
              outputs: np.ndarray | None = None) -> Weight | str:
    """The weights of a linear module for `inputs` numbers of `dtype` on `device`, of some of its `outputs` or all; a text
    says why there are none."""
    if is_plain(module):
        if module.weight.shape[1] != inputs:
            return f"takes {module.weight.shape[1]} numbers instead of {inputs}"
        whole = module.weight.detach()
        if outputs is not None:
            whole = whole[torch.from_numpy(outputs).to(whole.device)]
        rows = np.empty((inputs, whole.shape[0]), kind)
        for first in range(0, inputs, _BLOCK):
            rows[first:first + _BLOCK] = whole[:, first:first + _BLOCK].float().T.cpu().numpy()
        bias = None if module.bias is None else module.bias.detach()
        if bias is not None:
            bias = (bias if outputs is None else bias[torch.from_numpy(outputs).to(bias.device)]).float().cpu().numpy()
        return Weight(rows, 8 * module.weight.element_size(), bias)
    training = {part: part.training for part in module.modules()}
    module.eval()  # adapters drop some of their inputs while they learn
    try:
        with torch.inference_mode():
            return _probed(module, inputs, dtype, device, kind, outputs)
    finally:
        for part, was in training.items():
            part.training = was


def _probed(module: Any, inputs: int, dtype: Any, device: Any, kind: Any, outputs: np.ndarray | None) -> Weight | str:
    def apply(x: Any) -> Any:
        out = module(x[None])
        out = (out[0] if isinstance(out, tuple) else out)[0]
        return out if outputs is None else out[:, torch.from_numpy(outputs).to(out.device)]

    try:
        bias = apply(torch.zeros(1, inputs, dtype=dtype, device=device))[0].float()
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        return f"does not take {inputs} numbers ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
    # Beside a large bias a unit vector's output would lose digits in 16 bits.
    length = 1.0 if not bool(bias.any()) else 64.0
    rows = np.empty((inputs, bias.shape[0]), kind)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, inputs, generator=generator).to(dtype).to(device)
    expected = torch.zeros_like(bias)
    for first in range(0, inputs, _BLOCK):
        count = min(_BLOCK, inputs - first)
        unit = torch.zeros(count, inputs, dtype=dtype, device=device)
        unit[range(count), range(first, first + count)] = length
        part = (apply(unit).float() - bias).div_(length)
        expected += (x[:, first:first + count].float() @ part)[0]
        rows[first:first + count] = part.cpu().numpy()
    for times in (1.0, 8.0):
        far = (apply(x * times)[0].float() - bias) - expected * times
        off = float(torch.linalg.vector_norm(far)) / max(float(torch.linalg.vector_norm(expected)) * times, 1e-30)
        if math.isnan(off) or off > _TOLERANCE:
            return f"is not linear: for inputs of size {times:g} its output is off by {100 * off:.0f} %"
    wide = any(one.is_floating_point() and one.element_size() > 2 and one.numel() >= rows.size
               for one in (*module.parameters(), *module.buffers()))  # whether it has that many numbers of more than 16 bits
    return Weight(rows, 32 if wide else 16, bias.cpu().numpy())
