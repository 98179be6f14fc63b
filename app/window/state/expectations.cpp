#include "app/window/state/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "app/plot/printable.h"

namespace kvloupe::window {

namespace {

/// Whole percents, one digit more near the ends: 97 %, 2.6 %, 99.7 %, under 0.1 %, over 99.9 %.
std::string percent(double probability) {
  const double value = 100.0 * std::min(probability, 1.0);
  if (value > 99.95) return "over 99.9 %";
  if (value >= 9.95 && value < 99.0) return fmt::format("{:.0f} %", value);
  if (value >= 0.1) return fmt::format("{:.1f} %", value);
  return "under 0.1 %";
}

std::string quoted(const Expectations& expected, std::int32_t id) {
  const auto text = expected.texts.find(id);
  return text == expected.texts.end() ? fmt::format("#{}", id)
                                      : "“" + figure::printable(text->second) + "”";
}

/// The ids expected after a token, most probable first; empty where the trace does not say.
std::span<const std::int32_t> expected_after(const Expectations& expected, int token) {
  const auto k = static_cast<std::size_t>(expected.predicted.k);
  const auto first = static_cast<std::size_t>(token) * k;
  if (token < 0 || first + k > expected.predicted.token_ids.size()) return {};
  return std::span(expected.predicted.token_ids).subspan(first, k);
}

}  // namespace

Expectations read_expectations(const Trace& trace) {
  Expectations expected;
  expected.predicted = trace.predictions().value_or(Trace::Predictions());
  expected.cut = trace.run().closed_loop();
  expected.ids = trace.tokens().ids;
  const TokenTable& tokens = trace.tokens();
  for (std::size_t i = 0; i < std::min(tokens.ids.size(), tokens.text.size()); ++i) {
    expected.texts.emplace(tokens.ids[i], tokens.text[i]);
  }
  if (expected.predicted.token_ids.empty()) return expected;
  const auto vocabulary = trace.vocabulary();
  if (!vocabulary) return expected;
  for (const std::int32_t id : expected.predicted.token_ids) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= vocabulary->size() || (*vocabulary)[index].empty()) continue;
    expected.texts.emplace(id, (*vocabulary)[index]);
  }
  return expected;
}

std::string likelihood_text(const Expectations& expected, int token) {
  const auto before = static_cast<std::size_t>(token) - 1;
  if (token < 1 || before >= expected.predicted.loss.size() ||
      !std::isfinite(expected.predicted.loss[before])) {
    return {};
  }
  std::string text =
      fmt::format("{} gave it {}", expected.cut ? "With eviction the model" : "The model",
                  percent(std::exp(-static_cast<double>(expected.predicted.loss[before]))));
  const auto choices = expected_after(expected, token - 1);
  if (choices.empty()) return text + ".";
  constexpr std::array<const char*, 5> kPlaces{"first", "second", "third", "fourth", "fifth"};
  const auto place = static_cast<std::size_t>(
      std::find(choices.begin(), choices.end(), expected.ids[static_cast<std::size_t>(token)]) -
      choices.begin());
  if (place >= choices.size()) return text + fmt::format(" (not in its top {}).", choices.size());
  return text + (place < kPlaces.size() ? fmt::format(", its {} choice.", kPlaces[place])
                                        : fmt::format(", its choice {}.", place + 1));
}

std::string next_text(const Expectations& expected, int token) {
  std::string text;
  const auto choices = expected_after(expected, token);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(token) * choices.size() + i;
    const double probability = std::exp(static_cast<double>(expected.predicted.logprob[at]));
    if (i > 0 && probability < 0.001) break;
    text += (i == 0 ? "Next it expects " : ", ") + quoted(expected, choices[i]) + " " +
            percent(probability);
  }
  return text.empty() ? text : text + ".";
}

}  // namespace kvloupe::window
