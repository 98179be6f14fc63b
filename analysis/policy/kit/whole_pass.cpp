#include "analysis/policy/kit/whole_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

namespace {
constexpr std::size_t kMostPasses = std::size_t{1} << 23;  // entries of all tokens: some 160 MB

std::string no_residual(const std::string& trace) {
  return trace +
         ": has no residual_change, the change of the residual stream from token to token; capture "
         "it again with kvloupe-capture run or kvloupe.capture of this version (Gemma 3n, with "
         "several "
         "residual streams, has none)";
}

/// In double, and in the same order whoever holds the rows: a replay and a running model then get
/// the same number.
double product(const float* a, const float* b, Eigen::Index width) {
  constexpr Eigen::Index kLanes = 4;
  std::array<double, kLanes> sums{};
  Eigen::Index c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    for (Eigen::Index lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<std::size_t>(lane)] +=
          static_cast<double>(a[c + lane]) * static_cast<double>(b[c + lane]);
    }
  }
  for (; c < width; ++c) sums[0] += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

class TracePass : public WholePass {
 public:
  explicit TracePass(const Trace& trace) : trace_(trace) {
    for (int layer = 0; layer < trace.model().num_layers; ++layer) {
      if (!trace.attends(layer)) continue;
      attending_.push_back({layer, trace.layer_model(layer), trace.attention(layer)});
    }
  }

  std::span<const float> residual_change(int layer) const override {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = changes_.try_emplace(layer);
    if (is_new) found->second = trace_.residual_change(layer);
    if (found->second.empty()) throw UsageError(no_residual(trace_.path().string()));
    return found->second;
  }

 protected:
  const std::vector<AttendingLayer>& attending() const override { return attending_; }
  Matrix queries(int layer, int token) const override {
    return trace_.queries_of_token(layer, token);
  }
  MatrixView keys(int layer, int head) const override {
    const std::lock_guard lock(mutex_);
    std::optional<Matrix>& own = keys_[{layer, head}];
    if (!own) own = trace_.key(layer, head);
    return view(*own);
  }

 private:
  const Trace& trace_;
  std::vector<AttendingLayer> attending_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::vector<float>> changes_;
  mutable std::map<std::pair<int, int>, std::optional<Matrix>> keys_;
};
}  // namespace

void WholePass::forget_kept() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  numbers_ = 0;
}

std::shared_ptr<const WholePass::Attention> WholePass::attention(
    int layers, int token, std::span<const std::int32_t> entries) const {
  const std::lock_guard lock(mutex_);  // others wait for what they would compute as well
  const auto found = kept_.find(token);
  if (found != kept_.end() && found->second.layers == layers &&
      std::equal(entries.begin(), entries.end(), found->second.entries.begin(),
                 found->second.entries.end())) {
    return found->second.attention;
  }
  auto result = std::make_shared<const Attention>(computed(layers, token, entries));
  if (found != kept_.end()) {
    numbers_ -= found->second.entries.size();
    kept_.erase(found);
  }
  if (numbers_ + entries.size() > kMostPasses) {
    kept_.clear();
    numbers_ = 0;
  }
  numbers_ += entries.size();
  kept_[token] = {layers, {entries.begin(), entries.end()}, result};
  return result;
}

WholePass::Attention WholePass::computed(int layers, int token,
                                         std::span<const std::int32_t> entries) const {
  const std::vector<AttendingLayer>& all = attending();
  const std::size_t n = entries.size();
  const std::size_t count = std::min(static_cast<std::size_t>(layers), all.size());
  Attention result;
  result.mean.assign(n, 0.0);
  std::vector<double> logits(n);
  for (std::size_t at = all.size() - count; at < all.size(); ++at) {
    const AttendingLayer& own = all[at];
    const ModelInfo& model = own.model;
    const Matrix queries = this->queries(own.layer, token);
    const int first = first_seen(token, model.reach());
    const std::size_t seen = static_cast<std::size_t>(
        std::lower_bound(entries.begin(), entries.end(), first) - entries.begin());
    result.last.assign(n, 0.0);
    for (int query_head = 0; query_head < model.num_heads; ++query_head) {
      const MatrixView keys = this->keys(own.layer, model.head_of(query_head));
      const LogitRule rule = own.rule.of(query_head);
      double largest = rule.sink;  // −∞ without
      for (std::size_t i = seen; i < n; ++i) {
        logits[i] = rule.logit(product(queries.row(query_head).data(),
                                       keys.data() + entries[i] * keys.outerStride(), keys.cols()));
        largest = std::max(largest, logits[i]);
      }
      double sum = rule.has_sink() ? std::exp(rule.sink - largest) : 0.0;
      for (std::size_t i = seen; i < n; ++i) sum += std::exp(logits[i] - largest);
      for (std::size_t i = seen; i < n; ++i) {
        result.last[i] += std::exp(logits[i] - largest) / (sum * model.num_heads);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      result.mean[i] += result.last[i] / static_cast<double>(count);
    }
  }
  return result;
}

std::unique_ptr<WholePass> whole_pass_of(const Trace& trace) {
  return std::make_unique<TracePass>(trace);
}

WholePass& whole_pass(const SpecPart& part, const LayerContext& context) {
  if (context.pass != nullptr) return *context.pass;
  if (context.sequence != nullptr && context.sequence->has_trace()) return context.sequence->pass();
  throw UsageError("policy: " + part.name +
                   " decides once all layers have read a block; replay it on a trace, or run it "
                   "with kvloupe-capture run, eval or study");
}

void check_residual(const PolicySpec& spec, const Trace& trace) {
  if (!has_trait(spec, &PolicyTraits::reads_residual) || trace.has_residual_change()) return;
  throw UsageError(no_residual(trace.path().string()));
}

}  // namespace kvloupe
