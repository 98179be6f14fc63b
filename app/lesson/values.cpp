#include "app/lesson/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/metric/attention.h"
#include "analysis/metric/sink.h"
#include "analysis/policy/spec.h"
#include "app/lesson/answer.h"
#include "app/window/view_catalog.h"

namespace kvloupe::lesson {

namespace {

using Arguments = std::span<const Value>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int kBytesPerNumber = 2;  // a cache in float16 or bfloat16
constexpr std::size_t kTracesKept = 4;

double number(const Value& value) { return std::get<double>(value); }
const std::string& word(const Value& value) { return std::get<std::string>(value); }

/// An index below `end`, or −1 for what is none.
int index(const Value& value, int end) {
  const double at = number(value);
  return at >= 0.0 && at < static_cast<double>(end) && at == std::floor(at) ? static_cast<int>(at)
                                                                            : -1;
}

double median(std::vector<double> values) {
  if (values.empty()) return kNone;
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

double bytes_per_token(const ModelInfo& model) {
  return 2.0 * model.num_layers * model.num_kv_heads * model.head_dim * kBytesPerNumber;
}

// --- the state

std::vector<Block> blocks_of(const LessonState& s) {
  return replay_blocks(*s.trace, s.workspace.block);
}

/// The step shown: the one chosen, else the last of the prompt.
int step_of(const LessonState& s, const std::vector<Block>& blocks) {
  const int chosen = s.workspace.selection.step;
  if (chosen >= 0) return std::min(chosen, static_cast<int>(blocks.size()) - 1);
  int last = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].first < s.trace->run().prompt_length) last = static_cast<int>(i);
  }
  return last;
}

double budget_share(const LessonState& s) {
  const Budget budget = parse_budget(s.workspace.budget);
  if (const Percent* percent = std::get_if<Percent>(&budget.value)) return percent->value / 100.0;
  return static_cast<double>(std::get<long>(budget.value)) / s.trace->run().prompt_length;
}

// --- replays

enum class Side { a, b };

/// The replay of a policy in the state's layer or in all; nullptr where policy B is off.
std::shared_ptr<const Replay> replay_in(const LessonState& s, Side side, bool all_layers,
                                        bool metrics, const std::string& requested,
                                        Progress& progress) {
  if (side == Side::b && !s.workspace.policy_b_on) return nullptr;
  ReplayRequest request;
  request.policy = parse_policy(side == Side::a ? s.workspace.policy_a : s.workspace.policy_b);
  request.budget = parse_budget(s.workspace.budget).resolve(s.trace->run().prompt_length);
  request.block = s.workspace.block;
  if (!all_layers) request.layers = {s.workspace.selection.layer};
  request.metrics = metrics;
  if (!requested.empty()) request.measures = {requested};
  Progress part(progress, 0);
  return s.store->replays().get(*s.trace, request, part);
}

double measured(const LessonState& s, Side side, const std::string& name, Progress& progress) {
  const Measure& measure = require_measure(name);
  const auto replay =
      replay_in(s, side, false, true, measure.family->on_request ? name : "", progress);
  const auto& at = s.workspace.selection;
  const HeadReplay* head = replay ? replay->find(at.layer, at.head) : nullptr;
  if (head == nullptr) return kNone;
  const MeasureScope scope = measure.family->scope;
  if (scope == MeasureScope::replay || scope == MeasureScope::trace)
    return measure_of(measure, *head);
  const auto step = static_cast<std::size_t>(step_of(s, replay->blocks));
  const int own = at.query_head >= 0 ? at.query_head % s.trace->model().group_size() : -1;
  return measure_at(measure, head->steps.at(step), own);
}

