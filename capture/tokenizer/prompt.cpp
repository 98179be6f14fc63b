#include "capture/tokenizer/prompt.h"

#include <algorithm>
#include <charconv>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

std::vector<std::int32_t> read_ids(const std::filesystem::path& path, std::int64_t vocab_size) {
  const std::string text = read_text(path);
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

TokenSequence encode_prompt(const Prompt& given, const Tokenizer& tokenizer) {
  const Prompt prompt = tokenizer.chat ? tokenizer.chat->apply(given) : given;
  TokenSequence sequence;
  const std::vector<EncodedToken> tokens = tokenizer.encode(prompt.text);
  const std::optional<std::int32_t> bos = tokenizer.bos();
  if (bos && !tokenizer.chat && (tokens.empty() || tokens.front().id != *bos))
    sequence.add(*bos, "special");
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
