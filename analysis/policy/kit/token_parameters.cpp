#include "analysis/policy/kit/token_parameters.h"

#include "analysis/policy/kit/token_rule.h"

namespace kvloupe {

ParameterInfo tokens_parameter() {
  ParameterInfo parameter;
  parameter.name = "tokens";
  parameter.type = ParameterType::text;
  parameter.default_value = std::string("0");
  parameter.meaning = "tokens and ranges, such as \"120-131;140\"; \"200-\" has no end";
  parameter.check = [](std::string_view text) {
    std::vector<TokenRange> ranges;
    return read_tokens(text, ranges);
  };
  return parameter;
}

ParameterInfo heads_parameter() {
  ParameterInfo parameter;
  parameter.name = "heads";
  parameter.type = ParameterType::text;
  parameter.default_value = std::string();
  parameter.meaning = "layer.head, or a whole layer, such as \"2.1;3\"; empty: every head";
  parameter.check = [](std::string_view text) {
    std::vector<HeadName> heads;
    return read_heads(text, heads);
  };
  return parameter;
}

}  // namespace kvloupe
