#pragma once

#include <span>
#include <string>

#include "analysis/study/prompt_set.h"

namespace kvloupe {

/// Reads a prompt as one who wants to answer without understanding: what would make its score say
/// less than it seems to, in words that follow "line 3"; empty where nothing does.
/// - A needle is there twice, in the list or in the context: marked is only the first.
/// - An answer is asked for twice, or is empty, which no score counts.
/// - An answer stands in the context outside of the needles, where there are some, or in the
///   question, as a word of its own.
std::string prompt_doubt(const PromptParts& parts, std::span<const std::string> needles);

}  // namespace kvloupe
