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

#include "analysis/error.h"
#include "analysis/read_file.h"
#include "analysis/text.h"
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

/// Follows the places of the document's sets, in any order of keys.
class SetReader : public nlohmann::json_sax<Json> {
 public:
  SetReader(KeptSets& sets, const std::string& path, int layer)
      : sets_(sets), path_(path), layer_(layer) {}

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<std::int32_t>::max());
    return integer(static_cast<std::int64_t>(std::min(value, kMost + 1)));
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (names_version()) check_sets_version(path_, text);
    return scalar();
  }
  bool string(string_t& text) override {
    if (place_lengths_.size() <= kDeepest && at("{heads[{") && keys_.back() == "head") {
      if (text != "all") malformed("a head is neither a number nor \"all\"");
      head_ = KeptSets::kAllHeads;
    }
    if (names_version()) check_sets_version(path_, text);
    return scalar();
  }
  bool binary(binary_t&) override { return scalar(); }

  bool start_object(std::size_t) override { return open('{'); }
  bool key(string_t& name) override {
    keys_.back() = depth() <= kDeepest ? name : string_t();
    return true;
  }
  bool end_object() override {
    if (at("{heads[{")) finish_head();
    if (at("{heads[{steps[{")) finish_step();
    return close();
  }
  bool start_array(std::size_t) override {
    if (at("{") && keys_.back() == "heads") seen_heads_ = true;
    if (at("{heads[{steps[{") && keys_.back() == "retained") step_.has_retained = true;
    return open('[');
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw FileError(
        path_, "is not valid JSON: error at byte " + std::to_string(position) +
                   "; give a file that `kvloupe export-sets` or `kvloupe replay --json` wrote");
  }
  bool seen_heads() const { return seen_heads_; }

 private:
  static constexpr std::size_t kDeepest = 8;
  struct Step {
    std::optional<std::int32_t> number;
    bool has_retained = false;
    std::vector<std::int32_t> retained;
  };

  std::size_t depth() const { return keys_.size(); }
  [[noreturn]] void malformed(const std::string& why) const {
    throw FileError(
        path_, why + "; give a file that `kvloupe export-sets` or `kvloupe replay --json` wrote");
  }

  /// Whether the reader is at this place: opened brackets, each after its key.
  bool at(std::string_view place) const { return place_ == place; }
  bool open(char bracket) {
    if (depth() >= kDeepestJson) malformed("is nested too deeply");
    if (place_lengths_.size() > kDeepest) {  // deeper than anything of interest
      place_lengths_.push_back(place_.size());
      keys_.emplace_back();
      return true;
    }
    place_lengths_.push_back(place_.size());
    if (!keys_.empty()) place_ += keys_.back();
    place_ += bracket;
    keys_.emplace_back();
    return true;
  }
  bool close() {
    place_.resize(place_lengths_.back());
    place_lengths_.pop_back();
    keys_.pop_back();
    return true;
  }

  /// Whether the value that comes is the format's version.
  bool names_version() const {
    return place_lengths_.size() <= kDeepest && at("{") && keys_.back() == "kvloupe_sets";
  }
  bool scalar() {
    if (place_lengths_.size() <= kDeepest && at("{heads[{steps[{retained[")) {
      malformed("a retained token is not an integer");
    }
    return true;
  }
  bool integer(std::int64_t value) {
    if (place_lengths_.size() > kDeepest) return true;
    const bool in_range = value >= 0 && value <= std::numeric_limits<std::int32_t>::max();
    const auto number = static_cast<std::int32_t>(in_range ? value : -1);
    if (at("{heads[{steps[{retained[")) {
      if (!in_range) malformed("a retained token is out of range");
      if (!head_layer_ || *head_layer_ == layer_) step_.retained.push_back(number);
    } else if (at("{heads[{steps[{") && keys_.back() == "step") {
      if (!in_range) malformed("a step is out of range");
      step_.number = number;
    } else if (names_version()) {
      check_sets_version(path_, std::to_string(value));
    } else if (at("{") && keys_.back() == "once") {
      if (!in_range) malformed("once is no step");
      sets_.set_once(number);
    } else if (at("{heads[{") && (keys_.back() == "layer" || keys_.back() == "head")) {
      if (!in_range) malformed("a layer or head is out of range");
      (keys_.back() == "layer" ? head_layer_ : head_) = number;
    }
    return true;
  }

  void finish_step() {
    if (!step_.number || !step_.has_retained)
      malformed("a step has no \"step\" or no \"retained\"");
    steps_.push_back(std::move(step_));
    step_ = {};
  }
  void finish_head() {
    if (!head_layer_ || !head_) malformed("an entry of heads has no \"layer\" or no \"head\"");
    if (*head_layer_ == layer_) {
      for (Step& step : steps_) sets_.add(*head_, *step.number, std::move(step.retained));
    }
    steps_.clear();
    head_layer_.reset();
    head_.reset();
  }

  KeptSets& sets_;
  std::string path_;
  int layer_;
  std::string place_;
  std::vector<std::size_t> place_lengths_;
  std::vector<std::string> keys_;
  bool seen_heads_ = false;
  std::optional<std::int32_t> head_layer_, head_;
  std::vector<Step> steps_;
  Step step_;
};
}  // namespace

KeptSets read_kept_sets(const std::string& path, int layer) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    throw FileError(
        path,
        "is not a file; give a file that `kvloupe export-sets` or `kvloupe replay --json` wrote");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    throw FileError(
        path,
        file ? "is empty; give a file that `kvloupe export-sets` or `kvloupe replay --json` wrote"
             : "cannot be opened; check the path of external(\"...\")");
  }
  if (path.ends_with(".safetensors")) return read_kept_tensors(path, layer);
  KeptSets sets(path, layer);
  SetReader reader(sets, path, layer);
  nlohmann::json::sax_parse(file, &reader);
  if (!reader.seen_heads()) {
    throw FileError(path,
                    "has no \"heads\"; give a file that `kvloupe export-sets` or `kvloupe replay "
                    "--json` wrote");
  }
  return sets;
}

}  // namespace kvloupe
