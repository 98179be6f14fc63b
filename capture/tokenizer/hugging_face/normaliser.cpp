#include "capture/tokenizer/hugging_face/normaliser.h"

#include <algorithm>

#include <utf8proc.h>

#include "analysis/base/text/text.h"
#include "capture/tokenizer/hugging_face/regex.h"
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

namespace {

Normaliser make_prepend(const JsonPart& part) {
  return [prefix = part.text("prepend")](const AlignedText& text, const Limits&) {
    AlignedText result;
    if (text.size() > 0) result.append(prefix, text.origin(0, 0));
    result.append(text, 0, text.size());
    return result;
  };
}

Normaliser make_replace_normaliser(const JsonPart& part) {
  return [pattern = Regex(part), content = part.text("content")](const AlignedText& text,
                                                                 const Limits& limits) {
    AlignedText result;
    std::size_t done = 0;
    for (const Regex::Match& match : pattern.find_all(text.text(), limits)) {
      result.append(text, done, match.begin);
      result.append(content, text.origin(match.begin, match.end));
      done = match.end;
      limits.check(result.size());
    }
    result.append(text, done, text.size());
    return result;
  };
}

Normaliser make_strip_normaliser(const JsonPart& part) {
  const bool left = part.flag("strip_left", true);
  const bool right = part.flag("strip_right", true);
  return [left, right](const AlignedText& text, const Limits&) {
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (left && begin < end && is_white_space(first_character(text.view(begin, end)))) {
      begin += character_length(text.view(begin, end));
    }
    while (right && begin < end) {
      const char32_t last = last_character(text.view(begin, end));
      if (!is_white_space(last)) break;
      end -= last < 0x80 ? 1 : last < 0x800 ? 2 : 3;
    }
    AlignedText result;
    result.append(text, begin, end);
    return result;
  };
}

Normaliser make_any_normaliser(const JsonPart& part, int depth) {
  if (part.is_null()) return {};
  const std::string type = part.type();
  if (type == "NFC") return [](const AlignedText& text, const Limits&) { return to_nfc(text); };
  if (type == "Prepend") return make_prepend(part);
  if (type == "Replace") return make_replace_normaliser(part);
  if (type == "Strip") return make_strip_normaliser(part);
  if (type == "Sequence") {
    if (depth == kDeepestSequence) part.fail("a Sequence is nested too deeply");
    std::vector<Normaliser> steps;
    for (const JsonPart& step : part.parts("normalizers"))
      steps.push_back(make_any_normaliser(step, depth + 1));
    return [steps](const AlignedText& text, const Limits& limits) {
      AlignedText result = text;
      for (const Normaliser& step : steps) {
        result = step(result, limits);
        limits.check(result.size());
      }
      return result;
    };
  }
  part.refuse(in_quotes(type), "supported: NFC, Prepend, Replace, Strip and Sequence");
}

}  // namespace

Normaliser make_normaliser(const JsonPart& part) { return make_any_normaliser(part, 0); }

}  // namespace kvloupe
