#include "app/cli/commands.h"

#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/lesson.h"

namespace kvloupe::cli {

namespace {
/// The names that the catalogues know, for completion in a shell.
KnownWords known_words() {
  KnownWords words = known_policies();
  words["--policy-b"] = words["--policy"];
  for (const Measure& measure : all_measures()) words["--measures"].push_back(measure.info->name);
  for (const figure::FigureInfo& figure : figure::figure_catalog())
    words["--figure"].push_back(figure.name);
  for (const lesson::Lesson& lesson : lesson::find_lessons())
    words["lesson"].push_back(lesson.name);
  return words;
}
}  // namespace

int run(int argc, char** argv, const char* commit) {
  CLI::App app{"kvloupe: see what a KV-cache policy does, head by head", "kvloupe"};
  app.require_subcommand(0, 1);
  return run_program(app, argc, argv, commit, known_words, [&](Action& action) {
#define KVLOUPE_ADD_VERB(name) name##_verb::add(app, action);
    KVLOUPE_VERBS(KVLOUPE_ADD_VERB)
#undef KVLOUPE_ADD_VERB
  });
}

}  // namespace kvloupe::cli
