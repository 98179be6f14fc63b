// chunks: neighbouring tokens stay or go together, in all heads of a layer.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
constexpr double kEpsilon = 1e-8;  // of EntropyGatedChunkKVPress

/// Every token of a chunk has the mean over the chunk of the sum of the heads' scores.
class ChunkScore : public ScoreOver {
 public:
  ChunkScore(int length, int few, int heads, std::unique_ptr<Score> base)
      : ScoreOver(std::move(base)), length_(length), few_(few), heads_(heads) {}

  void prepare(const StepView& view, int budget) override {
    base_->prepare(view, budget);
    const auto& tokens = view.caches.front().tokens;
    for (const CacheView& cache : view.caches) {
      if (!std::equal(tokens.begin(), tokens.end(), cache.tokens.begin(), cache.tokens.end())) {
        throw WorkError("chunks needs the same entries in every head of a layer");
      }
    }
    std::vector<double> sums(tokens.size(), 0.0);
    for (int head = 0; head < heads_ && !tokens.empty(); ++head) {
      const std::vector<float> own = base_->score(view, head);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += base_->keeps_small_scores() ? std::exp(logarithm_of_score(own[i]))
                                               : static_cast<double>(own[i]);
      }
    }
    std::vector<Chunk> chunks;
    for (std::size_t begin = 0; begin < tokens.size();) {
      std::size_t end = begin;
      double sum = 0.0;
      while (end < tokens.size() && tokens[end] / length_ == tokens[begin] / length_) {
        sum += sums[end++];
      }
      chunks.push_back({begin, end, sum / static_cast<double>(end - begin)});
      begin = end;
    }
    scores_.assign(tokens.size(), 0.0F);
    if (few_ > 0) return order_by_gate(chunks, sums);
    for (const Chunk& chunk : chunks) {
      std::fill(scores_.begin() + static_cast<std::ptrdiff_t>(chunk.begin),
                scores_.begin() + static_cast<std::ptrdiff_t>(chunk.end),
                keeps_small_scores() ? score_of_logarithm(std::log(chunk.mean))
                                     : static_cast<float>(chunk.mean));
    }
  }

  std::vector<float> score(const StepView& /*view*/, int /*head*/) override { return scores_; }
  bool keeps_small_scores() const override { return few_ == 0 && base_->keeps_small_scores(); }

 private:
  struct Chunk {
    std::size_t begin = 0;  // rows
    std::size_t end = 0;
    double mean = 0.0;
  };

  /// How evenly the scores lie in a chunk, 0 to 1: their entropy, made to sum to 1, over the
  /// largest there can be. As the press computes it, with its 1e-8 in the sum and the logarithm:
  /// of chunks with scores as small as that, this decides.
  static double evenness(const Chunk& chunk, const std::vector<double>& sums) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(chunk.begin);
    const auto last = sums.begin() + static_cast<std::ptrdiff_t>(chunk.end);
    const double shift = std::min(*std::min_element(first, last), 0.0);
    double all = 0.0, entropy = 0.0;
    for (auto one = first; one != last; ++one) all += *one - shift;
    if (last - first < 2 || all <= 0.0) return 0.0;
    for (auto one = first; one != last; ++one) {
      const double share = (*one - shift) / (all + kEpsilon);
      entropy -= share * std::log(share + kEpsilon);
    }
    return std::clamp(entropy / std::log(static_cast<double>(last - first)), 0.0, 1.0);
  }

  /// The middle one of an odd number, of an even number the lower.
  static double lower_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  /// Scores that only say an order: chunk after chunk by their means, each entry by entry; but of a
  /// high, uneven chunk the best few only. Then the rest, entry by entry.
  void order_by_gate(std::vector<Chunk> chunks, const std::vector<double>& sums) {
    if (chunks.empty()) return;
    std::vector<double> means, even;
    for (const Chunk& chunk : chunks) {
      means.push_back(chunk.mean);
      even.push_back(evenness(chunk, sums));
    }
    const double high = lower_median(means), low = lower_median(even);
    std::vector<std::size_t> by_mean(chunks.size());
    std::iota(by_mean.begin(), by_mean.end(), std::size_t{0});
    // Among equals the later comes first.
    const auto sort = [](std::vector<std::size_t>& which, const std::vector<double>& by) {
      std::sort(which.begin(), which.end(), [&](std::size_t a, std::size_t b) {
        return by[a] != by[b] ? by[a] > by[b] : a > b;
      });
    };
    sort(by_mean, means);
    std::vector<std::size_t> order, rest;
    for (const std::size_t at : by_mean) {
      std::vector<std::size_t> rows(chunks[at].end - chunks[at].begin);
      std::iota(rows.begin(), rows.end(), chunks[at].begin);
      sort(rows, sums);
      const bool gated = means[at] >= high && even[at] < low;
      const auto first =
          rows.begin() +
          static_cast<std::ptrdiff_t>(gated ? std::min(rows.size(), static_cast<std::size_t>(few_))
                                            : rows.size());
      order.insert(order.end(), rows.begin(), first);
      rest.insert(rest.end(), first, rows.end());
    }
    sort(rest, sums);
    order.insert(order.end(), rest.begin(), rest.end());
    for (std::size_t place = 0; place < order.size(); ++place) {
      scores_[order[place]] = static_cast<float>(order.size() - place);
    }
  }

  int length_;
  int few_;  // 0: chunks stay whole
  int heads_;
  std::vector<float> scores_;  // [n], of all heads
};

