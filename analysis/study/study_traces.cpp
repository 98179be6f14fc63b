#include "analysis/study/study_traces.h"

#include <fmt/format.h>

#include <set>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/study/study_measures.h"
#include "analysis/trace/model_files.h"

namespace kvloupe {

namespace {
/// The first place of `name`, from the folder of the results or of a study file, that fits.
template <typename Fits>
std::filesystem::path find_beside(const StudyTable& table, StudyResults& results,
                                  const std::string& name, const Fits& fits) {
  const std::filesystem::path own = table.path.parent_path();
  std::vector<std::filesystem::path> folders{own};
  for (const std::string& folder : results.study_folders()) folders.push_back(own / folder);
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / name;
    if (fits(path)) return path.lexically_normal();
  }
  return {};
}

/// The heads of one prompt in words: "3 layers with 6 heads".
std::string shape_text(const HeadMeasureTable& heads, std::size_t prompt, std::size_t prompts) {
  std::set<int> layers;
  int count = 0;
  for (std::size_t h = 0; h < heads.heads.size(); ++h) {
    if (heads.has[h * prompts + prompt] == 0) continue;
    layers.insert(heads.heads[h].layer);
    ++count;
  }
  return fmt::format("{} layer{} with {} head{}", layers.size(), layers.size() == 1 ? "" : "s",
                     count, count == 1 ? "" : "s");
}
}  // namespace

std::filesystem::path find_study_trace(const StudyTable& table, const std::string& name) {
  StudyResults results(table.path, StudyResults::Checked{});
  return find_beside(table, results, name, [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
  });
}

std::filesystem::path find_study_model(const StudyTable& table) {
  StudyResults results(table.path, StudyResults::Checked{});
  const std::string model = results.setting("model");
  if (model.empty()) return {};
  return find_beside(table, results, model,
                     [](const std::filesystem::path& path) { return holds_model(path); });
}

void require_one_model(const StudyTable& table, const MeasureTable& of,
                       const HeadMeasureTable& heads) {
  const std::string path = table.path.string();
  const std::size_t prompts = of.prompts.size();
  constexpr const char* kAdvice = "heads compare within one model; make a study of each model";
  std::size_t first = prompts;
  for (std::size_t prompt = 0; prompt < prompts; ++prompt) {
    bool any = false, same = true;
    for (std::size_t h = 0; h < heads.heads.size(); ++h) {
      const bool has = heads.has[h * prompts + prompt] != 0;
      any |= has;
      same &= first == prompts || has == (heads.has[h * prompts + first] != 0);
    }
    if (!any) continue;
    if (first == prompts) first = prompt;
    if (same) continue;
    throw WorkError(fmt::format(
        "{}: measure {}: {} has {}, {} has {}; {}", path, of.measure,
        in_one_line(of.prompts[first], 200), shape_text(heads, first, prompts),
        in_one_line(of.prompts[prompt], 200), shape_text(heads, prompt, prompts), kAdvice));
  }
  const auto known = find_study_measure(of.measure);
  if (known && known->task != kReplayTask) return;  // the runs of a study have one model
  const auto models = StudyResults(table.path, StudyResults::Checked{}).models();
  if (models.size() < 2) return;
  throw WorkError(fmt::format("{}: {} and {} are traces of different models; {}", path,
                              in_one_line(models[0].second, 200),
                              in_one_line(models[1].second, 200), kAdvice));
}

}  // namespace kvloupe
