#pragma once

namespace kvloupe {

/// What to do about a trace without the whole output head, in a message about one.
inline constexpr const char* kCaptureOutputHead =
    "capture the prompt again with kvloupe-capture run … --lm-head";

}  // namespace kvloupe
