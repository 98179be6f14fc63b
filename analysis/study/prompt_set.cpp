#include "analysis/study/prompt_set.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/study/answer_score.h"
#include "analysis/trace/sha256.h"

namespace kvloupe {

namespace {
namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 28U;  // of a line
constexpr int kMostPrompts = 1'000'000;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

std::ifstream open(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(path.string(), "cannot be read; check its name and permissions");
  return in;
}

/// Calls take(number, text, bytes before it) for each line that is not blank; false from it ends
/// the reading.
template <typename Take>
void each_line(const fs::path& path, const Take& take) {
  std::ifstream in = open(path);
  std::string line;
  std::int64_t at = 0;
  for (int number = 0; read_line(in, line, kMostBytes); ++number, at = in.tellg()) {
    if (line.size() > kMostBytes) {
      throw FileError(path.string(), fmt::format("line {} has more than 256 MB; is this a file of "
                                                 "JSON lines?",
                                                 number + 1));
    }
    if (!is_blank(line) && !take(number, line, at)) return;
  }
  if (in.bad()) throw FileError(path.string(), "cannot be read to its end; check the disk");
}

std::string line_at(const PromptPlace& place) {
  std::optional<std::string> found;
  if (place.at > 0) {
    std::ifstream in = open(place.path);
    std::string line;
    if (in.seekg(place.at - 1) && in.get() == '\n' && read_line(in, line, kMostBytes) &&
        line.size() <= kMostBytes && !is_blank(line))
      return line;
  }
  each_line(place.path, [&](int number, const std::string& line, std::int64_t) {
    if (number == place.line) found = line;
    return number < place.line;
  });
  if (!found) {
    throw FileError(place.path.string(),
                    fmt::format("has no line {} any more; start the study again", place.line + 1));
  }
  return *found;
}

/// A line of a benchmark, or one of its questions, with messages that name it.
class Line {
 public:
  Line(const PromptPlace& place, const std::string& text)
      : path_(place.path.string()), name_(fmt::format("line {}", place.line + 1)) {
    if (is_deep_json(text)) fail("is nested too deeply for a prompt");
    document_ = json::parse(text, nullptr, false);
    if (!document_.is_object()) fail("is not a JSON object; write one object per line");
    for (const char* other : {"question", "input", "text", "prompt"}) {
      if (has(other)) return;
    }
    list_ = has("questions") ? "questions" : has("multi_turns") ? "multi_turns" : nullptr;
    if (list_ == nullptr) return;
    read_.insert(list_);
    if (text_of("context").empty())
      fail(
          fmt::format("has \"{}\" without a \"context\"; add the text that they are about", list_));
    if (!document_.at(list_).is_array() || document_.at(list_).empty())
      fail(
          fmt::format("has \"{}\" that are not a list of questions; write [{{\"question\": "
                      "\"…\", \"answers\": [\"…\"]}}]",
                      list_));
  }
  /// How many questions the line's list has; 0: it has none.
  int questions() const {
    return list_ == nullptr ? 0 : static_cast<int>(document_.at(list_).size());
  }
  Line question(int number) const {
    Line one = *this;
    one.name_ += fmt::format(", question {},", number + 1);
    if (number < 0 || number >= questions()) one.fail("is not there any more; start again");
    one.document_ = document_.at(list_).at(static_cast<std::size_t>(number));
    if (!one.document_.is_object()) one.fail("is not an object with \"question\"");
    const bool both = one.has("input") && one.has("question");
    if (!both && one.text_of(one.has("question") ? "question" : "input").empty())
      one.fail("has no text; give it a \"question\"");
    for (const char* field : {"answers", "answer"}) {
      const std::vector<std::string> answers = one.texts(field);
      if (std::count_if(answers.begin(), answers.end(), is_blank) > 0)
        one.fail(fmt::format("has an empty text in \"{}\"; every model's answer holds it", field));
    }
    one.read_.clear();
    return one;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw FileError(path_, name_ + " " + why);
  }
  bool has(const char* field) const {
    const auto found = document_.find(field);
    return found != document_.end() && !found->is_null();
  }
  std::string text_of(const char* field) const {
    read_.insert(field);
    if (!has(field)) return {};
    if (!document_.at(field).is_string())
      fail(fmt::format("has a \"{}\" that is not a text", field));
    return document_.at(field).get<std::string>();
  }
  std::vector<std::string> texts(const char* field) const {
    std::vector<std::string> result;
    read_.insert(field);
    if (!has(field)) return result;
    const json& list = document_.at(field);
    const auto is_text = [](const json& one) { return one.is_string(); };
    if (list.is_string()) return {list.get<std::string>()};
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_text))
      fail(fmt::format("has \"{}\" that are not a list of texts", field));
    return list.get<std::vector<std::string>>();
  }
  /// A list of objects with a "rule"; anything else under this name is not ours.
  std::vector<AnswerRule> rules() const {
    const json list = document_.value("rules", json());
    const auto is_rule = [](const json& one) { return one.is_object() && one.contains("rule"); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_rule)) return {};
    read_.insert("rules");
    try {
      auto rules = list.get<std::vector<AnswerRule>>();
      for (const AnswerRule& rule : rules) instruction_of(rule);
      return rules;
    } catch (const json::exception&) {
      fail("has a rule whose \"rule\" and \"text\" are not texts, or \"count\" not a number");
    } catch (const WorkError& error) {
      fail("has a rule that cannot be checked: " + std::string(error.what()));
    }
  }
  /// Fields with a value that nobody asked for, by name; without those that only label a line.
  std::vector<std::string> unread() const {
    static const std::set<std::string> labels = {
        "_id", "dataset", "id", "index", "language", "length", "scoring", "max_new_tokens", "task"};
    std::vector<std::string> names;
    for (const auto& field : document_.items()) {
      if (!read_.contains(field.key()) && !labels.contains(field.key()) && !field.value().is_null())
        names.push_back(field.key());
    }
    return names;
  }

 private:
  std::string path_, name_;
  json document_;
  const char* list_ = nullptr;  // the field with questions
  mutable std::set<std::string> read_;
};

