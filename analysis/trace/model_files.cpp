#include "analysis/trace/model_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/sha256.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

/// "-00001-of-00003.gguf": two numbers of five digits.
constexpr std::string_view kBetween = "-of-", kEnd = ".gguf";
constexpr std::size_t kDigits = 5;
constexpr std::size_t kSuffix = 1 + kDigits + kBetween.size() + kDigits + kEnd.size();

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, problem] = std::from_chars(digits.data(), end, value);
  if (problem != std::errc() || stopped != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

bool is_gguf_file(const fs::path& place) {
  std::error_code error;
  if (!fs::is_regular_file(place, error)) return false;
  std::ifstream in(place, std::ios::binary);
  std::array<char, 4> magic{};
  return in.read(magic.data(), magic.size()) &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

bool holds_model(const fs::path& place) {
  std::error_code error;
  return fs::is_regular_file(place / "config.json", error) || is_gguf_file(place);
}

std::vector<fs::path> gguf_parts(const fs::path& first) {
  const std::string name = first.filename().string();
  if (name.size() < kSuffix || !name.ends_with(kEnd)) return {first};
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffix);
  if (suffix.front() != '-' || suffix.substr(1 + kDigits, kBetween.size()) != kBetween)
    return {first};
  const std::optional<int> part = number(suffix.substr(1, kDigits));
  const std::optional<int> count = number(suffix.substr(1 + kDigits + kBetween.size(), kDigits));
  if (!part || !count) return {first};
  if (*part != 1 || *count < 1) return {};
  const std::string stem = name.substr(0, name.size() - kSuffix);
  std::vector<fs::path> parts;
  for (int i = 1; i <= *count; ++i) {
    parts.push_back(first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count));
  }
  return parts;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVersion = "v1:";
constexpr std::uint64_t kMostConfig = 16U << 20U;
constexpr std::uint64_t kMostIndex = 100'000'000;
constexpr std::uint64_t kWhole = 64U << 20U;  // files up to here count with every byte
constexpr std::uint64_t kMostHeader = 100'000'000;
constexpr std::uint64_t kGgufHead = 1U << 20U;  // names, shapes and constants come first
constexpr std::uint64_t kStride = 4U << 20U;
constexpr std::uint64_t kPiece = 4096;
constexpr std::uint64_t kChunk = 1U << 20U;  // read at once

/// A file that cannot be read as it should; never leaves this file.
struct Unreadable {};

/// A regular file (a pipe would be waited for), and its size when it was opened.
class File {
 public:
  explicit File(const fs::path& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) throw Unreadable();
    size_ = fs::file_size(path, error);
    if (error) throw Unreadable();
    in_.open(path, std::ios::binary);
    if (!in_) throw Unreadable();
  }
  std::uint64_t size() const { return size_; }
  /// Exactly these bytes.
  void read(std::uint64_t at, std::span<char> bytes) {
    in_.seekg(static_cast<std::streamoff>(at));
    if (!in_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) throw Unreadable();
  }
  std::string text(std::uint64_t most) {
    if (size_ > most) throw Unreadable();
    std::string text(static_cast<std::size_t>(size_), '\0');
    read(0, text);
    return text;
  }
  void add(std::uint64_t first, std::uint64_t end, Sha256& hash, Progress& progress) {
    std::vector<char> chunk(static_cast<std::size_t>(std::min(kChunk, end - first)));
    while (first < end) {
      progress.check();
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, end - first));
      read(first, std::span(chunk).first(count));
      hash.add(chunk.data(), count);
      first += count;
    }
  }

 private:
  std::ifstream in_;
  std::uint64_t size_ = 0;
};

