#include "analysis/plugin/plugin_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/math/numeric/float_rows.h"

namespace kvloupe {

namespace {

kvloupe_rows rows_of(const MatrixView& matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols(), matrix.outerStride()};
}

/// The data that a step's callbacks need, one object per call of the plugin: calls for other heads
/// may run at the same time.
struct CallOfStep {
  const StepView* view = nullptr;
  std::exception_ptr failure;  // of kvloupe's own, which must not cross the plugin
};

kvloupe_rows attention_rows(const kvloupe_step* step, std::int32_t query_head, std::int32_t count) {
  auto& call = *static_cast<CallOfStep*>(step->host);
  try {
    if (query_head < 0 || query_head >= step->query_heads || count < 1) {
      throw WorkError("asks for " + std::to_string(count) + " rows of attention of query head " +
                      std::to_string(query_head));
    }
    return rows_of(call.view->attention->last_rows(query_head, count));
  } catch (...) {
    call.failure = std::current_exception();
    return {};
  }
}

const float* attention_sums(const kvloupe_step* step, std::int32_t query_head) {
  auto& call = *static_cast<CallOfStep*>(step->host);
  try {
    if (query_head < 0 || query_head >= step->query_heads) {
      throw WorkError("asks for the attention of query head " + std::to_string(query_head));
    }
    return call.view->attention->column_sums(query_head).data();
  } catch (...) {
    call.failure = std::current_exception();
    return nullptr;
  }
}

kvloupe_rows no_rows(const kvloupe_step*, std::int32_t, std::int32_t) { return {}; }
const float* no_sums(const kvloupe_step*, std::int32_t) { return nullptr; }

/// The queries of a head that are not numbers spoil its scores: no fault of the plugin's.
bool queries_are_finite(const StepView& view, int head) {
  const std::size_t group = view.queries.size() / view.caches.size();
  for (std::size_t i = 0; i < group; ++i) {
    const MatrixView& queries = view.queries[static_cast<std::size_t>(head) * group + i];
    for (Eigen::Index row = 0; row < queries.rows(); ++row) {
      if (!all_finite(queries.data() + row * queries.outerStride(),
                      static_cast<std::size_t>(queries.cols()))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::string problem_in(const std::function<std::int32_t(char* error)>& function) {
  std::array<char, KVLOUPE_ERROR_BYTES> error = {};
  try {
    if (function(error.data()) == 0) return "";
    error.back() = '\0';
    const std::string line = in_one_line(error.data(), KVLOUPE_ERROR_BYTES);
    return line.empty() ? "failed and does not say why" : line;
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& exception) {
    return in_one_line(exception.what(), KVLOUPE_ERROR_BYTES);
  } catch (...) {
    return "an exception that is not a std::exception left it";
  }
}

PluginScore::PluginScore(std::shared_ptr<const PluginScoreType> type, const LayerContext& context,
                         const std::vector<kvloupe_value>& values)
    : type_(std::move(type)), model_(context.model) {
  layer_.layer = context.layer;
  layer_.layers = model_.num_layers;
  layer_.heads = model_.num_kv_heads;
  layer_.query_heads = model_.num_heads;
  layer_.head_dim = model_.head_dim;
  layer_.sliding_window = model_.sliding_window;
  layer_.chunk_size = model_.chunk_size;
  layer_.budget = context.budget;
  layer_.attention_scale = context.attention.scale;
  layer_.unrotate = unrotate;
  layer_.host = this;
  const std::string where = "layer " + std::to_string(layer_.layer);
  call(where, [&](char* error) {
    return type_->functions.create(type_->functions.context, &layer_, values.data(),
                                   &own_protection_, &object_, error);
  });
  if (own_protection_.first_tokens < 0 || own_protection_.last_entries < 0) {
    type_->functions.destroy(object_);
    fail(where, "protects a negative number of entries");
  }
}

PluginScore::~PluginScore() { type_->functions.destroy(object_); }

Protection PluginScore::protection() const {
  return {.sink_tokens = own_protection_.first_tokens, .window = own_protection_.last_entries};
}

void PluginScore::observe(const StepView& view, int head) {
  kvloupe_step step = step_of(view);
  if (type_->functions.observe == nullptr) return;
  CallOfStep call_of_step{&view, nullptr};
  step.host = &call_of_step;
  call(at(head), [&](char* error) {
    const std::int32_t problem = type_->functions.observe(object_, &step, head, error);
    if (call_of_step.failure) std::rethrow_exception(call_of_step.failure);
    return problem;
  });
}

void PluginScore::prepare(const StepView& view, int budget) {
  step_of(view);
  step_.budget = budget;
}

std::vector<float> PluginScore::score(const StepView& view, int head) {
  kvloupe_step step = step_of(view);
  CallOfStep call_of_step{&view, nullptr};
  step.host = &call_of_step;
  const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
  // NaN marks the scores that the plugin does not fill.
  std::vector<float> scores(tokens.size(), std::numeric_limits<float>::quiet_NaN());
  call(at(head), [&](char* error) {
    const std::int32_t problem = type_->functions.score(object_, &step, head, scores.data(), error);
    if (call_of_step.failure) std::rethrow_exception(call_of_step.failure);
    return problem;
  });
  const bool may_be_negative = type_->functions.scale == KVLOUPE_SIGNED_OWN;
  const auto wrong = std::find_if(scores.begin(), scores.end(), [&](float score) {
    return !std::isfinite(score) || (!may_be_negative && score < 0.0F);
  });
  if (wrong == scores.end() || (!std::isfinite(*wrong) && !queries_are_finite(view, head))) {
    return scores;  // the policy names a query that is not a number
  }
  const std::string token =
      std::to_string(tokens[static_cast<std::size_t>(wrong - scores.begin())]);
  fail(at(head), "the score of token " + token +
                     (std::isfinite(*wrong) ? " is negative, although its scale does not allow this"
                                            : " is not a finite number"));
}

void PluginScore::retain(const StepView& view, int head, const HeadDecision& decision) {
  {
    const std::lock_guard lock(making_);
    made_ = false;
  }
  if (type_->functions.retain == nullptr) return;
  std::vector<kvloupe_merge> merges;
  for (const Merge& merge : decision.merges) {
    merges.push_back({merge.into, static_cast<std::int32_t>(merge.from.size()), merge.from.data(),
                      merge.key.empty() ? 0 : 1});
  }
  const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
  const kvloupe_retained retained = {
      static_cast<std::int32_t>(tokens.size()), static_cast<std::int32_t>(decision.kept.size()),
      decision.kept.data(), static_cast<std::int32_t>(merges.size()), merges.data()};
  call(at(head),
       [&](char* error) { return type_->functions.retain(object_, &retained, head, error); });
}

kvloupe_step PluginScore::step_of(const StepView& view) {
  const std::lock_guard lock(making_);
  if (made_) return step_;
  caches_.clear();
  roles_.assign(view.caches.size(), {});
  queries_.clear();
  for (std::size_t head = 0; head < view.caches.size(); ++head) {
    const CacheView& cache = view.caches[head];
    const std::vector<Fate> fates = protection_.fates(static_cast<int>(head), cache.tokens,
                                                      static_cast<int>(cache.tokens.size()));
    for (std::size_t row = 0; row < cache.tokens.size(); ++row) {
      unsigned roles = 0;
      if (cache.tokens[row] >= view.block.first) roles |= KVLOUPE_NEW_ENTRY;
      if (fates[row] != Fate::evicted) roles |= KVLOUPE_PROTECTED_ENTRY;
      if (!cache.log_sizes.empty() && cache.log_sizes[row] != 0.0F) roles |= KVLOUPE_MERGED_ENTRY;
      roles_[head].push_back(static_cast<std::uint8_t>(roles));
    }
    kvloupe_cache own = {};
    own.entries = static_cast<std::int32_t>(cache.tokens.size());
    own.tokens = cache.tokens.data();
    own.roles = roles_[head].data();
    own.keys = rows_of(cache.keys);
    if (needs_values()) own.values = rows_of(cache.values);
    own.log_sizes = cache.log_sizes.empty() ? nullptr : cache.log_sizes.data();
    caches_.push_back(own);
  }
  step_ = {};
  step_.step = view.step;
  step_.first_new = view.block.first;
  step_.end_new = view.block.end;
  step_.first_visible = view.first_token;
  step_.budget = layer_.budget;
  step_.heads = layer_.heads;
  step_.query_heads = layer_.query_heads;
  step_.caches = caches_.data();
  step_.attention = no_rows;
  step_.attention_sums = no_sums;
  if (has(KVLOUPE_READS_QUERIES)) {
    for (const MatrixView& one : view.queries) queries_.push_back(rows_of(one));
    step_.queries = queries_.data();
    step_.attention = attention_rows;
    step_.attention_sums = attention_sums;
  }
  made_ = true;
  return step_;
}

void PluginScore::call(const std::string& where,
                       const std::function<std::int32_t(char* error)>& function) {
  std::unique_lock lock(one_call_, std::defer_lock);
  if (!has(KVLOUPE_PARALLEL_HEADS)) lock.lock();
  const std::string problem = problem_in(function);
  if (!problem.empty()) fail(where, problem);
}

std::string PluginScore::at(int head) const {
  return "layer " + std::to_string(layer_.layer) + ", head " + std::to_string(head) + ", step " +
         std::to_string(step_.step);
}

void PluginScore::fail(const std::string& where, const std::string& what) const {
  throw FileError(type_->file, "the score " + type_->name + " at " + where + ": " + what);
}

std::int32_t PluginScore::unrotate(const kvloupe_layer* layer, std::int32_t token, float* row,
                                   char* error) {
  try {
    const auto& own = *static_cast<const PluginScore*>(layer->host);
    std::call_once(own.rope_made_, [&] { own.rope_.emplace(own.model_); });
    own.rope_->turn(std::span<float>(row, static_cast<std::size_t>(layer->head_dim)),
                    -static_cast<double>(token));
    return 0;
  } catch (const std::exception& exception) {
    std::snprintf(error, KVLOUPE_ERROR_BYTES, "%s", exception.what());
    return 1;
  }
}

}  // namespace kvloupe
