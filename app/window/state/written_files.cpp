#include "app/window/state/written_files.h"

#include <utility>

#include "app/window/state/panel_context.h"

namespace kvloupe::window {

void WrittenFiles::start(job::JobQueue& queue, std::function<std::string(Progress&)> write) {
  files_.push_back(std::make_unique<job::Computed<std::string>>());
  files_.back()->request(queue, "file", [write = std::move(write)](Progress& progress, const auto&) {
    return write(progress);
  });
}

void WrittenFiles::follow(const PanelContext& c) {
  std::string said, wrong;
  std::erase_if(files_, [&](const auto& file) {
    if (file->computing()) return false;
    const std::string error = file->error();
    const auto written = file->current();
    std::string& lines = error.empty() ? said : wrong;
    lines += (lines.empty() ? "" : "\n") + (error.empty() && written ? *written : error);
    return true;
  });
  if (!said.empty()) c.tell(said);
  if (!wrong.empty()) c.fail(wrong);
}

}  // namespace kvloupe::window
