// kvloupe lesson: the lessons that come with the program; one of them on paper.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "analysis/replay/drift.h"
#include "analysis/replay/typed_values.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/cli/shared_options.h"
#include "app/demo/demo_trace.h"
#include "app/document/set_text.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/lesson/site.h"
#include "app/lesson/written_lesson.h"
#include "app/trace_page/trace_page.h"

namespace kvloupe::cli::lesson_verb {

namespace {

struct LessonOptions {
  std::string name;
  std::string pdf;
  std::string html;
  std::string site;
  std::vector<std::string> traces;
  bool values = false;
  WindowWords window;
};

constexpr std::size_t kLineLength = 100;

void report(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems)
    std::fprintf(stderr, "kvloupe: %s\n", in_lines(problem).c_str());
}

int list_lessons() {
  const std::vector<lesson::Lesson> lessons = lesson::find_lessons();
  std::size_t widest = 0;
  for (const lesson::Lesson& one : lessons) widest = std::max(widest, one.name.size());
  const auto characters = [](const auto&, const std::string& words) {
    return static_cast<double>(
        std::count_if(words.begin(), words.end(), [](char c) { return !continues_character(c); }));
  };
  OutputFile out("-");
  for (const lesson::Lesson& one : lessons) {
    out.write(fmt::format("{:<{}}  {}\n", one.name, widest, one.title));
    const auto room = static_cast<double>(kLineLength - std::min(widest + 2, kLineLength / 2));
    for (const auto& line : lines_of(figure::document::paragraph(one.summary), room, characters))
      out.write(fmt::format("{:<{}}  {}\n", "", widest, line.front().text));
  }
  out.finish();
  for (const lesson::Lesson& one : lessons) report(one.errors());
  return 0;
}

/// The traces given, the first the lesson's, the others its closed-loop runs; where none is given,
/// the lesson's own.
lesson::LessonTraces open_traces(const lesson::Lesson& chosen,
                                 const std::vector<std::string>& paths) {
  lesson::LessonTraces traces;
  if (paths.empty()) {
    Progress progress;
    traces = lesson::own_traces(chosen, progress);
  }
  for (const std::string& path : paths) {
    auto trace = std::make_shared<const Trace>(path);
    if (!traces.trace) {
      traces.trace = std::move(trace);
    } else if (!trace->run().closed_loop()) {
      throw FileError(path,
                      "was run with the full cache; all traces after the first must be closed-loop "
                      "runs of its prompt");
    } else {
      traces.closed.push_back(std::move(trace));
    }
  }
  if (const std::string missing = lesson::missing_need(chosen, traces); !missing.empty())
    throw WorkError(missing);
  return traces;
}

/// Writes what `make` makes of the lesson, 1 where it has problems, else 0.
template <typename Make>
int write_made(const std::string& path, const lesson::Lesson& chosen,
               const std::vector<std::string>& paths, const Make& make) {
  refuse_own_input(path, {paths.begin(), paths.end()});
  refuse_own_input(path, {chosen.path});
  OutputFile file(path);  // before the work: an unwritable target is known at once
  const lesson::LessonTraces traces = open_traces(chosen, paths);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  Progress progress;
  const lesson::WrittenLesson made = make(chosen, traces, fonts, progress);
  file.write(made.bytes);
  file.finish();
  report(made.problems);
  return made.problems.empty() ? 0 : 1;
}

/// The lessons, and the demo's trace as a page of its own; links to the documentation where
/// scripts/site.sh has put it.
int write_site(const std::string& folder) {
  make_folder(folder);
  const auto said = [](const std::string& name) {
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
  };
  Progress progress;
  const trace_page::PageRequest demo{.policies = parse_policy_list(trace_page::kUsualPolicies),
                                     .budgets = parse_budgets(trace_page::kUsualBudgets),
                                     .output = "trace.html",
                                     .typed_policies = trace_page::kUsualPolicies,
                                     .typed_budgets = trace_page::kUsualBudgets};
  const std::filesystem::path root = folder;
  write_whole_file((root / demo.output).string(),
                   make_page(Trace(demo::demo_trace({}, progress)), demo, progress));
  said(demo.output);
  std::vector<figure::document::Link> also = {
      {"The demo's trace: policies, budgets and steps", demo.output}};
  if (std::filesystem::exists(root / "docs/index.html"))
    also.emplace_back("Documentation", "docs/index.html");
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  const auto problems = lesson::write_site(root, also, fonts, progress, said);
  report(problems);
  return problems.empty() ? 0 : 1;
}

int run_lesson(LessonOptions& o) {
  if (o.values) {
    write_whole_file("-", lesson::values_markdown());
    return 0;
  }
  if (!o.site.empty()) {
    if (!o.name.empty() || !o.pdf.empty() || !o.html.empty() || !o.traces.empty())
      throw UsageError("lesson: --site writes all lessons, each of its own trace; give it alone");
    return write_site(o.site);
  }
  if (o.name.empty()) {
    if (!o.pdf.empty() || !o.html.empty() || !o.traces.empty())
      throw UsageError("lesson: a name is missing; `kvloupe lesson` lists the lessons");
    return list_lessons();
  }
  if (o.pdf.empty() && o.html.empty()) load_plugins_of_preferences(o.window);
  const lesson::Lesson chosen = lesson::find_lesson(o.name);
  if (chosen.pages.empty()) throw FileError(chosen.path.string(), "has no readable page");
  if (!o.pdf.empty() || !o.html.empty()) {
    refuse_same_outputs({o.pdf, o.html});
    int code = 0;
    if (!o.pdf.empty()) code = write_made(o.pdf, chosen, o.traces, lesson::make_handout);
    if (!o.html.empty())
      code = std::max(code, write_made(o.html, chosen, o.traces,
                                       [](auto&... of) { return lesson::make_web_page(of...); }));
    return code;
  }
  window::WindowOptions options = options_of(o.window);
  if (!o.traces.empty()) {
    const lesson::LessonTraces traces = open_traces(chosen, o.traces);
    options.lesson_traces = {traces.trace};
    options.lesson_traces.insert(options.lesson_traces.end(), traces.closed.begin(),
                                 traces.closed.end());
  }
  options.lesson = chosen;
  return window::run_window(options);
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<LessonOptions>(
      app, action, "lesson", "List the lessons, open one in the window, or write it as a handout",
      run_lesson);
  verb->add_option("NAME", options->name, "The lesson: its name, or the path of its file");
  verb->add_option("--pdf", options->pdf, "Write the lesson as a handout: text and figures on A4");
  verb->add_option("--html", options->html,
                   "Write the lesson as one web page, for readers without the program");
  verb->add_option(
      "--site", options->site,
      "Write all lessons as web pages into this folder, with an index, the glossary and "
      "the claims; created if missing");
  verb->add_option("--trace", options->traces,
                   "Use another trace instead of the lesson's own; repeated: closed-loop runs of "
                   "the same prompt")
      ->allow_extra_args(false);
  verb->add_flag(
      "--values", options->values,
      "Write the list of values for the numbers and conditions of lessons, as in docs/lessons.md");
  add_window_options(*verb, options->window);
}

}  // namespace kvloupe::cli::lesson_verb