std::vector<std::string> answers_of(const Line& line) {
  return line.texts(line.has("answers") ? "answers" : "answer");
}
/// Makes segments "needle" of the passages that hold the answer, where they stand in the context.
/// A passage that does not stand there word for word, or that another covers, is left out: then the
/// field has not been read.
void mark_needles(PromptParts& parts, const std::vector<std::string>& needles) {
  auto context = std::find_if(parts.segments.begin(), parts.segments.end(),
                              [](const auto& segment) { return segment.first == "context"; });
  if (context == parts.segments.end()) return;
  const std::string text = context->second;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;  // begin, end
  for (const std::string& needle : needles) {
    const std::size_t at = needle.empty() ? std::string::npos : text.find(needle);
    if (at != std::string::npos) ranges.emplace_back(at, at + needle.size());
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<std::string, std::string>> pieces;
  std::size_t done = 0;
  const auto add = [&](const char* name, std::size_t end) {
    if (end > done) pieces.emplace_back(name, text.substr(done, end - done));
    done = end;
  };
  for (const auto& [begin, end] : ranges) {
    if (begin < done) continue;
    add("context", begin);
    add("needle", end);
  }
  if (pieces.empty()) {
    parts.unread.emplace_back("needle");
    return;
  }
  add("context", text.size());
  const auto after = parts.segments.erase(context);
  parts.segments.insert(after, pieces.begin(), pieces.end());
}

/// What would make the prompt's score say less than it seems to, in words that follow "line 3";
/// empty where nothing does. Answers in the context are in doubt only where needles are marked; in
/// the question, where they stand as words of their own.
std::string prompt_doubt(const PromptParts& parts, const std::vector<std::string>& needles) {
  const auto spaced_words = [](const std::string& text) {
    return fmt::format(" {} ", fmt::join(plain_words(text), " "));
  };
  std::string whole, outside, question;  // whole: the context with its needles
  bool marked = false;
  for (const auto& [name, text] : parts.segments) {
    (name == "question" ? question : whole) += text;
    if (name == "context") outside += in_small_letters(text);
    if (name == "needle") outside += '\n';  // no answer spans the gap
    marked |= name == "needle";
  }
  for (const std::string& needle : needles) {
    const std::size_t at = needle.empty() ? std::string::npos : whole.find(needle);
    if (at == std::string::npos) continue;
    if (whole.find(needle, at + 1) != std::string::npos)
      return "has the needle " + in_quotes(needle) + " twice; marked is the first";
  }
  question = spaced_words(question);
  for (const std::string& answer : parts.answers) {
    if (is_blank(answer)) return "has an empty answer, which no score counts";
    const std::string has = "has the answer " + in_quotes(answer);
    if (std::count(parts.answers.begin(), parts.answers.end(), answer) > 1) return has + " twice";
    if (marked && outside.find(in_small_letters(answer)) != std::string::npos)
      return has + " outside of its needle, too";
    const std::string words = spaced_words(answer);
    if (words != "  " && question.find(words) != std::string::npos) return has + " in its question";
  }
  return {};
}
}  // namespace

