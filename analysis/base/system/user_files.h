#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kvloupe {

/// The user's folder for kvloupe's files of one kind (XDG base directories): $VARIABLE/kvloupe
/// where that is an absolute path, else ~/IN_HOME/kvloupe; empty where neither is known.
std::filesystem::path user_folder(const char* variable, const char* in_home);

/// Bytes that this user may still write to the file system of a folder; none where the system does
/// not say.
std::optional<std::uint64_t> free_space(const std::filesystem::path& folder);

/// A text that changes when the content of a file does: its size and the time of its last change.
std::string file_identity(const struct stat& status);

/// A text as part of a file's name: its letters and digits, and one '-' for all that stands between
/// them; at most `most` bytes. "h2o+recent(10%)" becomes "h2o-recent-10".
std::string file_word(std::string_view text, std::size_t most = 40);

}  // namespace kvloupe
