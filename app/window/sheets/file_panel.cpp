#include "app/window/sheets/file_panel.h"
#include "app/window/widgets/marks.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <system_error>

#include "analysis/evaluation/evaluation.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace_size.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostEntries = 2000;

/// Whether a file can be of the wanted kind. Opens those whose name does not tell.
bool fits(const fs::path& file, FilePanel::Purpose purpose) {
  using Purpose = FilePanel::Purpose;
  const std::string suffix = file.extension().string();
  if (purpose == Purpose::open_trace) {
    return suffix == ".h5" || suffix == ".hdf5" ||
           ((suffix == ".json" || suffix == ".sqlite") && looks_like_evaluation(file));
  }
  if (purpose == Purpose::open_model) {
    // A split GGUF model is opened by its first part.
    return file.filename() == "config.json" || (suffix == ".gguf" && !gguf_parts(file).empty());
  }
  if (purpose == Purpose::open_prompts) return suffix == ".jsonl" || suffix == ".json";
  if (purpose == Purpose::save_report) return suffix == ".html" || suffix == ".pdf";
  if (purpose == Purpose::save_page || purpose == Purpose::save_finding) return suffix == ".html";
  if (purpose == Purpose::save_head_table)
    return suffix == ".csv" || suffix == ".npy" || suffix == ".json";
  if (purpose == Purpose::open_prompt) return suffix == ".txt" || suffix == ".md" || suffix.empty();
  return suffix == ".json";
}

/// The name that is proposed for a new file; null where one is opened.
const char* new_name(FilePanel::Purpose purpose) {
  return purpose == FilePanel::Purpose::save_session      ? "session.json"
         : purpose == FilePanel::Purpose::save_report     ? "report.html"
         : purpose == FilePanel::Purpose::save_page       ? "page.html"
         : purpose == FilePanel::Purpose::save_finding    ? "finding.html"
         : purpose == FilePanel::Purpose::save_head_table ? "heads.csv"
                                                          : nullptr;
}
}  // namespace

FilePanel::Listing FilePanel::read(const fs::path& folder, Purpose purpose, Progress& progress) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  if (error) {
    listing.problem = folder.string() + ": " + error.message() + "; type another path";
    return listing;
  }
  std::vector<Entry>& entries = listing.entries;
  for (; it != fs::directory_iterator() && entries.size() < kMostEntries; it.increment(error)) {
    progress.check();
    if (error) break;
    Entry entry{it->path().filename().string(), it->is_directory(error), 0};
    if (entry.name.starts_with(".")) continue;
    if (!entry.folder && !fits(it->path(), purpose)) continue;
    if (!entry.folder) entry.bytes = it->file_size(error);
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.folder != b.folder ? a.folder : a.name < b.name;
  });
  return listing;
}

void FilePanel::list(const fs::path& folder) {
  std::error_code error;
  folder_ = fs::weakly_canonical(folder, error);
  if (error) folder_ = folder;
  // Listed again, even where it is the same folder: its content may have changed.
  listing_.clear();
  listing_.request(queue_, std::to_string(++listed_),
                   [at = folder_, purpose = purpose_](Progress& progress, const auto&) {
                     return read(at, purpose, progress);
                   });
}

void FilePanel::open(Purpose purpose, const std::string& start) {
  purpose_ = purpose;
  open_ = true;
  appeared_ = true;
  std::error_code error;
  fs::path folder = start.empty() ? fs::current_path(error) : fs::path(start).parent_path();
  if (folder.empty() || !fs::is_directory(folder, error)) folder = fs::current_path(error);
  list(folder);
  const char* name = new_name(purpose);
  path_ = name != nullptr ? (folder_ / name).string() : folder_.string() + "/";
}