double mean_measured(const LessonState& s, Side side, const std::string& name, Progress& progress) {
  const Measure& measure = require_measure(name);
  const auto replay =
      replay_in(s, side, true, true, measure.family->on_request ? name : "", progress);
  if (!replay) return kNone;
  const MeasureScope scope = measure.family->scope;
  const auto step = static_cast<std::size_t>(step_of(s, replay->blocks));
  double sum = 0.0;
  int known = 0;
  for (const HeadReplay& head : replay->heads) {
    const double value = scope == MeasureScope::replay || scope == MeasureScope::trace
                             ? measure_of(measure, head)
                             : measure_at(measure, head.steps.at(step));
    if (std::isnan(value)) continue;
    sum += value;
    ++known;
  }
  return known > 0 ? sum / known : kNone;
}

bool is_kept(const HeadReplay& head, int token, int step) {
  const int gone = head.evicted_at.at(static_cast<std::size_t>(token));
  return gone < 0 || gone > step;
}

/// Share of (head, token) pairs that are kept, of those tokens that have been read; over the
/// state's head or all heads.
double kept_share(const LessonState& s, Side side, bool all_heads, int first, int last,
                  Progress& progress) {
  if (first < 0) return kNone;
  const auto replay = replay_in(s, side, all_heads, false, "", progress);
  if (!replay) return kNone;
  const int step = step_of(s, replay->blocks);
  last = std::min(last, replay->blocks.at(static_cast<std::size_t>(step)).end - 1);
  long kept = 0, all = 0;
  for (const HeadReplay& head : replay->heads) {
    if (!all_heads && head.head != s.workspace.selection.head) continue;
    for (int token = first; token <= last; ++token) {
      kept += is_kept(head, token, step) ? 1 : 0;
      ++all;
    }
  }
  return all > 0 ? static_cast<double>(kept) / static_cast<double>(all) : kNone;
}

double token_kept(const LessonState& s, Side side, bool all_heads, const Value& token,
                  Progress& progress) {
  const int at = index(token, s.trace->length());
  return kept_share(s, side, all_heads, at, at, progress);
}

double segment_kept(const LessonState& s, Side side, bool all_heads, const std::string& name,
                    Progress& progress) {
  const auto [first, last] = segment_of(s.trace->tokens(), name);
  return kept_share(s, side, all_heads, first, last, progress);
}

/// Entries of the state's head after its step.
double entries_kept(const LessonState& s, Side side, Progress& progress) {
  const auto replay = replay_in(s, side, false, false, "", progress);
  const auto& at = s.workspace.selection;
  const HeadReplay* head = replay ? replay->find(at.layer, at.head) : nullptr;
  if (head == nullptr) return kNone;
  return head->steps.at(static_cast<std::size_t>(step_of(s, replay->blocks))).retained;
}

// --- states of the trace

/// The query heads that the state looks at: one, or its head's group.
std::vector<int> query_heads_of(const LessonState& s) {
  const auto& at = s.workspace.selection;
  if (at.query_head >= 0) return {at.query_head};
  const int group = s.trace->model().group_size();
  std::vector<int> heads(static_cast<std::size_t>(group));
  std::iota(heads.begin(), heads.end(), at.head * group);
  return heads;
}

double attention_of(const LessonState& s, const Value& query, const Value& key) {
  const int q = index(query, s.trace->length());
  const int k = index(key, s.trace->length());
  if (q < 0 || k < 0) return kNone;
  const auto& at = s.workspace.selection;
  const auto states = s.store->replays().states().get(*s.trace, at.layer);
  const Matrix keys = states->keys.at(static_cast<std::size_t>(at.head)).topRows(q + 1);
  double sum = 0.0;
  const std::vector<int> heads = query_heads_of(s);
  for (const int head : heads) {
    const Matrix one = states->queries.at(static_cast<std::size_t>(head)).row(q);
    if (k <= q) {
      sum += static_cast<double>(attention_rows(view(one), view(keys),
                                                static_cast<float>(s.trace->run().attention_scale),
                                                s.trace->window())(0, k));
    }
  }
  return sum / static_cast<double>(heads.size());
}

