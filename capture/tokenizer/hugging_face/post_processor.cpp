#include "capture/tokenizer/hugging_face/post_processor.h"

#include "analysis/one_line.h"
#include "capture/tokenizer/hugging_face/bpe_model.h"

namespace kvloupe {

namespace {

constexpr const char* kOneToken = "a template may only put one token before the text";

/// The id of a template's special token, listed by name in "special_tokens".
std::int32_t special_token(const JsonPart& part, const std::string& name) {
  const JsonPart list = part.part("special_tokens");
  const JsonPart entry(list.field(name.c_str()), part.path(), list.name());
  const nlohmann::json& ids = entry.field("ids");
  if (!ids.is_array() || ids.empty()) {
    part.fail("special_tokens has no ids for " + in_quotes(name));
  }
  if (ids.size() > 1) part.refuse("template with several ids for " + in_quotes(name), kOneToken);
  if (!ids[0].is_number_unsigned() || ids[0].get<std::uint64_t>() > kLargestTokenId) {
    part.fail("special_tokens: the id of " + in_quotes(name) +
              " must be a whole number from 0 to " + std::to_string(kLargestTokenId));
  }
  return ids[0].get<std::int32_t>();
}

std::optional<std::int32_t> read_template(const JsonPart& part) {
  std::optional<std::int32_t> first;
  bool has_text = false;
  for (const JsonPart& element : part.parts("single")) {
    if (const JsonPart token = element.part("SpecialToken"); !token.is_null()) {
      if (first || has_text) part.refuse("template", kOneToken);
      first = special_token(part, token.text("id"));
    } else if (element.part("Sequence").is_null() || has_text) {
      part.fail("single must have one Sequence, and otherwise only SpecialTokens");
    } else {
      has_text = true;
    }
  }
  if (!has_text) part.fail("single must have one Sequence, and otherwise only SpecialTokens");
  return first;
}

std::optional<std::int32_t> read(const JsonPart& part, int depth) {
  if (part.is_null()) return std::nullopt;
  const std::string type = part.type();
  if (type == "ByteLevel") return std::nullopt;  // trims offsets only
  if (type == "TemplateProcessing") return read_template(part);
  if (type == "Sequence") {
    if (depth == kDeepestSequence) part.fail("a Sequence is nested too deeply");
    std::optional<std::int32_t> first;
    for (const JsonPart& step : part.parts("processors")) {
      const std::optional<std::int32_t> token = read(step, depth + 1);
      if (token && first) part.refuse("Sequence of two templates", kOneToken);
      if (token) first = token;
    }
    return first;
  }
  part.refuse(in_quotes(type), "supported: TemplateProcessing, ByteLevel and Sequence");
}

}  // namespace

std::optional<std::int32_t> read_first_token(const JsonPart& post_processor) {
  return read(post_processor, 0);
}

}  // namespace kvloupe
