#include "analysis/policy/kit/kept_tensors.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/trace/safetensors_header.h"

namespace kvloupe {

namespace {
constexpr std::streamoff kMostBytes = std::streamoff{1} << 32;

class SetTensors {
 public:
  explicit SetTensors(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = file ? std::streamoff(file.tellg()) : -1;
    if (size < 0) throw FileError(path, "cannot be read; check the file");
    if (size > kMostBytes) throw FileError(path, "is larger than 4 GiB; write fewer steps");
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
}  // namespace

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

}  // namespace kvloupe
