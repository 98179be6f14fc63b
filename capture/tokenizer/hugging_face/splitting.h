#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "capture/tokenizer/hugging_face/piece_list.h"
#include "capture/tokenizer/hugging_face/regex.h"

namespace kvloupe {

/// What becomes of the matches a text is cut at: pieces of their own, nothing, the end of the piece
/// before, the beginning of the piece after, or one piece with the matches next to it.
enum class SplitBehaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// By the name tokenizer.json uses; none where it is unknown.
std::optional<SplitBehaviour> split_behaviour(std::string_view name);

/// Cuts `piece` at `matches` (ascending, none overlapping) and appends what is left. `invert`: what
/// lies between the matches counts as matched, and the matches do not.
void split(const AlignedText& piece, const std::vector<Regex::Match>& matches, bool invert,
           SplitBehaviour behaviour, PieceList& into);

}  // namespace kvloupe
