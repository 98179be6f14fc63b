#include "analysis/policy/kit/kept_sets.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/safetensors_header.h"

namespace kvloupe {

namespace {
constexpr std::streamoff kMostSetBytes = std::streamoff{1} << 32;

class SetTensors {
 public:
  explicit SetTensors(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = file ? std::streamoff(file.tellg()) : -1;
    if (size < 0) throw FileError(path, "cannot be read; check the file");
    if (size > kMostSetBytes) throw FileError(path, "is larger than 4 GiB; write fewer steps");
    bytes_.resize(static_cast<std::size_t>(size));
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(bytes_.data()), size)) {
      throw FileError(path, "cannot be read to its end; check the disk");
    }
    header_ = read_safetensors_header(path, bytes_);
    const auto version = header_.metadata.find("kvloupe_sets");
    if (version != header_.metadata.end()) check_sets_version(path, version->second);
  }

  const std::map<std::string, SafetensorsEntry>& entries() const { return header_.entries; }

  /// A tensor of one dimension; every number from 0 to `most`.
  template <typename Number>
  std::vector<Number> numbers(const std::string& name, std::int64_t most) const {
    const auto found = header_.entries.find(name);
    if (found == header_.entries.end()) {
      throw FileError(path_,
                      "has no tensor " + name + "; give a file that `kvloupe export-sets` wrote");
    }
    const SafetensorsEntry& entry = found->second;
    const std::string dtype = sizeof(Number) == 8 ? "I64" : "I32";
    if (entry.dtype != dtype || entry.shape.size() != 1) {
      throw FileError(path_, "tensor " + name + " is " + in_one_line(entry.dtype) +
                                 shape_text(entry.shape) + "; " + dtype +
                                 " with one dimension is expected");
    }
    std::vector<Number> result(static_cast<std::size_t>(entry.shape.front()));
    if (!result.empty()) {
      std::memcpy(result.data(), bytes_.data() + header_.data_start + entry.begin,
                  result.size() * sizeof(Number));
    }
    for (const Number number : result) {
      if (number >= 0 && static_cast<std::int64_t>(number) <= most) continue;
      throw FileError(path_, "tensor " + name + " has the number " + std::to_string(number) +
                                 "; 0 to " + std::to_string(most) + " is expected");
    }
    return result;
  }

 private:
  std::string path_;
  std::vector<std::byte> bytes_;
  SafetensorsHeader header_;
};

/// The head of a tensor "layers.L.heads.H" or "layers.L.all" of this layer; −2: another tensor.
int head_of_tensor(std::string_view name, int layer) {
  const std::string start = "layers." + std::to_string(layer) + ".";
  if (!name.starts_with(start)) return -2;
  name.remove_prefix(start.size());
  if (name == "all") return KeptSets::kAllHeads;
  constexpr std::string_view kHeads = "heads.";
  if (!name.starts_with(kHeads)) return -2;
  name.remove_prefix(kHeads.size());
  int head = -2;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), head);
  return error == std::errc() && end == name.data() + name.size() && head >= 0 ? head : -2;
}

/// Reads the sets of one layer from a safetensors file (docs/sets.md). Throws FileError: missing,
/// unreadable, cut short, tensors of another type, shape or order.
KeptSets read_kept_tensors(const std::string& path, int layer) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const SetTensors file(path);
  KeptSets sets(path, layer);
  const std::vector<std::int64_t> steps = file.numbers<std::int64_t>("steps", kMost);
  if (file.entries().count("once") != 0) {
    const std::vector<std::int64_t> once = file.numbers<std::int64_t>("once", kMost);
    if (once.size() != 1) throw FileError(path, "tensor once must have one number");
    sets.set_once(static_cast<int>(once.front()));
  }
  for (const auto& [name, entry] : file.entries()) {
    const int head = head_of_tensor(name, layer);
    if (head == -2) continue;
    const std::vector<std::int32_t> tokens = file.numbers<std::int32_t>(name, kMost);
    const std::vector<std::int64_t> ends =
        file.numbers<std::int64_t>(name + ".ends", static_cast<std::int64_t>(tokens.size()));
    if (ends.size() != steps.size() || (ends.empty() ? 0 : ends.back()) != std::ssize(tokens)) {
      throw FileError(path, "tensor " + name + ".ends must have a number for each of the " +
                                std::to_string(steps.size()) + " steps, the last of them " +
                                std::to_string(tokens.size()));
    }
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (ends[s] < begin) throw FileError(path, "the numbers of " + name + ".ends must ascend");
      sets.add(head, static_cast<int>(steps[s]),
               {tokens.begin() + begin, tokens.begin() + ends[s]});
      begin = ends[s];
    }
  }
  return sets;
}
}  // namespace

const std::vector<std::int32_t>& KeptSets::at(int head, int step) const {
  auto found = sets_.find({head, step});
  if (found == sets_.end()) found = sets_.find({kAllHeads, step});
  if (found == sets_.end()) {
    throw FileError(path_, "has no set for layer " + std::to_string(layer_) + ", head " +
                               std::to_string(head) + ", step " + std::to_string(step) +
                               "; write one for every head and step, with the same block size");
  }
  return found->second;
}

