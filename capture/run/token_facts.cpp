#include "capture/run/token_facts.h"

#include <algorithm>

#include "analysis/trace/segments.h"

namespace kvloupe {

std::vector<float> ResidualChanges::add(int layer, const at::Tensor& hidden) {
  constexpr std::int64_t kTokens = 512;  // at once: their numbers are copied
  const std::int64_t m = hidden.size(1);
  at::Tensor& last = last_[static_cast<std::size_t>(layer)];
  std::vector<float> changes;
  for (std::int64_t first = 0; first < m; first += kTokens) {
    const at::Tensor x =
        hidden[0].slice(0, first, std::min(first + kTokens, m)).to(at::kFloat);  // [rows,D]
    const at::Tensor before = last.defined() ? last.to(x.device()) : x[0];
    const at::Tensor moved = x - at::cat({before.unsqueeze(0), x.slice(0, 0, x.size(0) - 1)});
    last = x[x.size(0) - 1].clone();  // not a part of the whole block
    const at::Tensor norms = moved.norm(2, /*dim=*/-1).to(at::kCPU).contiguous();
    changes.insert(changes.end(), norms.data_ptr<float>(), norms.data_ptr<float>() + norms.numel());
  }
  return changes;
}

StructuralSequence::StructuralSequence(const TokenSequence& tokens, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer) {
  extend(tokens);
}

void StructuralSequence::extend(const TokenSequence& tokens) {
  for (std::size_t i = flags_.size(); i < tokens.ids.size(); ++i) {
    const bool border =
        i == 0 || (!tokens.segment.empty() && (tokens.segment[i] != tokens.segment[i - 1] ||
                                               tokens.names[tokens.segment[i]] == "special"));
    flags_.push_back(border || is_structural(tokenizer_.piece_bytes(tokens.ids[i])) ? 1 : 0);
  }
}

}  // namespace kvloupe
