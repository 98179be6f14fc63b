#include "analysis/base/system/user_files.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cctype>
#include <cstdlib>

namespace kvloupe {

std::filesystem::path user_folder(const char* variable, const char* in_home) {
  const char* folder = std::getenv(variable);
  if (folder && *folder == '/') return std::filesystem::path(folder) / "kvloupe";
  const char* home = std::getenv("HOME");
  if (home && *home == '/') return std::filesystem::path(home) / in_home / "kvloupe";
  return {};
}

std::optional<std::uint64_t> free_space(const std::filesystem::path& folder) {
  struct statvfs status {};
  const std::filesystem::path here = folder.empty() ? std::filesystem::path(".") : folder;
  if (statvfs(here.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

std::string file_identity(const struct stat& status) {
  return fmt::format("{}-{}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string file_word(std::string_view text, std::size_t most) {
  std::string word;
  for (const char c : text) {
    if (word.size() >= most) break;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty() && word.back() != '-') {
      word += '-';
    }
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word;
}

}  // namespace kvloupe
