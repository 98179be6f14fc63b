#include "app/lesson/values.h"

#include <fmt/format.h>

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
