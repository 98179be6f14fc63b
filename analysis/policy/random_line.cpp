#include "analysis/policy/random_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

namespace {
/// The parameters of scores that protect entries themselves: how many first tokens, and how many
/// of the last entries. Empty: none.
struct OwnProtection {
  std::string_view score, first, last;
};
/// Scores whose last entries are at most a quarter of the budget, which this file does not know: a
/// quarter.
constexpr std::string_view kQuarter[] = {"epikv", "thinkv"};
constexpr OwnProtection kOwn[] = {
    {"cakescore", "", "window"},    {"capkv", "sinks", ""},       {"centrality", "sinks", "recent"},
    {"compactor", "first", "last"}, {"cur", "sinks", ""},         {"defensive", "", "window"},
    {"dropkv", "", "window"},       {"expected", "sinks", ""},    {"lavascore", "", "window"},
    {"lagkv", "sinks", ""},         {"rkv", "", "window"},        {"sink", "n", ""},
    {"snapkv", "", "window"},       {"tova", "", "protect_last"}, {"valuerange", "sinks", ""},
    {"vase", "sinks", "window"},    {"vatp", "sinks", ""},
};

bool has(const std::vector<PolicySpec>& some, const PolicySpec& one) {
  return std::find(some.begin(), some.end(), one) != some.end();
}
}  // namespace

PolicySpec random_line(const PolicySpec& policy) {
  PolicySpec line = parse_policy("random");
  for (const SpecPart& part : policy.parts) {
    const PolicyEntry& entry = *find_policy(part.name);
    if (entry.as<ProtectionBuilder>() != nullptr || entry.as<ScheduleBuilder>() != nullptr)
      line.parts.push_back(part);
  }
  std::string text = line.text();
  const SpecPart& score = policy.score();
  const auto* own = std::find_if(std::begin(kOwn), std::end(kOwn),
                                 [&](const OwnProtection& one) { return one.score == score.name; });
  const auto add = [&](std::string_view parameter, const char* modifier) {
    if (parameter.empty() || score.count(parameter) == 0 || line.find(modifier) != nullptr) return;
    text += fmt::format("+{}({})", modifier, score.count(parameter));
  };
  if (own != std::end(kOwn)) {
    add(own->first, "sinks");
    add(own->last, "recent");
  }
  const bool quarter =
      std::find(std::begin(kQuarter), std::end(kQuarter), score.name) != std::end(kQuarter);
  if (quarter && score.count("recent") > 0 && line.find("recent") == nullptr) {
    text += "+recent(25%)";
  }
  return parse_policy(text);
}

std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies) {
  std::vector<PolicySpec> lines;
  for (const PolicySpec& policy : policies) {
    if (keeps_everything(policy) || policy.score().name == "random") continue;
    PolicySpec line = random_line(policy);
    if (!has(policies, line) && !has(lines, line)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string random_line_name(const PolicySpec& policy, const std::vector<PolicySpec>& policies) {
  const auto parts = [](const PolicySpec& spec) {
    return std::vector<SpecPart>(spec.parts.begin() + 1, spec.parts.end());
  };
  if (policy.score().name != "random" || parts(random_line(policy)) != parts(policy)) return "";
  bool any = false, all = true;
  for (const PolicySpec& other : policies) {
    if (keeps_everything(other) || other.score().name == "random") continue;
    const bool same = parts(random_line(other)) == parts(policy);
    any = any || same;
    all = all && same;
  }
  return !any ? "" : all ? kRandomLine : policy.text();
}

}  // namespace kvloupe