/// ‖o′ − o‖ / ‖o‖ without a token, over all later queries that see it.
double error_without(const LessonState& s, const Value& token) {
  const int t = index(token, s.trace->length());
  if (t < 0 || t + 1 >= s.trace->length()) return kNone;
  const int window = s.trace->window();
  const int last = window > 0 ? std::min(s.trace->length(), t + window) : s.trace->length();
  std::vector<int> queries(static_cast<std::size_t>(last - t - 1));
  if (queries.empty()) return kNone;
  std::iota(queries.begin(), queries.end(), t + 1);
  double sum = 0.0;
  const std::vector<int> heads = query_heads_of(s);
  for (const int head : heads)
    sum += dropped_token_error(*s.trace, s.workspace.selection.layer, head, t, queries);
  return sum / static_cast<double>(heads.size());
}

/// Norm of a row over the median of all rows.
double norm_ratio(const Matrix& rows, int row) {
  std::vector<double> norms;
  for (Eigen::Index i = 0; i < rows.rows(); ++i)
    norms.push_back(static_cast<double>(rows.row(i).norm()));
  const double middle = median(norms);
  return middle > 0.0 ? norms.at(static_cast<std::size_t>(row)) / middle : kNone;
}

/// Cosine between a token's key and the mean of all normalised keys of the head, KeyDiff's anchor.
double anchor_cosine(const LessonState& s, const Value& token) {
  const int t = index(token, s.trace->length());
  if (t < 0) return kNone;
  const auto& at = s.workspace.selection;
  const auto states = s.store->replays().states().get(*s.trace, at.layer);
  const Eigen::MatrixXd keys =
      states->keys.at(static_cast<std::size_t>(at.head)).cast<double>().rowwise().normalized();
  const Eigen::RowVectorXd anchor = keys.colwise().mean();
  return keys.row(t).dot(anchor) / anchor.norm();
}

double sink_value(const LessonState& s, Progress& progress,
                  double (*of)(const ValueStore::Sinks&, const ModelInfo&)) {
  return of(*s.store->sinks(*s.trace, progress), s.trace->model());
}

// --- policies and tiles

bool has_part(const std::string& policy, const std::string& name) {
  const PolicySpec spec = parse_policy(policy);
  return spec.score().name == name || spec.find(name) != nullptr;
}

/// The first tile in sight that shows the view, or nullptr.
const window::TileState* shown_tile(const LessonState& s, const std::string& view) {
  const auto& tiles = s.workspace.tiles;
  const auto count = std::min(tiles.size(), static_cast<std::size_t>(s.workspace.tile_count));
  const auto end = tiles.begin() + static_cast<std::ptrdiff_t>(count);
  const auto found =
      std::find_if(tiles.begin(), end, [&](const auto& t) { return t.view == view; });
  return found == end ? nullptr : &*found;
}

/// Whether a tile in sight shows the view with a choice at that value, also where it is the
/// default.
bool choice_is(const LessonState& s, const std::string& view, const std::string& name,
               const std::string& value) {
  const figure::FigureInfo& figure = *window::find_view(view);
  const bool known = std::any_of(figure.choices.begin(), figure.choices.end(),
                                 [&](const auto& one) { return one.name == name; });
  const auto& tiles = s.workspace.tiles;
  const auto count = std::min(tiles.size(), static_cast<std::size_t>(s.workspace.tile_count));
  return known && std::any_of(tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](const window::TileState& tile) {
                                return tile.view == view &&
                                       figure::choice(figure, tile.choices, name) == value;
                              });
}

// --- the answer

/// 1 or 0; the needle is that of the lesson's trace, whose prompt a closed-loop run has too.
double right(const LessonState& s, const Trace& run) {
  const auto answer = is_right(answer_text(run), needle_number(s.trace->tokens()));
  return answer ? (*answer ? 1.0 : 0.0) : kNone;
}

const Trace* closed_run(const LessonState& s, const Value& value) {
  const int at = index(value, static_cast<int>(s.closed.size()));
  return at < 0 ? nullptr : s.closed[static_cast<std::size_t>(at)].get();
}

