// A checkpoint in safetensors: its header, and every tensor in it.

#include "analysis/error.h"
#include "capture/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(safetensors) {
  using namespace kvloupe;
  const SafetensorsFile file(fuzz::as_file(input, "model.safetensors"));
  for (const auto& [name, entry] : file.entries()) {
    fuzz::require(entry.begin <= entry.end && entry.end <= input.size(),
                  "a tensor outside the file");
    try {
      file.tensor(name).sum();
    } catch (const FileError&) {
    }
  }
}
