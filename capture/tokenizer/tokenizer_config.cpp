#include "capture/tokenizer/tokenizer_config.h"

#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"

namespace kvloupe {

namespace {

constexpr std::uintmax_t kLargestConfig = 64U << 20U;

/// A token is written as its text, or as an object whose "content" it is.
std::optional<std::string> read_token(const nlohmann::json& root, const char* field,
                                      const std::string& where) {
  const auto found = root.find(field);
  if (found == root.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object()) {
    const auto content = found->find("content");
    if (content != found->end() && content->is_string()) return content->get<std::string>();
  }
  throw FileError(where, std::string(field) + " must be a text, or an object with a content");
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const std::filesystem::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return config;
  const std::string text = read_file(path, kLargestConfig);
  if (is_deep_json(text)) throw FileError(path.string(), "is nested too deeply for a tokenizer");
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    throw FileError(path.string(), "is not a JSON object; is the download complete?");
  }
  const auto found = root.find("add_bos_token");
  if (found != root.end() && !found->is_null()) {
    if (!found->is_boolean()) throw FileError(path.string(), "add_bos_token must be true or false");
    config.add_bos_token = found->get<bool>();
  }
  config.bos_token = read_token(root, "bos_token", path.string());
  config.eos_token = read_token(root, "eos_token", path.string());
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    if (const auto token = read_token(root, name, path.string())) config.words[name] = *token;
  }
  config.chat_template = root.value("chat_template", nlohmann::json());
  return config;
}

}  // namespace kvloupe