void KeptSets::add(int head, int step, std::vector<std::int32_t> retained) {
  const std::string where = "layer " + std::to_string(layer_) +
                            (head == kAllHeads ? ", all heads" : ", head " + std::to_string(head)) +
                            ", step " + std::to_string(step);
  for (std::size_t i = 0; i < retained.size(); ++i) {
    if (retained[i] < 0 || (i > 0 && retained[i] <= retained[i - 1])) {
      throw FileError(path_,
                      "the tokens retained at " + where + " are not in ascending order; sort them");
    }
  }
  if (!sets_.emplace(std::pair(head, step), std::move(retained)).second) {
    throw FileError(path_, "has two sets for " + where + "; keep only one");
  }
}

void check_sets_version(const std::string& path, const std::string& version) {
  if (version == "1") return;
  throw FileError(path, "has kvloupe_sets " + in_one_line(version) +
                            ", and this version reads 1; open it with a newer kvloupe");
}

namespace {
using Json = nlohmann::json;

[[noreturn]] void malformed(const std::string& path, const std::string& why) {
  throw FileError(
      path, why + "; give a file that `kvloupe export-sets` or `kvloupe replay --json` wrote");
}

std::int32_t whole_number(const std::string& path, const Json& value, const char* problem) {
  const auto number = value.get<std::int64_t>();  // beyond 63 bits it is negative
  if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) malformed(path, problem);
  return static_cast<std::int32_t>(number);
}

/// The set of one step, as far as it has been read.
struct ReadStep {
  std::optional<std::int32_t> number;
  bool has_retained = false;
  std::vector<std::int32_t> retained;
};

/// The sets of one layer from JSON, in any order of keys. Nothing else of the document is held.
KeptSets read_kept_json(const std::string& path, int layer, std::istream& file) {
  using Event = Json::parse_event_t;
  KeptSets sets(path, layer);
  std::string key;  // whose value comes
  int way = 0;      // open brackets of {"heads": [{"steps": [{"retained": [
  bool seen_heads = false;
  std::optional<std::int32_t> head_layer, head;
  std::vector<ReadStep> steps;
  const auto read_value = [&](int depth, const Json& value) {
    const bool whole = value.is_number_integer();
    const bool of_head = depth == 3 && (key == "layer" || key == "head");
    if (depth == 1 && key == "kvloupe_sets" && (value.is_number() || value.is_string())) {
      check_sets_version(path, value.is_number() ? value.dump() : value.get<std::string>());
    } else if (depth == 1 && key == "once" && whole) {
      sets.set_once(whole_number(path, value, "once is no step"));
    } else if (of_head && whole) {
      (key == "layer" ? head_layer : head) =
          whole_number(path, value, "a layer or head is out of range");
    } else if (of_head && key == "head" && value.is_string()) {
      if (value != "all") malformed(path, "a head is neither a number nor \"all\"");
      head = KeptSets::kAllHeads;
    } else if (depth == 5 && key == "step" && whole) {
      steps.back().number = whole_number(path, value, "a step is out of range");
    } else if (depth == 6) {
      if (!whole) malformed(path, "a retained token is not an integer");
      const std::int32_t token = whole_number(path, value, "a retained token is out of range");
      if (!head_layer || *head_layer == layer) steps.back().retained.push_back(token);
    }
  };
  const auto open = [&](int depth, bool object) {
    if (depth >= kDeepestJson) malformed(path, "is nested too deeply");
    constexpr std::string_view kKeys[] = {"", "heads", "", "steps", "", "retained"};
    if (depth != way || depth > 5 || object != (depth % 2 == 0)) return false;
    if (!object && key != kKeys[depth]) return false;
    ++way;
    seen_heads = seen_heads || depth == 1;
    if (depth == 4) steps.emplace_back();
    if (depth == 5) steps.back().has_retained = true;
    return true;
  };
  const auto finish = [&](int depth) {
    way = depth;
    if (depth == 4 && !(steps.back().number && steps.back().has_retained))
      malformed(path, "a step has no \"step\" or no \"retained\"");
    if (depth != 2) return;
    if (!head_layer || !head) malformed(path, "an entry of heads has no \"layer\" or no \"head\"");
    for (ReadStep& step : steps) {
      if (*head_layer == layer) sets.add(*head, *step.number, std::move(step.retained));
    }
    steps.clear();
    head_layer.reset();
    head.reset();
  };
  const auto visit = [&](int depth, Event event, const Json& value) {
    if (event == Event::object_start || event == Event::array_start)
      return open(depth, event == Event::object_start);
    if (event == Event::key) key = value.get<std::string>();
    if (event == Event::value) read_value(depth, value);
    if (event == Event::object_end || event == Event::array_end) finish(depth);
    return event == Event::key;
  };
  try {
    [[maybe_unused]] const Json nothing = Json::parse(file, visit);
  } catch (const Json::parse_error& error) {
    malformed(path, "is not valid JSON: error at byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {  // a number that no double holds
    malformed(path, "is not valid JSON: error at byte " +
                        std::to_string(static_cast<long>(file.tellg()) - 1));
  }
  if (!seen_heads) malformed(path, "has no \"heads\"");
  return sets;
}
}  // namespace

KeptSets read_kept_sets(const std::string& path, int layer) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    malformed(path, "is not a file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    if (file) malformed(path, "is empty");
    throw FileError(path, "cannot be opened; check the path of external(\"...\")");
  }
  if (path.ends_with(".safetensors")) return read_kept_tensors(path, layer);
  return read_kept_json(path, layer, file);
}

}  // namespace kvloupe
