#include "analysis/policy/spec_parser.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/presets.h"

namespace kvloupe {

namespace {

struct OtherNames {
  std::string_view here;
  std::string_view plain;  // as plain_name() gives them, each between blanks
};

/// Beside the presses of presets() and the names of the catalogue, whatever their capitals.
constexpr OtherNames kScores[] = {{"snapkv+adakv", " ada adakv adasnap adasnapkv "},
                                  {"sink(4)", " attentionsink attentionsinks sinks slm streaming "},
                                  {"h2o+cam", " cam "},
                                  {"h2o+caote", " caote "},
                                  {"snapkv+chunks(20)", " chunkkv "},
                                  {"snapkv+adakv+critical(of=budget)", " criticaladakv "},
                                  {"snapkv+critical(of=budget)", " criticalkv critical "},
                                  {"cur", " curdkv "},
                                  {"defensive", " defensivekv "},
                                  {"full", " dynamic fullattention fullkv none "},
                                  {"h2o+recent(50%)", " heavyhitter heavyhitters "},
                                  {"keynorm", " keyl2norm l2 l2compress l2norm "},
                                  {"h2o+kvmerger(recent=17%,heavy=12%)", " kvmerger "},
                                  {"sink(0)", " local recent slidingwindow window "},
                                  {"snapkv+pyramid", " pyramid "},
                                  {"qfilter", " qfilters "},
                                  {"snapkv", " snap "},
                                  {"random", " uniform "},
                                  {"snapkv+zigzag", " zigzagkv "}};

constexpr OtherNames kModifiers[] = {
    {"adakv", " ada "},           {"chunks(20)", " chunkkv "},
    {"critical", " criticalkv "}, {"recent(10%)", " local window "},
    {"pyramid", " pyramidkv "},   {"sinks(4)", " sink streamingllm "},
    {"zigzag", " zigzagkv "}};

/// Small letters and digits, without an ending that says only what kind of thing is named.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  for (const std::string_view ending : {"press", "kvcluster", "cluster", "cache", "policy"}) {
    if (plain.size() > ending.size() && plain.ends_with(ending)) {
      plain.resize(plain.size() - ending.size());
    }
  }
  return plain;
}

}  // namespace

std::optional<std::string> name_here(std::string_view name, bool first) {
  const std::string plain = plain_name(name);
  for (const PolicyEntry& entry : policy_catalog()) {
    if ((entry.kind() == PartKind::score) == first && plain_name(entry.name) == plain)
      return entry.name;
  }
  const auto look_up = [&](const auto& names) -> std::optional<std::string> {
    for (const OtherNames& other : names) {
      if (other.plain.find(" " + plain + " ") != std::string::npos) return std::string(other.here);
    }
    return std::nullopt;
  };
  if (!first) return look_up(kModifiers);
  for (const Preset& preset : presets()) {
    if (plain_name(preset.name) == plain) return preset.spec;
  }
  return look_up(kScores);
}

namespace {

bool word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool word_inside(char c) { return word_start(c) || digit(c) || c == '.' || c == '-'; }

[[noreturn]] void refuse(std::string_view word, std::size_t position, const std::string& why) {
  throw UsageError("policy: '" + in_one_line(word) + "' at column " + std::to_string(position + 1) +
                   ": " + why);
}

std::string list(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : ", ") + word;
  return result;
}

/// A value with its place in the text.
struct WrittenValue {
  SpecValue value;
  bool in_quotes = false;
  std::size_t position = 0;
  std::string written;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  /// spec = part { "+" part }; stops at the end, or at a comma in a list. The first part may be the
  /// name of a preset.
  PolicySpec spec() {
    PolicySpec result;
    positions_.clear();
    if (!preset(result)) part(result);
    skip_space();
    while (!at_end() && peek() == '+') {
      ++at_;
      part(result);
      skip_space();
    }
    sort_modifiers(result);
    check_modifiers(result);
    return result;
  }

