#include "analysis/study/needle_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/system/prompt_file.h"
#include "analysis/base/system/read_file.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestTemplate = 1U << 24U;

bool is_white(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw FileError(path.string(), why + "; docs/evaluation.md describes a template");
}

std::string text_of(const nlohmann::json& json, const char* name,
                    const std::filesystem::path& path) {
  if (!json.contains(name) || !json[name].is_string() || json[name].get<std::string>().empty()) {
    refuse(path, std::string("needs a text \"") + name + "\"");
  }
  return json[name].get<std::string>();
}

void need(const std::string& text, const char* mark, const char* name,
          const std::filesystem::path& path) {
  if (text.find(mark) == std::string::npos) {
    refuse(path, std::string("\"") + name + "\" does not contain " + mark);
  }
}

}  // namespace

NeedleTemplate general_needle_template() {
  NeedleTemplate result;
  result.needle = " One of the special magic numbers for {word} is: {number}.";
  result.question =
      "\n\nWhat is the special magic number for {word} mentioned in the text above? The special "
      "magic number for {word} mentioned in the text is:";
  result.words = {"apple",  "bridge", "candle", "desert", "engine", "forest", "garden", "harbour",
                  "island", "jacket", "kettle", "ladder", "market", "needle", "orange", "pencil",
                  "quartz", "river",  "saddle", "temple", "violin", "window", "yellow", "zebra"};
  result.lowest = 1'000'000;
  result.highest = 9'999'999;
  result.filler = sentences_of(
      "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ");
  result.filler.pop_back();  // the white space at the end
  for (std::string& sentence : result.filler) {
    if (!is_white(sentence.front())) sentence.insert(0, " ");
  }
  result.answer_tokens = 12;
  return result;
}

NeedleTemplate read_needle_template(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestTemplate);
  if (is_deep_json(text)) refuse(path, "is nested too deeply");
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) refuse(path, "is not a JSON object");
  NeedleTemplate result;
  result.needle = text_of(json, "needle", path);
  need(result.needle, "{word}", "needle", path);
  need(result.needle, "{number}", "needle", path);
  result.question = text_of(json, "question", path);
  need(result.question, "{word}", "question", path);
  const nlohmann::json words = json.value("words", nlohmann::json());
  for (const nlohmann::json& word : words) {
    if (!word.is_string()) refuse(path, "\"words\" contains an item that is not a text");
    result.words.push_back(word.get<std::string>());
  }
  if (result.words.empty()) refuse(path, "needs a list \"words\"");
  const nlohmann::json numbers = json.value("numbers", nlohmann::json());
  if (!numbers.is_array() || numbers.size() != 2 || !numbers[0].is_number_unsigned() ||
      !numbers[1].is_number_unsigned() || numbers[0].get<long>() > numbers[1].get<long>() ||
      numbers[1].get<long>() > 1'000'000'000) {
    refuse(path, "needs \"numbers\": [lowest, highest]");
  }
  result.lowest = numbers[0].get<long>();
  result.highest = numbers[1].get<long>();
  const nlohmann::json tokens = json.value("answer_tokens", nlohmann::json());
  if (!tokens.is_number_unsigned() || tokens.get<long>() < 1 || tokens.get<long>() > 1000) {
    refuse(path, "needs \"answer_tokens\" from 1 to 1000");
  }
  result.answer_tokens = tokens.get<int>();
  result.filler = read_filler(path.parent_path() / text_of(json, "filler", path));
  return result;
}

std::vector<std::string> read_filler(const std::filesystem::path& path) {
  const Prompt prompt = read_prompt(path);
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < prompt.segments.size(); ++i) {
    if (prompt.segments[i].name != "context") continue;
    const std::size_t begin = prompt.segments[i].begin;
    const std::size_t end =
        i + 1 < prompt.segments.size() ? prompt.segments[i + 1].begin : prompt.text.size();
    for (std::string& sentence :
         sentences_of(std::string_view(prompt.text).substr(begin, end - begin))) {
      const bool empty = std::all_of(sentence.begin(), sentence.end(), is_white);
      if (!empty) sentences.push_back(std::move(sentence));
    }
  }
  if (sentences.empty()) throw FileError(path.string(), "contains no text to fill prompts with");
  return sentences;
}

std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = text[i] == '.' || text[i] == '!' || text[i] == '?';
    if (!ends || (i + 1 < text.size() && !is_white(text[i + 1]))) continue;
    sentences.emplace_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  if (begin < text.size()) sentences.emplace_back(text.substr(begin));
  return sentences;
}

NeedleTemplate needle_template_of(const std::filesystem::path& model,
                                  const std::optional<std::filesystem::path>& path,
                                  const std::optional<std::filesystem::path>& filler) {
  const std::filesystem::path beside = model / "needle.json";
  NeedleTemplate result = path                              ? read_needle_template(*path)
                          : std::filesystem::exists(beside) ? read_needle_template(beside)
                                                            : general_needle_template();
  if (filler) result.filler = read_filler(*filler);
  return result;
}

}  // namespace kvloupe
