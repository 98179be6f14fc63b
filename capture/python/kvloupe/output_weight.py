"""A layer's output projection in the numbers of a trace, and whether it gives what the model's own projection gave."""
from __future__ import annotations

import numpy as np

from .attention import Sink
from .between import BetweenWatch
from .linear import is_plain, weight_of
from .places import PROJECTIONS, Place
from .writer import TraceWriter

# How far the output that a trace's numbers give may be from that of the layer's output projection, in units of its
# largest number. A projection may round its inputs to 8 bits: then linear.py's own limit counts.
_TOLERANCE = {"torch.float32": 5e-4, "torch.float16": 2e-2, "torch.bfloat16": 5e-2}


def output_weight_of(place: Place, writer: TraceWriter, sink: Sink,
                     watch: BetweenWatch) -> tuple[np.ndarray, int] | str:
    """[Hq, value_dim, D] and the bits of a number: output = Σ (gate ⊙ A V) · slice, compared with what the projection
    gave in the first block. A text says why there is none."""
    number, own = place.number, writer.layers[place.number]
    if number in watch.why:
        return watch.why[number]
    if place.projection is None:
        return "its output projection has another name than " + ", ".join(PROJECTIONS[:-1]) + f" or {PROJECTIONS[-1]}"
    latent = place.latent if place.latent is not None and not place.latent.expand else None
    if latent is not None and number in watch.gate_rows:
        return "a gate between heads and output projection has no place among latents (mla=\"expanded\" has one)"
    inputs = own.heads * (latent.value_dim if latent is not None else own.value_dim)
    found = weight_of(place.projection, inputs, *sink.output_kind[number])
    if isinstance(found, str):
        name = next(name for name in PROJECTIONS if getattr(place.attention, name, None) is place.projection)
        return f"{name} {found}"
    rows = found.rows.reshape(own.heads, -1, found.rows.shape[-1])
    if rows.shape[-1] != writer.model.hidden:
        return f"its output projection gives {rows.shape[-1]} numbers instead of the hidden size {writer.model.hidden}"
    if latent is not None:
        rows = latent.output_weight(rows)
    given = watch.outputs.get(number)
    if given is not None:
        made = sink.rows[number] * watch.gate_rows.get(number, 1.0) @ rows.reshape(-1, rows.shape[-1])
        made += 0.0 if found.bias is None else found.bias
        off = float(np.abs(made - given).max() / max(float(np.abs(given).max()), 1e-30))
        exact = _TOLERANCE.get(str(sink.output_kind[number][0]), 5e-2)
        if not off <= (exact if is_plain(place.projection) else max(exact, 0.15)):
            return f"the trace's numbers do not give what its output projection gives (they differ by {off:.2g})"
    return rows, found.bits
