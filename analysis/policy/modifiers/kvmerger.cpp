// kvmerger: neighbours with similar keys become one entry.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "analysis/math/rope.h"
#include "analysis/policy/kit/merging_sets.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
class KvMerger : public Merging {
 public:
  KvMerger(SpecPart part, const LayerContext& context)
      : part_(std::move(part)), layer_(context.layer), attention_(context.model) {
    if (part_.word("rotate") == "pre") rope_.emplace(context.model);
  }

  void observe(const StepView& view, int head) override { attention_.observe(view, head); }
  void retain(const StepView&, int head, const HeadDecision& decision) override {
    attention_.retain(head, decision);
  }

  void sets(const StepView& view, int head, int quota, HeadDecision& decision) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::vector<int> candidates = candidate_rows(head, decision.fates);
    MergingSets groups(
        cache.keys, candidates,
        part_.word("link") == "chain" ? MergingSets::Link::chain : MergingSets::Link::anchor);
    double epsilon = 0.0;
    if (const double* fixed = std::get_if<double>(&part_.argument("threshold"))) {
      epsilon = *fixed;
    } else {
      const auto dropped = static_cast<std::size_t>(
          std::count(decision.fates.begin(), decision.fates.end(), Fate::dropped));
      const auto others = decision.fates.size() - candidates.size() - dropped;
      const auto budget = static_cast<std::size_t>(quota);
      epsilon = groups.threshold_for(budget > others ? budget - others : 0);
    }
    decision.merge_threshold = epsilon;
    for (std::vector<int>& set : groups.at(epsilon)) {
      if (set.size() > 1) decision.merges.push_back(merge(cache, head, std::move(set)));
    }
  }

 private:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// Unprotected entries but the most recent ⌊recent·n⌋ and, of the others, the ⌊heavy·n⌋ with the
  /// largest accumulated attention; of equals the later is heavy.
  std::vector<int> candidate_rows(int head, const std::vector<Fate>& fates) const {
    const int n = static_cast<int>(fates.size());
    const std::vector<double>& attention = attention_.of(head);
    std::vector<int> rows(static_cast<std::size_t>(n - std::min(n, part_.share("recent", n))));
    std::iota(rows.begin(), rows.end(), 0);
    const auto heavy = std::min(rows.size(), static_cast<std::size_t>(part_.share("heavy", n)));
    const auto border = rows.begin() + static_cast<std::ptrdiff_t>(heavy);
    std::nth_element(rows.begin(), border, rows.end(), [&](int a, int b) {
      return std::pair(attention[static_cast<std::size_t>(a)], a) >
             std::pair(attention[static_cast<std::size_t>(b)], b);
    });
    rows.erase(rows.begin(), border);
    std::erase_if(rows,
                  [&](int row) { return fates[static_cast<std::size_t>(row)] != Fate::evicted; });
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  Merge merge(const CacheView& cache, int head, std::vector<int> set) const {
    const auto token = [&](int row) { return cache.tokens[static_cast<std::size_t>(row)]; };
    const std::size_t pivot = pivot_of(cache, head, set);
    Merge result;
    result.into = set[pivot];
    Rows keys(static_cast<Eigen::Index>(set.size()), cache.keys.cols());
    for (std::size_t i = 0; i < set.size(); ++i) {
      auto key = keys.row(static_cast<Eigen::Index>(i));
      key = cache.keys.row(set[i]).cast<double>();
      if (rope_) turn(key, -token(set[i]));
    }
    const std::vector<double> weights = weights_of(keys, static_cast<Eigen::Index>(pivot));
    Eigen::RowVectorXd key = Eigen::RowVectorXd::Zero(keys.cols());
    for (std::size_t i = 0; i < set.size(); ++i) {
      key += weights[i] * keys.row(static_cast<Eigen::Index>(i));
    }
    if (rope_) turn(key, token(result.into));
    result.key.resize(static_cast<std::size_t>(key.size()));
    Eigen::Map<Eigen::RowVectorXf>(result.key.data(), key.size()) = key.cast<float>();
    result.weights.assign(weights.begin(), weights.end());
    result.log_size = 0.0F;  // the key is new, and what the pivot's had is gone
    if (part_.count("log_size") == 1) {
      double size = 0.0;  // of entries that are merged themselves, all their tokens
      for (const int row : set) {
        size += cache.log_sizes.empty()
                    ? 1.0
                    : std::exp(static_cast<double>(cache.log_sizes[static_cast<std::size_t>(row)]));
      }
      result.log_size = static_cast<float>(std::log(size));
    } else if (part_.word("value_scale") == "paper") {
      result.value_scale = static_cast<float>(set.size());
    }
    result.from = std::move(set);
    return result;
  }

  std::size_t pivot_of(const CacheView& cache, int head, const std::vector<int>& set) const {
    const std::string& rule = part_.word("pivot");
    const auto preference = [&](int row) {
      const auto index = static_cast<std::size_t>(row);
      if (rule == "last") return static_cast<double>(row);
      if (rule == "random") {
        return static_cast<double>(token_hash(0, layer_, head, cache.tokens[index]));
      }
      return attention_.of(head)[index];
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < set.size(); ++i) {
      if (preference(set[i]) >= preference(set[best])) best = i;
    }
    return best;
  }

  std::vector<double> weights_of(const Rows& keys, Eigen::Index pivot) const {
    const auto size = static_cast<std::size_t>(keys.rows());
    if (part_.word("weights") == "mean") {
      return std::vector<double>(size, 1.0 / static_cast<double>(size));
    }
    std::vector<double> distances;
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      distances.push_back((keys.row(pivot) - keys.row(i)).norm());
    }
    const SpecValue& sigma = part_.argument("sigma");
    if (const double* fixed = std::get_if<double>(&sigma)) {
      return gaussian_weights(distances, *fixed);
    }
    return gaussian_weights(distances, std::get<std::string>(sigma) == "eq6"
                                           ? sigma_of_equation_6(distances)
                                           : sigma_of_distances(distances));
  }

  template <typename Row>
  void turn(Row&& row, int positions) const {
    rope_->turn(std::span<double>(row.data(), static_cast<std::size_t>(row.size())),
                static_cast<double>(positions));
  }

  SpecPart part_;
  int layer_;
  AccumulatedAttention attention_;
  std::optional<Rope> rope_;  // rotate=pre
};

