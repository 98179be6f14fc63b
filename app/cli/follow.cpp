// kvloupe follow: what became of some tokens in every head, and which heads read them.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/follow_json.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/cli/shared_options.h"
#include "app/plot/printable.h"
#include "app/report/finding_page.h"

namespace kvloupe::cli::follow_verb {

namespace {
struct Options : ReplayOptions {
  std::string tokens, segment, html, rescue;
};

std::string printable_line(const std::string& text) {
  return in_one_line(figure::printable(text), 160);
}

std::string share_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.3f}", value) : "-";
}

std::string steps_text(const TokenFate& fate) {
  if (fate.first_loss < 0) return "-";
  if (fate.first_loss == fate.last_loss) return std::to_string(fate.first_loss);
  return fmt::format("{}-{}", fate.first_loss, fate.last_loss);
}

/// Rank of the first entry that was lost.
std::string rank_text(const FollowedHead& head) {
  for (const TokenLoss& loss : head.losses) {
    if (loss.step == head.fate.first_loss && loss.rank > 0) {
      return fmt::format("{}/{}", loss.rank, loss.entries);
    }
  }
  return "-";
}

/// The strongest role of each query head, "-" for none, with "+sink" where the head rests on token
/// 0; once where they agree.
std::string roles_text(const TokenReads& reads) {
  std::vector<std::string> names;
  for (const HeadRoles& roles : reads.roles) {
    const int role = strongest_role(roles);
    std::string name = role < 0 ? "" : role_catalog()[static_cast<std::size_t>(role)].label;
    if (rests_on_sink(roles)) name += name.empty() ? "sink" : "+sink";
    names.push_back(name.empty() ? "-" : std::move(name));
  }
  std::string text;
  bool same = true;
  for (const std::string& name : names) {
    same &= name == names.front();
    text += (text.empty() ? "" : ", ") + name;
  }
  return same && !names.empty() ? names.front() : text;
}

void write_table(const Trace& trace, const Options& options, const Replay& replay,
                 const std::vector<int>& tokens, const std::vector<FollowedHead>& heads,
                 OutputFile& out) {
  out.write(fmt::format("{}: {}, budget {}, block {}\n", options.trace, replay.policy,
                        replay.budget, replay.block));
  for (const std::string& note : replay.notes) out.write("note: " + note + "\n");
  const bool one = tokens.size() == 1;
  out.write(one ? fmt::format("followed: token {}", tokens.front())
                : fmt::format("followed: {} tokens, {} to {}", tokens.size(), tokens.front(),
                              tokens.back()));
  std::string text;
  if (!trace.tokens().text.empty()) {
    for (const int token : tokens) text += trace.tokens().text[static_cast<std::size_t>(token)];
  }
  out.write(text.empty() ? "\n" : fmt::format(", \"{}\"\n", printable_line(text)));
  out.write(
      "attention that queries of the question, of the answer and all later ones give to these "
      "tokens with the full cache; loss = attention read x share lost; change, logit: what the "
      "head would add to the residual stream, and to the next token's logit, if the lost tokens "
      "were back\n");
  out.write(fmt::format("heads by falling {}; change and logit are means over {}\n",
                        blame_name(heads), printable_line(restored_over(trace, replay))));
  out.write(fmt::format("{:>5} {:>5} {:>9} {:>9} {:>9} {:>6} {:>9} {:>11} {:>7} {:>8} {:>8}  {}\n",
                        "layer", "head", "question", "answer", "later", "kept", "lost at", "rank",
                        "loss", "change", "logit", "roles"));
  const auto number = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.3g}", value) : std::string("-");
  };
  for (const FollowedHead& head : heads) {
    out.write(fmt::format(
        "{:>5} {:>5} {:>9} {:>9} {:>9} {:>6} {:>9} {:>11} {:>7} {:>8} {:>8}  {}\n",
        head.reads.layer, head.reads.head, share_text(head.reads.question),
        share_text(head.reads.answer), share_text(head.reads.later), share_text(head.fate.kept),
        steps_text(head.fate), rank_text(head), share_text(head.loss), number(head.restored.change),
        number(head.restored.effect), roles_text(head.reads)));
  }
}

/// The results of a rescue of just these tokens, policy and budget.
Evaluation read_rescue(const std::string& path, const std::vector<int>& tokens,
                       const ReplayRequest& request) {
  Evaluation found = read_evaluation(path);
  if (!found.rescue) throw FileError(path, "holds no results of kvloupe-capture rescue");
  const RescueResults& rescue = *found.rescue;
  const std::string of =
      fmt::format("tokens {}, policy {}, {} entries", ranges_text(rescue.tokens, "-", ","),
                  rescue.policy, rescue.budget);
  if (rescue.tokens != tokens || rescue.policy != request.policy.text() ||
      rescue.budget != request.budget)
    throw FileError(path, "is a rescue of " + in_one_line(of) + "; follow the same");
  return found;
}

std::string page_of(const Options& options, const ReplayRequest& request,
                    const std::vector<int>& tokens, const FollowedReplay& result,
                    const RescueResults* rescue, Progress& progress) {
  const auto trace = std::make_shared<const Trace>(options.trace);
  const std::string policy = request.policy.text(), over = restored_over(*trace, result.replay);
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  return figure::document::write_page(report::finding_page({*trace,
                                                            tokens,
                                                            policy,
                                                            options.budget,
                                                            request.budget,
                                                            request.block,
                                                            request.compression,
                                                            result.heads,
                                                            over,
                                                            rescue,
                                                            {}},
                                                           request::FigureMaker(trace), fonts,
                                                           progress));
}

int run(const Options& options) {
  std::optional<Trace> opened;
  refuse_own_input(options.html, {options.trace, options.rescue});
  refuse_same_outputs({options.html, options.json});
  if (options.html.empty() && !options.rescue.empty())
    throw UsageError("follow: --rescue goes with --html");
  const ReplayRequest request = options.open(opened);
  const Trace& trace = *opened;
  const std::vector<int> tokens = followed_tokens(trace, options.tokens, options.segment);
  std::optional<Evaluation> rescue;
  if (!options.rescue.empty()) rescue = read_rescue(options.rescue, tokens, request);
  OutputFile out(!options.html.empty() ? options.html : options.json.empty() ? "-" : options.json);
  Progress progress;
  const FollowedReplay result = follow_tokens(trace, request, tokens, progress);
  if (!options.html.empty()) {
    out.write(
        page_of(options, request, tokens, result, rescue ? &*rescue->rescue : nullptr, progress));
    out.finish();
    return 0;
  }
  if (options.json.empty()) {
    write_table(trace, options, result.replay, tokens, result.heads, out);
  } else {
    out.write(follow_json(trace, options.trace, result.replay, tokens, result.heads));
  }
  out.finish();
  return 0;
}
}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] = Verb<Options>(
      app, action, "follow",
      "Follow tokens through every head: who reads them, and where they are lost", run);
  options->add_to(*verb);
  verb->add_option("--tokens", options->tokens, "Tokens to follow, such as 120-131,140");
  verb->add_option("--segment", options->segment,
                   "A segment of the prompt to follow instead, such as needle");
  verb->add_option("--html", options->html,
                   "Write the finding as one web page for readers without the program: text, film "
                   "strip, cause, numbers, and the commands that check it")
      ->excludes("--json");
  verb->add_option("--rescue", options->rescue,
                   "Results of kvloupe-capture rescue of the same tokens: the page's proof");
}

}  // namespace kvloupe::cli::follow_verb
