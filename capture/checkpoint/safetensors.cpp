#include "capture/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/output_file.h"
#include "capture/checkpoint/mapped_file.h"

namespace kvloupe {

namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // the reference implementation's limit
constexpr std::uint64_t kLengthBytes = 8;
constexpr const char* kIncomplete = "; is the download complete?";
constexpr const char* kShardEnding = ".safetensors";

struct DtypeName {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array kDtypes{
    DtypeName{"F64", 8},  DtypeName{"F32", 4},     DtypeName{"F16", 2},     DtypeName{"BF16", 2},
    DtypeName{"I64", 8},  DtypeName{"I32", 4},     DtypeName{"I16", 2},     DtypeName{"I8", 1},
    DtypeName{"U64", 8},  DtypeName{"U32", 4},     DtypeName{"U16", 2},     DtypeName{"U8", 1},
    DtypeName{"BOOL", 1}, DtypeName{"F8_E4M3", 1}, DtypeName{"F8_E5M2", 1},
};

/// Bytes per element; 0 for a dtype this list does not know.
std::uint64_t dtype_bytes(std::string_view name) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const DtypeName& dtype) { return dtype.name == name; });
  return found == kDtypes.end() ? 0 : found->bytes;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

/// A file descriptor that closes itself.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

/// Parses a JSON object. `fail` is called with what is wrong, and must throw: no JSON object, or a
/// name that an object gives twice, of which a parser would silently take one.
template <typename Fail>
nlohmann::json parse_unique(std::string_view text, const Fail& fail) {
  std::vector<std::set<std::string>> names;  // of the objects around the place being read
  std::string repeated;
  const auto look = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key) {
      const auto name = value.get<std::string>();
      if (!names.back().insert(name).second) repeated = name;
    }
    return true;
  };
  nlohmann::json parsed =
      nlohmann::json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object()) fail("is not a JSON object");
  if (!repeated.empty()) fail("names " + in_one_line(repeated) + " twice");
  return parsed;
}

