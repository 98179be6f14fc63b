#pragma once

#include <string>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// The kinds of the layers: "6 attention, 18 gated delta net"; empty if all are alike.
std::string layer_kinds_text(const Trace& trace);

/// Notes that such layers require beside numbers, a line each: latent or shared caches, gates.
std::vector<std::string> layer_kinds_notes(const Trace& trace);

/// The shapes of the layers with queries: "2 of 16 query heads and 2 key-value heads, keys of 256,
/// values of 256; …".
std::string layer_shapes_text(const Trace& trace);

}  // namespace kvloupe
