#include "capture/tokenizer/hugging_face/pre_tokeniser.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/base/text/text.h"
#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/byte_alphabet.h"
#include "capture/tokenizer/hugging_face/regex.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

/// The fate of the matches at which a text is split: they become separate pieces, are removed, join
/// the piece before or after, or adjacent matches become one piece.
enum class SplitBehaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };

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
/// Nothing has matched before the first, which begins a piece of its own.
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

/// By the name in tokenizer.json; nothing if unknown.
std::optional<SplitBehaviour> split_behaviour(std::string_view name) {
  if (name == "Isolated") return SplitBehaviour::isolated;
  if (name == "Removed") return SplitBehaviour::removed;
  if (name == "MergedWithPrevious") return SplitBehaviour::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehaviour::merged_with_next;
  if (name == "Contiguous") return SplitBehaviour::contiguous;
  return std::nullopt;
}

/// Splits `piece` at `matches` (ascending, without overlaps) and appends the pieces. `invert`: the
/// text between the matches counts as matched, and the matches do not.
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

/// GPT-2's pattern.
constexpr const char* kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PreTokeniser make_split(const JsonPart& part) {
  const std::string name = part.text("behavior");
  const auto behaviour = split_behaviour(name);
  if (!behaviour)
    part.refuse("behavior " + in_quotes(name),
                "supported: Removed, Isolated, Contiguous, MergedWithPrevious and MergedWithNext");
  return [pattern = Regex(part), invert = part.flag("invert", false), behaviour = *behaviour](
             const PieceList& list, const Limits& limits) {
    return list.changed([&](const AlignedText& piece, PieceList& into) {
      split(piece, pattern.find_all(piece.text(), limits), invert, behaviour, into);
    });
  };
}

PreTokeniser make_byte_level(const JsonPart& part) {
  const bool add_prefix_space = part.flag("add_prefix_space", true);
  const bool use_regex = part.flag("use_regex", true);
  return [words = Regex(kWords, part), add_prefix_space, use_regex](const PieceList& list,
                                                                    const Limits& limits) {
    const PieceList words_of_list = list.changed([&](const AlignedText& piece, PieceList& into) {
      AlignedText text;
      if (add_prefix_space && piece.text().front() != ' ') text.append(" ", piece.origin(0, 0));
      text.append(piece, 0, piece.size());
      if (!use_regex) return into.append(text, 0, text.size());
      split(text, words.find_all(text.text(), limits), false, SplitBehaviour::isolated, into);
    });
    return words_of_list.changed([](const AlignedText& piece, PieceList& into) {
      AlignedText bytes;
      for (std::size_t i = 0; i < piece.size(); ++i) {
        bytes.append(byte_character(static_cast<unsigned char>(piece.text()[i])),
                     piece.origin(i, i + 1));
      }
      into.append(bytes, 0, bytes.size());
    });
  };
}

/// Every stretch of `text` that is `literal`.
std::vector<Regex::Match> find_literal(std::string_view text, std::string_view literal) {
  std::vector<Regex::Match> matches;
  for (std::size_t at = text.find(literal); at != text.npos;
       at = text.find(literal, at + literal.size())) {
    matches.push_back({at, at + literal.size()});
  }
  return matches;
}

PreTokeniser make_metaspace(const JsonPart& part) {
  return [mark = read_space_mark(part), scheme = read_prepend_scheme(part),
          cut = part.flag("split", true)](const PieceList& list, const Limits&) {
    return list.changed([&](const AlignedText& piece, PieceList& into) {
      AlignedText text;
      const bool marked = piece.text().front() == ' ' || piece.text().rfind(mark, 0) == 0;
      const bool at_start = piece.origin(0, 0).begin == 0;
      if (!marked &&
          (scheme == PrependScheme::always || (scheme == PrependScheme::first && at_start))) {
        text.append(mark, piece.origin(0, 0));
      }
      std::size_t done = 0;
      for (const Regex::Match& space : find_literal(piece.text(), " ")) {
        text.append(piece, done, space.begin);
        text.append(mark, piece.origin(space.begin, space.end));
        done = space.end;
      }
      text.append(piece, done, piece.size());
      if (!cut) return into.append(text, 0, text.size());
      split(text, find_literal(text.text(), mark), false, SplitBehaviour::merged_with_next, into);
    });
  };
}

PreTokeniser make_digits(const JsonPart& part) {
  const auto behaviour =
      part.flag("individual_digits", false) ? SplitBehaviour::isolated : SplitBehaviour::contiguous;
  return [behaviour](const PieceList& list, const Limits&) {
    return list.changed([&](const AlignedText& piece, PieceList& into) {
      std::vector<Regex::Match> digits;
      for (std::size_t at = 0; at < piece.size();) {
        const std::string_view rest = piece.view(at, piece.size());
        const std::size_t end = at + character_length(rest);
        if (is_numeric(first_character(rest))) digits.push_back({at, end});
        at = end;
      }
      split(piece, digits, false, behaviour, into);
    });
  };
}

PreTokeniser make_any_pre_tokeniser(const JsonPart& part, int depth) {
  if (part.is_null()) return {};
  const std::string type = part.type();
  if (type == "Split") return make_split(part);
  if (type == "ByteLevel") return make_byte_level(part);
  if (type == "Metaspace") return make_metaspace(part);
  if (type == "Digits") return make_digits(part);
  if (type == "Sequence") {
    if (depth == kDeepestSequence) part.fail("a Sequence is nested too deeply");
    std::vector<PreTokeniser> steps;
    for (const JsonPart& step : part.parts("pretokenizers"))
      steps.push_back(make_any_pre_tokeniser(step, depth + 1));
    return [steps](const PieceList& list, const Limits& limits) {
      PieceList result = list;
      for (const PreTokeniser& step : steps) {
        result = step(result, limits);
        limits.check(result.text.size());
      }
      return result;
    };
  }
  part.refuse(in_quotes(type), "supported: Split, ByteLevel, Metaspace, Digits and Sequence");
}

}  // namespace

PreTokeniser make_pre_tokeniser(const JsonPart& part) { return make_any_pre_tokeniser(part, 0); }

PrependScheme read_prepend_scheme(const JsonPart& part) {
  const bool add = part.flag("add_prefix_space", true);
  const auto name = part.text_if("prepend_scheme");
  if (!name) return add ? PrependScheme::always : PrependScheme::never;
  if (*name != "never" && !add)
    part.fail("add_prefix_space and prepend_scheme contradict each other");
  if (*name == "always") return PrependScheme::always;
  if (*name == "first") return PrependScheme::first;
  if (*name == "never") return PrependScheme::never;
  part.refuse("prepend_scheme " + in_quotes(*name), "supported: always, first and never");
}

std::string read_space_mark(const JsonPart& part) {
  const std::string mark = part.text("replacement");
  if (mark.empty() || character_length(mark) != mark.size()) {
    part.fail("replacement must be one character");
  }
  return mark;
}

}  // namespace kvloupe
