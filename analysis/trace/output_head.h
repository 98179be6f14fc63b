#pragma once

namespace kvloupe {

/// Advice in a message about a trace without the whole output head.
inline constexpr const char* kCaptureOutputHead =
    "capture the prompt again with kvloupe-capture run … --lm-head";

}  // namespace kvloupe
