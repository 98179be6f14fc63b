#include "analysis/plugin/plugin_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/plugin/plugin_score.h"

namespace kvloupe {

namespace {

constexpr std::size_t kLongestName = 40;
constexpr std::size_t kLongestText = 2000;
constexpr std::int32_t kMostParameters = 64;
constexpr std::int32_t kMostWords = 64;
constexpr double kMostEntries = 1e6;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// As a spec can write it.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

std::string text_of(const char* text) {
  return text == nullptr ? "" : in_one_line(text, kLongestText);
}

[[noreturn]] void refuse(const std::string& what) { throw WorkError(what); }

std::string checked_name(const char* name, const std::string& of) {
  const std::string_view text = name == nullptr ? "" : name;
  if (is_name(text)) return std::string(text);
  refuse(of + " " + in_quotes(text) +
         " is not a valid name: write a letter, then letters, digits and _, at most " +
         std::to_string(kLongestName));
}

/// What a number of the interface stands for, of those that it has from 0 on.
template <typename Meaning, std::size_t count>
Meaning meaning_of(std::int32_t number, const Meaning (&meanings)[count], const std::string& has) {
  if (number >= 0 && number < static_cast<std::int32_t>(count)) return meanings[number];
  refuse(has + " that this interface does not know: " + std::to_string(number));
}

// In the order of the interface's enums.
constexpr ParameterType kTypes[] = {
    ParameterType::count, ParameterType::flag, ParameterType::number, ParameterType::share,
    ParameterType::word,  ParameterType::text, ParameterType::text};
constexpr ScoreScale kScales[] = {ScoreScale::signed_own, ScoreScale::per_head, ScoreScale::common,
                                  ScoreScale::attention};

/// The default of a number, checked against its range.
double default_number(const kvloupe_parameter& parameter, const ParameterInfo& info,
                      const std::string& where) {
  const double value = parameter.default_number;
  const bool whole = info.type == ParameterType::number || value == std::floor(value);
  if (std::isfinite(info.minimum) && std::isfinite(info.maximum) && whole &&
      value >= info.minimum && value <= info.maximum) {
    return value;
  }
  refuse(fmt::format("{} has the default {}, which is not in its range {} to {}{}", where, value,
                     info.minimum, info.maximum, whole ? "" : " of whole numbers"));
}

std::string default_word(const kvloupe_parameter& parameter, ParameterInfo& info,
                         const std::string& where) {
  if (parameter.word_count < 1 || parameter.word_count > kMostWords || parameter.words == nullptr) {
    refuse(where + " has no words to choose from");
  }
  for (std::int32_t i = 0; i < parameter.word_count; ++i) {
    info.words.push_back(checked_name(parameter.words[i], where + ": the word"));
  }
  const std::string word = text_of(parameter.default_text);
  if (std::find(info.words.begin(), info.words.end(), word) == info.words.end()) {
    refuse(where + " has the default " + in_quotes(word) + ", which is not one of its words");
  }
  return word;
}

ParameterInfo parameter_of(const kvloupe_parameter& parameter, const std::string& score) {
  ParameterInfo info;
  info.name = checked_name(parameter.name, score + ": the parameter");
  const std::string where = score + ": the parameter " + info.name;
  info.meaning = text_of(parameter.meaning);
  info.type = meaning_of(parameter.type, kTypes, where + " has a type");
  info.minimum = parameter.minimum;
  info.maximum = parameter.maximum;
  switch (info.type) {
    case ParameterType::flag:
      info.minimum = 0.0;
      info.maximum = 1.0;
      info.default_value = default_number(parameter, info, where);
      break;
    case ParameterType::share:
      info.minimum = 0.0;
      info.maximum = 100.0;
      info.default_value = Percent{default_number(parameter, info, where)};
      info.maximum = kMostEntries;  // of what a person writes as a count
      break;
    case ParameterType::word:
      info.default_value = default_word(parameter, info, where);
      break;
    case ParameterType::text:
      info.names_file = parameter.type == KVLOUPE_FILE;
      info.required = parameter.default_text == nullptr;
      info.default_value = text_of(parameter.default_text);
      break;
    default:
      info.default_value = default_number(parameter, info, where);
  }
  return info;
}

std::vector<ParameterInfo> parameters_of(const kvloupe_score& score, const std::string& name) {
  const std::int32_t count = score.parameter_count;
  if (count < 0 || count > kMostParameters || (count > 0 && score.parameters == nullptr)) {
    refuse(fmt::format("{} has {} parameters; from 0 to {} are possible", name, count,
                       kMostParameters));
  }
  std::vector<ParameterInfo> parameters;
  for (std::int32_t i = 0; i < count; ++i) {
    ParameterInfo info = parameter_of(score.parameters[i], name);
    for (const ParameterInfo& other : parameters) {
      if (other.name == info.name) refuse(name + " has two parameters " + info.name);
    }
    parameters.push_back(std::move(info));
  }
  return parameters;
}

/// The inputs of a score with these flags, as text: those that every score gets, then those that
/// the flags add.
std::string needs_of(std::uint32_t flags) {
  std::string needs = "token indices, keys";
  if ((flags & KVLOUPE_READS_VALUES) != 0) needs += ", values";
  if ((flags & KVLOUPE_READS_QUERIES) != 0) needs += ", queries, the attention of a step";
  return needs;
}

/// The arguments of a part, in the order of the parameters; borrowed from the part.
std::vector<kvloupe_value> values_of(const SpecPart& part, int budget) {
  std::vector<kvloupe_value> values;
  for (const auto& [name, argument] : part.arguments) {
    kvloupe_value value = {};
    if (const double* number = std::get_if<double>(&argument)) {
      value.number = *number;
    } else if (const std::string* text = std::get_if<std::string>(&argument)) {
      value.text = text->c_str();
    } else {
      value.number = part.share(name, budget);
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

PolicyEntry plugin_entry(const std::string& file, const kvloupe_score& score) {
  if (score.size < sizeof(kvloupe_score)) {
    refuse(
        fmt::format("a score has {} bytes, but {} belong to interface {}; build the plugin again",
                    score.size, sizeof(kvloupe_score), KVLOUPE_POLICY_INTERFACE));
  }
  PolicyEntry entry;
  entry.name = checked_name(score.name, "the score");
  if (score.create == nullptr || score.score == nullptr || score.destroy == nullptr) {
    refuse(entry.name + " lacks a function: create, score and destroy are needed");
  }
  entry.summary = text_of(score.summary);
  entry.formula = text_of(score.formula);
  entry.source = text_of(score.source);
  entry.needs = needs_of(score.flags);
  entry.work = text_of(score.cost);
  if (entry.work.empty()) entry.work = "its plugin does not say";
  entry.differences = text_of(score.differences);
  entry.example = text_of(score.example);
  if (entry.summary.empty() || entry.formula.empty() || entry.source.empty()) {
    refuse(entry.name + " needs a summary, a formula and a source");
  }
  entry.parameters = parameters_of(score, entry.name);
  entry.traits.reads_queries = (score.flags & KVLOUPE_READS_QUERIES) != 0;

  auto type = std::make_shared<PluginScoreType>();
  type->file = file;
  type->name = entry.name;
  type->functions = score;
  ScoreBuilder builder;
  builder.scale = meaning_of(score.scale, kScales, entry.name + " has a scale");
  builder.make = [type](const SpecPart& part, const LayerContext& context) {
    return std::make_unique<PluginScore>(type, context, values_of(part, context.budget));
  };
  entry.own_protection = [make = builder.make](const SpecPart& part) {
    LayerContext any;  // of a model and a budget of usual sizes
    any.model.num_layers = any.model.num_heads = any.model.num_kv_heads = 1;
    any.model.head_dim = 64;
    any.budget = 1024;
    const Protection own = make(part, any)->protection();
    return OwnProtection{own.sink_tokens, static_cast<double>(own.window)};
  };
  if ((score.flags & KVLOUPE_ONE_SET) != 0) {
    builder.keeps_one_set = [](const SpecPart&) { return true; };
  }
  entry.builder = std::move(builder);
  return entry;
}

}  // namespace kvloupe
