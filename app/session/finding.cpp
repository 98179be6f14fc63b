#include "app/session/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/plot/printable.h"
#include "app/request/command_line.h"

namespace kvloupe::window {

namespace {
constexpr std::size_t kMostHeads = 3;
constexpr double kLeastRead = 0.01;  // of the attention: less is no reading

/// "12-20,30": as the command line takes them.
std::string ranges_of(const std::vector<int>& tokens, const char* to, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t end = i + 1;
    while (end < tokens.size() && tokens[end] == tokens[end - 1] + 1) ++end;
    text += (text.empty() ? "" : between) + std::to_string(tokens[i]);
    if (end - i > 1) text += to + std::to_string(tokens[end - 1]);
    i = end;
  }
  return text;
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& items, const char* between = ", ") {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == items.size() ? " and " : between) + items[i];
  }
  return text;
}

std::string name_of(int layer, int head) { return fmt::format("{}.{}", layer, head); }

std::string names_of(const std::vector<HeadIndex>& heads) {
  std::vector<std::string> names;
  for (const HeadIndex& head : heads) names.push_back(name_of(head.layer, head.head));
  return listed(names);
}

std::string percent(double share) {
  const double value = 100.0 * share;
  return value > 0.0 && value < 1.0 ? fmt::format("{:.2g} %", value)
                                    : fmt::format("{:.0f} %", value);
}

std::string loss_in_words(const FollowedHead& head) {
  const std::string name = name_of(head.reads.layer, head.reads.head);
  if (head.fate.first_loss < 0) return name + " keeps them";
  std::string text = head.fate.kept <= 0.0
                         ? fmt::format("{} loses all of them", name)
                         : fmt::format("{} loses {} of them", name, percent(1.0 - head.fate.kept));
  text += head.fate.last_loss > head.fate.first_loss
              ? fmt::format(" at steps {} to {}", head.fate.first_loss, head.fate.last_loss)
              : fmt::format(" at step {}", head.fate.first_loss);
  const auto ranked = std::find_if(head.losses.begin(), head.losses.end(),
                                   [](const TokenLoss& loss) { return loss.rank > 0; });
  if (ranked != head.losses.end()) {
    text += fmt::format(" (token {} at rank {} of {} entries)", ranked->token, ranked->rank,
                        ranked->entries);
  }
  return text;
}

std::string proof_in_words(const RescueResults* rescue) {
  if (rescue == nullptr) {
    return "Whether this loss makes the answer wrong is not proved: a replay does not run the "
           "model.";
  }
  const RescueResults& r = *rescue;
  const std::string answer = "“" + figure::printable(r.expected) + "”";
  if (r.policy_right) {
    return fmt::format("The model with the policy still answers {} (log-probability {:.2f} nats).",
                       answer, r.policy_logprob);
  }
  const std::string change =
      fmt::format("log-probability {:.2f} to {:.2f} nats", r.policy_logprob, r.keep.all.logprob);
  if (!r.keep.smallest) {
    return fmt::format(
        "Run with the policy, the model says “{}” instead of {}; keeping these tokens in all heads "
        "does not restore the answer ({}).",
        figure::printable(r.policy_says), answer, change);
  }
  const std::size_t count = r.keep.smallest->size();
  return fmt::format(
      "Run with the policy, the model says “{}” instead of {}; keeping these tokens in {} ({}) "
      "restores the answer{}.",
      figure::printable(r.policy_says), answer,
      count == 1 ? "one head alone" : fmt::format("{} heads", count), names_of(*r.keep.smallest),
      count == 1       ? ""
      : r.keep.minimal ? ", and none of these heads can be left out"
                       : "; perhaps not all of these heads are needed");
}
}  // namespace

std::string tokens_in_words(const std::vector<int>& tokens) {
  const std::string ranges = ranges_of(tokens, "–", ", ");
  if (tokens.size() == 1) return "token " + ranges;
  const bool one_range = tokens.back() - tokens.front() + 1 == static_cast<int>(tokens.size());
  return one_range ? "tokens " + ranges : fmt::format("{} tokens ({})", tokens.size(), ranges);
}

std::string Finding::text() const {
  std::string all;
  for (const std::string& line : {readers, lost, proof}) all += line + "\n";
  for (const std::string& command : commands) all += command + "\n";
  return all;
}

Finding finding(const FindingSource& source) {
  std::vector<const FollowedHead*> readers;
  bool of_question = false, of_answer = false;
  for (const FollowedHead& head : source.heads) {
    if (std::isfinite(head.reads.read) && head.reads.read >= kLeastRead) readers.push_back(&head);
    of_question = of_question || std::isfinite(head.reads.question);
    of_answer = of_answer || std::isfinite(head.reads.answer);
  }
  std::stable_sort(readers.begin(), readers.end(),
                   [](const auto* a, const auto* b) { return a->reads.read > b->reads.read; });
  readers.resize(std::min(readers.size(), kMostHeads));

  Finding result;
  const std::string what = tokens_in_words(source.tokens);
  const std::string whose = of_answer     ? "the answer"
                            : of_question ? "the question"
                                          : "later tokens";
  if (readers.empty()) {
    result.readers =
        fmt::format("With the full cache no head gives {} more than {} of the attention of {}.",
                    what, percent(kLeastRead), whose);
    result.lost =
        fmt::format("Policy {} with {} entries was replayed.", source.policy, source.entries);
  } else {
    std::vector<std::string> reads, losses;
    for (const FollowedHead* head : readers) {
      reads.push_back(fmt::format("{} ({})", name_of(head->reads.layer, head->reads.head),
                                  percent(head->reads.read)));
      losses.push_back(loss_in_words(*head));
    }
    result.readers = fmt::format(
        "With the full cache, head{} {} (layer.head; share of the attention of {}) read{} {} most.",
        readers.size() == 1 ? "" : "s", listed(reads), whose, readers.size() == 1 ? "s" : "", what);
    result.lost = fmt::format("Under {} with {} entries, {}.", source.policy, source.entries,
                              listed(losses, "; "));
  }
  result.proof = proof_in_words(source.rescue);

  using request::shell_word;
  const std::string trace = shell_word(source.trace.path().string());
  const std::string tokens = ranges_of(source.tokens, "-", ",");
  const std::string policy = shell_word(source.policy);
  std::string block = source.block > 0 ? fmt::format(" --block {}", source.block) : "";
  if (source.compression) {
    block += fmt::format(" --compression {}", compression_name(*source.compression));
  }
  const bool evicts_everywhere =
      source.compression.value_or(Compression::regular) == Compression::regular;
  result.commands.push_back(fmt::format("kvloupe follow {} --tokens {} --policy {} --budget {}{}",
                                        trace, tokens, policy, shell_word(source.budget), block));
  if (!source.trace.run().closed_loop() && evicts_everywhere) {
    result.commands.push_back(fmt::format(
        "kvloupe-capture rescue --model {} --trace {} --tokens {} --policy {} --budget {} --block "
        "{} -o rescue.json",
        source.model.empty() ? "MODEL" : shell_word(source.model), trace, tokens, policy,
        shell_word(source.budget),
        source.block > 0 ? source.block : source.trace.run().block_size));
  }
  return result;
}

}  // namespace kvloupe::window