bool FilePanel::draw(const Fonts& fonts, const WindowColours& colours) {
  if (!open_) return false;
  const float unit = fonts.scale();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(640.0F * unit, screen.x - 32), std::min(480.0F * unit, screen.y - 64)};
  ImGui::SetNextWindowPos({(screen.x - size.x) / 2, (screen.y - size.y) / 3});
  ImGui::SetNextWindowSize(size);
  const char* title = purpose_ == Purpose::open_trace ? "Open a trace, or results of an evaluation"
                      : purpose_ == Purpose::open_session ? "Open a session"
                      : purpose_ == Purpose::open_model
                          ? "Choose a model: a GGUF file, or a folder's config.json"
                      : purpose_ == Purpose::open_prompt  ? "Choose a prompt"
                      : purpose_ == Purpose::open_prompts ? "Choose prompts with their answers"
                      : purpose_ == Purpose::save_report  ? "Save the report: FILE.html or FILE.pdf"
                      : purpose_ == Purpose::save_page    ? "Save as page: FILE.html"
                      : purpose_ == Purpose::save_finding ? "Save the finding: FILE.html"
                      : purpose_ == Purpose::save_head_table
                          ? "Save entries by head: FILE.csv, FILE.npy or FILE.json"
                          : "Save the session";
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {16 * unit, 16 * unit});
  if (appeared_) ImGui::SetNextWindowFocus();
  ImGui::Begin(
      "##file", nullptr,
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar(2);
  text_in(fonts.heading, title);

  bool chosen = false;
  const float button = 96.0F * unit;
  ImGui::SetNextItemWidth(-button - ImGui::GetStyle().ItemSpacing.x);
  if (appeared_) ImGui::SetKeyboardFocusHere();
  appeared_ = false;
  bool accept =
      ImGui::InputTextWithHint("##path", "path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  ImGui::SameLine();
  accept |= ImGui::Button(new_name(purpose_) != nullptr ? "Save" : "Open", {button, 0});
  std::error_code error;
  if (accept) {
    std::string typed = path_;
    if (const char* home = std::getenv("HOME"); home && typed.starts_with("~/")) {
      typed = home + typed.substr(1);
    }
    if (fs::is_directory(typed, error)) {
      list(typed);
      path_ = folder_.string() == "/" ? "/" : folder_.string() + "/";
      appeared_ = true;
    } else {
      path_ = typed;
      chosen = !typed.empty();
    }
  }
  ImGui::PushFont(fonts.secondary);
  const auto listing = listing_.current();
  if (listing && !listing->problem.empty()) {
    wrapped_text(colours.error, listing->problem);
  }
  ImGui::PopFont();
  ImGui::BeginChild("##list", {0, -ImGui::GetFrameHeightWithSpacing()}, false,
                    ImGuiWindowFlags_NavFlattened);
  if (folder_.has_parent_path() && folder_ != folder_.root_path() && ImGui::Selectable("↑  ..")) {
    list(folder_.parent_path());
    path_ = folder_.string() + "/";
  }
  fs::path enter;
  static const Listing kNothing;
  for (const Entry& entry : (listing ? *listing : kNothing).entries) {
    ImGui::PushID(entry.name.c_str());
    const std::string name = entry.name + (entry.folder ? "/" : "");
    if (ImGui::Selectable(name.c_str(), false)) {
      if (entry.folder) {
        enter = folder_ / entry.name;
      } else {
        path_ = (folder_ / entry.name).string();
        chosen = new_name(purpose_) == nullptr;
      }
    }
    if (!entry.folder) {
      const std::string bytes = bytes_text(entry.bytes);
      ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize(bytes.c_str()).x);
      ImGui::TextDisabled("%s", bytes.c_str());
    }
    ImGui::PopID();
  }
  if (!enter.empty()) {
    list(enter);
    path_ = folder_.string() + "/";
  }
  if (!listing) {
    ImGui::TextDisabled("Reading the folder …");
  } else if (listing->entries.empty()) {
    ImGui::TextDisabled(purpose_ == Purpose::open_trace     ? "No trace (.h5) or results file here."
                        : purpose_ == Purpose::open_prompt  ? "No .txt file here."
                        : purpose_ == Purpose::open_prompts ? "No .jsonl file here."
                        : purpose_ == Purpose::open_model   ? "No .gguf file or config.json here."
                                                            : "No .json file here.");
  }
  ImGui::EndChild();
  ImGui::PushFont(fonts.secondary);
  ImGui::TextDisabled("Enter opens the path; Esc closes.");
  ImGui::PopFont();
  ImGui::End();
  if (chosen) open_ = false;
  return chosen;
}

}  // namespace kvloupe::window
