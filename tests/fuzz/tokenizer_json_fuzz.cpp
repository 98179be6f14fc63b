// A tokenizer.json, and the texts that it cuts into tokens.

#include "capture/tokenizer/hugging_face/hugging_face_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/try_tokenizer.h"

KVLOUPE_FUZZ_TARGET(tokenizer_json) {
  const auto path = kvloupe::fuzz::as_file(input, "tokenizer.json");
  kvloupe::fuzz::try_tokenizer(*kvloupe::open_hugging_face_tokenizer(path.parent_path()));
}
