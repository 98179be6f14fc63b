// kvloupe advise: from the results of a study to the smallest budget whose loss can be promised, or
// to a table of entries by head.

#include "analysis/study/advice.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/study/head_advice.h"
#include "analysis/study/study_table.h"
#include "app/cli/commands.h"
#include "app/cli/shared_options.h"
#include "app/request/command_line.h"

namespace kvloupe::cli::advise_verb {

namespace {
struct Options {
  std::string results, risk = "5%", output;
  AdviceRequest request;
  std::vector<std::string> tables;  // files for entries by head
  std::string floor = "0%", json;
  HeadRequest heads;
};

int run_heads(Options options) {
  HeadRequest& request = options.heads;
  if (!options.request.measure.empty()) request.measure = options.request.measure;
  if (request.budget.empty())
    throw UsageError("advise --heads: give --budget, the mean over the heads, such as 20%");
  if (options.request.at_most != 0.0)
    throw UsageError("advise: --heads takes --budget, and --at-most looks for budgets; give one");
  request.block = options.request.block;
  request.floor = parse_share(options.floor, "advise", "floor");
  if (!options.output.empty())
    throw UsageError("advise: -o goes without --heads; --json writes all numbers of the table");
  std::vector<std::string> files = options.tables;
  files.push_back(options.json);
  refuse_same_outputs(files);
  for (const std::string& file : files) {
    refuse_own_input(file, {options.results});
    if (file != options.json) head_table_text(HeadAdvice{}, file);  // the ending, before the work
  }
  require_one_model(options.results);
  const HeadAdvice advice = advise_heads(read_study_table(options.results), request);
  for (const std::string& file : options.tables)
    write_whole_file(file, head_table_text(advice, file));
  if (!options.json.empty()) write_whole_file(options.json, head_advice_json(advice));
  if (options.json == "-") return 0;
  fmt::print("{}", in_lines(head_advice_markdown(advice)));
  for (const std::string& file : options.tables) {
    if (file.ends_with(".json")) continue;
    fmt::print("To use the table: --policy {}\n",
               request::shell_word(head_table_spec(advice, file)));
    break;
  }
  return 0;
}

int run(Options options) {
  if (!options.tables.empty()) return run_heads(std::move(options));
  if (!options.heads.budget.empty() || !options.heads.policy.empty() ||
      !options.heads.tried.empty() || !options.json.empty() || options.floor != "0%")
    throw UsageError("advise: --budget, --policy, --try, --floor and --json go with --heads");
  options.request.risk = parse_share(options.risk, "advise", "risk");
  if (!options.output.empty()) refuse_own_input(options.output, {options.results});
  require_one_model(options.results);
  const StudyTable study = read_study_table(options.results);
  std::string chosen;  // in words, where --loss did not say
  if (options.request.measure.empty()) {
    const FirstMeasure first = first_measure(study);
    options.request.measure = first.name;
    chosen = "Loss chosen by the program: " + in_one_line(first.name) + ". " + first.why + "\n\n";
  }
  const Advice advice = advise(study, options.request);
  require_enough_prompts(advice, options.request);
  if (!options.output.empty()) {
    write_whole_file(options.output, advice_csv(advice));
  }
  if (options.output != "-")
    fmt::print("{}{}", chosen, in_lines(advice_markdown(advice, options.request)));
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "advise",
      "Name each policy's smallest budget whose loss on new prompts can be promised, or share the "
      "entries among the heads (--heads)",
      run);
  add_study_results(*verb, options->results);
  add_loss_options(*verb, options->request, options->risk,
                   {.without = "Without it: answers found where the study has them, else "
                               "answer_residual_change; with --heads: answer_residual_part",
                    .at_most = "",
                    .promises = "a promise"});
  verb->add_flag("--together", options->request.together,
                 "The risk is that the promise of any policy is wrong: for whoever chooses a "
                 "policy by these results");
  add_study_block(*verb, options->request);
  verb->add_option("-o,--output", options->output,
                   "Also write every budget's numbers as CSV; -: print them in place of the table");
  verb->add_option("--heads", options->tables,
                   "Write a table of entries by head here, FILE.csv, .npy or .json; several times "
                   "for several files. The study has replays at several budgets, with the measure "
                   "by head")
      ->allow_extra_args(false);
  verb->add_option("--budget", options->heads.budget,
                   "With --heads: the mean over the heads, such as 20% or a number of entries");
  verb->add_option("--policy", options->heads.policy,
                   "With --heads: learn from this policy's replays (default: the study's first)");
  verb->add_option("--try", options->heads.tried,
                   "With --heads: show the losses of the table under this policy");
  verb->add_option("--floor", options->floor,
                   "With --heads: the share of the budget that every head gets in any case")
      ->capture_default_str();
  verb->add_option("--json", options->json,
                   "With --heads: also write all numbers as JSON; -: print them in place of the "
                   "table");
}

}  // namespace kvloupe::cli::advise_verb
