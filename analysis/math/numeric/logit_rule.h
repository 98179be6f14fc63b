#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// How one query head makes attention of the products q·k. A logit is scale·q·k, or with a soft cap
/// c (Gemma 2) c·tanh(scale·q·k / c). A sink logit (gpt-oss) takes part in the softmax like one
/// more entry that always stays and whose value is zero: its share of the attention goes to no
/// entry.
struct LogitRule {
  static constexpr double kNoSink = -std::numeric_limits<double>::infinity();

  double scale = 1.0;
  double softcap = 0.0;  // c; 0: none
  double sink = kNoSink;

  LogitRule() = default;
  /// A scale alone, as most models have.
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  LogitRule(Number of_products) : scale(static_cast<double>(of_products)) {}  // NOLINT
  LogitRule(double of_products, double cap, double sink_logit)
      : scale(of_products), softcap(cap), sink(sink_logit) {}

  bool has_sink() const { return sink != kNoSink; }
  /// Whether logits are only scaled, and share their softmax with nothing.
  bool plain() const { return softcap == 0.0 && !has_sink(); }
  double logit(double product) const {
    const double scaled = scale * product;
    return softcap > 0.0 ? softcap * std::tanh(scaled / softcap) : scaled;
  }
};

/// Products q·k become logits, in place: a matrix, a vector or a part of one.
template <typename Products>
void to_logits(Products&& products, const LogitRule& rule) {
  using Number = typename std::decay_t<Products>::Scalar;
  if (rule.softcap > 0.0) {
    const auto cap = static_cast<Number>(rule.softcap);
    const auto inner = static_cast<Number>(rule.scale / rule.softcap);
    products = (cap * (inner * products.array()).tanh()).matrix();
  } else {
    products *= static_cast<Number>(rule.scale);
  }
}

/// A softmax row subtracts this before its exponentials: its largest logit, or the sink's where
/// that is larger.
inline float softmax_shift(float largest, const LogitRule& rule) {
  return rule.has_sink() ? std::max(largest, static_cast<float>(rule.sink)) : largest;
}
/// The sum of a row's exponentials exp(logit − shift), with the sink's.
inline double with_sink(double sum, double shift, const LogitRule& rule) {
  return rule.has_sink() ? sum + std::exp(rule.sink - shift) : sum;
}

}  // namespace kvloupe