std::vector<PromptPlace> find_prompts(const fs::path& path, const std::string& name) {
  std::error_code error;
  std::vector<PromptPlace> places;
  if (fs::is_directory(path, error)) {
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      const std::string suffix = at->path().extension().string();
      std::error_code other;
      if ((suffix != ".txt" && suffix != ".md") || !at->is_regular_file(other)) continue;
      const std::string file = at->path().filename().string();
      if (file.starts_with('.')) continue;
      places.push_back({name.ends_with('/') ? name + file : name + "/" + file, at->path()});
    }
    if (error) throw FileError(path.string(), "cannot be read: " + error.message());
    if (places.empty()) {
      throw FileError(path.string(), "has no prompts; put text files (*.txt) into it");
    }
    std::sort(places.begin(), places.end(),
              [](const PromptPlace& a, const PromptPlace& b) { return a.name < b.name; });
    return places;
  }
  if (!fs::is_regular_file(path, error)) {
    throw FileError(path.string(), "is not a file; give a prompt file, a folder or JSON lines");
  }
  if (path.extension() != ".jsonl") return {{name, path}};
  each_line(path, [&](int number, const std::string& line, std::int64_t at) {
    if (static_cast<int>(places.size()) >= kMostPrompts)
      throw FileError(path.string(), "has more than a million lines; use a part of it");
    const std::string prompt = fmt::format("{}#{}", name, number);
    const PromptPlace whole{prompt, path, number, at};
    const bool many =
        line.find("\"questions\"") != line.npos || line.find("\"multi_turns\"") != line.npos;
    const std::optional<Line> parsed = many ? std::optional(Line(whole, line)) : std::nullopt;
    const int questions = parsed ? parsed->questions() : 0;
    if (questions == 0) places.push_back(whole);
    for (int question = 0; question < questions; ++question) {
      static_cast<void>(parsed->question(question));  // says what is wrong
      places.push_back({fmt::format("{}.q{}", prompt, question), path, number, at, question});
    }
    return true;
  });
  if (places.empty())
    throw FileError(path.string(), "has no lines; write one JSON object per line");
  return places;
}

PromptParts read_prompt_line(const PromptPlace& place) {
  return parse_prompt_line(place, line_at(place));
}

