#pragma once
// The files that the programs keep in the user's cache folder: traces of the demo model, traces of
// cases ("Why?"), rescues, weights. Each can be made again, so the oldest may go.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/base/system/descriptor.h"

namespace kvloupe {

/// $XDG_CACHE_HOME/kvloupe, else ~/.cache/kvloupe; empty where neither is known.
std::filesystem::path cache_folder();

enum class KeptKind { demo_trace, case_trace, rescue, weights };

/// "trace of the demo model", "trace of a case", "rescue", "weights".
const char* kept_kind_name(KeptKind kind);

/// One file of a cache folder.
struct KeptFile {
  std::filesystem::path path;
  KeptKind kind = KeptKind::demo_trace;
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  // when last: seconds since 1970
  bool in_use = false;    // a program has it open
};

/// The model and tokens of a file of the cache folder, in one line: "SmolLM2, 1973 tokens, h2o at
/// 256"; for weights, the model and their form. Opens the file; empty if it has neither or cannot
/// be read.
std::string about_kept_file(const KeptFile& file);

/// The result of a removal.
struct Removal {
  int files = 0;
  std::uint64_t bytes = 0;
  int in_use = 0;  // files that stayed because a program has them open
};

/// "1 file", "3 files".
std::string files_text(std::size_t count);
/// "removed 3 files, 1.2 GB; 1 file in use stayed".
std::string removal_text(const Removal& removal);
/// When a file was used last, local time to the minute: "2026-11-26 23:30".
std::string last_use_text(const KeptFile& file);

/// The kept files of one cache folder. Theirs are regular files of this user with the names and the
/// first bytes that the programs write, in the folder or in its folders `cases` and `weights`: all
/// else is neither listed nor removed, and no symbolic link inside the folder is followed. Any
/// number of programs may do this at once.
class CacheFolder {
 public:
  explicit CacheFolder(std::filesystem::path folder);

  const std::filesystem::path& path() const { return folder_; }
  /// The one unused for longest first. A folder that is missing or unreadable has none.
  std::vector<KeptFile> files() const;
  /// Removes one, unless a program has it open or it is none of theirs any more.
  Removal remove(const KeptFile& file) const;
  /// Removes all that no program has open.
  Removal clear() const;
  /// Removes those that were unused for longest until the files take at most so many bytes; never
  /// one of `needed`, which was made or is about to be opened.
  Removal keep_below(std::uint64_t limit,
                     const std::vector<std::filesystem::path>& needed = {}) const;

 private:
  std::filesystem::path folder_;
};

/// Says that a file of a cache folder is in use as long as this lives, so that no program removes
/// it, and notes the time. Does nothing for other files.
class FileUse {
 public:
  FileUse() = default;
  explicit FileUse(const std::filesystem::path& file);

 private:
  Descriptor lock_;
};

inline constexpr std::uint64_t kDefaultCacheLimit = 10'000'000'000;

/// The most that kept files may take: $XDG_CONFIG_HOME/kvloupe/cache-limit, else under ~/.config;
/// where that says nothing, kDefaultCacheLimit.
std::uint64_t cache_limit();
/// Throws FileError where it cannot be written.
void set_cache_limit(std::uint64_t bytes);

/// "10 GB", "500MB", "1.5 GB", "20000 bytes", "0". Throws UsageError.
std::uint64_t parse_bytes(const std::string& text);

}  // namespace kvloupe
