// cam: an evicted entry gives part of its value to the entries after it.

#include <algorithm>
#include <map>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
class Cam : public Merging {
 public:
  Cam(const SpecPart& part, const LayerContext& context)
      : most_(part.count("m")),
        draw_(part.word("sample") == "bernoulli"),
        seed_(static_cast<std::uint64_t>(part.number("seed"))),
        by_largest_(part.word("denominator") == "max"),
        layer_(context.layer),
        attention_(context.model) {}

  void observe(const StepView& view, int head) override { attention_.observe(view, head); }
  void retain(const StepView&, int head, const HeadDecision& decision) override {
    attention_.retain(head, decision);
  }

  std::vector<Merge> gifts(const StepView& view, int head, const HeadDecision& decision) override {
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    std::map<int, Merge> receivers;
    auto next = decision.kept.begin();  // the first kept entry after the evicted one
    for (int row = 0; row < static_cast<int>(tokens.size()); ++row) {
      if (next != decision.kept.end() && *next == row) {
        ++next;
        continue;
      }
      // The value of an entry that a person dropped must not live on in others.
      if (decision.fates[static_cast<std::size_t>(row)] == Fate::dropped) continue;
      const auto available = decision.kept.end() - next;
      const std::span<const std::int32_t> heirs(next,
                                                next + std::min<std::ptrdiff_t>(most_, available));
      const double share = probability(head, row, heirs);
      const bool drawn = static_cast<double>(token_hash(
                             seed_, layer_, head, tokens[static_cast<std::size_t>(row)])) < share;
      const double given = draw_ ? (drawn ? 1.0 : 0.0) : share;
      if (given == 0.0) continue;
      for (const std::int32_t heir : heirs) {
        Merge& merge = receivers[heir];
        merge.from.push_back(row);
        merge.weights.push_back(static_cast<float>(given / static_cast<double>(heirs.size())));
      }
    }
    std::vector<Merge> result;
    for (auto& [row, merge] : receivers) {  // the receiver is later than what it is given
      merge.into = row;
      merge.from.push_back(row);
      merge.weights.push_back(1.0F);
      result.push_back(std::move(merge));
    }
    return result;
  }

 private:
  /// clamp(Ā_j / mean of Ā over the heirs, 0, 1); the largest in place of the mean.
  double probability(int head, int row, std::span<const std::int32_t> heirs) const {
    const std::vector<double>& attention = attention_.of(head);
    double sum = 0.0, largest = 0.0;
    for (const std::int32_t heir : heirs) {
      sum += attention[static_cast<std::size_t>(heir)];
      largest = std::max(largest, attention[static_cast<std::size_t>(heir)]);
    }
    const double own = attention[static_cast<std::size_t>(row)];
    if (heirs.empty() || own == 0.0) return 0.0;
    const double reference = by_largest_ ? largest : sum / static_cast<double>(heirs.size());
    return own >= reference ? 1.0 : own / reference;
  }

  int most_;
  bool draw_;
  std::uint64_t seed_;
  bool by_largest_;
  int layer_;
  AccumulatedAttention attention_;
};
}  // namespace

void cam(PolicyEntry& entry) {
  entry.traits.reads_queries = true;
  entry.summary = "the value of an evicted entry is divided among the kept entries after it";
  entry.formula =
      "v_r += p v_j / m' for the next m' = min(m, available) kept r after the evicted j, p = "
      "clamp(a_j / mean of a over those, 0, 1), a: accumulated attention";
  entry.source = "CaM (Zhang et al., ICML 2024)";
  entry.needs = "values, the attention of all queries of a step";
  entry.work = "m d operations per evicted entry";
  entry.differences =
      "the authors' language-model code divides by the largest attention (denominator=max) and "
      "draws with probability p (sample=bernoulli); its values include earlier merges of the step";
  entry.parameters = {
      count_parameter("m", 32.0, 1, 1024, "the largest number of kept entries that share a value"),
      word_parameter("sample", "expected", {"expected", "bernoulli"},
                     "give p of the value, or all of it with probability p"),
      count_parameter("seed", 0.0, 0, 9007199254740991.0, "seed of sample=bernoulli"),
      word_parameter("denominator", "mean", {"mean", "max"},
                     "p compares with the mean or with the largest attention")};
  entry.variants = {{"CaM: expected value", "cam"},
                    {"CaM: drawn, as its authors do", "cam(sample=bernoulli)"},
                    {"its language-model code: against the maximum", "cam(denominator=max)"}};
  entry.builder = MergingBuilder{made_of<Cam>};
  entry.notes = always("the bound of the perturbation does not hold for a merged cache");
}

}  // namespace kvloupe::policies