PromptParts parse_prompt_line(const PromptPlace& place, const std::string& text) {
  const Line line(place, text);
  PromptParts parts;
  parts.questions = line.questions();
  if (parts.questions == 0 && place.question >= 0)
    line.fail("has no questions any more; start again");
  // Who asks: the line itself, or one of its questions.
  const auto own =
      parts.questions > 0 ? std::optional(line.question(place.question)) : std::nullopt;
  const Line& asks = own ? *own : line;
  const auto add = [&](const char* name, std::string text) {
    if (!text.empty()) parts.segments.emplace_back(name, std::move(text));
  };
  if (line.has("context")) {
    const bool has_both = asks.has("input") && asks.has("question");
    if (has_both) asks.fail("has both \"input\" and \"question\"; leave one out");
    const std::string context = line.text_of("context");
    const std::string prefix = asks.text_of("answer_prefix");
    std::string question = asks.text_of(asks.has("question") ? "question" : "input");
    if (!prefix.empty()) question += (question.empty() ? "" : "\n") + prefix;
    parts.prefix = prefix.size();
    add("context", question.empty() || context.empty() ? context : context + "\n\n");
    add("question", question);
    parts.answers = answers_of(asks);
  } else if (line.has("input") && line.has("outputs")) {
    const std::string input = line.text_of("input");
    const std::size_t last = input.find_last_not_of(" \t\r\n");
    const std::size_t line_end = last == std::string::npos ? last : input.rfind('\n', last);
    const std::size_t question = line_end == std::string::npos ? 0 : line_end + 1;
    const std::string prefix = line.text_of("answer_prefix");
    add("context", input.substr(0, question));
    add(question > 0 ? "question" : "context", input.substr(question) + prefix);
    parts.prefix = prefix.size();
    parts.answers = line.texts("outputs");
  } else if (line.has("text") || line.has("prompt")) {
    const std::string context = line.text_of(line.has("text") ? "text" : "prompt");
    const std::string question = line.text_of("question");
    add("context", question.empty() || context.empty() ? context : context + "\n\n");
    add("question", question);
    parts.answers = answers_of(line);
  } else {
    line.fail(
        "has no fields of a known layout: context and input or question (LongBench), input and "
        "outputs (RULER), or text");
  }
  if (parts.segments.empty()) line.fail("has no text; a prompt needs some");
  if (parts.segments.front().first == "question")
    asks.fail("has a question, but no context; without one give the question as \"text\"");
  parts.rules = asks.rules();
  const std::vector<std::string> needles = asks.texts("needle");
  parts.unread = asks.unread();
  if (own) {
    for (const std::string& name : line.unread()) parts.unread.push_back(name);
  }
  if (!needles.empty()) mark_needles(parts, needles);
  parts.doubt = prompt_doubt(parts, needles);
  if (!parts.doubt.empty()) parts.doubt = fmt::format("line {} {}", place.line + 1, parts.doubt);
  std::erase_if(parts.answers, is_blank);
  return parts;
}

std::string context_of(const std::string& prompt) {
  const std::size_t end = prompt.rfind(".q"), line = prompt.rfind('#', end);
  constexpr const char* kDigits = "0123456789";
  const bool asks = end != prompt.npos && line != prompt.npos && end + 2 < prompt.size() &&
                    line + 1 < end && prompt.find_first_not_of(kDigits, end + 2) == prompt.npos &&
                    prompt.find_first_not_of(kDigits, line + 1) == end;
  return asks ? prompt.substr(0, end) : prompt;
}

std::vector<int> contexts_of(const std::vector<std::string>& prompts) {
  std::map<std::string, int> known;
  std::vector<int> numbers;
  for (const std::string& prompt : prompts)
    numbers.push_back(
        known.try_emplace(context_of(prompt), static_cast<int>(known.size())).first->second);
  return numbers;
}

std::string prompt_identity(const PromptPlace& place) {
  std::ifstream in(place.path, std::ios::binary);
  std::error_code error;
  if (!in || !fs::is_regular_file(place.path, error)) return {};
  Sha256 content;
  std::string bytes(std::size_t{1} << 20U, '\0');
  while (in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || in.gcount() > 0)
    content.add(bytes.data(), static_cast<std::size_t>(in.gcount()));
  return in.bad() ? std::string() : content.hex();
}

const std::string& PromptIdentities::of(const PromptPlace& place) {
  struct stat status = {};
  std::string state;
  if (stat(place.path.c_str(), &status) == 0) {
    state = fmt::format("{} {} {} {}.{}", file_identity(status), status.st_dev, status.st_ino,
                        status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  }
  Known& known = known_[place.path];
  if (state.empty() || known.state != state) known = {state, prompt_identity(place)};
  return known.identity;
}

std::string earlier_prompt_identity(const PromptPlace& place) {
  struct stat status = {};
  if (stat(place.path.c_str(), &status) != 0) return {};
  return file_identity(status);
}

}  // namespace kvloupe