/// The probability the model gave to a token, after those before it.
double probability(const Trace& trace, const Value& token) {
  const int t = index(token, trace.length());
  const auto predicted = trace.predictions();
  if (t < 1 || !predicted || static_cast<std::size_t>(t) > predicted->loss.size()) return kNone;
  return std::exp(-static_cast<double>(predicted->loss[static_cast<std::size_t>(t) - 1]));
}

double mean_loss(const Trace& trace) {
  const auto predicted = trace.predictions();
  const int count = trace.run().prompt_length - 1;  // nothing foretells the first
  if (count < 1 || !predicted || predicted->loss.size() < static_cast<std::size_t>(count))
    return kNone;
  double sum = 0.0;
  for (int t = 0; t < count; ++t)
    sum += static_cast<double>(predicted->loss[static_cast<std::size_t>(t)]);
  return sum / count;
}

}  // namespace

std::shared_ptr<const ValueStore::Sinks> ValueStore::sinks(const Trace& trace, Progress& progress) {
  const std::string key = trace.path().string() + '\n' + trace.identity();
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.trace == key) return entry.sinks;
    }
  }
  // Not under the lock: who waits could not be cancelled. Two may compute the same.
  auto sinks = std::make_shared<Sinks>();
  const ModelInfo& model = trace.model();
  Progress part(progress, 0);
  sinks->strengths = sink_strengths(trace, 0, part);
  const HeadIndex strongest = strongest_sink(sinks->strengths, model.num_heads);
  sinks->layer = strongest.layer;
  sinks->query_head = strongest.head;
  sinks->heads = static_cast<int>((sinks->strengths.array() > kSinkHead).count());
  sinks->value_ratios.resize(model.num_layers, model.num_kv_heads);
  for (int l = 0; l < model.num_layers; ++l) {
    for (int h = 0; h < model.num_kv_heads; ++h) {
      progress.check();
      sinks->value_ratios(l, h) = static_cast<float>(norm_ratio(trace.value(l, h), 0));
    }
  }
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kTracesKept) entries_.erase(entries_.begin());
  entries_.push_back({key, sinks});
  return sinks;
}

namespace {

ValueGroup trace_values() {
  ValueGroup group{"The trace and its model", {}};
  const auto add = [&](ValueInfo info) {
    info.quick = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "tokens",
       .meaning = "all tokens, prompt and generated",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->length());
       }});
  add({.name = "prompt_tokens",
       .meaning = "tokens of the prompt",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->run().prompt_length);
       }});
  add({.name = "generated",
       .meaning = "tokens generated after the prompt",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->run().generated);
       }});
  add({.name = "blocks",
       .meaning = "blocks of the prompt",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         const auto& blocks = s.trace->blocks();
         return static_cast<double>(
             std::count_if(blocks.begin(), blocks.end(),
                           [&](const Block& b) { return b.first < s.trace->run().prompt_length; }));
       }});
  add({.name = "block_size",
       .meaning = "tokens in a block of the capture",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->run().block_size);
       }});
  add({.name = "layers",
       .meaning = "layers of the model",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->model().num_layers);
       }});
  add({.name = "heads",
       .meaning = "key-value heads in a layer",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->model().num_kv_heads);
       }});
  add({.name = "query_heads",
       .meaning = "query heads in a layer",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->model().num_heads);
       }});
  add({.name = "head_dim",
       .meaning = "numbers in a key of one head",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.trace->model().head_dim);
       }});
  add({.name = "bytes_per_token",
       .meaning = "bytes that one token takes in the model's cache, keys and values in 16 bits",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return bytes_per_token(s.trace->model());
       }});
  add({.name = "cache_bytes",
       .meaning = "the same for all tokens of the trace: `tokens * bytes_per_token`",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return bytes_per_token(s.trace->model()) * s.trace->length();
       }});
  add({.name = "model",
       .meaning = "the model's name",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return s.trace->model().name;
       }});
  add({.name = "token_text",
       .arguments = {{Argument::number, "token"}},
       .meaning = "the token's text",
       .needs = "the text of its tokens",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const auto& text = s.trace->tokens().text;
         const int at = index(a[0], static_cast<int>(text.size()));
         return at < 0 ? std::string() : text[static_cast<std::size_t>(at)];
       }});
  add({.name = "segment_first",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "first token of the segment, such as context, needle, question, answer",
       .needs = "the segment",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const int first = segment_of(s.trace->tokens(), word(a[0])).first;
         return first < 0 ? kNone : first;
       }});
  add({.name = "segment_last",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "last token of the segment's first piece",
       .needs = "the segment",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const int last = segment_of(s.trace->tokens(), word(a[0])).second;
         return last < 0 ? kNone : last;
       }});
  add({.name = "needle_number",
       .meaning = "the number hidden in the needle",
       .needs = "a segment needle",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return needle_number(s.trace->tokens());
       }});
  return group;
}

