#pragma once

#include <string>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// What the layers are, where they are not all alike: "6 attention, 18 gated delta net"; else
/// empty.
std::string layer_kinds_text(const Trace& trace);

/// What a reader of numbers must know of such layers, a line each: latent or shared caches, gates.
std::vector<std::string> layer_kinds_notes(const Trace& trace);

/// The shapes of the layers with queries: "2 of 16 query heads and 2 key-value heads, keys of 256,
/// values of 256; …".
std::string layer_shapes_text(const Trace& trace);

}  // namespace kvloupe
