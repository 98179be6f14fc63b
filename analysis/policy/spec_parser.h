#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

/// The name here of a name from a paper or another library: "StreamingLLM", "streaming_llm" and
/// "SinkCache" are sink(4). Capitals, signs between words and endings such as Press and Cache do
/// not count. `first`: as the first part of a spec, where a modifier comes with a score; else as a
/// modifier. Nothing if the name is not known.
std::optional<std::string> name_here(std::string_view name, bool first);

}  // namespace kvloupe
