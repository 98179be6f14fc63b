#include "capture/run/capture_input.h"

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/trace.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {

CaptureInput read_ids_input(const CaptureRequest& request, const ModelConfig& config) {
  CaptureInput input;
  const std::filesystem::path& tokenizer = request.model.tokenizer_place();
  if (has_tokenizer(tokenizer)) input.tokenizer = open_tokenizer(tokenizer);
  const std::vector<std::int32_t> ids = read_ids(*request.ids, config.vocab_size);
  const int count = static_cast<int>(ids.size());
  if (request.prompt_length && *request.prompt_length > count) {
    throw UsageError("--prompt-length " + std::to_string(*request.prompt_length) + ": " +
                     request.ids->string() + " contains only " + std::to_string(count) + " ids");
  }
  input.prompt_length = request.prompt_length.value_or(count);
  const std::optional<std::int32_t> bos = input.tokenizer ? input.tokenizer->bos() : std::nullopt;
  if (bos && ids.front() != *bos) {
    input.notes.push_back(
        "the ids are used as they are; the tokenizer would start them with token " +
        std::to_string(*bos));
  }
  const auto is_special = [&](std::int32_t id) {
    return input.tokenizer && input.tokenizer->is_special(id);
  };
  if (request.question && *request.question >= request.prompt_length.value_or(count)) {
    throw UsageError("--question " + std::to_string(*request.question) +
                     ": the prompt has tokens 0 to " +
                     std::to_string(request.prompt_length.value_or(count) - 1));
  }
  for (const std::int32_t id : ids) {
    const int token = static_cast<int>(input.tokens.ids.size());
    const bool asks = request.question && token >= *request.question;
    input.tokens.add(id, is_special(id)                 ? "special"
                         : token >= input.prompt_length ? "answer"
                         : asks                         ? "question"
                                                        : "context");
  }
  return input;
}

}  // namespace

CaptureInput read_capture_input(const CaptureRequest& request, const ModelConfig& config) {
  CaptureInput input;
  if (request.ids) {
    input = read_ids_input(request, config);
  } else if (request.tokens) {
    const std::filesystem::path& tokenizer = request.model.tokenizer_place();
    if (has_tokenizer(tokenizer)) input.tokenizer = open_tokenizer(tokenizer);
    if (input.tokenizer && !request.tokens_of.empty()) {
      const std::string note =
          compare_texts(request.tokens_of, Trace(request.tokens_of).tokens(), *input.tokenizer);
      if (!note.empty()) input.notes.push_back(note);
    }
    input.tokens = *request.tokens;
    input.prompt_length = request.prompt_length.value_or(static_cast<int>(input.tokens.ids.size()));
  } else {
    Prompt prompt = request.prompt ? read_prompt(*request.prompt) : parse_text(*request.text);
    if (prompt.text.empty()) throw UsageError("--text: a prompt needs some text");
    input.notes = std::move(prompt.notes);
    input.tokenizer =
        open_tokenizer(request.model.tokenizer_place(), request.model.chat, request.model.system);
    input.tokens = encode_prompt(prompt, *input.tokenizer);
    if (input.tokens.ids.empty()) throw UsageError("the prompt has no tokens; give some text");
    input.prompt_length = static_cast<int>(input.tokens.ids.size());
  }
  // Ids from a file were checked as they were read; what a tokenizer adds to them was not.
  check_vocabulary(input.tokens.ids, config, request.model.tokenizer_place());
  const std::int64_t longest =
      static_cast<std::int64_t>(input.tokens.ids.size()) + request.generate;
  if (longest > (std::int64_t{1} << 30)) throw UsageError("more than 2^30 tokens; shorten the run");
  if (std::string note = beyond_positions(longest, config); !note.empty())
    input.notes.push_back(std::move(note));
  return input;
}

std::string beyond_positions(std::int64_t tokens, const ModelConfig& config) {
  const std::int64_t most = config.max_position_embeddings;
  if (most <= 0 || tokens <= most) return "";
  return "up to " + std::to_string(tokens) + " tokens, but the model was made for " +
         std::to_string(most) + " positions: its predictions may be worse beyond them";
}

std::string compare_texts(const std::filesystem::path& trace, const TokenTable& tokens,
                          const Tokenizer& tokenizer) {
  std::size_t differ = 0;
  std::string first;
  for (std::size_t i = 0; i < tokens.text.size(); ++i) {
    const std::int32_t id = tokens.ids[i];
    const std::string here = id < tokenizer.size() ? readable_bytes(tokenizer.piece_bytes(id)) : "";
    if (here == tokens.text[i]) continue;
    if (++differ == 1)
      first = "token " + std::to_string(i) + " (id " + std::to_string(id) + ") is " +
              in_quotes(tokens.text[i]) + " in the trace and " + in_quotes(here) + " here";
  }
  if (differ > tokens.text.size() / 10) {
    throw FileError(trace.string(), "its token ids are of another tokenizer than the model's: " +
                                        first + "; give the text with --prompt or --text");
  }
  return differ == 0 ? ""
                     : std::to_string(differ) + " of " + std::to_string(tokens.text.size()) +
                           " tokens read otherwise in this model's tokenizer: " + first;
}

std::string other_model_note(const std::filesystem::path& trace, const std::string& fingerprint) {
  if (trace.empty() || fingerprint.empty()) return "";
  const std::string made_by = stored_model_fingerprint(trace);
  if (made_by.empty() || made_by == fingerprint) return "";
  return "the tokens of " + trace.string() +
         " are of a run of another model or model file: " + in_one_line(Trace(trace).model().name);
}

void check_vocabulary(std::span<const std::int32_t> ids, const ModelConfig& config,
                      const std::filesystem::path& model) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    throw FileError(model.string(), "the tokenizer gives token " + std::to_string(id) +
                                        ", outside the model's vocabulary of " +
                                        std::to_string(config.vocab_size) +
                                        "; do the two belong together?");
  }
}

bool ends_text(std::int32_t id, const ModelConfig& config, const Tokenizer* tokenizer) {
  const auto& known = config.eos_token_ids;
  if (!known.empty()) return std::find(known.begin(), known.end(), id) != known.end();
  return tokenizer != nullptr && tokenizer->eos() == id;
}

}  // namespace kvloupe
