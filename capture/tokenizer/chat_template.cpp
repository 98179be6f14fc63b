#include "capture/tokenizer/chat_template.h"

#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "capture/tokenizer/jinja_template.h"

namespace kvloupe {

std::string ChatTemplate::render(const std::string& message) const {
  nlohmann::ordered_json variables = words;
  auto& messages = variables["messages"] = nlohmann::ordered_json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", message}});
  variables["tools"] = variables["documents"] = nullptr;
  variables["add_generation_prompt"] = true;
  try {
    return run_jinja_template(source, variables);
  } catch (const TemplateProblem& problem) {
    throw FileError(place, in_one_line(problem.what(), 300) +
                               "; write the text in Python with tokenizer.apply_chat_template("
                               "messages, tokenize=False) and give it without --chat");
  }
}

Prompt ChatTemplate::apply(const Prompt& prompt) const {
  std::string message = prompt.text.substr(0, prompt.answer_begin);
  const std::string beginning = prompt.text.substr(message.size());
  if (!beginning.empty() && message.ends_with('\n')) message.pop_back();
  // Where the message stands, a template that is given a mark in its place says; templates may cut
  // white space at the message's ends.
  constexpr const char* kMark = "\xEE\x80\x80";  // U+E000, of no script
  const std::string marked = render(kMark), text = render(message);
  const std::size_t begin = marked.find(kMark);
  const std::size_t after = begin == std::string::npos ? 0 : marked.size() - begin - 3;
  const bool fits = begin != std::string::npos && text.size() >= begin + after &&
                    text.compare(0, begin, marked, 0, begin) == 0 &&
                    text.compare(text.size() - after, after, marked, begin + 3) == 0;
  const std::string own = fits ? text.substr(begin, text.size() - begin - after) : std::string();
  const std::size_t cut = message.find(own);  // before what the template writes of the message
  if (!fits || cut == std::string::npos) {
    throw FileError(place,
                    "its chat template does not write a message once and as it is, so its parts "
                    "cannot be found again; write the text in Python with "
                    "tokenizer.apply_chat_template(messages, tokenize=False)");
  }
  Prompt chat{text + beginning, {{0, "template"}}, prompt.notes, text.size()};
  const auto add = [&](std::size_t at, const std::string& name) {
    if (chat.segments.back().begin == at) chat.segments.pop_back();
    chat.segments.push_back({at, name});
  };
  for (const Segment& segment : prompt.segments) {
    if (segment.begin >= message.size() && segment.begin > 0) break;
    if (segment.begin >= cut + own.size()) continue;
    add(begin + (segment.begin > cut ? segment.begin - cut : 0), segment.name);
  }
  if (after > 0) add(begin + own.size(), "template");
  if (!beginning.empty()) add(text.size(), prompt.segments.back().name);
  return chat;
}

}  // namespace kvloupe
