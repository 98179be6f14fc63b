// kvloupe cache: lists the cache folder, and sets its limit or empties it.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/trace_size.h"
#include "app/cli/commands.h"

namespace kvloupe::cli::cache_verb {

namespace {
struct CacheOptions {
  bool clear = false;
  bool json = false;
  std::string limit;
};

std::string list_text(const CacheFolder& folder) {
  std::string text;
  std::uint64_t bytes = 0;
  const std::vector<KeptFile> files = folder.files();
  for (const KeptFile& file : files) {
    bytes += file.bytes;
    const std::string about = about_kept_file(file);
    text += fmt::format("{:>8}  {}  {}{}{}\n          {}\n", bytes_text(file.bytes),
                        last_use_text(file), kept_kind_name(file.kind),
                        about.empty() ? "" : ": " + about, file.in_use ? " (in use)" : "",
                        file.path.lexically_relative(folder.path()).string());
  }
  return text + fmt::format("{} in {}, {} of at most {}\n", files_text(files.size()),
                            folder.path().string(), bytes_text(bytes), bytes_text(cache_limit()));
}

std::string list_json(const CacheFolder& folder) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KeptFile& file : folder.files()) {
    list.push_back({{"path", file.path.string()},
                    {"kind", kept_kind_name(file.kind)},
                    {"about", about_kept_file(file)},
                    {"bytes", file.bytes},
                    {"used", file.used},
                    {"in_use", file.in_use}});
  }
  const nlohmann::ordered_json all = {
      {"folder", folder.path().string()}, {"limit", cache_limit()}, {"files", std::move(list)}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int work(const CacheOptions& options) {
  const std::filesystem::path place = cache_folder();
  if (place.empty()) throw WorkError("no cache folder is known; set XDG_CACHE_HOME to a folder");
  const CacheFolder folder(place);
  std::string text;
  if (!options.limit.empty()) {
    const std::uint64_t limit = parse_bytes(options.limit);
    set_cache_limit(limit);
    text =
        "the limit is " + bytes_text(limit) + "; " + removal_text(folder.keep_below(limit)) + "\n";
  }
  if (options.clear) text += removal_text(folder.clear()) + "\n";
  if (text.empty()) text = options.json ? list_json(folder) : list_text(folder);
  write_whole_file("-", text);
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<CacheOptions>(
      app, action, "cache",
      "List, limit or empty the cache folder: traces and weights that can be made again", work);
  CLI::Option* clear =
      verb->add_flag("--clear", options->clear, "Remove all files that no program has open");
  CLI::Option* limit = verb->add_option(
      "--limit", options->limit,
      "Keep at most so much, such as 10 GB (the default) or 0: files that were unused for longest "
      "go first, now and whenever a program adds one");
  verb->add_flag("--json", options->json, "Write the list as JSON")
      ->excludes(clear)
      ->excludes(limit);
}

}  // namespace kvloupe::cli::cache_verb