ValueGroup sink_values() {
  ValueGroup group{"Attention sinks, of token 0", {}};
  const auto add = [&](ValueInfo info) { group.values.push_back(std::move(info)); };
  add({.name = "sinks.share",
       .meaning = "share of the query heads that give token 0 more than 0.3, on average over all "
                  "later queries",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo&) {
           return static_cast<double>(sinks.heads) / static_cast<double>(sinks.strengths.size());
         });
       }});
  add({.name = "sinks.count",
       .meaning = "number of these query heads",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo&) {
           return static_cast<double>(sinks.heads);
         });
       }});
  add({.name = "sinks.strength",
       .meaning = "largest mean attention, of at most 0.95, that a query head gives token 0 (where "
                  "every head gives more, the largest)",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo&) {
           return static_cast<double>(sinks.strengths(sinks.layer, sinks.query_head));
         });
       }});
  add({.name = "sinks.here",
       .meaning = "mean attention that the selected head gives token 0 (mean over its query heads)",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         const auto sinks = s.store->sinks(*s.trace, p);
         const Matrix heads = mean_of_query_heads(sinks->strengths, s.trace->model().num_kv_heads);
         const window::SharedSelection& at = s.workspace.selection;
         return static_cast<double>(heads(at.layer, at.head));
       }});
  add({.name = "sinks.layer",
       .meaning = "the layer of the query head with `sinks.strength`",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo&) {
           return static_cast<double>(sinks.layer);
         });
       }});
  add({.name = "sinks.head",
       .meaning = "its key-value head",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo& model) {
           return static_cast<double>(model.head_of(sinks.query_head));
         });
       }});
  add({.name = "sinks.query_head",
       .meaning = "its index among the query heads",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo&) {
           return static_cast<double>(sinks.query_head);
         });
       }});
  add({.name = "sinks.value_ratio",
       .meaning = "norm of token 0's value divided by the median norm of all values, in that head",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo& model) {
           return static_cast<double>(
               sinks.value_ratios(sinks.layer, model.head_of(sinks.query_head)));
         });
       }});
  add({.name = "sinks.median_value_ratio",
       .meaning = "median of this ratio over the query heads that give token 0 more than 0.3",
       .needs = "a query head above 0.3",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return sink_value(s, p, [](const ValueStore::Sinks& sinks, const ModelInfo& model) {
           std::vector<double> ratios;
           for (int l = 0; l < model.num_layers; ++l) {
             for (int h = 0; h < model.num_heads; ++h) {
               if (sinks.strengths(l, h) > kSinkHead)
                 ratios.push_back(static_cast<double>(sinks.value_ratios(l, model.head_of(h))));
             }
           }
           return median(std::move(ratios));
         });
       }});
  add({.name = "rest",
       .arguments = {{Argument::number, "layer"}, {Argument::number, "query_head"}},
       .meaning = "mean attention that this query head gives token 0",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         const auto sinks = s.store->sinks(*s.trace, p);
         const int l = index(a[0], static_cast<int>(sinks->strengths.rows()));
         const int h = index(a[1], static_cast<int>(sinks->strengths.cols()));
         return l < 0 || h < 0 ? kNone : static_cast<double>(sinks->strengths(l, h));
       }});
  return group;
}