std::string chunks_refusal(const SpecPart& own, const PolicySpec& spec) {
  if (own.count("few") >= own.count("length")) {
    return "few must be less than length: a chunk of " + std::to_string(own.count("length")) +
           " tokens cannot be cut down to " + std::to_string(own.count("few"));
  }
  const SpecPart* part =
      spec.find("caote") != nullptr ? spec.find("caote") : spec.find("fastcaote");
  if (part == nullptr) return "";
  return part->name + " decides for each head separately; chunks needs one score for all heads";
}
}  // namespace

void chunks(PolicyEntry& entry) {
  entry.summary = "neighbouring tokens stay or go together, in all heads of a layer";
  entry.formula =
      "score of every token of a chunk = mean over its entries of the scores' sum s over the "
      "heads; chunk of token t: floor(t / length); all entries in the cache count, protected ones "
      "too. few > 0: chunks by their means, the entries of a chunk by s, so that of a chunk that "
      "fits only in part the best stay; but of one with a mean from the median on and an entropy "
      "below the median the best few entries only; then the other entries by s. Entropy: −Σ p ln(p "
      "+ 1e-8) / ln(entries), at most 1, p = s / (Σ s + 1e-8), s first shifted by its minimum if "
      "that is negative; 0 of one entry. Medians: of an even number the lower";
  entry.source =
      "ChunkKV (Liu et al., 2025, arXiv 2502.00299); as kvpress, over any score; few: "
      "EntropyGatedChunkKVPress of kvpress";
  entry.needs = "the scores of all heads of a layer";
  entry.work = "n Hk additions";
  entry.differences =
      "kvpress keeps whole chunks, so not exactly N entries; here the chunk that fits only in part "
      "keeps its later tokens. Entries that a score protects stay beside the chunks";
  entry.parameters = {count_parameter("length", 20.0, 1, 1e6, "tokens of a chunk"),
                      count_parameter("few", 0.0, 0, 1e6,
                                      "so many entries stay at first of a chunk whose score is "
                                      "high but uneven; 0: chunks stay whole")};
  entry.variants = {{"kvpress: over SnapKV", "chunks"},
                    {"kvpress: gated by entropy", "chunks(10,few=4)"}};
  entry.builder = ScoreGrouping{
      [](const SpecPart& part, const LayerContext& context, std::unique_ptr<Score> base) {
        return make_copyable<ChunkScore>(part.count("length"), part.count("few"),
                                         context.model.num_kv_heads, std::move(base));
      }};
  entry.refusal = chunks_refusal;
}

}  // namespace kvloupe::policies
