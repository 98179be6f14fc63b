#include "capture/eval/stored_prompt.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
using PlainJson = nlohmann::json;

/// Decimal ids with one blank between each two. Empty where the text is another.
std::vector<std::int32_t> ids_of(const std::string& text) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int32_t id = -1;
    const auto [stop, problem] = std::from_chars(at, end, id);
    if (problem != std::errc() || id < 0 || (stop != end && *stop != ' ')) return {};
    ids.push_back(id);
    at = stop == end ? end : stop + 1;
  }
  return ids;
}
}  // namespace

nlohmann::ordered_json stored_prompt(const TokenSequence& tokens) {
  std::string ids;
  nlohmann::ordered_json segments = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    ids += (i > 0 ? " " : "") + std::to_string(tokens.ids[i]);
    const std::string& name = tokens.names[tokens.segment[i]];
    if (segments.empty() || segments.back()[0] != name) segments.push_back({name, std::size_t{0}});
    segments.back()[1] = segments.back()[1].get<std::size_t>() + 1;
  }
  return {{"ids", std::move(ids)}, {"segments", std::move(segments)}};
}

TokenSequence read_stored_prompt(const PlainJson& prompt, const std::filesystem::path& path) {
  const auto fail = [&](const char* member) {
    throw FileError(path.string(), std::string("has a prompt without usable \"") + member +
                                       "\"; run the evaluation again");
  };
  const PlainJson ids = prompt.is_object() ? prompt.value("ids", PlainJson()) : PlainJson();
  const PlainJson segments =
      prompt.is_object() ? prompt.value("segments", PlainJson()) : PlainJson();
  if (!ids.is_string()) fail("ids");
  const std::vector<std::int32_t> all = ids_of(ids.get_ref<const std::string&>());
  if (all.empty()) fail("ids");
  if (!segments.is_array()) fail("segments");
  TokenSequence tokens;
  for (const PlainJson& segment : segments) {
    if (!segment.is_array() || segment.size() != 2 || !segment[0].is_string() ||
        !segment[1].is_number_unsigned() ||
        segment[1].get<std::uint64_t>() > all.size() - tokens.ids.size()) {
      fail("segments");
    }
    const auto count = segment[1].get<std::size_t>();
    for (std::size_t i = 0; i < count; ++i) {
      tokens.add(all[tokens.ids.size()], segment[0].get<std::string>());
    }
  }
  if (tokens.ids.size() != all.size()) fail("segments");
  return tokens;
}

}  // namespace kvloupe
