#pragma once
// How command lines name Compression.

#include <map>
#include <string>

#include "analysis/trace/model_info.h"

namespace kvloupe {

inline std::map<std::string, Compression> compression_words() {
  std::map<std::string, Compression> words;
  for (const Compression one : {Compression::regular, Compression::context_only}) {
    words[compression_name(one)] = one;
  }
  return words;
}

inline constexpr const char* kCompressionHelp =
    "Whether the policy sees the question. regular: it evicts after every block; context-only: it "
    "stops before the segment @@question, or at the prompt's end if there is none";

}  // namespace kvloupe
