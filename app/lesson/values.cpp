#include "app/lesson/values.h"

#include <fmt/format.h>

#include "analysis/math/sink.h"
#include "app/lesson/value_groups.h"

namespace kvloupe::lesson {

const std::vector<ValueGroup>& value_catalog() {
  static const std::vector<ValueGroup> catalog = {trace_values(),  sink_values(),   state_values(),
                                                  result_values(), head_values(),   reader_values(),
                                                  answer_values(), writing_values()};
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
    text += fmt::format("### {}\n\n", group.name);
    for (const ValueInfo& info : group.values) {
      text += fmt::format("- `{}`: {}{}{}\n", usage(info), info.meaning,
                          info.is_text ? " (a text)" : "",
                          info.needs.empty() ? "" : "; needs " + info.needs);
    }
    text += "\n";
  }
  return text;
}

namespace {

constexpr std::size_t kTracesKept = 4;

/// Norm of a row over the median of all rows.
double norm_ratio(const Matrix& rows, int row) {
  std::vector<double> norms;
  for (Eigen::Index i = 0; i < rows.rows(); ++i)
    norms.push_back(static_cast<double>(rows.row(i).norm()));
  const double middle = median(norms);
  return middle > 0.0 ? norms.at(static_cast<std::size_t>(row)) / middle : kNone;
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
  Progress part(progress, 0);
  sinks->strengths = sink_strengths(trace, 0, part);
  const HeadIndex strongest = strongest_sink(sinks->strengths, trace.most_query_heads());
  sinks->layer = strongest.layer;
  sinks->query_head = strongest.head;
  sinks->heads = static_cast<int>((sinks->strengths.array() > kSinkHead).count());
  sinks->value_ratios = Matrix::Constant(trace.model().num_layers, trace.most_heads(),
                                         std::numeric_limits<float>::quiet_NaN());
  for (int l = 0; l < trace.model().num_layers; ++l) {
    for (int h = 0; h < trace.layer_model(l).num_kv_heads; ++h) {
      progress.check();
      sinks->value_ratios(l, h) = static_cast<float>(norm_ratio(trace.value(l, h), 0));
    }
  }
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kTracesKept) entries_.erase(entries_.begin());
  entries_.push_back({key, sinks});
  return sinks;
}

}  // namespace kvloupe::lesson
