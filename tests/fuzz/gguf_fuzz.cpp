// A GGUF file: its values and tensors, the config that follows from them, and its tokenizer.

#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/base/core/error.h"
#include "capture/gguf/gguf_config.h"
#include "capture/gguf/gguf_model.h"
#include "capture/gguf/gguf_type.h"
#include "capture/tokenizer/kinds/gguf_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/try_tokenizer.h"

KVLOUPE_FUZZ_TARGET(gguf) {
  using namespace kvloupe;
  const auto path = fuzz::as_file(input, "m.gguf");
  const GgufModel model(path);
  std::uint64_t total = 0;
  for (const std::string& name : model.names()) {
    const GgufModel::Found found = model.tensor(name);
    const auto* file = reinterpret_cast<const std::byte*>(found.bytes.data());
    fuzz::require(found.bytes.size() <= input.size(), "a tensor larger than the file");
    total += found.bytes.size();
    const GgufType* type = find_gguf_type(found.tensor->type);
    fuzz::require(type != nullptr, "a tensor of an unknown type");
    const std::int64_t blocks = found.tensor->numbers() / type->block;
    fuzz::require(blocks * type->bytes == static_cast<std::int64_t>(found.bytes.size()),
                  "a shape of other bytes");
    if (type->expand == nullptr) continue;
    std::vector<float> numbers(static_cast<std::size_t>(blocks * type->block));
    type->expand(file, blocks, numbers.data());
  }
  fuzz::require(total <= input.size(), "tensors overlap");
  // Each of the two may be refused; a good file is not.
  std::exception_ptr refused;
  try {
    fuzz::require(nlohmann::json::parse(gguf_config(model)).is_object(),
                  "a config that is no object");
  } catch (const FileError&) {
    refused = std::current_exception();
  }
  fuzz::try_tokenizer(*open_gguf_tokenizer(path));
  if (refused) std::rethrow_exception(refused);
}
