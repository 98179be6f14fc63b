#include "analysis/study/study.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/one_line.h"
#include "analysis/policy/policy.h"

namespace kvloupe {

namespace {
namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr Reduce kReduces[] = {Reduce::none, Reduce::steps, Reduce::heads, Reduce::all};
constexpr const char* kFields[] = {"traces",      "policies", "budgets", "blocks",
                                   "compression", "measures", "reduce"};

json read_json(const fs::path& path) {
  std::error_code error;
  constexpr std::uintmax_t kMostBytes = 16U << 20U;
  if (!fs::is_regular_file(path, error)) {
    throw FileError(path.string(), "is not a file; give the study's JSON file");
  }
  if (fs::file_size(path, error) > kMostBytes) {
    throw FileError(path.string(), "is too large for a study file; at most 16 MB are read");
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw FileError(path.string(), "cannot be read; check its permissions");
  json document = json::parse(text, nullptr, false);
  if (!document.is_object()) {
    throw FileError(path.string(), "is not a JSON object; see docs/studies.md for an example");
  }
  return document;
}

/// The fields of one study file.
class Fields {
 public:
  explicit Fields(const fs::path& path) : path_(path.string()), document_(read_json(path)) {
    for (const auto& [name, value] : document_.items()) {
      if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields)) {
        fail(in_quotes(name), fmt::format("is not a field of a study of replays; the fields are {}",
                                          fmt::join(kFields, ", ")));
      }
    }
  }

  [[noreturn]] void fail(const std::string& where, const std::string& problem) const {
    throw FileError(path_, where + ": " + problem);
  }
  bool has(const char* field) const { return document_.contains(field); }

  /// Calls `take` with each value of a list, as text; a failure names the field and the value.
  /// Texts that are there twice are refused.
  void each(const char* field, const std::function<void(const std::string&)>& take) const {
    const auto list = document_.find(field);
    if (list == document_.end() || !list->is_array() || list->empty()) {
      fail(field, "write a list with at least one value");
    }
    std::vector<std::string> seen;
    for (const json& value : *list) {
      if (!value.is_string() && !value.is_number_integer()) {
        fail(field, "write texts or whole numbers, not " + in_quotes(value.dump()));
      }
      seen.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      if (std::count(seen.begin(), seen.end(), seen.back()) > 1) {
        fail(field, in_quotes(seen.back()) + " is there twice; keep one");
      }
      within(field, [&] { take(seen.back()); });
    }
  }
  /// A text that is one of some words.
  std::string word(const char* field, const std::vector<std::string>& words) const {
    const json& value = document_.at(field);
    if (value.is_string() && std::count(words.begin(), words.end(), value) > 0) return value;
    fail(field, fmt::format("write one of {}", fmt::join(words, ", ")));
  }
  /// What a part of the file's content is refused for, as a failure of the file.
  void within(const char* field, const std::function<void()>& work) const {
    try {
      work();
    } catch (const UsageError& error) {
      fail(field, in_one_line(error.what(), 400));
    }
  }

 private:
  std::string path_;
  json document_;
};

/// A text as a part of a glob that stands for itself.
std::string without_wildcards(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// The files that a name from a folder stands for, sorted by their bytes in every language.
std::vector<fs::path> matches(const fs::path& folder, const std::string& name) {
  glob_t found = {};
  const std::string pattern =
      fs::path(name).is_absolute() ? name : without_wildcards(folder.string()) + "/" + name;
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<StudyTrace> find_traces(const Fields& fields, const fs::path& study) {
  const fs::path folder = study.has_parent_path() ? study.parent_path() : fs::path(".");
  std::vector<StudyTrace> traces;
  const auto add = [&](const std::string& name, const fs::path& path) {
    const bool known = std::any_of(traces.begin(), traces.end(), [&](const StudyTrace& one) {
      return one.path.lexically_normal() == path.lexically_normal();
    });
    if (!known) traces.push_back({name, path});
  };
  fields.each("traces", [&](const std::string& name) {
    std::error_code error;
    if (const fs::path one = folder / name; fs::exists(one, error)) return add(name, one);
    const bool pattern = name.find_first_of("*?[") != std::string::npos;
    const std::vector<fs::path> paths = pattern ? matches(folder, name) : std::vector<fs::path>();
    if (paths.empty()) {
      fields.fail("traces", in_quotes(name, 200) + (pattern ? " matches no file" : " is missing") +
                                "; names start at the folder of the study file");
    }
    for (const fs::path& path : paths) {
      add(fs::path(name).is_absolute() ? path.string() : path.lexically_relative(folder).string(),
          path);
    }
  });
  return traces;
}

int parse_block(const std::string& text) {
  if (text == "all") return kWholePrompt;
  constexpr long kMost = 1L << 30U;
  const bool digits = !text.empty() && text.size() < 12 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  const long block = digits ? std::stol(text) : 0;
  if (block >= 1 && block <= kMost) return static_cast<int>(block);
  throw UsageError("block " + in_quotes(text) +
                   ": write a number of tokens, at least 1, or \"all\"");
}
}  // namespace

const char* reduce_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::none:
      return "none";
    case Reduce::steps:
      return "steps";
    case Reduce::heads:
      return "heads";
    case Reduce::all:
      break;
  }
  return "all";
}

std::string block_text(int block) {
  if (block == kWholePrompt) return "all";
  return block == 0 ? "capture" : std::to_string(block);
}

Study read_study(const std::filesystem::path& path) {
  const Fields fields(path);
  Study study;
  study.path = path;
  fields.each("policies", [&](const std::string& text) {
    PolicySpec policy = parse_policy(text);
    check_combination(policy);
    if (std::count(study.policies.begin(), study.policies.end(), policy) > 0) {
      throw UsageError(in_quotes(text) + " is another way to write " + in_quotes(policy.text()) +
                       ", which is there; keep one");
    }
    study.policies.push_back(std::move(policy));
  });
  fields.each("budgets", [&](const std::string& text) {
    study.budgets.push_back(parse_budget(text));
    study.budgets.back().resolve(1 << 20U);  // refuses 0
  });
  if (fields.has("blocks")) {
    study.blocks.clear();
    fields.each("blocks",
                [&](const std::string& text) { study.blocks.push_back(parse_block(text)); });
  }
  if (fields.has("compression")) {
    const std::string word = fields.word("compression", {"regular", "context-only"});
    study.compression = word == "regular" ? Compression::regular : Compression::context_only;
  }
  fields.each("measures", [&](const std::string& name) {
    require_measure(name);
    study.measures.push_back(name);
  });
  if (fields.has("reduce")) {
    std::vector<std::string> words;
    for (const Reduce one : kReduces) words.emplace_back(reduce_name(one));
    const std::string word = fields.word("reduce", words);
    study.reduce = *std::find_if(std::begin(kReduces), std::end(kReduces),
                                 [&](Reduce one) { return word == reduce_name(one); });
  }
  study.traces = find_traces(fields, path);  // last: what the file alone gets wrong comes first
  return study;
}

}  // namespace kvloupe
