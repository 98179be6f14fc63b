#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "capture/tokenizer/hugging_face/piece_list.h"
#include "capture/tokenizer/hugging_face/regex.h"

namespace kvloupe {

/// The fate of the matches at which a text is split: they become separate pieces, are removed, join
/// the piece before or after, or adjacent matches become one piece.
enum class SplitBehaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// By the name in tokenizer.json; nothing if unknown.
std::optional<SplitBehaviour> split_behaviour(std::string_view name);

/// Splits `piece` at `matches` (ascending, without overlaps) and appends the pieces. `invert`: the
/// text between the matches counts as matched, and the matches do not.
void split(const AlignedText& piece, const std::vector<Regex::Match>& matches, bool invert,
           SplitBehaviour behaviour, PieceList& into);

}  // namespace kvloupe
