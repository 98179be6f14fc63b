// thinkv: segments of the cache keep more or fewer entries, by how focused the attention to them
// is.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/whole_pass.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
constexpr int kGridPoints = 256;  // at which the density is looked at

enum class Thought { reasoning, execution, transition };

/// The entropies up to which a segment is reasoning, then execution.
using Borders = std::pair<double, double>;

/// Between the sorted numbers, as numpy and torch take quantiles.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// The two deepest minima of a Gaussian density over the numbers, ascending; nothing where there
/// are fewer, or fewer than four numbers.
std::optional<Borders> deepest_minima(const std::vector<double>& sorted) {
  if (sorted.size() < 4) return std::nullopt;
  const auto count = static_cast<double>(sorted.size());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0.0;
  for (const double x : sorted) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / (count - 1.0));
  const double quarters = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  const double spread = quarters > 0.0 ? std::min(deviation, quarters / 1.349) : deviation;
  const double bandwidth = 0.9 * spread * std::pow(count, -0.2);
  if (!(bandwidth > 0.0)) return std::nullopt;
  std::array<double, kGridPoints> places{}, densities{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = sorted.front() +
                (sorted.back() - sorted.front()) * static_cast<double>(i) / (kGridPoints - 1);
    for (const double x : sorted) {
      const double z = (places[i] - x) / bandwidth;
      densities[i] += std::exp(-0.5 * z * z);
    }
    densities[i] /= count * bandwidth * std::sqrt(2.0 * std::numbers::pi);
  }
  std::vector<std::pair<double, double>> minima;  // density, place
  for (std::size_t i = 1; i + 1 < places.size(); ++i) {
    if (densities[i] < densities[i - 1] && densities[i] <= densities[i + 1]) {
      minima.emplace_back(densities[i], places[i]);
    }
  }
  if (minima.size() < 2) return std::nullopt;
  std::sort(minima.begin(), minima.end());
  return std::minmax(minima[0].second, minima[1].second);
}

std::vector<Thought> classify(const std::vector<double>& entropies) {
  std::vector<double> sorted = entropies;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  if (n < 2) return std::vector<Thought>(n, Thought::reasoning);
  const Borders borders =
      deepest_minima(sorted).value_or(Borders{sorted[n / 3], sorted[2 * n / 3]});
  std::vector<Thought> thoughts;
  for (const double entropy : entropies) {
    thoughts.push_back(entropy <= borders.first    ? Thought::reasoning
                       : entropy <= borders.second ? Thought::execution
                                                   : Thought::transition);
  }
  return thoughts;
}

class ThinKvScore : public Score {
 public:
  ThinKvScore(const SpecPart& part, const LayerContext& context)
      : part_(part),
        context_(context),
        segment_(static_cast<std::size_t>(part.count("segment"))),
        layers_(part.count("layers")),
        keeps_{static_cast<std::size_t>(part.count("reasoning")),
               static_cast<std::size_t>(part.count("execution")),
               static_cast<std::size_t>(part.count("transition"))},
        recent_(std::min(part.count("recent"), context.budget / 4)) {
    if (context.pass != nullptr) context.pass->will_ask(layers_);
  }

  Protection protection() const override { return {.window = recent_}; }

  std::vector<float> score(const StepView& view, int head) override {
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    const std::size_t n = tokens.size();
    const std::size_t candidates = n - std::min(static_cast<std::size_t>(recent_), n);
    const auto attention =
        whole_pass(part_, context_).attention(layers_, view.block.end - 1, tokens);
    std::vector<double> entropies;
    for (std::size_t first = 0; first < candidates; first += segment_) {
      entropies.push_back(entropy(attention->mean, first, std::min(first + segment_, candidates)));
    }
    const std::vector<Thought> thoughts = classify(entropies);
    std::vector<double> scores = attention->last;
    for (std::size_t at = 0; at < thoughts.size(); ++at) {
      const std::size_t first = at * segment_, end = std::min(first + segment_, candidates);
      lift(attention->last, first, end, keeps_[static_cast<std::size_t>(thoughts[at])],
           static_cast<double>(thoughts.size() - at), scores);
    }
    fill_protected(scores, 0, candidates);
    return to_float(scores);
  }