  bool at_end() const { return at_ >= text_.size(); }
  bool take_comma() {
    skip_space();
    if (at_end() || peek() != ',') return false;
    ++at_;
    return true;
  }
  [[noreturn]] void unexpected(const std::string& expected) const {
    if (at_end()) {
      throw UsageError("policy: the text ends at column " + std::to_string(at_ + 1) +
                       ", expected " + expected);
    }
    std::size_t end = at_;
    while (end < text_.size() && word_inside(text_[end])) ++end;
    refuse(text_.substr(at_, std::max<std::size_t>(end - at_, 1)), at_, "expected " + expected);
  }

 private:
  char peek() const { return text_[at_]; }
  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t')) ++at_;
  }

  std::string_view word() {
    const std::size_t first = at_;
    while (!at_end() && word_inside(peek())) ++at_;
    return text_.substr(first, at_ - first);
  }

  /// Replaces the name of a preset by its parts.
  bool preset(PolicySpec& spec) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    for (const Preset& known : presets()) {
      if (!rest.starts_with(known.name)) continue;
      const std::string_view after = rest.substr(known.name.size());
      if (!after.empty() && (word_inside(after.front()) || after.front() == '(')) continue;
      spec = Parser(known.spec).spec();
      for (const SpecPart& one : spec.parts) positions_.emplace_back(one.name, at_);
      at_ += known.name.size();
      return true;
    }
    return false;
  }

  void part(PolicySpec& spec) {
    skip_space();
    const bool first = spec.parts.empty();
    const std::string wanted =
        first ? "a score, such as keydiff" : "a modifier, such as recent(10%)";
    if (at_end() || !word_start(peek())) unexpected(wanted);
    const std::size_t position = at_;
    const std::string name(word());
    const PolicyEntry* entry = find_policy(name);
    const char* kind = first ? "score" : "modifier";
    const auto nearest = [&] {
      std::vector<std::string> names;
      for (const PolicyEntry& known : policy_catalog()) {
        if ((known.kind() == PartKind::score) == first) names.push_back(known.name);
      }
      return "'" + nearest_word(name, names) + "'";
    };
    if (entry == nullptr) {
      const std::optional<std::string> here = name_here(name, first);
      refuse(name, position,
             std::string("unknown ") + kind +
                 (here ? "; here this is '" + *here + "'"
                       : "; the nearest is " + nearest() + "; `kvloupe policies` lists all"));
    }
    if (first && entry->kind() != PartKind::score) {
      refuse(name, position, "is a modifier; a spec starts with a score: 'keydiff+" + name + "'");
    }
    if (!first && entry->kind() == PartKind::score) {
      refuse(
          name, position,
          "is a score; only the first part can be a score; the nearest modifier is " + nearest());
    }
    if (spec.find(name) != nullptr) refuse(name, position, "is given twice; remove one");
    SpecPart result;
    result.name = name;
    arguments(*entry, position, result);
    spec.parts.push_back(std::move(result));
    positions_.emplace_back(name, position);
  }

  void arguments(const PolicyEntry& entry, std::size_t part_position, SpecPart& result) {
    std::vector<std::optional<SpecValue>> values(entry.parameters.size());
    skip_space();
    if (!at_end() && peek() == '(') {
      ++at_;
      skip_space();
      if (!at_end() && peek() == ')') {
        ++at_;
      } else {
        bool named = false;
        for (std::size_t index = 0;; ++index) {
          argument(entry, index, named, values);
          skip_space();
          if (at_end()) unexpected("')'");
          if (peek() == ')') break;
          if (peek() != ',') unexpected("',' or ')'");
          ++at_;
        }
        ++at_;
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ParameterInfo& parameter = entry.parameters[i];
      if (!values[i] && parameter.required) {
        refuse(entry.name, part_position, "needs " + parameter.name + ": " + parameter.meaning);
      }
      result.arguments.emplace_back(parameter.name,
                                    values[i] ? *values[i] : parameter.default_value);
    }
  }

  void argument(const PolicyEntry& entry, std::size_t index, bool& named,
                std::vector<std::optional<SpecValue>>& values) {
    skip_space();
    const std::size_t position = at_;
    std::size_t which = index;
    // A word followed by "=" names a parameter.
    if (!at_end() && word_start(peek())) {
      const std::string name(word());
      skip_space();
      if (!at_end() && peek() == '=') {
        ++at_;
        named = true;
        which = entry.parameters.size();
        for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
          if (entry.parameters[i].name == name) which = i;
        }
        if (which == entry.parameters.size()) {
          std::vector<std::string> names;
          for (const ParameterInfo& parameter : entry.parameters) names.push_back(parameter.name);
          if (names.empty()) refuse(name, position, entry.name + " takes no parameters");
          refuse(name, position,
                 entry.name + " has no such parameter; the nearest is '" +
                     nearest_word(name, names) + "' of " + list(names));
        }
        const WrittenValue written = value();
        store(entry, which, position, written, values);
        return;
      }
      at_ = position;
    }
    const WrittenValue written = value();
    if (named) {
      refuse(written.written, written.position, "a value without a name cannot follow a named one");
    }
    if (which >= entry.parameters.size()) {
      refuse(written.written, written.position,
             entry.name + " takes " +
                 (entry.parameters.empty() ? std::string("no parameters")
                                           : "at most " + std::to_string(entry.parameters.size())));
    }
    store(entry, which, position, written, values);
  }

  WrittenValue value() {
    skip_space();
    WrittenValue result;
    result.position = at_;
    if (at_end()) unexpected("a value");
    if (peek() == '"') {
      std::string text;
      for (++at_;; ++at_) {
        if (at_end()) refuse("\"", result.position, "this quote is not closed");
        if (peek() == '"') {
          if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
          ++at_;
        }
        text += peek();
      }
      ++at_;
      result.value = text;
      result.in_quotes = true;
    } else if (word_start(peek())) {
      result.value = std::string(word());
    } else if (digit(peek()) || peek() == '-' || peek() == '.') {
      double number = 0.0;
      const char* begin = text_.data() + at_;
      const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (error != std::errc()) {
        std::size_t end = at_ + 1;
        while (end < text_.size() && word_inside(text_[end])) ++end;
        refuse(text_.substr(at_, end - at_), at_,
               error == std::errc::result_out_of_range ? "out of range" : "not a number");
      }
      at_ += static_cast<std::size_t>(stop - begin);
      if (!at_end() && peek() == '%') {
        ++at_;
        result.value = Percent{number == 0.0 ? 0.0 : number};
      } else {
        result.value = number == 0.0 ? 0.0 : number;  // no negative zero
      }
      if (!at_end() && word_inside(peek())) {
        while (!at_end() && word_inside(peek())) ++at_;
        refuse(text_.substr(result.position, at_ - result.position), result.position,
               "not a number; put text between quotes");
      }
    } else {
      unexpected("a value: a number, a share such as 10%, a word, or \"quoted\" text");
    }
    result.written = std::string(text_.substr(result.position, at_ - result.position));
    return result;
  }

  void store(const PolicyEntry& entry, std::size_t which, std::size_t position,
             const WrittenValue& written, std::vector<std::optional<SpecValue>>& values) {
    const ParameterInfo& parameter = entry.parameters[which];
    if (values[which]) refuse(written.written, position, parameter.name + " is given twice");
    check(parameter, written);
    values[which] = written.value;
  }

  static void check(const ParameterInfo& parameter, const WrittenValue& written) {
    const auto wrong = [&](const std::string& why) {
      refuse(written.written, written.position, parameter.name + " " + why);
    };
    const std::string range =
        number_text(parameter.minimum) + " to " + number_text(parameter.maximum);
    if (const std::string* text = std::get_if<std::string>(&written.value)) {
      if (parameter.type == ParameterType::text) {
        if (text->empty()) wrong("is empty");
        const auto problem = parameter.check ? parameter.check(*text) : std::nullopt;
        if (problem) {
          // A quote inside is written twice, but the checks known refuse the first.
          refuse(problem->word, written.position + (written.in_quotes ? 1 : 0) + problem->position,
                 problem->why);
        }
        return;
      }
      if (parameter.type != ParameterType::word &&
          parameter.type != ParameterType::number_or_word) {
        wrong(parameter.type == ParameterType::share
                  ? "must be a count or a share such as 10%, " + range
                  : "must be a number, " + range);
      }
      for (const std::string& word : parameter.words) {
        if (word == *text) return;
      }
      wrong("does not have this value; the nearest is '" + nearest_word(*text, parameter.words) +
            "' of " + list(parameter.words) +
            (parameter.type == ParameterType::number_or_word ? "; or a number, " + range : ""));
    }
    if (parameter.type == ParameterType::word) {
      wrong("must be a word; the nearest is '" + nearest_word(written.written, parameter.words) +
            "' of " + list(parameter.words));
    }
    if (parameter.type == ParameterType::text) wrong("must be text; put it in quotes");
    if (const Percent* percent = std::get_if<Percent>(&written.value)) {
      if (parameter.type != ParameterType::share)
        wrong("cannot be a share; write a number, " + range);
      if (!(percent->value >= 0.0 && percent->value <= 100.0))
        wrong("must be a share of 0% to 100%");
      return;
    }
    const double number = std::get<double>(written.value);
    if (parameter.type != ParameterType::number &&
        parameter.type != ParameterType::number_or_word && number != std::floor(number)) {
      wrong("must be a whole number");
    }
    if (!(number >= parameter.minimum && number <= parameter.maximum)) {
      const double nearest = number < parameter.minimum ? parameter.minimum : parameter.maximum;
      wrong("is out of range " + range + "; the nearest is " + number_text(nearest));
    }
    if (parameter.odd && std::fmod(number, 2.0) == 0.0) {
      wrong("must be odd; the nearest is " + number_text(number + 1.0));
    }
  }

  static void sort_modifiers(PolicySpec& spec) {
    std::vector<SpecPart> sorted;
    for (const PolicyEntry& entry : policy_catalog()) {
      if (const SpecPart* part = spec.find(entry.name)) sorted.push_back(*part);
    }
    spec.parts = std::move(sorted);
  }

  void check_modifiers(const PolicySpec& spec) const {
    for (const auto& [name, position] : positions_) {
      const PolicyEntry& entry = *find_policy(name);
      const std::string reason = entry.refusal ? entry.refusal(*spec.find(name), spec) : "";
      if (!reason.empty()) refuse(name, position, reason);
    }
    if (find_policy(spec.score().name)->as<ScoreBuilder>() != nullptr) return;
    for (std::size_t i = 1; i < positions_.size(); ++i) {
      const auto& [name, position] = positions_[i];
      const std::string reason = whole_policy_refusal(*find_policy(name), spec);
      if (!reason.empty()) refuse(name, position, reason);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::pair<std::string, std::size_t>> positions_;  // of the parts, as written
};

}  // namespace

PolicySpec parse_policy(std::string_view text) {
  Parser parser(text);
  PolicySpec result = parser.spec();
  if (!parser.at_end()) parser.unexpected("'+' and a modifier, or the end");
  return result;
}

std::vector<PolicySpec> parse_policy_list(std::string_view text) {
  Parser parser(text);
  std::vector<PolicySpec> result;
  do {
    result.push_back(parser.spec());
  } while (parser.take_comma());
  if (!parser.at_end()) parser.unexpected("'+' and a modifier, ',' and a policy, or the end");
  return result;
}

}  // namespace kvloupe
