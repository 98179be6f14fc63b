#include "analysis/replay/follow_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

namespace {
using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json step(int value) { return value >= 0 ? Json(value) : Json(); }

/// First and last query of [first, end); null where there is none.
Json queries(int first, int end) { return first < end ? Json{first, end - 1} : Json(); }

Json to_json(const TokenLoss& loss) {
  return {{"token", loss.token},
          {"step", loss.step},
          {"fate", leaving_text(loss.fate)},
          {"score", number(static_cast<double>(loss.score))},
          {"rank", loss.rank > 0 ? Json(loss.rank) : Json()},
          {"entries", loss.entries},
          {"threshold", number(static_cast<double>(loss.threshold))},
          {"margin", number(loss.margin())}};
}

Json to_json(const HeadRoles& roles, int query_head) {
  const int strongest = strongest_role(roles);
  Json line = {
      {"query_head", query_head},
      {"role",
       strongest < 0 ? Json() : Json(role_catalog()[static_cast<std::size_t>(strongest)].name)},
      {"rests_on_sink", rests_on_sink(roles)}};
  for (const RoleInfo& role : role_catalog()) line[role.name] = number(roles.*role.value);
  return line;
}

Json to_json(const FollowedHead& head, int group) {
  const TokenReads& reads = head.reads;
  Json line = {{"layer", reads.layer},
               {"head", reads.head},
               {"read_question", number(reads.question)},
               {"read_answer", number(reads.answer)},
               {"read_later", number(reads.later)},
               {"read", number(reads.read)},
               {"kept", number(head.fate.kept)},
               {"first_loss", step(head.fate.first_loss)},
               {"last_loss", step(head.fate.last_loss)},
               {"loss", number(head.loss)},
               {"restored_change", number(head.restored.change)},
               {"restored_logit", number(head.restored.effect)},
               {"blame", number(head.blame)},
               {"share", Json::array()},
               {"losses", Json::array()}};
  for (const double share : head.fate.share) line["share"].push_back(number(share));
  for (const TokenLoss& loss : head.losses) line["losses"].push_back(to_json(loss));
  if (reads.roles.empty()) return line;
  line["roles"] = Json::array();
  for (std::size_t i = 0; i < reads.roles.size(); ++i) {
    line["roles"].push_back(to_json(reads.roles[i], reads.head * group + static_cast<int>(i)));
  }
  return line;
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
}  // namespace

std::vector<FollowedHead> named_heads(const std::vector<FollowedHead>& heads) {
  constexpr std::ptrdiff_t kMost = 3;
  const auto end =
      std::find_if_not(heads.begin(), heads.begin() + std::min(kMost, std::ssize(heads)),
                       [](const FollowedHead& head) { return head.blame > 0.0; });
  return {heads.begin(), end};
}

std::string restored_over(const Trace& trace, const Replay& replay) {
  const std::vector<int> queries = restoring_queries(trace, replay);
  const Asked asked = asked_first(trace.tokens(), trace.run());
  if (asked != Asked::answer) {
    return fmt::format("the {} queries {}", queries.size(),
                       asked == Asked::question ? "of the question" : "asked of all later ones");
  }
  std::string text;
  for (const int query : queries) {
    const auto next = static_cast<std::size_t>(query) + 1;
    if (next < trace.tokens().text.size()) text += trace.tokens().text[next];
  }
  return fmt::format("the {} token{} of the answer{}", queries.size(),
                     queries.size() == 1 ? "" : "s", text.empty() ? "" : " “" + text + "”");
}

std::string follow_json(const Trace& trace, const std::string& name, const Replay& replay,
                        const std::vector<int>& tokens, const std::vector<FollowedHead>& heads) {
  const int after = tokens.back() + 1;
  const TokenRange question = segment_range(trace.tokens(), "question");
  const TokenRange answer = answer_tokens(trace.tokens(), trace.run());
  Json about = {{"trace", name},         {"policy", replay.policy}, {"budget", replay.budget},
                {"block", replay.block}, {"notes", replay.notes},   {"tokens", tokens}};
  if (!trace.tokens().text.empty()) {
    Json& text = about["text"] = Json::array();
    for (const int token : tokens) {
      text.push_back(trace.tokens().text[static_cast<std::size_t>(token)]);
    }
  }
  about["blame"] = blame_name(heads);
  about["over"] = restored_over(trace, replay);
  about["queries"] = {{"question", queries(std::max(question.first, after), question.end)},
                      {"answer", queries(std::max(answer.first - 1, after), answer.end - 1)}};
  std::string text = one_line(about);
  text.back() = ',';  // the heads come before the closing brace
  text += "\"heads\":[\n";
  for (std::size_t i = 0; i < heads.size(); ++i) {
    text += one_line(to_json(heads[i], trace.layer_model(heads[i].reads.layer).group_size()));
    text += i + 1 < heads.size() ? ",\n" : "\n";
  }
  return text + "]}\n";
}

std::vector<int> followed_tokens(const Trace& trace, std::string_view tokens,
                                 std::string_view segment) {
  if (tokens.empty() == segment.empty()) {
    throw UsageError("follow: give either --tokens or --segment");
  }
  if (!tokens.empty()) return named_tokens(trace, tokens);
  const std::vector<std::string>& names = trace.tokens().segment_names;
  if (std::find(names.begin(), names.end(), segment) != names.end()) {
    return named_tokens(trace, segment);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw UsageError("segment '" + in_one_line(std::string(segment)) + "': the trace has " +
                   (names.empty() ? "no segments; use --tokens instead" : "the segments " + list));
}

std::string ranges_text(const std::vector<int>& tokens, const char* to, const char* between) {
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

FollowedReplay follow_tokens(const Trace& trace, ReplayRequest request,
                             const std::vector<int>& tokens, Progress& progress) {
  constexpr std::size_t kMostStates = std::size_t{512} << 20U;
  LayerStatesCache states(kMostStates);
  request.metrics = false;
  request.measures = {};
  request.followed = tokens;
  request.states = &states;
  ReadsRequest reads{.tokens = tokens, .roles = true, .states = &states};
  const std::vector<TokenReads> read = token_reads(trace, reads, progress);
  FollowedReplay result{replay(trace, request, progress), {}};
  AskOptions asking{.states = &states};
  result.heads = follow(result.replay, read, tokens,
                        restored_heads(trace, result.replay, tokens, asking, progress));
  if (has_part(request.policy, PartKind::storage)) {
    result.replay.notes.push_back(
        "follow says which tokens are gone, not what fewer bits cost: what is read, lost and "
        "brought back is computed from exact keys and values");
  }
  return result;
}

}  // namespace kvloupe
