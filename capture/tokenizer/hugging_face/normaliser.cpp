#include "capture/tokenizer/hugging_face/normaliser.h"

#include "analysis/one_line.h"
#include "capture/tokenizer/hugging_face/nfc.h"
#include "capture/tokenizer/hugging_face/regex.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

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
