#include "analysis/plugin/load_plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/plugin/kvloupe/policy_plugin.h"
#include "analysis/plugin/plugin_entry.h"
#include "analysis/plugin/plugin_score.h"
#include "analysis/policy/kit/allowed_python.h"
#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

namespace {

static_assert(sizeof(void*) == 8, "written for 64-bit ELF");
constexpr std::size_t kLongestReason = 300;

/// The system's loader maps a file as its headers say and dies of a signal where the file ends
/// before that: so the headers are checked first.
void check_elf(const std::string& path) {
  const auto refuse = [&](const std::string& what) { throw FileError(path, what); };
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse("does not exist; give the file of a plugin");
  if (!std::filesystem::is_regular_file(path, error)) {
    refuse("is not a file; give the file of a plugin");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) refuse("cannot be read; check its permissions");
  Elf64_Ehdr header = {};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool elf = in && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  if (!elf || header.e_type != ET_DYN) refuse("is not a shared library");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) refuse("is not a 64-bit shared library");
  const std::string cut = "is cut off; build or copy it again";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) refuse(cut);
  in.seekg(static_cast<std::streamoff>(std::min<std::uintmax_t>(header.e_phoff, size)));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part = {};
    in.read(reinterpret_cast<char*>(&part), sizeof part);
    if (!in || part.p_filesz > size || part.p_offset > size - part.p_filesz) refuse(cut);
  }
}

/// The loader's last message, without the path that it begins with.
std::string loader_reason(const std::string& path) {
  const char* said = dlerror();
  std::string reason = said == nullptr ? "" : said;
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return in_one_line(reason, kLongestReason);
}

constexpr const char* kSymbol = "kvloupe_policy_plugin";

std::vector<LoadedPlugin>& plugins() {
  static std::vector<LoadedPlugin> all;
  return all;
}

/// The entries collected while a plugin registers. They are added only once all are known to be
/// correct.
struct Registration {
  std::string file;
  std::vector<PolicyEntry> entries = {};
  std::string problem = {};  // the first
};

std::int32_t add_score(const kvloupe_host* host, const kvloupe_score* score, char* error) {
  auto& registration = *static_cast<Registration*>(host->host);
  try {
    if (score == nullptr) throw WorkError("registers nothing");
    PolicyEntry entry = plugin_entry(registration.file, *score);
    const auto& own = registration.entries;
    if (is_taken(entry.name) || std::any_of(own.begin(), own.end(), [&](const auto& other) {
          return other.name == entry.name;
        })) {
      throw WorkError("the name " + entry.name + " is taken; give the score another");
    }
    registration.entries.push_back(std::move(entry));
    return 0;
  } catch (const std::exception& exception) {
    if (registration.problem.empty()) registration.problem = exception.what();
    std::snprintf(error, KVLOUPE_ERROR_BYTES, "%s", exception.what());
    return 1;
  }
}

/// Runs the plugin's own function. Empty, or what went wrong.
std::string run_registration(const kvloupe_plugin& plugin, Registration& registration) {
  kvloupe_host host = {};
  host.size = sizeof host;
  host.interface_ = KVLOUPE_POLICY_INTERFACE;
  host.add_score = add_score;
  host.host = &registration;
  const std::string problem =
      problem_in([&](char* error) { return plugin.register_scores(&host, error); });
  // A plugin may overlook that a score was refused.
  if (!registration.problem.empty()) return registration.problem;
  return problem.empty() ? problem : "while it registers its scores: " + problem;
}

/// Maps the shared library into this process, for as long as the process runs.
const kvloupe_plugin& plugin_of(const std::string& path) {
  check_elf(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw FileError(path, "cannot be loaded: " + loader_reason(path));
  const auto* plugin = static_cast<const kvloupe_plugin*>(dlsym(library, kSymbol));
  if (plugin == nullptr) {
    throw FileError(path, std::string("does not have the symbol ") + kSymbol +
                              "; a plugin defines it with KVLOUPE_POLICY_PLUGIN");
  }
  if (plugin->interface_ != KVLOUPE_POLICY_INTERFACE) {
    throw FileError(path, fmt::format("is built for version {} of the policy interface, this "
                                      "program has version {}; build the plugin again",
                                      plugin->interface_, KVLOUPE_POLICY_INTERFACE));
  }
  if (plugin->size < sizeof(kvloupe_plugin) || plugin->register_scores == nullptr) {
    throw FileError(path, std::string("the symbol ") + kSymbol + " is not whole");
  }
  return *plugin;
}

}  // namespace

void load_plugin(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(file, error);
  struct stat status {};
  if (error || ::stat(whole.c_str(), &status) != 0) {
    throw FileError(file.string(), "does not exist; give the file of a plugin");
  }
  const std::string path = whole.string();
  for (const LoadedPlugin& known : plugins()) {
    if (known.file == path) return;
  }
  if (whole.extension() == ".py") {
    allow_python(path);
    plugins().push_back({path, whole.filename().string(), {}});
    return;
  }
  const kvloupe_plugin& plugin = plugin_of(path);
  Registration registration{path};
  const std::string problem = run_registration(plugin, registration);
  if (!problem.empty()) throw FileError(path, problem);
  if (registration.entries.empty()) throw FileError(path, "registers no score");
  LoadedPlugin loaded;
  loaded.file = path;
  if (plugin.name != nullptr) loaded.name = in_one_line(plugin.name);
  for (PolicyEntry& entry : registration.entries) {
    loaded.scores.push_back(entry.name);
    add_policy(std::move(entry), {path, file_identity(status)});
  }
  plugins().push_back(std::move(loaded));
}

const std::vector<LoadedPlugin>& loaded_plugins() { return plugins(); }

}  // namespace kvloupe
