#pragma once
// The measurements of a demo model, all on newly generated text.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/model/transformer.h"
#include "trainer/corpus.h"

namespace kvloupe::train {

/// Attention that later queries give to token 0 of one text, and the norm of its value.
struct SinkReport {
  int layers = 0;
  int heads = 0;                 // Hq
  int kv_heads = 0;              // Hk
  std::vector<double> strength;  // [layers·Hq] mean of A[q,0] over the queries q > 0
  /// [layers·Hk] norm of token 0's value over the median norm of the text's values.
  std::vector<double> value_ratio;

  double at(int layer, int head) const;
  /// Share of the query heads with a strength above 0.3.
  double sink_head_share() const;
  double strongest() const;
  /// Median of value_ratio over the key-value heads that serve a sink head; NaN without one.
  double sink_value_ratio() const;
  /// The layer × head picture in text: a row per layer, a digit of tenths per query head.
  std::string picture() const;
};

/// Runs the text whole, in the weights' dtype.
SinkReport measure_sinks(const Transformer& model, std::span<const TokenId> ids, at::Device device);

struct NeedleTest {
  int length = 256;
  int needles = 1;
  int prompts = 64;
  std::uint64_t first = 1000;  // index of the first prompt
};

/// Share of prompts for which the most probable next token is the right number, with the full
/// cache. With several needles the question asks for each in turn, and each question counts.
double needle_accuracy(const Transformer& model, const Corpus& corpus, const NeedleTest& test,
                       at::Device device);

/// Softmax rows [b,Hq,T,T] in which only token 0 itself sees token 0. Computed from the other
/// logits, not by renormalising the whole row, because a row that rests wholly on token 0 would
/// leave zeros.
at::Tensor attention_without_first(const StateTensors& states, double scale);

/// Mean loss of predicting tokens 2 onwards of a text, in nats: unchanged, and with token 0 masked
/// from every later query in every layer.
struct SinkRemoval {
  double loss = 0.0;
  double loss_without = 0.0;
};
SinkRemoval measure_sink_removal(const Transformer& model, std::span<const TokenId> ids,
                                 at::Device device);

}  // namespace kvloupe::train
