#pragma once

namespace kvloupe {

/// ModelInfo::rope_scaling of a layer that does not rotate (SmolLM3, Cohere 2): its `rope_theta` in
/// the trace is 0.
inline constexpr const char* kNoRotation = "no rotation";

}  // namespace kvloupe
