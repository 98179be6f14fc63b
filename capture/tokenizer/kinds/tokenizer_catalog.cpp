#include "capture/tokenizer/kinds/tokenizer_catalog.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/sha256.h"
#include "capture/gguf/gguf_model.h"
#include "capture/tokenizer/hugging_face/hugging_face_tokenizer.h"
#include "capture/tokenizer/kinds/gguf_tokenizer.h"
#include "capture/tokenizer/sentencepiece_tokenizer.h"
#include "capture/tokenizer/tokenizer_config.h"

namespace kvloupe {

namespace {

/// One kind of tokenizer: the file that shows it is there, and how the folder is opened.
struct TokenizerKind {
  const char* file;
  std::unique_ptr<Tokenizer> (*open)(const std::filesystem::path& folder);
};

/// Every kind, one line each; the first that exists and is supported is used. tokenizer.json comes
/// first because it also has the added tokens of chat templates, which a text may contain.
constexpr std::array kKinds{
    TokenizerKind{"tokenizer.json", open_hugging_face_tokenizer},
    TokenizerKind{"tokenizer.model", open_sentencepiece_tokenizer},
};

bool is_there(const TokenizerKind& kind, const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kind.file, ignored);
}

constexpr std::size_t kLongestTemplate = 1U << 20U;

void read_chat(const GgufMetadata& metadata, ChatTemplate& chat) {
  chat.source = metadata.text_if("tokenizer.chat_template", kLongestTemplate).value_or("");
  const auto& texts = metadata.texts("tokenizer.ggml.tokens");
  constexpr std::array kWords{std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
                              std::pair{"eos_token", "tokenizer.ggml.eos_token_id"},
                              std::pair{"unk_token", "tokenizer.ggml.unknown_token_id"},
                              std::pair{"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kWords) {
    if (const auto id = metadata.whole_if(key, 0, std::ssize(texts) - 1))
      chat.words[name] = texts[static_cast<std::size_t>(*id)];
  }
}

/// As Transformers looks for it; one of several is that called default.
void read_chat(const std::filesystem::path& folder, ChatTemplate& chat) {
  TokenizerConfig config = read_tokenizer_config(folder);
  chat.words = std::move(config.words);
  nlohmann::json& found = config.chat_template;
  std::error_code ignored;
  const std::filesystem::path text = folder / "chat_template.jinja";
  const std::filesystem::path json = folder / "chat_template.json";
  if (std::filesystem::exists(text, ignored)) {
    found = read_file(text, kLongestTemplate);
  } else if (found.is_null() && std::filesystem::exists(json, ignored)) {
    const std::string bytes = read_file(json, 2 * kLongestTemplate);
    const nlohmann::json root = is_deep_json(bytes) ? "" : nlohmann::json::parse(bytes, {}, false);
    if (root.is_object()) found = root.value("chat_template", nlohmann::json());
  }
  for (std::size_t i = 0; found.is_array() && i < found.size(); ++i) {
    const nlohmann::json& one = found[i];
    if (one.is_object() && one.value("name", nlohmann::json()) == "default")
      found = nlohmann::json(one.value("template", nlohmann::json()));
  }
  if (found.is_string()) chat.source = found.get<std::string>();
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) {
  if (is_gguf_file(folder)) return has_gguf_tokenizer(folder);
  return std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const TokenizerKind& kind) { return is_there(kind, folder); });
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder) {
  if (is_gguf_file(folder)) return open_gguf_tokenizer(folder);
  std::optional<UnsupportedTokenizer> refusal;
  std::string known;
  for (const TokenizerKind& kind : kKinds) {
    known += (known.empty() ? "" : " or ") + std::string(kind.file);
    if (!is_there(kind, folder)) continue;
    try {
      return kind.open(folder);
    } catch (const UnsupportedTokenizer& error) {
      if (!refusal) refusal = error;
    }
  }
  if (refusal) throw *refusal;
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) throw FileError(folder.string(), "does not exist");
  throw FileError(folder.string(), "contains no " + known + "; give token ids with --ids");
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder, bool chat,
                                          const std::string& system) {
  std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder);
  if (!chat) return tokenizer;
  auto found = std::make_shared<ChatTemplate>();
  found->place = folder.string();
  found->system = system;
  if (is_gguf_file(folder)) {
    read_chat(GgufModel(folder).metadata(), *found);
  } else {
    read_chat(folder, *found);
    // A template writes special tokens, which tokenizer.model alone does not find in texts.
    std::error_code ignored;
    if (!std::filesystem::exists(folder / "tokenizer.json", ignored))
      tokenizer = reading_special_tokens(std::move(tokenizer));
  }
  if (found->source.empty()) {
    throw FileError(folder.string(),
                    "has no chat template (is this a base model?); leave out --chat, or give "
                    "--tokenizer a folder that has one");
  }
  Sha256 hash;
  hash.add(found->source);
  found->facts = "template " + hash.hex().substr(0, 12);
  if (!system.empty()) found->facts += ", system: " + system;
  (void)found->apply({"text", {{0, "context"}}, {}});  // refused before any work begins
  tokenizer->chat = std::move(found);
  return tokenizer;
}

}  // namespace kvloupe
