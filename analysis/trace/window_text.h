#pragma once

#include <string>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// The sliding windows and chunks of a trace's layers in words: "a window of 1024 tokens", or "a
/// chunk of 1024 tokens in 12 of 24 layers" where some layers see everything; empty if all do.
std::string window_text(const Trace& trace);

}  // namespace kvloupe