 private:
  /// The entropy of the attention within a segment, as shares of the segment's attention.
  static double entropy(const std::vector<double>& attention, std::size_t first, std::size_t end) {
    double sum = 1e-9, result = 0.0;
    for (std::size_t i = first; i < end; ++i) sum += attention[i];
    for (std::size_t i = first; i < end; ++i) {
      const double share = attention[i] / sum;
      result -= share * std::log(share + 1e-12);
    }
    return result;
  }

  /// The entries that the segment keeps come before all that no segment keeps, and before those of
  /// later segments: `above`, and their place in the segment by attention, as a share.
  static void lift(const std::vector<double>& attention, std::size_t first, std::size_t end,
                   std::size_t keeps, double above, std::vector<double>& scores) {
    std::vector<std::size_t> order(end - first);
    std::iota(order.begin(), order.end(), first);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return attention[a] != attention[b] ? attention[a] < attention[b] : a < b;
    });
    for (std::size_t place = order.size() - std::min(keeps, order.size()); place < order.size();
         ++place) {
      scores[order[place]] = above + static_cast<double>(place) / static_cast<double>(order.size());
    }
  }

  SpecPart part_;
  LayerContext context_;
  std::size_t segment_;
  int layers_;
  std::array<std::size_t, 3> keeps_;  // by Thought
  int recent_;
};

}  // namespace

void thinkv(PolicyEntry& entry) {
  entry.summary = "segments keep more entries the more focused the attention to them is";
  entry.traits.reads_pass = true;
  entry.formula =
      "the cache without its last recent entries (at most a quarter of the budget) is cut into "
      "segments of so many entries; H: the entropy of the last query's attention within a segment, "
      "mean over the query heads of the last layers. The two deepest minima of a density over all "
      "H divide reasoning (low H), execution and transition; without two minima, thirds do. A "
      "segment keeps so many entries of its class with the most attention a_i in the last layer. "
      "Kept: "
      "score_i = segments from its own to the last + place in the segment by a (0 to 1); others: "
      "a_i. Density: Gaussian, 256 points from the least to the largest H, bandwidth "
      "0.9 min(σ, IQR/1.349) n^(-1/5)";
  entry.source =
      "ThinKV (2025), as the code of EpiKV (2026, arXiv 2606.26472) has it "
      "(ThinKVFaithfulEviction)";
  entry.needs =
      "queries and keys of the last layers; in a running model decisions after the whole pass";
  entry.work = "n products of length d per query head of the last layers, once for all layers";
  entry.differences =
      "that code evicts after the whole pass at every token and finds the classes anew every 128 "
      "tokens; here each act does: thinkv+every(128) is as seldom. It leaves places empty where "
      "segments keep fewer; here the entries with the most attention fill them, so that budgets "
      "are equal. As in the code, segments are cut in the cache as it stands, with the prompt, and "
      "older segments come first when places are short; ThinKV's own are of decoded tokens: add "
      "protect_prompt. All layers and heads that hold the same tokens decide alike";
  entry.parameters = {
      count_parameter("segment", 128.0, 1, 1e6, "entries of a segment"),
      count_parameter("reasoning", 64.0, 0, 1e6, "entries that a segment of low entropy keeps"),
      count_parameter("execution", 32.0, 0, 1e6, "the same in the middle"),
      count_parameter("transition", 8.0, 0, 1e6, "the same of high entropy"),
      count_parameter("layers", 4.0, 1, 1e6, "last layers whose attention classifies"),
      count_parameter("recent", 128.0, 0, 1e6,
                      "entries at the end that are always kept, at most a quarter of the budget")};
  entry.variants = {{"EpiKV's code", "thinkv+every(128)+only"}};
  entry.own_protection = [](const SpecPart& part) {
    return OwnProtection{.last_entries = Percent{part.count("recent") > 0 ? 25.0 : 0.0}};
  };
  entry.builder =
      ScoreBuilder{made_of<ThinKvScore>, ScoreScale::common, [](const SpecPart&) { return true; }};
}

}  // namespace kvloupe::policies
