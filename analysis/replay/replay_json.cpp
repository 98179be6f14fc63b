#include "analysis/replay/replay_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analysis/base/text/unknown.h"
#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe {

namespace {
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Number>
void append_number(std::string& line, std::string_view name, Number value) {
  auto out = std::back_inserter(line);
  if (std::isfinite(static_cast<double>(value))) {
    fmt::format_to(out, ",\"{}\":{}", name, value);
  } else {
    fmt::format_to(out, ",\"{}\":null", name);
  }
}

void append_list(std::string& line, const auto& values) {
  line += '[';
  bool first = true;
  for (const auto& value : values) {
    if (!first) line += ',';
    first = false;
    fmt::format_to(std::back_inserter(line), "{}", value);
  }
  line += ']';
}

/// Every measure of a scope that applies to the policy.
template <typename Value>
void append_measures(std::string& line, MeasureScope scope, const PolicySpec& policy,
                     const Value& value) {
  for (const Measure& measure : all_measures()) {
    if (measure.family->scope != scope || !applies(measure, policy)) continue;
    append_number(line, measure.info->name, value(measure));
  }
}

void append_metrics(std::string& line, const StepRecord& record, const PolicySpec& policy,
                    int first_query_head) {
  // Threshold and ties are the selection's own; the rest needs a replay with metrics.
  std::string inside;
  append_number(inside, "threshold", record.threshold);
  append_number(inside, "ties", record.ties);
  if (std::isfinite(record.second_threshold)) {
    append_number(inside, "second_threshold", record.second_threshold);
  }
  if (record.allocation_drift != 0) {
    append_number(inside, "allocation_drift", record.allocation_drift);
  }
  if (std::isfinite(record.merge_threshold)) {
    append_number(inside, "merge_threshold", record.merge_threshold);
  }
  if (!record.query_heads.empty()) {
    append_measures(inside, MeasureScope::step, policy,
                    [&](const Measure& m) { return measure_at(m, record); });
    inside += ",\"query_heads\":[";
    for (int i = 0; i < static_cast<int>(record.query_heads.size()); ++i) {
      if (i > 0) inside += ',';
      inside += fmt::format("{{\"query_head\":{}", first_query_head + i);
      append_measures(inside, MeasureScope::query_head, policy,
                      [&](const Measure& m) { return measure_at(m, record, i); });
      inside += '}';
    }
    inside += ']';
  }
  line += ",\"metrics\":{" + inside.substr(1) + "}";
}

std::string step_line(const Replay& replay, const PolicySpec& policy, const HeadReplay& head,
                      int step) {
  const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
  std::string line =
      fmt::format("{{\"step\":{},\"cache_size\":{},\"retained\":", step, record.cache_size);
  append_list(line, replay.retained_at(head, step));
  line += ",\"merged\":[";
  const std::vector<Merge> merges = replay.merges_at(head, step);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Merge& merge = merges[i];
    line += fmt::format("{}{{\"into\":{},\"from\":", i > 0 ? "," : "", merge.into);
    append_list(line, merge.from);
    line += ",\"weights\":";
    append_list(line, merge.weights);
    if (!record.query_heads.empty()) {
      // Nothing is known of values that were given away.
      const MergeMeasures measures = i < record.merge_measures.size()
                                         ? record.merge_measures[i]
                                         : MergeMeasures{kUnknown, kUnknown, kUnknown, kUnknown};
      append_number(line, "least_cosine", measures.least_cosine);
      append_number(line, "effective_members", measures.effective_members);
      append_number(line, "least_member_cosine", measures.least_member_cosine);
      append_number(line, "mean_member_cosine", measures.mean_member_cosine);
    }
    line += '}';
  }
  line += ']';
  if (!record.refits.empty()) {
    line += ",\"refitted\":[";
    for (const Refit& refit : record.refits) {
      if (line.back() != '[') line += ',';
      line += fmt::format("{{\"token\":{}", refit.token);
      append_number(line, "log_bias", static_cast<double>(refit.log_bias));
      append_number(line, "value_change", static_cast<double>(refit.value_change));
      line += '}';
    }
    line += ']';
  }
  append_metrics(line, record, policy,
                 head.head * static_cast<int>(std::max<std::size_t>(record.query_heads.size(), 1)));
  return line + '}';
}

/// ,"measures":{…} of the whole replay; nothing without metrics.
std::string head_measures(const PolicySpec& policy, const HeadReplay& head) {
  if (head.steps.empty() || head.steps.back().query_heads.empty()) return "";
  std::string inside;
  for (const MeasureScope scope :
       {MeasureScope::replay, MeasureScope::queries, MeasureScope::trace}) {
    append_measures(inside, scope, policy, [&](const Measure& m) { return measure_of(m, head); });
  }
  return inside.empty() ? "" : ",\"measures\":{" + inside.substr(1) + "}";
}
}  // namespace

void write_replay_json(const Replay& replay, const std::string& trace,
                       const ReplayJsonOptions& options,
                       const std::function<void(std::string_view)>& write) {
  write("{\"trace\":" + quoted(trace) + ",\n\"policy\":" + quoted(replay.policy) +
        fmt::format(",\n\"budget\":{},\n\"block\":{},\n", replay.budget, replay.block));
  const Reach reach = replay.heads.empty() ? Reach() : replay.heads.front().reach;
  const bool same_reach = std::all_of(replay.heads.begin(), replay.heads.end(),
                                      [&](const HeadReplay& head) { return head.reach == reach; });
  if (same_reach && !reach.all()) {
    write(fmt::format("\"{}\":{},\n", reach.name(), reach.span()));
  }
  if (options.bytes) {
    write(fmt::format("\"bytes\":{{\"held\":{},\"full\":{},\"states\":{}}},\n", options.bytes->held,
                      options.bytes->full, options.bytes->states));
  }
  if (replay.compression == Compression::context_only) {
    write(
        fmt::format("\"compression\":\"context-only\",\n\"acts_until\":{},\n", replay.acts_until));
  }
  write("\"notes\":[");
  for (std::size_t i = 0; i < replay.notes.size(); ++i) {
    write((i > 0 ? "," : "") + quoted(replay.notes[i]));
  }
  write("],\n\"heads\":[");
  const PolicySpec policy = parse_policy(replay.policy);
  bool first_head = true;
  for (const HeadReplay& head : replay.heads) {
    if (!options.heads.empty() &&
        std::find(options.heads.begin(), options.heads.end(), head.head) == options.heads.end()) {
      continue;
    }
    write(fmt::format(
        "{}\n{{\"layer\":{},\"head\":{},{}\"steps\":[", first_head ? "" : ",", head.layer,
        head.head,
        (head.shares_with >= 0 ? fmt::format("\"shares_with\":{},", head.shares_with) : "") +
            (same_reach ? "" : fmt::format("\"{}\":{},", head.reach.name(), head.reach.span()))));
    first_head = false;
    const int steps = static_cast<int>(head.steps.size());
    const int first = options.last_step_only ? std::max(steps - 1, 0) : 0;
    for (int step = first; step < steps; ++step) {
      write((step > first ? ",\n" : "\n") + step_line(replay, policy, head, step));
    }
    write("]" + head_measures(policy, head) + "}");
  }
  write("\n]}\n");
}

}  // namespace kvloupe
