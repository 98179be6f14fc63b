// kvloupe-capture tokens: how a model's tokenizer cuts a prompt, or the texts of ids. Reads the
// tokenizer only: neither config.json nor weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "capture/cli/commands.h"
#include "capture/cli/shared_options.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe::capture_cli::tokens_verb {

namespace {

using Json = nlohmann::ordered_json;

struct TokensOptions {
  ModelChoice model;
  std::optional<std::filesystem::path> prompt;
  std::optional<std::string> text;
  std::optional<std::filesystem::path> ids;
  std::optional<std::filesystem::path> prompts;
  bool list = false;
  std::string json;  // where to; empty: a person reads it
};

/// The tokens that a run with the same options starts from; ids as they are, without a BOS.
TokenSequence read_tokens(const TokensOptions& options, const Tokenizer& tokenizer) {
  if (!options.ids) {
    const Prompt prompt = options.prompt ? read_prompt(*options.prompt) : parse_text(*options.text);
    for (const std::string& note : prompt.notes) {
      fmt::print(stderr, "kvloupe-capture: {}\n", in_lines(note));
    }
    return encode_prompt(prompt, tokenizer);
  }
  TokenSequence tokens;
  for (const std::int32_t id : read_ids(*options.ids, tokenizer.size())) {
    tokens.add(id, tokenizer.is_special(id) ? "special" : "context");
  }
  return tokens;
}

/// Tokens of each segment that has some.
Json segment_counts(const TokenSequence& tokens) {
  Json counts = Json::object();
  for (std::size_t i = 0; i < tokens.names.size(); ++i) {
    const auto count =
        std::count(tokens.segment.begin(), tokens.segment.end(), static_cast<std::uint8_t>(i));
    if (count > 0) counts[tokens.names[i]] = count;
  }
  return counts;
}

std::string as_json(const TokenSequence& tokens, const Tokenizer& tokenizer) {
  Json pieces = Json::array();
  for (const std::int32_t id : tokens.ids) pieces.push_back(spell_bytes(tokenizer.piece_bytes(id)));
  const std::optional<std::int32_t> bos = tokenizer.bos();
  const Json all{{"tokens", tokens.ids.size()},
                 {"segments", segment_counts(tokens)},
                 {"vocabulary", tokenizer.size()},
                 {"bos", bos ? Json(*bos) : Json()},
                 {"ids", tokens.ids},
                 {"pieces", std::move(pieces)},
                 {"text", tokenizer.decode(tokens.ids)}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string as_text(const TokenSequence& tokens, const Tokenizer& tokenizer, bool list) {
  std::string text;
  for (std::size_t i = 0; list && i < tokens.ids.size(); ++i) {
    text +=
        fmt::format("{:>7} {:>8}  {:<10} {}\n", i, tokens.ids[i], tokens.names[tokens.segment[i]],
                    spell_bytes(tokenizer.piece_bytes(tokens.ids[i])));
  }
  std::string parts;
  const Json counts = segment_counts(tokens);
  for (const auto& [name, count] : counts.items()) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count.get<std::size_t>(), name);
  }
  return text + fmt::format("{} token{}{}\n", tokens.ids.size(), tokens.ids.size() == 1 ? "" : "s",
                            parts.empty() ? "" : ": " + parts);
}

/// Many prompts at once, each a list of [segment, text]: the ids and segments of each.
std::string encoded_prompts(const std::filesystem::path& path, const Tokenizer& tokenizer) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 28U;
  const std::string text = read_file(path, kMostBytes);
  const nlohmann::json prompts =
      is_deep_json(text) ? nlohmann::json() : nlohmann::json::parse(text, nullptr, false);
  const auto fail = [&] {
    throw FileError(path.string(), "is not a JSON list of prompts, each a list of [segment, text]");
  };
  if (!prompts.is_array()) fail();
  Json all = Json::array();
  for (const nlohmann::json& parts : prompts) {
    if (!parts.is_array() || parts.empty()) fail();
    Prompt prompt;
    for (const nlohmann::json& part : parts) {
      if (!part.is_array() || part.size() != 2 || !part[0].is_string() || !part[1].is_string())
        fail();
      prompt.segments.push_back({prompt.text.size(), part[0].get<std::string>()});
      prompt.text += part[1].get<std::string>();
    }
    const Segment& last = prompt.segments.back();
    if (last.name == "answer") prompt.answer_begin = last.begin;
    const TokenSequence tokens = encode_prompt(prompt, tokenizer);
    Json segments = Json::array();
    for (const std::uint8_t segment : tokens.segment) segments.push_back(tokens.names[segment]);
    all.push_back({{"ids", tokens.ids}, {"segments", std::move(segments)}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int run_tokens(const TokensOptions& options) {
  check_output(
      options.json, options.model,
      {options.prompt.value_or(""), options.ids.value_or(""), options.prompts.value_or("")});
  const std::unique_ptr<Tokenizer> tokenizer =
      open_tokenizer(options.model.tokenizer_place(), options.model.chat, options.model.system);
  if (options.prompts) {
    const std::string json = encoded_prompts(*options.prompts, *tokenizer);
    write_whole_file(options.json.empty() ? "-" : options.json, json);
    return 0;
  }
  const TokenSequence tokens = read_tokens(options, *tokenizer);
  write_whole_file(options.json.empty() ? "-" : options.json,
                   options.json.empty() ? as_text(tokens, *tokenizer, options.list)
                                        : as_json(tokens, *tokenizer));
  return 0;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  const auto [verb, options] =
      Verb<TokensOptions>(app, action, "tokens",
                          "Count and show a prompt's tokens, or the text of token ids", run_tokens);
  verb->add_option("--model", options->model.path,
                   "Folder with the model's tokenizer, or a GGUF file")
      ->required();
  add_tokenizer_option(*verb, options->model);
  CLI::Option* chat = add_chat_options(*verb, options->model);
  CLI::Option_group* prompt =
      verb->add_option_group("Prompt", "The text to tokenise: one of these");
  prompt->add_option("--prompt", options->prompt, "Text file, as for run");
  prompt->add_option("--text", options->text, "The text itself");
  prompt->add_option("--ids", options->ids, "File of decimal token ids, separated by white space")
      ->excludes(chat);
  prompt->add_option(
      "--prompts", options->prompts,
      "JSON list of prompts, each a list of [segment, text]; writes their ids as JSON");
  prompt->require_option(1);
  CLI::Option* list = verb->add_flag("--list", options->list, "Also print a line for each token");
  verb->add_option("--json", options->json, "Write everything as JSON to this file; - is stdout")
      ->excludes(list);
}

}  // namespace kvloupe::capture_cli::tokens_verb
