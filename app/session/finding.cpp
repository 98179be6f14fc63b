#include "app/session/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/plot/printable.h"
#include "app/request/command_line.h"

namespace kvloupe::window {

namespace {
constexpr std::size_t kMostBreaking = 5;
constexpr double kLeastRead = 0.01;  // of the attention: less is no reading

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

/// "1.0 gives them 31 % of the attention of the answer and loses all of them at step 3 …".
std::string loss_in_words(const FollowedHead& head, const std::string& whose, bool one) {
  std::string text = name_of(head.reads.layer, head.reads.head);
  if (std::isfinite(head.reads.read)) {
    text += fmt::format(" gives {} {} of the attention of {} and", one ? "it" : "them",
                        percent(head.reads.read), whose);
  }
  text += one                     ? std::string(" loses it")
          : head.fate.kept <= 0.0 ? std::string(" loses all of them")
                                  : fmt::format(" loses {} of them", percent(1.0 - head.fate.kept));
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

/// The heads whose loss matters most, and by which number.
std::string blame_in_words(const FindingSource& source, const std::vector<FollowedHead>& named) {
  const std::string_view by = blame_name(source.heads);
  std::vector<std::string> heads;
  for (const FollowedHead& head : named) {
    heads.push_back(
        fmt::format("{} ({:.3g})", name_of(head.reads.layer, head.reads.head), head.blame));
  }
  const std::string number =
      by == "loss"
          ? "attention read × share lost"
          : fmt::format(
                "{} if the head has {} back, mean over {}",
                by == "logit" ? "rise of the next token's logit" : "change of the residual stream",
                source.tokens.size() == 1 ? "it" : "them", figure::printable(source.over));
  return fmt::format(
      "Under {} with {} entries, the loss of {} matters most in head{} {} "
      "(layer.head; {}).",
      source.policy, source.entries, tokens_in_words(source.tokens), named.size() == 1 ? "" : "s",
      listed(heads), number);
}

/// Why no head is blamed: nobody reads the tokens, no reader loses them, or having them back would
/// help nowhere. Empty if heads are blamed.
std::string harmless_in_words(const FindingSource& source, const std::string& whose) {
  const auto reads = [](const FollowedHead& head) { return head.reads.read >= kLeastRead; };
  const auto loses = [&](const FollowedHead& head) {
    return reads(head) && head.fate.first_loss >= 0;
  };
  const std::string what = tokens_in_words(source.tokens);
  const std::string least = fmt::format("{} of the attention of {}", percent(kLeastRead), whose);
  if (std::none_of(source.heads.begin(), source.heads.end(), reads))
    return fmt::format("No head gives {} or more to {}.", least, what);
  if (std::none_of(source.heads.begin(), source.heads.end(), loses))
    return fmt::format("No reader loses {} (a reader gives {} or more).", what, least);
  if (!named_heads(source.heads).empty()) return {};
  return fmt::format(
      "Readers lose {}, but to have {} back would raise the next token's logit in no head.", what,
      source.tokens.size() == 1 ? "it" : "them");
}

/// What the running model says of the full cache without the tokens.
std::string drop_in_words(const RescueResults& r) {
  std::vector<RescueEffect> alone;
  std::copy_if(r.drop.heads.begin(), r.drop.heads.end(), std::back_inserter(alone),
               [](const RescueEffect& head) { return head.is_known() && !head.right; });
  std::sort(alone.begin(), alone.end(),
            [](const auto& a, const auto& b) { return a.gain < b.gain; });
  const auto breaking = [](const std::string& where) {
    return " Dropping these tokens in " + where + " breaks the full cache's answer.";
  };
  if (!alone.empty()) {
    std::vector<HeadIndex> heads;
    for (const RescueEffect& head : alone) heads.push_back(head.at);
    const std::size_t more = heads.size() - std::min(heads.size(), kMostBreaking);
    heads.resize(heads.size() - more);
    return breaking(names_of(heads) + (more > 0 ? fmt::format(" and {} more heads", more) : "") +
                    (heads.size() == 1 ? " alone" : ", each alone,"));
  }
  if (r.drop.smallest) return breaking(names_of(*r.drop.smallest) + " together");
  return r.drop.all.right ? " Dropped in all heads, they leave the full cache's answer right."
                          : breaking("all heads");
}

std::string proof_in_words(const RescueResults* rescue) {
  if (rescue == nullptr) {
    return "Whether this loss makes the answer wrong is not proved: a replay does not run the "
           "model.";
  }
  const RescueResults& r = *rescue;
  std::string answer = "“" + figure::printable(r.expected) + "”";
  if (r.policy_right) {
    return fmt::format("The model with the policy still answers {} (log-probability {:.2f} nats).",
                       answer, r.policy_logprob);
  }
  if (r.expected_ids.size() > 1) answer += fmt::format(" ({} tokens)", r.expected_ids.size());
  const std::string change =
      fmt::format("log-probability {:.2f} to {:.2f} nats", r.policy_logprob, r.keep.all.logprob);
  const std::string says = fmt::format(
      "Run with the policy, the model says “{}” instead of {}; "
      "keeping these tokens in ",
      figure::printable(r.policy_says), answer);
  if (!r.keep.smallest) {
    return says + fmt::format("all heads {} ({}).{}",
                              r.keep.all.right
                                  ? "restores the answer; no smaller set was looked for"
                                  : "does not restore the answer",
                              change, drop_in_words(r));
  }
  const std::size_t count = r.keep.smallest->size();
  return says + fmt::format("{} ({}) restores the answer{}.{}",
                            count == 1 ? "one head alone" : fmt::format("{} heads", count),
                            names_of(*r.keep.smallest),
                            count == 1       ? ""
                            : r.keep.minimal ? ", and none of these heads can be left out"
                                             : "; perhaps not all of these heads are needed",
                            drop_in_words(r));
}
}  // namespace

std::string tokens_in_words(const std::vector<int>& tokens) {
  const std::string ranges = ranges_text(tokens, "–", ", ");
  if (tokens.size() == 1) return "token " + ranges;
  const bool one_range = tokens.back() - tokens.front() + 1 == static_cast<int>(tokens.size());
  return one_range ? "tokens " + ranges : fmt::format("{} tokens ({})", tokens.size(), ranges);
}

std::vector<std::string> Finding::sentences() const {
  std::vector<std::string> all = {blamed, lost, proof};
  std::erase(all, "");
  return all;
}

std::string Finding::text() const {
  std::string all;
  for (const std::string& line : sentences()) all += line + "\n";
  for (const std::string& command : commands) all += command + "\n";
  return all;
}

Finding finding(const FindingSource& source) {
  const auto known = [&](double TokenReads::*reads) {
    return std::any_of(source.heads.begin(), source.heads.end(),
                       [&](const FollowedHead& head) { return std::isfinite(head.reads.*reads); });
  };
  const std::string whose = known(&TokenReads::answer)     ? "the answer"
                            : known(&TokenReads::question) ? "the question"
                                                           : "later tokens";
  Finding result;
  result.blamed = harmless_in_words(source, whose);
  if (!result.blamed.empty()) {
    result.lost =
        fmt::format("Policy {} with {} entries was replayed.", source.policy, source.entries);
    if (source.rescue != nullptr) result.proof = proof_in_words(source.rescue);
  } else {
    const std::vector<FollowedHead> named = named_heads(source.heads);
    std::vector<std::string> losses;
    for (const FollowedHead& head : named) {
      result.heads.push_back({head.reads.layer, head.reads.head});
      losses.push_back(loss_in_words(head, whose, source.tokens.size() == 1));
    }
    result.blamed = blame_in_words(source, named);
    result.lost = listed(losses, "; ") + ".";
    result.proof = proof_in_words(source.rescue);
  }

  using request::shell_word;
  const std::string trace = shell_word(source.trace.path().string());
  const std::string tokens = ranges_text(source.tokens, "-", ",");
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
