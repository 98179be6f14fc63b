#include "analysis/policy/policy_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "analysis/base/system/user_files.h"
#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

namespace {
/// A text may name a part of the file after a colon: "file.py:name".
bool stat_named(const std::string& named, struct stat& status) {
  return ::stat(named.c_str(), &status) == 0 ||
         ::stat(named.substr(0, named.rfind(':')).c_str(), &status) == 0;
}

std::string found_from(const std::filesystem::path& folder, const std::string& named) {
  const std::string there = (folder / named).string();
  struct stat status {};
  return !named.empty() && stat_named(there, status) ? there : named;
}

std::string identity_of(const std::string& named) {
  struct stat status {};
  return stat_named(named, status) ? file_identity(status) : "missing";
}
}  // namespace

std::string policy_files(const PolicySpec& policy, const std::filesystem::path& folder) {
  std::string text;
  for (const SpecPart& part : policy.parts) {
    const PolicyEntry* entry = find_policy(part.name);
    if (entry == nullptr) continue;
    // The library as it was loaded: that code computes, whatever the file has become.
    if (const PartOrigin* origin = origin_of(part.name)) {
      text += " " + origin->file + "=" + origin->identity;
    }
    for (const ParameterInfo& parameter : entry->parameters) {
      if (!parameter.names_file) continue;
      const std::string& path = part.word(parameter.name);
      if (!path.empty()) text += " " + path + "=" + identity_of(found_from(folder, path));
    }
  }
  return text;
}

PolicySpec with_files_from(const std::filesystem::path& folder, PolicySpec policy) {
  for (SpecPart& part : policy.parts) {
    const PolicyEntry* entry = find_policy(part.name);
    if (entry == nullptr) continue;
    for (std::size_t i = 0; i < entry->parameters.size(); ++i) {
      if (!entry->parameters[i].names_file) continue;
      std::string& path = std::get<std::string>(part.arguments.at(i).second);
      path = found_from(folder, path);
    }
  }
  return policy;
}

std::vector<std::string> policy_plugins(const PolicySpec& policy) {
  std::vector<std::string> files;
  for (const SpecPart& part : policy.parts) {
    const PartOrigin* origin = origin_of(part.name);
    if (origin == nullptr || std::find(files.begin(), files.end(), origin->file) != files.end()) {
      continue;
    }
    files.push_back(origin->file);
  }
  return files;
}

}  // namespace kvloupe