std::string read_text_file(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.value < 0 || ::fstat(file.value, &status) != 0) {
    throw FileError(path.string(), std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw FileError(path.string(), "is not a file");
  if (static_cast<std::uint64_t>(status.st_size) > kLargestHeader) {
    throw FileError(path.string(), "is too large for a checkpoint's index");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.value, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw FileError(path.string(), std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), map_(std::make_shared<const MappedFile>(path)) {
  const auto fail = [&](const std::string& problem) { throw FileError(path_.string(), problem); };
  if (map_->size() < kLengthBytes)
    fail(std::string("is too short to be a safetensors file") + kIncomplete);
  std::uint64_t header_bytes = 0;
  for (std::uint64_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= std::to_integer<std::uint64_t>(map_->data()[i]) << (8 * i);
  }
  if (header_bytes > kLargestHeader) fail("is not a safetensors file (impossible header length)");
  if (header_bytes > map_->size() - kLengthBytes) {
    fail(std::string("is truncated inside its header") + kIncomplete);
  }
  data_start_ = kLengthBytes + header_bytes;
  const std::uint64_t data_bytes = map_->size() - data_start_;

  const char* text = reinterpret_cast<const char*>(map_->data()) + kLengthBytes;
  const nlohmann::json header = parse_unique({text, header_bytes}, [&](const std::string& problem) {
    fail("is not a safetensors file (its header " + problem + ")");
  });

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") continue;
    const auto refuse = [&, &tensor_name = name](const std::string& problem) {
      fail("tensor " + in_one_line(tensor_name) + " " + problem);
    };
    if (!item.is_object()) refuse("has no description in the header");
    const auto dtype = item.find("dtype");
    const auto shape = item.find("shape");
    const auto offsets = item.find("data_offsets");
    if (dtype == item.end() || !dtype->is_string()) refuse("has no dtype");
    if (shape == item.end() || !shape->is_array()) refuse("has no shape");
    if (offsets == item.end() || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      refuse("has no data_offsets");
    }
    Entry entry;
    entry.dtype = dtype->get<std::string>();
    entry.begin = (*offsets)[0].get<std::uint64_t>();
    entry.end = (*offsets)[1].get<std::uint64_t>();
    if (entry.begin > entry.end) refuse("ends before it begins");
    if (entry.end > data_bytes)
      refuse(std::string("goes beyond the end of the file") + kIncomplete);

    std::uint64_t count = 1;
    for (const nlohmann::json& size : *shape) {
      if (!size.is_number_unsigned()) refuse("has a shape with numbers that are not whole");
      const auto value = size.get<std::uint64_t>();
      // No tensor has more elements than the file has bytes; zero-size ones have none at all.
      if (value > map_->size() || (value != 0 && count > map_->size() / value)) {
        refuse("has a shape larger than the file");
      }
      count *= value;
      entry.shape.push_back(static_cast<std::int64_t>(value));
    }
    const std::uint64_t element = dtype_bytes(entry.dtype);
    if (element != 0 && count * element != entry.end - entry.begin) {
      refuse("takes " + std::to_string(entry.end - entry.begin) + " bytes where " + entry.dtype +
             " " + shape_text(entry.shape) + " needs " + std::to_string(count * element));
    }
    ranges.emplace_back(entry.begin, entry.end);
    entries_.emplace(name, std::move(entry));
  }

  std::sort(ranges.begin(), ranges.end());
  std::uint64_t reached = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != reached) fail("has tensors that overlap or leave a gap in the file");
    reached = end;
  }
  if (reached != data_bytes) fail("contains more bytes than its header describes");
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw FileError(path_.string(), "does not contain the tensor " + in_one_line(name));
  const Entry& entry = found->second;
  at::ScalarType type = at::kFloat;
  if (entry.dtype == "F16") {
    type = at::kHalf;
  } else if (entry.dtype == "BF16") {
    type = at::kBFloat16;
  } else if (entry.dtype != "F32") {
    throw FileError(path_.string(), "tensor " + in_one_line(name) + " has the dtype " +
                                        in_one_line(entry.dtype) +
                                        "; F32, F16 and BF16 are supported");
  }
  const std::byte* start = map_->data() + data_start_ + entry.begin;
  const std::uint64_t element = dtype_bytes(entry.dtype);
  if (reinterpret_cast<std::uintptr_t>(start) % element != 0) {
    at::Tensor copy = at::empty(entry.shape, type);
    std::memcpy(copy.data_ptr(), start, entry.end - entry.begin);
    return copy;
  }
  return at::from_blob(
      const_cast<std::byte*>(start), entry.shape, [map = map_](void*) {}, at::dtype(type));
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index, ignored)) {
    main_file_ = single;
    if (!std::filesystem::exists(single, ignored)) {
      throw FileError(folder.string(),
                      "contains neither model.safetensors nor model.safetensors.index.json; a "
                      "Hugging Face model folder is expected");
    }
    files_.emplace_back(single);
    for (const auto& [name, entry] : files_.front().entries()) file_of_.emplace(name, 0);
    return;
  }

  main_file_ = index;
  const auto fail = [&](const std::string& problem) { throw FileError(index.string(), problem); };
  const nlohmann::json root = parse_unique(
      read_text_file(index), [&](const std::string& problem) { fail(problem + kIncomplete); });
  if (!root.contains("weight_map") || !root["weight_map"].is_object()) {
    fail("has no weight_map; a safetensors index is expected");
  }
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, file] : root["weight_map"].items()) {
    if (!file.is_string()) fail("the weight_map does not name a file for " + in_one_line(name));
    const auto file_name = file.get<std::string>();
    if (file_name.find('/') != std::string::npos) {
      fail("the weight_map names a file outside its folder for " + in_one_line(name));
    }
    const bool printable = std::none_of(file_name.begin(), file_name.end(),
                                        [](unsigned char c) { return c < 32 || c == 127; });
    if (!printable || !std::string_view(file_name).ends_with(kShardEnding)) {
      fail("the weight_map names " + in_one_line(file_name) + " for " + in_one_line(name) +
           ", which is not a " + kShardEnding + " file");
    }
    const auto [place, is_new] = opened.try_emplace(file_name, files_.size());
    if (is_new) {
      if (!std::filesystem::exists(folder / file_name, ignored)) {
        throw FileError(
            (folder / file_name).string(),
            std::string("the index names this shard, but the file does not exist") + kIncomplete);
      }
      files_.emplace_back(folder / file_name);
    }
    if (!files_[place->second].has(name)) {
      throw FileError(
          (folder / file_name).string(),
          "does not contain the tensor " + in_one_line(name) + ", although the index says so");
    }
    file_of_.emplace(name, place->second);
  }
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    for (const auto& [name, entry] : files_[shard].entries()) {
      const auto mapped = file_of_.find(name);
      if (mapped == file_of_.end() || mapped->second == shard) continue;
      throw FileError(files_[shard].path().string(),
                      "contains the tensor " + in_one_line(name) + ", and so does " +
                          files_[mapped->second].path().filename().string() +
                          ": two checkpoints in one folder?");
    }
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, entry] : file.entries()) names.push_back(name);
  }
  return names;
}

at::Tensor Checkpoint::tensor(const std::string& name,
                              const std::vector<std::int64_t>& shape) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    throw FileError(main_file_.string(),
                    "does not contain the tensor " + name +
                        ", which config.json requires; do the two files belong together?");
  }
  const SafetensorsFile& file = files_[found->second];
  const std::vector<std::int64_t>& written = file.entries().at(name).shape;
  if (written != shape) {
    throw FileError(file.path().string(), "tensor " + name + " has the shape " +
                                              shape_text(written) + " but config.json requires " +
                                              shape_text(shape));
  }
  return file.tensor(name);
}

void write_safetensors(const std::filesystem::path& target,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::ScalarType type = tensor.scalar_type();
    const char* dtype = type == at::kFloat      ? "F32"
                        : type == at::kHalf     ? "F16"
                        : type == at::kBFloat16 ? "BF16"
                                                : nullptr;
    if (dtype == nullptr) throw WorkError("tensor " + name + " is not F32, F16 or BF16");
    const std::uint64_t end =
        offset + static_cast<std::uint64_t>(tensor.numel()) * dtype_bytes(dtype);
    header[name] = {
        {"dtype", dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');  // aligns the data

  OutputFile file(target.string());
  const auto write_all = [&](const void* data, std::size_t size) {
    file.write({static_cast<const char*>(data), size});
  };
  std::array<unsigned char, kLengthBytes> length{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  }
  write_all(length.data(), length.size());
  write_all(text.data(), text.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
    write_all(bytes.data_ptr(), bytes.nbytes());
  }
  file.finish();
}

}  // namespace kvloupe