ValueGroup state_values() {
  ValueGroup group{"What is shown", {}};
  const auto add = [&](ValueInfo info) {
    info.quick = true;
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "layer",
       .meaning = "the layer selected",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.workspace.selection.layer);
       }});
  add({.name = "head",
       .meaning = "the key-value head selected",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.workspace.selection.head);
       }});
  add({.name = "query_head",
       .meaning = "the query head selected; -1: the mean over the head's query heads",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.workspace.selection.query_head);
       }});
  add({.name = "step",
       .meaning = "the step shown, from 0",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(step_of(s, blocks_of(s)));
       }});
  add({.name = "steps",
       .meaning = "number of steps",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(blocks_of(s).size());
       }});
  add({.name = "token",
       .meaning = "the token selected; -1: none",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.workspace.selection.token);
       }});
  add({.name = "first_token",
       .meaning = "first token of the range shown",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(s.workspace.selection.first_token);
       }});
  add({.name = "last_token",
       .meaning = "last token of the range shown",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         const int last = s.workspace.selection.last_token;
         return static_cast<double>(last >= 0 ? last : s.trace->length() - 1);
       }});
  add({.name = "budget",
       .meaning = "the budget as a share of the prompt",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return budget_share(s);
       }});
  add({.name = "budget_entries",
       .meaning = "the budget in entries of a head",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return static_cast<double>(
             parse_budget(s.workspace.budget).resolve(s.trace->run().prompt_length));
       }});
  add({.name = "block",
       .meaning = "tokens in a block of the replay",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         const int own = s.workspace.block;
         return static_cast<double>(own > 0 ? own : s.trace->run().block_size);
       }});
  add({.name = "policy_a",
       .meaning = "policy A as written",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return parse_policy(s.workspace.policy_a).text();
       }});
  add({.name = "policy_b",
       .meaning = "policy B as written, on or off",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return parse_policy(s.workspace.policy_b).text();
       }});
  add({.name = "policy_b_on",
       .meaning = "1 where policy B is on",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return s.workspace.policy_b_on ? 1.0 : 0.0;
       }});
  add({.name = "score_is",
       .arguments = {{Argument::score, "score"}},
       .meaning = "1 if policy A has this score",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return parse_policy(s.workspace.policy_a).score().name == word(a[0]) ? 1.0 : 0.0;
       }});
  add({.name = "score_b_is",
       .arguments = {{Argument::score, "score"}},
       .meaning = "1 if policy B is on and has this score",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return s.workspace.policy_b_on &&
                        parse_policy(s.workspace.policy_b).score().name == word(a[0])
                    ? 1.0
                    : 0.0;
       }});
  add({.name = "policy_has",
       .arguments = {{Argument::part, "part"}},
       .meaning = "1 if this score or modifier is a part of policy A",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return has_part(s.workspace.policy_a, word(a[0])) ? 1.0 : 0.0;
       }});
  add({.name = "policy_b_has",
       .arguments = {{Argument::part, "part"}},
       .meaning = "1 if policy B is on and has this part",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return s.workspace.policy_b_on && has_part(s.workspace.policy_b, word(a[0])) ? 1.0 : 0.0;
       }});
  add({.name = "viewing",
       .arguments = {{Argument::view, "view"}},
       .meaning = "1 if one of the tiles shows this view",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return shown_tile(s, word(a[0])) != nullptr ? 1.0 : 0.0;
       }});
  add({.name = "choice_is",
       .arguments = {{Argument::view, "view"},
                     {Argument::word, "choice"},
                     {Argument::word, "value"}},
       .meaning = "1 if a tile shows this view with this value of the choice",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return choice_is(s, word(a[0]), word(a[1]), word(a[2])) ? 1.0 : 0.0;
       }});
  add({.name = "playing",
       .meaning = "1 while the steps play",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return s.playing ? 1.0 : 0.0;
       }});
  return group;
}

