#include "analysis/policy/policy_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "analysis/file_identity.h"
#include "analysis/policy/outside_parts.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

namespace {
/// A text may name a part of the file after a colon: "file.py:name".
std::string identity_of(const std::string& named) {
  struct stat status {};
  if (::stat(named.c_str(), &status) == 0) return file_identity(status);
  const std::string file = named.substr(0, named.rfind(':'));
  return ::stat(file.c_str(), &status) == 0 ? file_identity(status) : "missing";
}
}  // namespace

std::string policy_files(const PolicySpec& policy) {
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
      if (!path.empty()) text += " " + path + "=" + identity_of(path);
    }
  }
  return text;
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
