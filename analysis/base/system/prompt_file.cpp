#include "analysis/base/system/prompt_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"

namespace kvloupe {

namespace {

/// Names that views, lessons or policies give a meaning to.
constexpr std::array<std::string_view, 5> kKnownNames{"context", "needle", "question", "answer",
                                                      "special"};

bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

bool is_name_character(char c) {
  return is_small(c) || is_capital(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// The name after @@ on a line (without its line end) that holds nothing else; empty if the line is
/// another.
std::string_view name_on(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) {
    line.remove_suffix(1);
  }
  if (line.substr(0, 2) != "@@") return {};
  line.remove_prefix(2);
  return std::all_of(line.begin(), line.end(), is_name_character) ? line : std::string_view{};
}

bool is_segment_name(std::string_view name) {
  return !name.empty() && is_small(name.front()) &&
         std::none_of(name.begin(), name.end(), is_capital);
}

/// Whether a line is a marker, or one that backslashes keep as text.
bool is_escaped_marker(std::string_view line) {
  const std::size_t begin = line.find_first_not_of('\\');
  return begin != 0 && begin != std::string_view::npos && !name_on(line.substr(begin)).empty();
}

/// Lines of a prompt, taken one by one.
class PromptBuilder {
 public:
  /// With its line end, if it has one.
  void add(std::string_view line) {
    ++line_number_;
    const std::string_view bare = line.ends_with('\n') ? line.substr(0, line.size() - 1) : line;
    const std::string_view name = name_on(bare);
    if (is_segment_name(name)) {
      start(name);
    } else {
      if (!name.empty()) note(name, "is text: names of segments have small letters");
      prompt_.text += is_escaped_marker(bare) ? line.substr(1) : line;
    }
  }
  Prompt take() {
    const Segment& last = prompt_.segments.back();
    if (last.name == "answer") prompt_.answer_begin = last.begin;
    return std::move(prompt_);
  }

 private:
  void start(std::string_view name) {
    if (std::find(kKnownNames.begin(), kKnownNames.end(), name) == kKnownNames.end()) {
      note(name, "starts a segment of that name and is not text; write \\@@" +
                     in_one_line(name, 40) + " if the model should read it");
    }
    if (prompt_.segments.back().begin == prompt_.text.size()) {
      prompt_.segments.back().name = name;  // the one before is empty
    } else {
      prompt_.segments.push_back({prompt_.text.size(), std::string(name)});
    }
  }
  /// Each name once.
  void note(std::string_view name, const std::string& what) {
    constexpr std::size_t kMostNotes = 8;
    if (noted_.size() >= kMostNotes || !noted_.insert(std::string(name)).second) return;
    prompt_.notes.push_back("line " + std::to_string(line_number_) + ", @@" +
                            in_one_line(name, 40) + ", " + what);
  }

  Prompt prompt_{{}, {{0, "context"}}, {}};
  std::set<std::string> noted_;
  std::size_t line_number_ = 0;
};

/// The bytes of UTF-16 as UTF-8. Throws FileError where they are not UTF-16.
std::string from_utf16(std::string_view bytes, bool big_endian, const std::string& path) {
  const auto fail = [&] {
    throw FileError(path, "starts with the mark of UTF-16 but is none; save it as UTF-8");
  };
  if (bytes.size() % 2 != 0) fail();
  std::string text;
  char32_t high = 0;  // the first half of a pair
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    const char32_t unit = big_endian ? first * 256U + second : second * 256U + first;
    const bool is_low = unit >= 0xDC00 && unit < 0xE000;
    if (is_low != (high != 0)) fail();
    if (unit >= 0xD800 && unit < 0xDC00) {
      high = unit;
      continue;
    }
    append_character(text, is_low ? 0x10000 + ((high - 0xD800) << 10U) + (unit - 0xDC00) : unit);
    high = 0;
  }
  if (high != 0) fail();
  return text;
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  constexpr std::uintmax_t kLargest = 1U << 30U;
  std::string bytes = read_file(path, kLargest);
  // Some editors mark their files with U+FEFF, which would stand before a BOS of the text.
  constexpr std::string_view kMark = "\xEF\xBB\xBF", kLittle = "\xFF\xFE", kBig = "\xFE\xFF";
  if (bytes.starts_with(kMark)) bytes.erase(0, kMark.size());
  const bool is_big = bytes.starts_with(kBig);
  if (is_big || bytes.starts_with(kLittle)) {
    bytes = from_utf16(std::string_view(bytes).substr(2), is_big, path.string());
  }
  std::size_t line = 1;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length =
        bytes[i] == '\0' ? 0 : character_length(std::string_view(bytes).substr(i, 4));
    if (length == 0) {
      throw FileError(path.string(), "line " + std::to_string(line) + " has the byte " +
                                         in_one_line(spell_bytes({&bytes[i], 1})) +
                                         ", so the file is not text in UTF-8; save it as UTF-8");
    }
    if (bytes[i] == '\n') ++line;
    i += length;
  }
  return bytes;
}

Prompt parse_prompt(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return parse_text(text);
}

Prompt parse_text(std::string_view text) {
  PromptBuilder prompt;
  while (!text.empty()) {
    const std::size_t line_end = std::min(text.find('\n'), text.size() - 1) + 1;
    prompt.add(text.substr(0, line_end));
    text.remove_prefix(line_end);
  }
  return prompt.take();
}

Prompt read_prompt(const std::filesystem::path& path) {
  Prompt prompt = parse_prompt(read_text(path));
  for (std::string& note : prompt.notes) note = path.filename().string() + ": " + note;
  if (prompt.text.empty()) throw FileError(path.string(), "is empty; a prompt needs some text");
  return prompt;
}

}  // namespace kvloupe
