#include "analysis/policy/kit/token_parameters.h"

#include "analysis/policy/kit/token_rule.h"

namespace kvloupe {

ParameterInfo tokens_parameter() {
  return text_parameter("tokens", "0",
                        "tokens and ranges, such as \"120-131;140\"; \"200-\" has no end",
                        [](std::string_view text) {
                          std::vector<TokenRange> ranges;
                          return read_tokens(text, ranges);
                        });
}

ParameterInfo heads_parameter() {
  return text_parameter("heads", "",
                        "layer.head, or a whole layer, such as \"2.1;3\"; empty: every head",
                        [](std::string_view text) {
                          std::vector<HeadName> heads;
                          return read_heads(text, heads);
                        });
}

}  // namespace kvloupe