ValueGroup result_values() {
  ValueGroup group{"What the policies do, by replay, in the selected head and step", {}};
  const auto add = [&](ValueInfo info) {
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "measure",
       .arguments = {{Argument::measure, "measure"}},
       .meaning = "a measure of policy A, by its name in `kvloupe measures`; of one query head if "
                  "one is selected",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return measured(s, Side::a, word(a[0]), p);
       }});
  add({.name = "measure_b",
       .arguments = {{Argument::measure, "measure"}},
       .meaning = "the same of policy B, if it is on",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return measured(s, Side::b, word(a[0]), p);
       }});
  add({.name = "mean_measure",
       .arguments = {{Argument::measure, "measure"}},
       .meaning = "mean of a measure of policy A over all heads with a known value",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return mean_measured(s, Side::a, word(a[0]), p);
       }});
  add({.name = "mean_measure_b",
       .arguments = {{Argument::measure, "measure"}},
       .meaning = "the same of policy B, if it is on",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return mean_measured(s, Side::b, word(a[0]), p);
       }});
  add({.name = "kept",
       .arguments = {{Argument::number, "token"}},
       .meaning = "1 if policy A keeps the token, 0 if it has evicted the token",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return token_kept(s, Side::a, false, a[0], p);
       }});
  add({.name = "kept_b",
       .arguments = {{Argument::number, "token"}},
       .meaning = "the same of policy B, if it is on",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return token_kept(s, Side::b, false, a[0], p);
       }});
  add({.name = "kept_share",
       .arguments = {{Argument::number, "token"}},
       .meaning = "share of all heads in which policy A keeps the token",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return token_kept(s, Side::a, true, a[0], p);
       }});
  add({.name = "kept_share_b",
       .arguments = {{Argument::number, "token"}},
       .meaning = "the same of policy B, if it is on",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return token_kept(s, Side::b, true, a[0], p);
       }});
  add({.name = "entries",
       .meaning = "entries that policy A keeps in the head",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return entries_kept(s, Side::a, p);
       }});
  add({.name = "entries_b",
       .meaning = "the same of policy B, if it is on",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return entries_kept(s, Side::b, p);
       }});
  add({.name = "segment_kept",
       .arguments = {{Argument::segment, "segment"}},
       .meaning = "share of the segment's tokens that policy A keeps in the head",
       .needs = "the segment",
       .compute = [](const LessonState& s, Arguments a, Progress& p) -> Value {
         return segment_kept(s, Side::a, false, word(a[0]), p);
       }});
  add({.name = "needle_kept",
       .meaning = "share of the needle's tokens that policy A keeps, over all heads",
       .needs = "a segment needle",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return segment_kept(s, Side::a, true, "needle", p);
       }});
  add({.name = "needle_kept_b",
       .meaning = "the same of policy B, if it is on",
       .needs = "a segment needle",
       .compute = [](const LessonState& s, Arguments, Progress& p) -> Value {
         return segment_kept(s, Side::b, true, "needle", p);
       }});
  return group;
}

ValueGroup head_values() {
  ValueGroup group{"Attention and keys with the full cache, in the selected head", {}};
  const auto add = [&](ValueInfo info) {
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  add({.name = "attention",
       .arguments = {{Argument::number, "query"}, {Argument::number, "key"}},
       .meaning = "attention that one token gives another; the mean over the head's query heads if "
                  "none is selected",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return attention_of(s, a[0], a[1]);
       }});
  add({.name = "error_without",
       .arguments = {{Argument::number, "token"}},
       .meaning = "‖o′ − o‖ / ‖o‖ of the head's output when that token alone is evicted, mean over "
                  "the later queries that see it",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return error_without(s, a[0]);
       }});
  add({.name = "anchor_cosine",
       .arguments = {{Argument::number, "token"}},
       .meaning =
           "cosine between the token's key and the mean of all keys, each divided by its norm "
           "(KeyDiff's anchor)",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return anchor_cosine(s, a[0]);
       }});
  return group;
}

