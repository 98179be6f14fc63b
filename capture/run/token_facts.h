#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// How far the residual stream after each layer moves from one token to the next, in float32.
class ResidualChanges {
 public:
  explicit ResidualChanges(int layers) : last_(static_cast<std::size_t>(layers)) {}

  /// Takes a layer's output for the next tokens, [1,m,D]; returns ‖x_t − x_{t−1}‖₂ of these, [m]: 0
  /// for the first token of the sequence.
  std::vector<float> add(int layer, const at::Tensor& hidden);

  /// The outputs of the layers [L] of [D] for the last token, to go on from.
  const std::vector<at::Tensor>& last() const { return last_; }
  void go_on_from(std::vector<at::Tensor> last) { last_ = std::move(last); }

 private:
  std::vector<at::Tensor> last_;  // undefined before the first token
};

/// Which tokens of a sequence are structural (segments.h), while the sequence grows.
class StructuralSequence {
 public:
  /// `tokenizer` must outlive it.
  StructuralSequence(const TokenSequence& tokens, const Tokenizer& tokenizer);
  /// The same sequence with more tokens at its end.
  void extend(const TokenSequence& tokens);
  /// Another sequence, which may begin as this one does.
  void restart(const TokenSequence& tokens) {
    flags_.clear();
    extend(tokens);
  }
  /// [T so far]; stays at its address.
  const std::vector<char>& flags() const { return flags_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<char> flags_;
};

}  // namespace kvloupe
