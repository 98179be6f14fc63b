#include "analysis/trace/given_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/base/text/text.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace {

using Kind = TraceDatasets::Kind;

/// How many tokens after the prompt were given, as far as the file says. Throws hdf5::Failure.
std::optional<int> stored_count(const Trace& trace) {
  const hdf5::Handle run = hdf5::open_group(trace.file().file(), "/run");
  const std::optional<std::int64_t> count = hdf5::read_integer(run, layout::kGiven);
  if (!count) return std::nullopt;
  if (*count < 0 || *count > trace.run().generated) {
    throw hdf5::Failure(fmt::format("attribute '{}' in /run is {}, but {} tokens follow the prompt",
                                    layout::kGiven, *count, trace.run().generated));
  }
  return static_cast<int>(*count);
}

std::vector<std::int32_t> own_answer(const Trace& trace) {
  const TraceDatasets& file = trace.file();
  if (!hdf5::exists(file.file(), layout::kOwnAnswer)) return {};
  const TraceDatasets::Shape shape{file.dataset(layout::kOwnAnswer).elements()};
  if (shape[0] == 0) return {};
  std::vector<std::int32_t> ids =
      file.read_all<std::int32_t>(layout::kOwnAnswer, Kind::integer, shape, H5T_NATIVE_INT32);
  const auto is_known = [&](std::int32_t id) { return id >= 0 && id < trace.model().vocab_size; };
  if (!std::all_of(ids.begin(), ids.end(), is_known))
    throw hdf5::Failure(fmt::format("{} has an id outside the vocabulary", layout::kOwnAnswer));
  return ids;
}

/// A text of the model in one line, without the space before it.
std::string shown(std::string text, std::size_t most) {
  if (text.size() > 1 && text.front() == ' ') text.erase(0, 1);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, "↵");
  return in_one_line(text, most);
}

}  // namespace

const GivenTokens::Other* GivenTokens::other(int token) const {
  const auto found = std::lower_bound(others.begin(), others.end(), token,
                                      [](const Other& one, int at) { return one.token < at; });
  return found != others.end() && found->token == token ? &*found : nullptr;
}

GivenTokens given_tokens(const Trace& trace) {
  GivenTokens given;
  const int prompt = trace.run().prompt_length;
  const TokenTable& tokens = trace.tokens();
  std::optional<int> count;
  trace.file().guarded([&] {
    count = stored_count(trace);
    given.own_ids = own_answer(trace);
  });
  const int end = prompt + count.value_or(trace.run().generated);
  const auto predicted = end > prompt ? trace.predictions() : std::nullopt;
  given.compared = predicted && predicted->k > 0;
  for (int token = prompt; given.compared && token < end; ++token) {
    const std::int32_t best = predicted->token_ids[static_cast<std::size_t>(token - 1) *
                                                   static_cast<std::size_t>(predicted->k)];
    if (best != tokens.ids[static_cast<std::size_t>(token)])
      given.others.push_back({token, best, ""});
  }
  if (!count) {
    if (!trace.generator().starts_with("kvloupe")) given.others.clear();  // it may draw tokens
    count = given.others.empty() ? 0 : trace.run().generated;
  }
  given.range = {prompt, prompt + *count};
  if (given.range.empty()) return {};

  const bool needs_texts = !given.others.empty() || !given.own_ids.empty();
  const auto vocabulary = needs_texts ? trace.vocabulary() : std::nullopt;
  const auto piece = [&](std::int32_t id) {
    const auto at = static_cast<std::size_t>(id);
    return vocabulary && at < vocabulary->size() ? (*vocabulary)[at] : std::string();
  };
  for (GivenTokens::Other& one : given.others) {
    one.text = piece(one.id);
    if (one.text.empty()) one.text = fmt::format("#{}", one.id);
  }
  if ((needs_texts && !vocabulary) || tokens.text.empty()) return given;
  for (const std::int32_t id : given.own_ids) given.own_text += piece(id);
  if (!given.own_ids.empty() || !given.compared) return given;
  const int same = given.others.empty() ? given.range.end : given.others.front().token;
  for (int token = prompt; token < same; ++token)
    given.own_text += tokens.text[static_cast<std::size_t>(token)];
  if (!given.others.empty()) given.own_text += piece(given.others.front().id) + " …";
  return given;
}

std::string part_name(const Trace& trace, const GivenTokens& given, int token) {
  const TokenTable& table = trace.tokens();
  const auto at = static_cast<std::size_t>(token);
  std::string name = at < table.segment.size() ? table.segment_names[table.segment[at]] : "";
  // A prompt may hold an answer, too: nor is that the model's own.
  const bool in_prompt = token < trace.run().prompt_length && name == "answer";
  if (given.range.contains(token) || in_prompt) name += name.empty() ? "given" : " · given";
  return name;
}

std::string part_text(const Trace& trace, const GivenTokens& given, int token) {
  const std::string name = part_name(trace, given, token);
  if (!given.range.contains(token) || !given.compared) return name;
  const GivenTokens::Other* other = given.other(token);
  if (other == nullptr) return name + " · the model would have chosen the same";
  return fmt::format("{} · the model would have chosen “{}”", name, shown(other->text, 40));
}

std::string count_after_prompt(const RunInfo& run, const GivenTokens& given) {
  const int count = given.range.end - given.range.first;
  std::string text;
  if (count > 0) text += fmt::format(" + {} given", count);
  if (run.generated > count) text += fmt::format(" + {} generated", run.generated - count);
  return text;
}

std::string own_answer_note(const GivenTokens& given) {
  if (given.range.empty()) return "";
  if (given.others.empty() && given.compared)
    return "The answer was given to the model, which would have written the same.";
  if (given.own_text.empty())
    return "The answer was given to the model; the trace does not say what it would have written.";
  return fmt::format("The model's own answer: “{}”. The answer in the text was given to it.",
                     shown(given.own_text, 300));
}

const char* asked_name(Asked asked) {
  switch (asked) {
    case Asked::question:
      return "question";
    case Asked::answer:
      return "answer";
    case Asked::later:
      break;
  }
  return "later";
}

std::vector<int> asked_queries(const Trace& trace, Asked asked, int first_step) {
  return asked_queries(trace.tokens(), trace.run(), asked, first_step);
}

std::vector<int> asked_queries(const TokenTable& tokens, const RunInfo& run, Asked asked,
                               int first_step) {
  std::vector<int> queries;
  if (asked == Asked::question) {
    const TokenRange question = segment_range(tokens, "question");
    for (int token = question.first; token < question.end; ++token) queries.push_back(token);
  } else if (asked == Asked::answer) {
    const TokenRange written = answer_tokens(tokens, run);
    for (int token = std::max(written.first, 1); token < written.end; ++token) {
      queries.push_back(token - 1);
    }
  } else {
    const int first = std::clamp(first_step, 0, run.tokens());
    const int count = run.tokens() - first;
    const int taken = std::min(count, kMostLater);
    for (int i = 0; i < taken; ++i) {  // the last one is the sequence's last
      queries.push_back(first + static_cast<int>((static_cast<long>(i) + 1) * count / taken) - 1);
    }
  }
  return queries;
}

TokenRange answer_tokens(const TokenTable& tokens, const RunInfo& run) {
  const TokenRange named = segment_range(tokens, "answer");
  return named.empty() ? TokenRange{run.prompt_length, run.tokens()} : named;
}

Asked asked_first(const TokenTable& tokens, const RunInfo& run) {
  if (!answer_tokens(tokens, run).empty()) return Asked::answer;
  return segment_range(tokens, "question").empty() ? Asked::later : Asked::question;
}

}  // namespace kvloupe
