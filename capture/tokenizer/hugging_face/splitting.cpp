#include "capture/tokenizer/hugging_face/splitting.h"

#include <algorithm>

namespace kvloupe {

namespace {

struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool matched = false;
};

/// Matches and what lies between them, over the whole text.
std::vector<Part> all_parts(std::size_t size, const std::vector<Regex::Match>& matches,
                            bool invert) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const Regex::Match& match : matches) {
    if (done < match.begin) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < size) parts.push_back({done, size, invert});
  return parts;
}

/// Joins a part to the one before it in `parts` where `join(part, whether the one before matched)`.
/// The first part begins a piece of its own.
template <typename Join>
std::vector<Part> joined(const std::vector<Part>& parts, Join join) {
  std::vector<Part> result;
  bool before = false;
  for (const Part& part : parts) {
    if (join(part.matched, before) && !result.empty()) {
      result.back().begin = std::min(result.back().begin, part.begin);
      result.back().end = std::max(result.back().end, part.end);
    } else {
      result.push_back(part);
    }
    before = part.matched;
  }
  return result;
}

}  // namespace

std::optional<SplitBehaviour> split_behaviour(std::string_view name) {
  if (name == "Isolated") return SplitBehaviour::isolated;
  if (name == "Removed") return SplitBehaviour::removed;
  if (name == "MergedWithPrevious") return SplitBehaviour::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehaviour::merged_with_next;
  if (name == "Contiguous") return SplitBehaviour::contiguous;
  return std::nullopt;
}

void split(const AlignedText& piece, const std::vector<Regex::Match>& matches, bool invert,
           SplitBehaviour behaviour, PieceList& into) {
  std::vector<Part> parts = all_parts(piece.size(), matches, invert);
  const auto first_of_matches = [](bool matched, bool before) { return matched && !before; };
  switch (behaviour) {
    case SplitBehaviour::isolated:
      break;
    case SplitBehaviour::removed:
      std::erase_if(parts, [](const Part& part) { return part.matched; });
      break;
    case SplitBehaviour::contiguous:
      parts = joined(parts, [](bool matched, bool before) { return matched == before; });
      break;
    case SplitBehaviour::merged_with_previous:
      parts = joined(parts, first_of_matches);
      break;
    case SplitBehaviour::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      parts = joined(parts, first_of_matches);
      std::reverse(parts.begin(), parts.end());
      break;
  }
  for (const Part& part : parts) into.append(piece, part.begin, part.end);
}

}  // namespace kvloupe
