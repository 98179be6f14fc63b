#include "analysis/trace/kept_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_size.h"

namespace kvloupe {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMarks = "last-used";  // a file in it for each kept file: its time counts
constexpr std::string_view kHdf5Begin = "\x89HDF\r\n\x1a\n";
constexpr std::array kFolders = {"", "cases", "weights"};

/// This thread only looks at files: that is no use.
thread_local bool only_looks = false;

struct Looking {
  Looking() { only_looks = true; }
  ~Looking() { only_looks = false; }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
};

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Whether a name is "something-HEX.h5" with so many digits.
bool is_hashed(std::string_view name, std::size_t digits) {
  constexpr std::string_view kEnd = ".h5";
  if (!name.ends_with(kEnd)) return false;
  name.remove_suffix(kEnd.size());
  return name.size() > digits + 1 && name[name.size() - digits - 1] == '-' &&
         is_hex(name.substr(name.size() - digits));
}

/// "64 digits-bf16-f16.h5".
bool is_weights(std::string_view name) {
  constexpr std::size_t kDigits = 64;
  if (name.size() <= kDigits || !is_hex(name.substr(0, kDigits))) return false;
  const std::string_view rest = name.substr(kDigits);
  return rest == "-bf16-f16.h5" || rest == "-bf16-f32.h5" || rest == "-f32-f16.h5" ||
         rest == "-f32-f32.h5";
}

/// The kind of a file with this name, in the cache folder itself ("") or in one of its folders.
std::optional<KeptKind> kind_of(std::string_view folder, std::string_view name) {
  if (folder.empty()) {
    if (name.starts_with("demo-") && is_hashed(name, 8)) return KeptKind::demo_trace;
  } else if (folder == "cases") {
    if (is_hashed(name, 16)) return KeptKind::case_trace;
    const std::size_t trace = name.find(".h5.");
    if (name.ends_with(".rescue.json") && trace != std::string_view::npos &&
        is_hashed(name.substr(0, trace + 3), 16)) {
      return KeptKind::rescue;
    }
  } else if (folder == "weights") {
    if (is_weights(name)) return KeptKind::weights;
  }
  return std::nullopt;
}

/// A folder, or one inside it that is no link.
Descriptor open_folder(const fs::path& folder) {
  return Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}
Descriptor open_inside(const Descriptor& folder, const char* name) {
  if (*name == '\0') return Descriptor(fcntl(folder.value(), F_DUPFD_CLOEXEC, 0));
  return Descriptor(openat(folder.value(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> names_in(const Descriptor& folder) {
  std::vector<std::string> names;
  const Descriptor own(openat(folder.value(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (own.value() < 0) return names;
  const int given = fcntl(own.value(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(fdopendir(given), closedir);
  if (!list) {
    if (given >= 0) close(given);
    return names;
  }
  while (const dirent* entry = readdir(list.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

/// Opens a file only if it is one that the programs wrote; its status.
std::optional<struct stat> open_own(const Descriptor& folder, const std::string& name,
                                    KeptKind kind, Descriptor& file) {
  struct stat status {};
  if (fstatat(folder.value(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  file.reset(openat(folder.value(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.value() < 0 || fstat(file.value(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid()) {
    return std::nullopt;
  }
  std::array<char, kHdf5Begin.size()> begin{};
  const ssize_t got = pread(file.value(), begin.data(), begin.size(), 0);
  const std::string_view read(begin.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const bool ours = kind == KeptKind::rescue ? read.starts_with('{') : read == kHdf5Begin;
  return ours ? std::optional(status) : std::nullopt;
}

std::string mark_name(std::string_view folder, std::string_view name) {
  return folder.empty() ? std::string(name) : fmt::format("{}+{}", folder, name);
}

/// The place of a kept file in a cache folder.
struct Place {
  fs::path root;
  std::string folder, name;
  KeptKind kind = KeptKind::demo_trace;
};

/// The place of a file by its name alone; nothing for a file that no cache folder holds.
std::optional<Place> place_of(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error).lexically_normal();
  if (error) return std::nullopt;
  const std::string name = whole.filename().string();
  const std::string folder = whole.parent_path().filename().string();
  const bool inside = folder == "cases" || folder == "weights";
  const auto kind = kind_of(inside ? folder : "", name);
  if (!kind) return std::nullopt;
  return Place{inside ? whole.parent_path().parent_path() : whole.parent_path(),
               inside ? folder : std::string(), name, *kind};
}

/// Notes that a file was used now. Only where there is a folder for it: in a cache folder.
void mark_used(const Place& place) {
  const Descriptor root = open_folder(place.root);
  if (root.value() < 0) return;
  const Descriptor marks = open_inside(root, kMarks);
  if (marks.value() < 0) return;
  const Descriptor mark(openat(marks.value(), mark_name(place.folder, place.name).c_str(),
                               O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (mark.value() >= 0) futimens(mark.value(), nullptr);
}

/// Locks a file that is to go; false: a program has it open.
bool locked_alone(const Descriptor& file) { return flock(file.value(), LOCK_EX | LOCK_NB) == 0; }

/// Removes one file with its mark, if it is still there, ours and not in use.
Removal remove_at(const Descriptor& root, std::string_view folder, const std::string& name,
                  KeptKind kind) {
  Removal removal;
  const Descriptor inside = open_inside(root, std::string(folder).c_str());
  Descriptor file;
  if (inside.value() < 0) return removal;
  const auto status = open_own(inside, name, kind, file);
  if (!status) return removal;
  if (!locked_alone(file)) {
    removal.in_use = 1;
    return removal;
  }
  if (unlinkat(inside.value(), name.c_str(), 0) != 0) return removal;
  removal.files = 1;
  removal.bytes = static_cast<std::uint64_t>(status->st_size);
  const Descriptor marks = open_inside(root, kMarks);
  if (marks.value() >= 0) unlinkat(marks.value(), mark_name(folder, name).c_str(), 0);
  return removal;
}

void add(Removal& all, const Removal& one) {
  all.files += one.files;
  all.bytes += one.bytes;
  all.in_use += one.in_use;
}

fs::path limit_file() {
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? fs::path() : folder / "cache-limit";
}

}  // namespace

fs::path cache_folder() { return user_folder("XDG_CACHE_HOME", ".cache"); }

const char* kept_kind_name(KeptKind kind) {
  switch (kind) {
    case KeptKind::demo_trace:
      return "trace of the demo model";
    case KeptKind::case_trace:
      return "trace of a case";
    case KeptKind::rescue:
      return "rescue";
    case KeptKind::weights:
      return "weights";
  }
  return "";
}

std::string about_kept_file(const KeptFile& file) {
  const Looking looking;
  try {
    if (file.kind == KeptKind::rescue) return {};
    if (file.kind == KeptKind::weights) return weights_model(file.path);
    const Trace trace(file.path);
    const ModelInfo& model = trace.model();
    std::string text = model.name.empty() ? model.architecture : model.name;
    text += fmt::format("{}{} tokens", text.empty() ? "" : ", ", trace.length());
    text += trace.run().closed_loop()
                ? fmt::format(", {} at {}", trace.run().policy, trace.run().budget)
                : ", full cache";
    return in_one_line(text, 200);
  } catch (const std::exception&) {
    return {};
  }
}

std::string files_text(std::size_t count) {
  return fmt::format("{} file{}", count, count == 1 ? "" : "s");
}

std::string removal_text(const Removal& removal) {
  const auto files = [](int count) { return files_text(static_cast<std::size_t>(count)); };
  std::string text = fmt::format("removed {}, {}", files(removal.files), bytes_text(removal.bytes));
  if (removal.in_use > 0) text += fmt::format("; {} in use stayed", files(removal.in_use));
  return text;
}

std::string last_use_text(const KeptFile& file) {
  const auto time = static_cast<std::time_t>(file.used);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

CacheFolder::CacheFolder(fs::path folder) : folder_(std::move(folder)) {
  // Marks are written only where this folder is, so that a copy of a trace in a folder of the
  // user's own gets none.
  const Descriptor root = open_folder(folder_);
  if (root.value() >= 0) mkdirat(root.value(), kMarks, 0700);
}

std::vector<KeptFile> CacheFolder::files() const {
  std::vector<KeptFile> files;
  const Descriptor root = open_folder(folder_);
  if (root.value() < 0) return files;
  const Descriptor marks = open_inside(root, kMarks);
  for (const char* folder : kFolders) {
    const Descriptor inside = open_inside(root, folder);
    if (inside.value() < 0) continue;
    for (const std::string& name : names_in(inside)) {
      const auto kind = kind_of(folder, name);
      if (!kind) continue;
      Descriptor file;
      const auto status = open_own(inside, name, *kind, file);
      if (!status) continue;
      KeptFile kept;
      kept.path = folder_ / folder / name;
      kept.kind = *kind;
      kept.bytes = static_cast<std::uint64_t>(status->st_size);
      kept.used = status->st_mtim.tv_sec;
      kept.in_use = !locked_alone(file);
      struct stat mark {};
      if (marks.value() >= 0 && fstatat(marks.value(), mark_name(folder, name).c_str(), &mark,
                                        AT_SYMLINK_NOFOLLOW) == 0) {
        kept.used = std::max<std::int64_t>(kept.used, mark.st_mtim.tv_sec);
      }
      files.push_back(std::move(kept));
    }
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const KeptFile& a, const KeptFile& b) { return a.used < b.used; });
  return files;
}

Removal CacheFolder::remove(const KeptFile& file) const {
  const fs::path relative = file.path.lexically_relative(folder_);
  const std::string name = relative.filename().string();
  const std::string folder = relative.parent_path().string();
  const auto kind = kind_of(folder, name);
  if (!kind) return {};
  const Descriptor root = open_folder(folder_);
  return root.value() < 0 ? Removal{} : remove_at(root, folder, name, *kind);
}

Removal CacheFolder::clear() const { return keep_below(0); }

Removal CacheFolder::keep_below(std::uint64_t limit, const std::vector<fs::path>& needed) const {
  const std::vector<KeptFile> all = files();
  std::uint64_t bytes = 0;
  for (const KeptFile& file : all) bytes += file.bytes;
  const auto is_needed = [&](const KeptFile& file) {
    return std::any_of(needed.begin(), needed.end(), [&](const fs::path& path) {
      return path.lexically_normal() == file.path.lexically_normal();
    });
  };
  Removal removal;
  for (const KeptFile& file : all) {
    if (bytes <= limit) break;
    if (is_needed(file)) continue;
    const Removal one = remove(file);
    bytes -= one.bytes;
    add(removal, one);
  }
  return removal;
}

FileUse::FileUse(const fs::path& file) {
  const auto place = place_of(file);
  if (!place) return;
  Descriptor opened(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (opened.value() < 0) return;
  // A program that lists the files holds a lock for a moment. A file system without locks has none
  // to wait for.
  constexpr int kTries = 50;
  for (int i = 0; i < kTries && flock(opened.value(), LOCK_SH | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  lock_ = std::move(opened);
  if (!only_looks) mark_used(*place);
}

std::uint64_t cache_limit() {
  std::ifstream in(limit_file());
  std::string text;
  std::getline(in, text);
  try {
    return parse_bytes(text);
  } catch (const UsageError&) {
    return kDefaultCacheLimit;
  }
}

void set_cache_limit(std::uint64_t bytes) {
  const fs::path file = limit_file();
  if (file.empty()) throw WorkError("no folder for the limit; set XDG_CONFIG_HOME to a folder");
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  write_whole_file(file, fmt::format("{} bytes\n", bytes));
}

std::uint64_t parse_bytes(const std::string& text) {
  const auto fail = [&] {
    return UsageError("\"" + text + "\" is no size; give one such as 10 GB, 500 MB or 0");
  };
  double number = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number) || number < 0.0) throw fail();
  std::string unit;
  for (const char* at = stop; at != end; ++at) {
    const auto c = static_cast<unsigned char>(*at);
    if (std::isspace(c) == 0) unit += static_cast<char>(std::tolower(c));
  }
  constexpr double kMost = 1e18;
  for (const auto& [name, bytes] : {std::pair{"", 1.0},
                                    {"b", 1.0},
                                    {"bytes", 1.0},
                                    {"kb", 1e3},
                                    {"mb", 1e6},
                                    {"gb", 1e9},
                                    {"tb", 1e12}}) {
    if (unit != name) continue;
    if (*name == '\0' && number != 0.0) break;  // 10 what?
    if (number * bytes > kMost) throw fail();
    return static_cast<std::uint64_t>(std::llround(number * bytes));
  }
  throw fail();
}

}  // namespace kvloupe