ValueGroup answer_values() {
  ValueGroup group{"What the model says", {}};
  const auto add = [&](ValueInfo info) { group.values.push_back(std::move(info)); };
  add({.name = "answer",
       .meaning = "what the model answers after the prompt: its first sentence, at most six words",
       .needs = "generated tokens or predictions",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return answer_text(*s.trace);
       }});
  add({.name = "answer_right",
       .meaning = "1 if the answer starts with the needle's number",
       .needs = "the same and a segment needle",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return right(s, *s.trace);
       }});
  add({.name = "closed_answer",
       .arguments = {{Argument::number, "run"}},
       .meaning = "the answer with a policy in the model's cache; the runs of the lines `closed:` "
                  "count from 0",
       .needs = "the closed-loop run",
       .is_text = true,
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const Trace* run = closed_run(s, a[0]);
         return run != nullptr ? answer_text(*run) : std::string();
       }});
  add({.name = "closed_answer_right",
       .arguments = {{Argument::number, "run"}},
       .meaning = "1 if that answer starts with the needle's number",
       .needs = "the closed-loop run and a segment needle",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const Trace* run = closed_run(s, a[0]);
         return run != nullptr ? right(s, *run) : kNone;
       }});
  add({.name = "mean_loss",
       .meaning =
           "mean loss of the prompt's tokens in nats, each predicted from the tokens before it",
       .needs = "predictions",
       .compute = [](const LessonState& s, Arguments, Progress&) -> Value {
         return mean_loss(*s.trace);
       }});
  add({.name = "closed_mean_loss",
       .arguments = {{Argument::number, "run"}},
       .meaning = "the same with a policy in the model's cache",
       .needs = "the closed-loop run with predictions",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         const Trace* run = closed_run(s, a[0]);
         return run != nullptr ? mean_loss(*run) : kNone;
       }});
  add({.name = "probability",
       .arguments = {{Argument::number, "token"}},
       .meaning = "probability that the model gave the token after the tokens before it",
       .needs = "predictions",
       .compute = [](const LessonState& s, Arguments a, Progress&) -> Value {
         return probability(*s.trace, a[0]);
       }});
  return group;
}

}  // namespace

const std::vector<ValueGroup>& value_catalog() {
  static const std::vector<ValueGroup> catalog = {trace_values(),  sink_values(), state_values(),
                                                  result_values(), head_values(), answer_values()};
  return catalog;
}

const ValueInfo* find_value(std::string_view name) {
  for (const ValueGroup& group : value_catalog()) {
    for (const ValueInfo& info : group.values) {
      if (info.name == name) return &info;
    }
  }
  return nullptr;
}

std::vector<std::string> value_names() {
  std::vector<std::string> names;
  for (const ValueGroup& group : value_catalog()) {
    for (const ValueInfo& info : group.values) names.push_back(info.name);
  }
  return names;
}

std::string usage(const ValueInfo& info) {
  if (info.arguments.empty()) return info.name;
  std::string text = info.name + "(";
  for (const auto& [kind, called] : info.arguments) {
    if (text.back() != '(') text += ", ";
    text += kind == Argument::number ? called : "\"" + called + "\"";
  }
  return text + ")";
}

std::string values_markdown() {
  std::string text;
  for (const ValueGroup& group : value_catalog()) {
    text += fmt::format("### {}\n\n| value | | needs |\n| --- | --- | --- |\n", group.name);
    for (const ValueInfo& info : group.values) {
      text += fmt::format("| `{}` | {}{} | {} |\n", usage(info), info.meaning,
                          info.is_text ? " (a text)" : "", info.needs);
    }
    text += "\n";
  }
  return text;
}

}  // namespace kvloupe::lesson
