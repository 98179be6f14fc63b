#include "analysis/policy/policy_files.h"

#include <sys/stat.h>

#include "analysis/file_identity.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

std::string policy_files(const PolicySpec& policy) {
  std::string text;
  for (const SpecPart& part : policy.parts) {
    const PolicyEntry* entry = find_policy(part.name);
    if (entry == nullptr) continue;
    for (const ParameterInfo& parameter : entry->parameters) {
      if (!parameter.names_file) continue;
      const std::string& path = part.word(parameter.name);
      if (path.empty()) continue;
      struct stat status {};
      text += " " + path + "=";
      text += ::stat(path.c_str(), &status) != 0 ? "missing" : file_identity(status);
    }
  }
  return text;
}

}  // namespace kvloupe
