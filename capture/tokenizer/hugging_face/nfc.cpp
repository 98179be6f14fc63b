#include "capture/tokenizer/hugging_face/nfc.h"

#include <utf8proc.h>

#include <algorithm>

#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

/// Whether this character leaves the text before it unchanged: a starter that is never second in a
/// composition. Second are marks, Hangul's vowels and final consonants, and Kirat Rai's vowels.
bool stands_alone(char32_t c) {
  if (c < 0x300) return true;
  if ((c >= 0x1160 && c <= 0x11FF) || (c >= 0x16D63 && c <= 0x16D6A)) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return property->combining_class == 0 &&
         (property->category < UTF8PROC_CATEGORY_MN || property->category > UTF8PROC_CATEGORY_ME);
}

utf8proc_int32_t combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

/// The normal form of a stretch. Characters do not compose across its two ends.
std::string normal_form(std::string_view text) {
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t at = 0; at < text.size(); at += character_length(text.substr(at))) {
    const auto c = static_cast<utf8proc_int32_t>(first_character(text.substr(at)));
    const std::size_t before = characters.size();
    constexpr std::size_t kMost = 8;  // a canonical decomposition has at most four
    characters.resize(before + kMost);
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, characters.data() + before, kMost,
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
    characters.resize(before + static_cast<std::size_t>(std::clamp<utf8proc_ssize_t>(
                                   count, 0, static_cast<utf8proc_ssize_t>(kMost))));
  }
  // Canonical order. utf8proc sorts by neighbours, which takes hours for a megabyte of marks.
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    at = std::find_if_not(at, characters.end(), is_starter);
    const auto end = std::find_if(at, characters.end(), is_starter);
    std::stable_sort(at, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    at = end;
  }
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  std::string result;
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_character(result, static_cast<char32_t>(characters[static_cast<std::size_t>(i)]));
  }
  return result;
}

}  // namespace

AlignedText to_nfc(const AlignedText& text) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.text().begin(), text.text().end(), ascii)) return text;
  AlignedText result;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto length = [&](std::size_t at) {
      return character_length(text.view(at, text.size()));
    };
    std::size_t end = begin + length(begin);
    while (end < text.size() && !stands_alone(first_character(text.view(end, text.size())))) {
      end += length(end);
    }
    const std::string_view stretch = text.view(begin, end);
    if (const std::string form = normal_form(stretch); form == stretch) {
      result.append(text, begin, end);
    } else {
      result.append(form, text.origin(begin, end));
    }
    begin = end;
  }
  return result;
}

}  // namespace kvloupe
