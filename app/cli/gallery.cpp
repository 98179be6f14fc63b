// kvloupe gallery: every figure in every format, and an index of them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/evaluation/evaluation.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/cli/shared_options.h"
#include "app/document/document.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"

namespace kvloupe::cli::gallery_verb {

namespace {

struct GalleryOptions {
  std::vector<std::string> inputs;
  std::string folder;
  FigureOptions options;
};

/// One picture of the gallery; `shows`: a value of the figure's choice "show" other than the
/// default.
struct Piece : figure::document::GalleryPiece {
  request::FigureSettings settings;
};

/// Every figure; one more for each further value of a choice that is called "show".
std::vector<Piece> pieces_of(const request::FigureSettings& settings) {
  std::vector<Piece> pieces;
  for (const figure::FigureInfo& info : figure::figure_catalog()) {
    pieces.push_back({{&info, info.name}, settings});
    for (const figure::ChoiceInfo& choice : info.choices) {
      if (choice.name != "show" || figure::is_typed(choice)) continue;
      for (std::size_t i = 1; i < choice.values.size(); ++i) {
        const std::string& value = choice.values[i];
        pieces.push_back({{&info, info.name + "-" + value, value}, settings});
        pieces.back().settings.choices["show"] = value;
      }
    }
  }
  return pieces;
}

/// The input that a piece lacks; empty if all is there.
std::string why_skipped(const Piece& piece, const request::FigureInputs& inputs) {
  const request::FigureRequest request = request::make_request(*piece.info, piece.settings, inputs);
  switch (request::missing(*piece.info, request)) {
    case request::Missing::evaluation:
      return "it needs results of kvloupe-capture eval or rescue, or of kvloupe study; give a "
             "results file too";
    case request::Missing::trace:
      return "it needs a trace; give one too";
    case request::Missing::other_loop:
      return "it compares a full run with a closed-loop run of the same tokens; give both";
    case request::Missing::more_traces:
      return "it compares several traces; use kvloupe export";
    default:
      return request::unavailable(*piece.info, inputs);
  }
}

request::FigureInputs open_inputs(const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<const Trace>> traces;
  request::FigureInputs inputs;
  for (const std::string& path : paths) {
    if (!looks_like_evaluation(path)) {
      traces.push_back(std::make_shared<const Trace>(path));
    } else if (inputs.evaluation) {
      throw UsageError(path + ": is a second results file; give only one");
    } else {
      inputs.evaluation = std::make_shared<const Evaluation>(read_evaluation(path));
    }
  }
  if (traces.size() > 2)
    throw UsageError(traces[2]->path().string() +
                     ": is a third trace; give a full run and a closed-loop run");
  if (!traces.empty()) inputs.traces = {traces.front()};
  if (traces.size() == 2) inputs.other_loop = traces.back();
  return inputs;
}

/// The files of every piece; the last is of tables alone.
constexpr std::array kEndings = {"svg", "pdf", "png", "csv", "html", "tex"};
constexpr const char* kIndex = "index.html";

std::string path_of(const Piece& piece, const std::filesystem::path& folder,
                    const std::string& ending) {
  return (folder / (piece.name + "." + ending)).string();
}

/// Writes the piece in every format, and draws what the index shows of it.
void write_piece(Piece& piece, const std::filesystem::path& folder,
                 const request::FigureMaker& maker, const figure::FileOptions& options,
                 const figure::TextMetrics& fonts, Progress& progress) {
  const figure::MadeFigure made = maker.make(*piece.info, piece.settings, progress);
  for (const char* ending : kEndings) {
    progress.check();
    if (ending == kEndings.back() && !made.figure->table()) continue;
    const std::string path = path_of(piece, folder, ending);
    try {
      write_whole_file(path,
                       figure::file_of(*piece.info, made, figure::format_of(path), options, fonts));
    } catch (const figure::document::PageTooLarge&) {
      continue;  // the picture stands in the index all the same
    }
    piece.endings.push_back(ending);
  }
  piece.figure = figure::document::page_figure(*piece.info, made, options, fonts);
}

/// "document.h5, policy A h2o, policy B tova, budget 25%": the gallery's inputs.
std::string made_from(const GalleryOptions& o) {
  std::string text;
  for (const std::string& input : o.inputs)
    text += (text.empty() ? "" : ", ") + std::filesystem::path(input).filename().string();
  text += ", policy A " + o.options.policy;
  if (!o.options.policy_b.empty()) text += ", policy B " + o.options.policy_b;
  return text + ", budget " + o.options.budget +
         ". Figures that compare policies and budgets name their own.";
}

/// The outcome of each piece, printed in their order, whatever the order of their completion.
class Report {
 public:
  explicit Report(std::size_t count) : lines_(count) {}
  void say(std::size_t place, std::string line) {
    const std::lock_guard lock(mutex_);
    lines_[place] = std::move(line);
    for (; told_ < lines_.size() && !lines_[told_].empty(); ++told_)
      std::printf("%s\n", lines_[told_].c_str());
    std::fflush(stdout);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::size_t told_ = 0;
};

/// Runs `work(i)` for every i below `count` on all cores; the first failure stops the others and is
/// thrown. Plain threads: figures wait for each other's replays (see ReplayService).
template <typename Work>
void for_each_at_once(std::size_t count, Progress& progress, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    for (std::size_t i = next++; i < count && !progress.cancelled(); i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        progress.cancel();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

int run_gallery(const GalleryOptions& o) {
  const request::FigureSettings settings = settings_of(o.options);
  const request::FigureMaker maker(open_inputs(o.inputs));
  make_folder(o.folder);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  std::vector<Piece> pieces = pieces_of(settings);
  for (const Piece& piece : pieces)
    for (const char* ending : kEndings)
      refuse_own_input(path_of(piece, o.folder, ending), {o.inputs.begin(), o.inputs.end()});
  const std::string index = (std::filesystem::path(o.folder) / kIndex).string();
  refuse_own_input(index, {o.inputs.begin(), o.inputs.end()});
  Report report(pieces.size());
  Progress progress;
  for_each_at_once(pieces.size(), progress, [&](std::size_t i) {
    Piece& piece = pieces[i];
    piece.skipped = why_skipped(piece, maker.inputs());
    if (piece.skipped.empty()) {
      Progress part(progress, 0);
      try {
        write_piece(piece, o.folder, maker, o.options.file, fonts, part);
      } catch (const WorkError& error) {  // this figure cannot be made of this trace
        piece.skipped = error.what();
      } catch (const UsageError& error) {  // with these settings
        piece.skipped = error.what();
      }
    }
    report.say(i, piece.skipped.empty()
                      ? fmt::format("{}: {}", piece.name, fmt::join(piece.endings, " "))
                      : fmt::format("{}: skipped: {}", piece.name, piece.skipped));
  });
  std::vector<figure::document::GalleryPiece> shown(pieces.begin(), pieces.end());
  if (std::all_of(shown.begin(), shown.end(), [](const auto& one) { return !one.skipped.empty(); }))
    return 0;
  write_whole_file(index,
                   figure::document::gallery_page(
                       "Figures of " + std::filesystem::path(o.inputs.front()).filename().string(),
                       made_from(o), std::move(shown), o.options.file.theme));
  std::printf("index: html\n");
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<GalleryOptions>(
      app, action, "gallery",
      "Write every figure in every format, and index.html with all of them; needs no display",
      run_gallery);
  verb->add_option(
          "INPUT", options->inputs,
          "The trace file. A second trace of the same tokens (a closed-loop run) and "
          "results of kvloupe-capture eval or of kvloupe study add the figures that need them")
      ->required();
  verb->add_option("-o,--output", options->folder, "Folder for the files; created if missing")
      ->required();
  add_figure_options(*verb, options->options);
}

}  // namespace kvloupe::cli::gallery_verb
