#include "analysis/policy/other_names.h"

#include <array>

#include "analysis/policy/policy_catalog.h"
#include "analysis/policy/presets.h"

namespace kvloupe {

namespace {

struct OtherName {
  std::string_view plain;  // as plain_name() gives it
  std::string_view here;
};

/// Beside the presses of presets() and the names of the catalogue, whatever their capitals.
constexpr std::array kScores{
    OtherName{"ada", "snapkv+adakv"},
    OtherName{"adakv", "snapkv+adakv"},
    OtherName{"adasnap", "snapkv+adakv"},
    OtherName{"adasnapkv", "snapkv+adakv"},
    OtherName{"attentionsink", "sink(4)"},
    OtherName{"attentionsinks", "sink(4)"},
    OtherName{"cam", "h2o+cam"},
    OtherName{"caote", "h2o+caote"},
    OtherName{"chunkkv", "snapkv+chunks(20)"},
    OtherName{"criticaladakv", "snapkv+adakv+critical(of=budget)"},
    OtherName{"criticalkv", "snapkv+critical(of=budget)"},
    OtherName{"critical", "snapkv+critical(of=budget)"},
    OtherName{"curdkv", "cur"},
    OtherName{"defensivekv", "defensive"},
    OtherName{"dynamic", "full"},
    OtherName{"fullattention", "full"},
    OtherName{"fullkv", "full"},
    OtherName{"heavyhitter", "h2o+recent(50%)"},
    OtherName{"heavyhitters", "h2o+recent(50%)"},
    OtherName{"keyl2norm", "keynorm"},
    OtherName{"kvmerger", "h2o+kvmerger(recent=17%,heavy=12%)"},
    OtherName{"l2", "keynorm"},
    OtherName{"l2compress", "keynorm"},
    OtherName{"l2norm", "keynorm"},
    OtherName{"local", "sink(0)"},
    OtherName{"none", "full"},
    OtherName{"pyramid", "snapkv+pyramid"},
    OtherName{"qfilters", "qfilter"},
    OtherName{"recent", "sink(0)"},
    OtherName{"sinks", "sink(4)"},
    OtherName{"slidingwindow", "sink(0)"},
    OtherName{"slm", "sink(4)"},
    OtherName{"snap", "snapkv"},
    OtherName{"streaming", "sink(4)"},
    OtherName{"uniform", "random"},
    OtherName{"window", "sink(0)"},
    OtherName{"zigzagkv", "snapkv+zigzag"},
};

constexpr std::array kModifiers{
    OtherName{"ada", "adakv"},
    OtherName{"chunkkv", "chunks(20)"},
    OtherName{"criticalkv", "critical"},
    OtherName{"local", "recent(10%)"},
    OtherName{"pyramidkv", "pyramid"},
    OtherName{"sink", "sinks(4)"},
    OtherName{"streamingllm", "sinks(4)"},
    OtherName{"window", "recent(10%)"},
    OtherName{"zigzagkv", "zigzag"},
};

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
    for (const OtherName& other : names) {
      if (other.plain == plain) return std::string(other.here);
    }
    return std::nullopt;
  };
  if (!first) return look_up(kModifiers);
  for (const Preset& preset : presets()) {
    if (plain_name(preset.name) == plain) return preset.spec;
  }
  return look_up(kScores);
}

}  // namespace kvloupe
