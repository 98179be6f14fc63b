// chunks: neighbouring tokens stay or go together, in all heads of a layer.

#include <algorithm>

#include "analysis/error.h"
#include "analysis/policy/group_mean.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
/// Every token of a chunk has the mean over the chunk of what the heads' scores add up to.
class ChunkScore : public Score {
 public:
  ChunkScore(int length, int heads, std::unique_ptr<Score> base)
      : length_(length), heads_(heads), base_(std::move(base)) {}

  void observe(const StepView& view, int head) override { base_->observe(view, head); }

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
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(own[i]);
    }
    scores_.resize(tokens.size());
    for (std::size_t begin = 0; begin < tokens.size();) {
      std::size_t end = begin;
      double sum = 0.0;
      while (end < tokens.size() && tokens[end] / length_ == tokens[begin] / length_) {
        sum += sums[end++];
      }
      for (std::size_t i = begin; i < end; ++i) {
        scores_[i] = static_cast<float>(sum / static_cast<double>(end - begin));
      }
      begin = end;
    }
  }

  std::vector<float> score(const StepView& /*view*/, int /*head*/) override { return scores_; }
  void set_protection(const Protection& protection) override { base_->set_protection(protection); }
  Protection protection() const override { return base_->protection(); }
  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    base_->retain(view, head, decision);
  }
  bool needs_values() const override { return base_->needs_values(); }

 private:
  int length_;
  int heads_;
  std::unique_ptr<Score> base_;
  std::vector<float> scores_;  // [n], of all heads
};

std::string refusal(const SpecPart&, const PolicySpec& spec) {
  const SpecPart* part =
      spec.find("caote") != nullptr ? spec.find("caote") : spec.find("fastcaote");
  if (part == nullptr) return "";
  return part->name + " decides for each head separately; chunks needs one score for all heads";
}
}  // namespace

PolicyEntry chunks() {
  PolicyEntry entry;
  entry.name = "chunks";
  entry.traits.reads_queries = false;
  entry.summary = "neighbouring tokens stay or go together, in all heads of a layer";
  entry.formula =
      "score of every token of a chunk = mean over its entries of the scores' sum over the heads; "
      "chunk of token t: floor(t / length)";
  entry.source = "ChunkKV (Liu et al., 2025, arXiv 2502.00299); as kvpress, over any score";
  entry.needs = "the scores of all heads of a layer";
  entry.work = "n Hk additions";
  entry.differences =
      "kvpress keeps whole chunks and so not exactly N entries; here the last chunk that fits only "
      "in part keeps its later tokens. What a score protects, such as snapkv's window, stays "
      "beside "
      "the chunks";
  entry.parameters = {{.name = "length",
                       .type = ParameterType::count,
                       .default_value = 20.0,
                       .minimum = 1,
                       .maximum = 1e6,
                       .words = {},
                       .meaning = "tokens of a chunk"}};
  entry.variants = {{"kvpress: over SnapKV", "chunks"}};
  entry.builder = ScoreGrouping{
      [](const SpecPart& part, const LayerContext& context, std::unique_ptr<Score> base) {
        return std::make_unique<ChunkScore>(part.count("length"), context.model.num_kv_heads,
                                            std::move(base));
      }};
  entry.refusal = refusal;
  return entry;
}

}  // namespace kvloupe::policies
