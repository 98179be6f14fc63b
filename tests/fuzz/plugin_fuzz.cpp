// The registration of a plugin: the table of a score, as its library fills it in. The input is the
// table as text, "FIELD VALUE" a line, because pointers cannot come from a file.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "analysis/plugin/plugin_entry.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

struct Parameter {
  kvloupe_parameter table = {};
  std::vector<const char*> words;
};

struct Table {
  kvloupe_score score = {};
  std::deque<std::string> texts;  // what the table points to
  std::deque<Parameter> parameters;
  std::vector<kvloupe_parameter> handed_over;

  const char* text(std::string_view value) {
    texts.emplace_back(value);
    return texts.back().c_str();
  }

  explicit Table(std::string_view input) {
    score.size = sizeof score;
    score.create = [](void*, const kvloupe_layer*, const kvloupe_value*, kvloupe_protection*,
                      void**, char*) -> std::int32_t { return 1; };
    score.score = [](void*, const kvloupe_step*, std::int32_t, float*, char*) -> std::int32_t {
      return 1;
    };
    score.destroy = [](void*) {};
    while (!input.empty()) {
      const std::string_view line = input.substr(0, input.find('\n'));
      input.remove_prefix(std::min(input.size(), line.size() + 1));
      const std::string_view field = line.substr(0, line.find(' '));
      set(field, line.substr(std::min(line.size(), field.size() + 1)));
    }
    for (Parameter& parameter : parameters) {
      if (!parameter.words.empty()) parameter.table.words = parameter.words.data();
      handed_over.push_back(parameter.table);
    }
    if (!handed_over.empty()) score.parameters = handed_over.data();
    // A count that the plugin gets wrong in the other direction cannot be found out.
    score.parameter_count =
        std::min(score.parameter_count, static_cast<std::int32_t>(handed_over.size()));
    if (score.parameter_count == 0)
      score.parameter_count = static_cast<std::int32_t>(handed_over.size());
  }

  void set(std::string_view field, std::string_view value) {
    const std::string copy(value);
    const double number = std::strtod(copy.c_str(), nullptr);
    const auto whole = static_cast<std::int32_t>(std::strtol(copy.c_str(), nullptr, 10));
    if (field == "name") score.name = text(value);
    if (field == "summary") score.summary = text(value);
    if (field == "formula") score.formula = text(value);
    if (field == "source") score.source = text(value);
    if (field == "cost") score.cost = text(value);
    if (field == "example") score.example = text(value);
    if (field == "differences") score.differences = text(value);
    if (field == "flags") score.flags = static_cast<std::uint32_t>(whole);
    if (field == "scale") score.scale = whole;
    if (field == "size") score.size = static_cast<std::uint32_t>(whole);
    if (field == "count") score.parameter_count = whole;
    if (field == "no-score") score.score = nullptr;
    if (field == "parameter") {
      parameters.emplace_back();
      parameters.back().table.name = text(value);
    }
    if (parameters.empty()) return;
    kvloupe_parameter& last = parameters.back().table;
    if (field == "type") last.type = whole;
    if (field == "meaning") last.meaning = text(value);
    if (field == "default") last.default_number = number;
    if (field == "minimum") last.minimum = number;
    if (field == "maximum") last.maximum = number;
    if (field == "default-text") last.default_text = text(value);
    if (field == "word") {
      parameters.back().words.push_back(text(value));
      last.word_count = static_cast<std::int32_t>(parameters.back().words.size());
    }
    if (field == "no-words") last.word_count = whole;
  }
};

bool is_one_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 32; });
}

}  // namespace

KVLOUPE_FUZZ_TARGET(plugin) {
  using namespace kvloupe;
  Table table(input);
  // `no-words` may say more words than there are, which no plugin's host can find out.
  for (std::size_t i = 0; i < table.handed_over.size(); ++i) {
    auto& count = table.handed_over[i].word_count;
    count = std::min(count, static_cast<std::int32_t>(table.parameters[i].words.size()));
  }
  const PolicyEntry entry = plugin_entry("plugin.so", table.score);
  fuzz::require(!entry.name.empty() && entry.name.size() <= 40, "a name that no spec can write");
  for (const std::string* text : {&entry.summary, &entry.formula, &entry.source, &entry.work})
    fuzz::require(!text->empty() && is_one_line(*text), "a text that is not one line");
  for (const ParameterInfo& parameter : entry.parameters) {
    fuzz::require(is_one_line(parameter.meaning), "a meaning that is not one line");
    if (const double* value = std::get_if<double>(&parameter.default_value)) {
      fuzz::require(
          std::isfinite(*value) && *value >= parameter.minimum && *value <= parameter.maximum,
          "a default out of its range");
    }
  }
}
