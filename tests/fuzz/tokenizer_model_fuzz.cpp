// A tokenizer.model (SentencePiece), and the texts that it cuts into tokens.

#include "capture/tokenizer/sentencepiece_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/try_tokenizer.h"

KVLOUPE_FUZZ_TARGET(tokenizer_model) {
  const auto path = kvloupe::fuzz::as_file(input, "tokenizer.model");
  kvloupe::fuzz::try_tokenizer(*kvloupe::open_sentencepiece_tokenizer(path.parent_path()));
}
