#pragma once

#include <string>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// The sliding windows of a trace's layers in words: "1024 tokens", or "1024 tokens in 12 of 24
/// layers" where some layers see everything; empty if no window hides anything.
std::string window_text(const Trace& trace);

}  // namespace kvloupe
