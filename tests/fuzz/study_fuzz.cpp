// A study file. Its traces are only found, not opened.

#include "analysis/study/study.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(study) {
  // A pattern over the whole machine is slow, and its answer depends on the machine.
  if (input.find("..") != std::string_view::npos || input.find("\"/") != std::string_view::npos ||
      input.find('\\') != std::string_view::npos)
    return;
  kvloupe::read_study(kvloupe::fuzz::as_file(input, "study.json"));
}