Lines notes(const SpecPart& part) {
  Lines notes;
  if (std::holds_alternative<double>(part.argument("threshold"))) {
    notes.emplace_back(
        "kvmerger: with a fixed threshold the number of entries differs from the budget: if "
        "merging leaves more, the lowest scores are evicted, and merging may also leave fewer; "
        "threshold=auto meets the budget");
  }
  if (part.argument("sigma") == SpecValue(std::string("eq6"))) {
    notes.emplace_back(
        "kvmerger: eq. 6 defines sigma through sigma itself and keeps it below 0.71; at the "
        "distances of real keys the merged entry is then almost only its pivot");
  }
  if (part.word("rotate") == "post") {
    notes.emplace_back(
        "kvmerger: the average of rotated keys is not the rotation of any key; rotate=pre merges "
        "before RoPE");
  }
  if (part.count("log_size") == 0 && part.word("value_scale") == "paper") {
    notes.emplace_back(
        "kvmerger: value_scale=paper multiplies by |S| each time a merged entry is merged again, "
        "so values grow over many steps; value_scale=one and log_size=1 do not");
  }
  if (part.count("log_size") == 1) {
    notes.emplace_back("kvmerger: log_size=1 implies value_scale=one");
  }
  notes.emplace_back("the bound of the perturbation does not hold for a merged cache");
  return notes;
}
}  // namespace

void kvmerger(PolicyEntry& entry) {
  entry.traits.reads_queries = true;
  entry.summary = "neighbouring entries with similar keys are merged, weighted by a Gaussian";
  entry.formula =
      "k = sum w_i k_i, v = |S| sum w_i v_i, w_i = g_i / sum g, g_i = exp(-|k_p - k_i|^2 / (2 "
      "sigma^2)); S: neighbours with cos > threshold, p: the one with most attention";
  entry.source = "KVMerger, algorithms 1 and 2, eq. 5-8";
  entry.needs = "keys, values, the attention of all queries of a step";
  entry.work = "n d operations for the neighbours, and those of the merged values";
  entry.differences =
      "the listing links neighbours, the text links to the key that opened the set: link; eq. 6 is "
      "circular: sigma; the paper does not add log|S| to the logit of the merged entry: log_size";
  const auto word = [](std::string name, std::vector<std::string> words, std::string meaning) {
    return word_parameter(std::move(name), words.front(), words, std::move(meaning));
  };
  const auto share = [](std::string name, double percent, std::string meaning) {
    return share_parameter(std::move(name), Percent{percent}, 0, 1e6, std::move(meaning));
  };
  entry.parameters = {
      number_or_word_parameter(
          "threshold", 0.75, -1, 1, {"auto"},
          "keys with a cosine above this join a set; auto: the largest that meets the "
          "budget, for each head and step, given as merge_threshold"),
      number_or_word_parameter(
          "sigma", 5.0, 1e-3, 1e6, {"eq6", "dist"},
          "width of the Gaussian; eq6: as printed; dist: sum |k_p - k_i| / (sqrt(2) |S|)"),
      word("link", {"anchor", "chain"},
           "cosine with the key that opened the set, or with the neighbour"),
      word("pivot", {"attention", "random", "last"},
           "the member with the most accumulated attention, a random one, or the last"),
      word("weights", {"gauss", "mean"}, "eq. 7, or the plain mean"),
      word("value_scale", {"paper", "one"}, "paper: the merged value is |S| times the mean"),
      word("rotate", {"post", "pre"},
           "average the keys as cached, or before RoPE and rotate to the pivot's position"),
      flag_parameter("log_size", 0.0,
                     "1: log|S| is added to the merged entry's logit, and value_scale is one"),
      share("recent", 17, "last entries that are not merged: a count, or a share of the cache"),
      share("heavy", 12,
            "entries with the most accumulated attention, not merged either: the same"),
  };
  entry.variants = {{"KVMerger §3.2: cosine with the opener", "kvmerger"},
                    {"KVMerger's listing: cosine with the neighbour", "kvmerger(link=chain)"},
                    {"KVMerger eq. 6 as printed", "kvmerger(sigma=eq6)"},
                    {"σ from the distances", "kvmerger(sigma=dist)"},
                    {"KVMerger figure 3c: plain mean", "kvmerger(weights=mean)"},
                    {"KVMerger table 4: random pivot", "kvmerger(pivot=random)"},
                    {"sizes in the logits", "kvmerger(log_size=1)"}};
  entry.builder = MergingBuilder{made_of<KvMerger>};
  entry.refusal = one_set_refusal;
  entry.notes = [](const SpecPart& part, const ModelInfo&, int) { return notes(part); };
}

}  // namespace kvloupe::policies