/// model.safetensors, or the shards that the index lists; as a checkpoint is loaded.
std::set<std::string> weight_files(const fs::path& folder) {
  constexpr const char* kSingle = "model.safetensors";
  std::error_code error;
  if (fs::exists(folder / kSingle, error)) return {kSingle};
  const std::string text = File(folder / "model.safetensors.index.json").text(kMostIndex);
  if (is_deep_json(text)) throw Unreadable();
  const nlohmann::json index = nlohmann::json::parse(text, nullptr, false);
  if (!index.is_object()) throw Unreadable();
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) throw Unreadable();
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw Unreadable();
    const auto name = file.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos) throw Unreadable();
    names.insert(name);
  }
  return names;
}

/// The bytes of a safetensors file up to its data, as far as its first eight are to be believed.
std::uint64_t header_end(File& file) {
  std::array<char, 8> bytes{};
  file.read(0, bytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return std::min(file.size(), bytes.size() + std::min(length, kMostHeader));
}

/// Every byte of a small file; of a larger one its beginning and pieces of the rest.
void add_pieces(File& file, std::uint64_t beginning, Sha256& hash, Progress& progress) {
  if (file.size() <= kWhole) {
    file.add(0, file.size(), hash, progress);
    return;
  }
  file.add(0, beginning, hash, progress);
  for (std::uint64_t at = 0; at < file.size(); at += kStride)
    file.add(at, std::min(at + kPiece, file.size()), hash, progress);
  file.add(file.size() - kPiece, file.size(), hash, progress);
}

void add_weights(File& file, Sha256& hash, Progress& progress) {
  hash.add(file.size());
  add_pieces(file, file.size() <= kWhole ? 0 : header_end(file), hash, progress);
}

}  // namespace

namespace {

/// Files may be renamed, so their names do not count.
void add_gguf(const fs::path& first, Sha256& hash, Progress& progress) {
  hash.add("kvloupe GGUF fingerprint 1\n");
  const std::vector<fs::path> parts = gguf_parts(first);
  if (parts.empty()) throw Unreadable();
  for (const fs::path& part : parts) {
    File file(part);
    hash.add(file.size());
    add_pieces(file, std::min(file.size(), kGgufHead), hash, progress);
  }
}

}  // namespace

std::string model_fingerprint(const fs::path& folder, Progress& progress) {
  try {
    Sha256 hash;
    if (is_gguf_file(folder)) {
      add_gguf(folder, hash, progress);
      return std::string(kVersion) + hash.hex();
    }
    hash.add("kvloupe model fingerprint 1\n");
    const std::string config = File(folder / "config.json").text(kMostConfig);
    hash.add(std::uint64_t{config.size()});
    hash.add(config);
    for (const std::string& name : weight_files(folder)) {
      File file(folder / name);
      hash.add(std::uint64_t{name.size()});
      hash.add(name);
      add_weights(file, hash, progress);
    }
    return std::string(kVersion) + hash.hex();
  } catch (const Unreadable&) {
    return {};
  } catch (const WorkError&) {  // no SHA-256
    return {};
  }
}

bool is_model_fingerprint(std::string_view text) {
  return text.size() == kVersion.size() + kSha256Digits && text.starts_with(kVersion) &&
         std::all_of(text.begin() + kVersion.size(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

namespace {
std::string stored_text(const std::filesystem::path& trace, const char* group, const char* name) {
  try {
    const hdf5::Lock lock;
    const hdf5::TraceFile opened = hdf5::open_trace_file(trace);
    return hdf5::read_text(hdf5::open_group(opened.file, group), name).value_or("");
  } catch (const hdf5::Failure& failure) {
    throw FileError(trace.string(),
                    std::string(failure.what()) + "; capture or convert the trace again");
  }
}
}  // namespace

std::string stored_model_fingerprint(const std::filesystem::path& trace) {
  const std::string text = stored_text(trace, "/model", layout::kFingerprint);
  return is_model_fingerprint(text) ? text : std::string();
}

std::string stored_chat(const std::filesystem::path& trace) {
  return stored_text(trace, "/run", "chat");
}

}  // namespace kvloupe
