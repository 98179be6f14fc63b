#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// The sliding windows and chunks of a trace's layers in words: "window of 1024 tokens", or "chunk
/// of 1024 tokens in 12 of 24 layers" where some layers see everything; empty if all do.
std::string window_text(const Trace& trace);

/// The end of a note about a window: the same for all windows.
inline constexpr std::string_view kLeavesTheWindow =
    ": entries that no later query sees leave the cache before the policy decides; this is not an "
    "eviction";
/// Such a note without its end, for one line; any other note is to be read whole: empty.
std::string window_note_in_brief(const std::string& note);

/// The kinds of the layers: "6 attention, 18 gated delta net"; empty if all are alike.
std::string layer_kinds_text(const Trace& trace);

/// Notes that such layers require beside numbers, a line each: latent or shared caches, gates.
std::vector<std::string> layer_kinds_notes(const Trace& trace);

/// The shapes of the layers with queries: "2 of 16 query heads and 2 key-value heads, keys of 256,
/// values of 256; …".
std::string layer_shapes_text(const Trace& trace);

}  // namespace kvloupe
