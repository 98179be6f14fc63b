#include "analysis/policy/kit/allowed_python.h"

#include <filesystem>
#include <regex>
#include <set>

namespace kvloupe {

namespace {
std::set<std::string>& allowed() {
  static std::set<std::string> files;
  return files;
}

std::string whole_path(const std::string& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(file, error);
  return error ? file : path.string();
}
}  // namespace

void allow_python(const std::string& file) { allowed().insert(whole_path(file)); }

bool python_is_allowed(const std::string& file) { return allowed().contains(whole_path(file)); }

std::vector<std::string> python_files_in(std::string_view text) {
  static const std::regex part(R"re(\bpython\s*\([^"]*"((?:[^"]|"")*)")re");
  std::vector<std::string> files;
  using Matches = std::regex_iterator<std::string_view::const_iterator>;
  for (Matches match(text.begin(), text.end(), part); match != Matches(); ++match) {
    std::string named = (*match)[1].str();
    for (std::size_t at = named.find("\"\""); at != std::string::npos;
         at = named.find("\"\"", at + 1)) {
      named.erase(at, 1);  // a quote is written twice
    }
    files.push_back(named.substr(0, named.rfind(':')));
  }
  return files;
}

}  // namespace kvloupe
