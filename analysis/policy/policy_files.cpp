#include "analysis/policy/policy_files.h"

#include <fmt/format.h>

#include <sys/stat.h>

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
      struct stat status {};
      text += " " + path + "=";
      text += ::stat(path.c_str(), &status) != 0
                  ? std::string("missing")
                  : fmt::format("{}-{}.{:09}", status.st_size, status.st_mtim.tv_sec,
                                status.st_mtim.tv_nsec);
    }
  }
  return text;
}

}  // namespace kvloupe
