#include "capture/tokenizer/prompt.h"

#include <algorithm>
#include <charconv>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "capture/tokenizer/read_file.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestPrompt = 1U << 30U;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/// The name on a marker line (without its line end), empty where the line is none.
std::string_view marker_name(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) {
    line.remove_suffix(1);
  }
  if (line.substr(0, 2) != "@@") return {};
  line.remove_prefix(2);
  return std::all_of(line.begin(), line.end(), is_name_character) ? line : std::string_view{};
}

}  // namespace

Prompt parse_prompt(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  Prompt prompt;
  prompt.segments.push_back({0, "context"});
  while (!text.empty()) {
    const std::size_t line_end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, line_end);
    const std::string_view name =
        marker_name(line.back() == '\n' ? line.substr(0, line.size() - 1) : line);
    if (name.empty()) {
      prompt.text += line;
    } else if (prompt.segments.back().begin == prompt.text.size()) {
      prompt.segments.back().name = name;  // the one before is empty
    } else {
      prompt.segments.push_back({prompt.text.size(), std::string(name)});
    }
    text.remove_prefix(line_end);
  }
  return prompt;
}

Prompt read_prompt(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestPrompt);
  // Some editors mark UTF-8 files with a U+FEFF; left in, it would stand before a BOS of the text.
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  const std::size_t begin = text.starts_with(kMark) ? kMark.size() : 0;
  Prompt prompt = parse_prompt(std::string_view(text).substr(begin));
  if (prompt.text.empty()) throw FileError(path.string(), "is empty; a prompt needs some text");
  return prompt;
}

std::vector<std::int32_t> read_ids(const std::filesystem::path& path, std::int64_t vocab_size) {
  const std::string text = read_file(path, kLargestPrompt);
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto is_space = [](char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\v' || c == '\f';
  };
  while (true) {
    while (at != end && is_space(*at)) ++at;
    if (at == end) break;
    const char* const stop = std::find_if(at, end, is_space);
    const auto place = [&] { return "token " + std::to_string(ids.size()); };
    std::int64_t id = -1;
    const auto [parsed, problem] = std::from_chars(at, stop, id);
    if (problem != std::errc() || parsed != stop) {
      throw FileError(path.string(), place() + ", " + in_quotes({at, stop}) +
                                         ", is not a decimal id; separate ids with white space");
    }
    if (id < 0 || id >= vocab_size) {
      throw FileError(path.string(), place() + ", " + std::to_string(id) +
                                         ", is outside the model's vocabulary of " +
                                         std::to_string(vocab_size));
    }
    ids.push_back(static_cast<std::int32_t>(id));
    at = stop;
  }
  if (ids.empty()) throw FileError(path.string(), "contains no token ids");
  return ids;
}

void TokenSequence::add(std::int32_t id, const std::string& name) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    if (names.size() > 255)
      throw WorkError("a prompt has more than 256 different names of segments");
    found = names.insert(names.end(), name);
  }
  ids.push_back(id);
  segment.push_back(static_cast<std::uint8_t>(found - names.begin()));
}

TokenSequence encode_prompt(const Prompt& prompt, const Tokenizer& tokenizer) {
  TokenSequence sequence;
  const std::vector<EncodedToken> tokens = tokenizer.encode(prompt.text);
  const std::optional<std::int32_t> bos = tokenizer.bos();
  if (bos && (tokens.empty() || tokens.front().id != *bos)) sequence.add(*bos, "special");
  std::size_t segment = 0;
  for (const EncodedToken& token : tokens) {
    while (segment + 1 < prompt.segments.size() &&
           prompt.segments[segment + 1].begin <= token.begin) {
      ++segment;
    }
    sequence.add(token.id,
                 tokenizer.is_special(token.id) ? "special" : prompt.segments[segment].name);
  }
  return sequence;
}

}  // namespace kvloupe
